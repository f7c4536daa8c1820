"""Whatever a caller writes where a URL may stand: a refusal in clear words, or an address; never anything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api.fetch.address import Address, read_address
from api.fetch.authority import Authority
from api.fetch.budget import Budget
from api.fetch.files import read_file
from api.fetch.patterns import read_hosts
from api.fetch.proxies import read_no_proxy, read_proxy
from api.fetch.rules import FetchRules
from forebay.errors import Rejected

T = TypeVar("T")
ANY = st.text(st.characters(exclude_categories=()))  # halves of surrogate pairs, too
PARTS = st.sampled_from(
    ["http://", "https://", "//", "/", "@", ":", "[", "]", "?", "#", "%", "%00", "%ff", ".", "..", "\\", "::1", "80",
     "127.0.0.1", "example.org", "xn--", "ß", "\u200d", "\u3002", "\uff0f", "\u2100", "\ud800", "\udcff", "\x00",
     "\x85", "\t", " ", "a" * 64, "a" * 9000, "user:pw", "ü", "v1.x", "0x7f", "\U0001f355", "%zz"]
)  # fmt: skip
URLS = st.lists(PARTS | ANY, max_size=8).map("".join)
RULES = FetchRules(hosts=read_hosts("*.example.org, 8.8.8.8"), denied=read_hosts("bücher.example"))


def outcome_of(call: Callable[[], T], refusal: type[Exception] = Rejected) -> T | Exception:
    """What it returns, or what it refuses with; anything else it may not raise."""
    try:
        return call()
    except refusal as error:
        return error


def check_address(found: Address) -> None:
    """What httpcore, the guard and a header are given is ASCII, and is read again as the same."""
    assert (found.host + found.target + (found.authorization or "")).isascii()
    assert not set(found.target) & {" ", "\r", "\n", "\x00"}
    again = read_address(found.url, "p")
    assert (again.scheme, again.host, again.port, again.target) == (found.scheme, found.host, found.port, found.target)
    assert len(found.shown) < 100
    RULES.allows(found.host, found.port)


@given(st.sampled_from(["http://", "https://", "HTTP:", ""]), URLS)
@example("http://", "example.com/\ud800")
@example("http://", "a\ud800:b@example.com/")
@example("http://", "[v1.x]/")
@example("http://", "example.org[::1]/")
@example("http://", "[::1]example.org:80/")
@example("http://", "\u2100/")
def test_any_text_is_an_address_or_no_url(scheme, rest):
    """Nothing else is raised, and nothing of the text is repeated but a scheme."""
    found = outcome_of(lambda: read_address(scheme + rest, "image_data"))

    if isinstance(found, Rejected):
        assert (found.code, found.status) in {("invalid_url", 400), ("unsupported_source", 400)}
        assert len(found.message.encode()) < 200
    else:
        check_address(found)


@given(st.binary(max_size=40) | URLS.map(lambda text: text.encode(errors="surrogatepass")))
@example(b"http://[x")
@example(b"//[")
@example("//bücher.example/ä".encode())
@example(b"/\xff\x85")
def test_any_header_is_a_redirect_or_none(location):
    """A server may send what it likes."""
    found = outcome_of(lambda: Address("http", "example.org", 80, "/x/a?y=1").follow(location, "image_data"))

    if isinstance(found, Rejected):
        assert found.status == 400
    else:
        check_address(found)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    (root / "a").write_bytes(b"picture")
    return root


@given(st.sampled_from(["file://", "file:", "FILE:///"]), URLS, st.booleans())
@example("file://", "[x/y", False)
@example("file://", "/\ud800", True)
@example("file://", "/\udcff", True)
@example("file://", "/%00", True)
@example("file://", "/" + "a" * 300, True)
@example("file://", "/" + "a/" * 5000, True)
@example("file://", "/\x00", True)
def test_any_file_url_is_a_file_or_sounds_alike(root, scheme, rest, is_below):
    """Below the root too, where names meet the system."""
    url = f"file://{root}{rest}" if is_below else scheme + rest
    found = outcome_of(lambda: read_file(url, "image_data", [root], Budget(100, 100)))

    if isinstance(found, Rejected):
        assert (found.code, found.message) == ("media_unavailable", "image_data: no such file may be read")
    else:
        assert found == b"picture"


@given(URLS)
def test_any_text_of_a_setting_is_read_or_refused(text):
    """By ``ValueError``, of which the settings make one message; of a proxy's text nothing is repeated."""
    for read in (read_hosts, read_no_proxy, read_proxy, Authority.read):
        found = outcome_of(lambda read=read: read(text), ValueError)
        assert str(found) or found == ()
        if read is read_proxy:
            assert "user" not in str(found)
