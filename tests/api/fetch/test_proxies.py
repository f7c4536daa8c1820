"""Which proxy an address has, read from what everybody's variables say; a slip ends the start and shows no password."""

from __future__ import annotations

import base64
import traceback

import pytest

from api.fetch.address import read_address
from api.fetch.proxies import Proxies, Proxy, read_no_proxy, read_proxy
from api.settings import ApiSettings
from forebay.errors import ConfigurationError
from forebay.settings import load
from tests.api.actors import SECRET

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOREBAY_SECRET", SECRET.decode())


def basic(user: bytes) -> str:
    return "Basic " + base64.b64encode(user).decode()


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("", None),
        ("  ", None),
        ("http://proxy.example:3128", Proxy("http", "proxy.example", 3128)),
        ("http://proxy.example:3128/", Proxy("http", "proxy.example", 3128)),
        ("HTTPS://Proxy.Example", Proxy("https", "proxy.example", 443)),
        ("proxy.example:3128", Proxy("http", "proxy.example", 3128)),
        ("localhost", Proxy("http", "localhost", 80)),
        ("10.0.0.1:3128", Proxy("http", "10.0.0.1", 3128)),
        ("[fd00::1]:3128", Proxy("http", "fd00::1", 3128)),
        ("user:p%40ss%2F@proxy.example:1", Proxy("http", "proxy.example", 1, basic(b"user:p@ss/"))),
        ("http://us@er:pw@proxy.example", Proxy("http", "proxy.example", 80, basic(b"us@er:pw"))),
        ("http://user@proxy.example", Proxy("http", "proxy.example", 80, basic(b"user:"))),
    ],
)
def test_a_proxy_is_read_as_others_read_it(text, proxy):
    """Without a scheme it is asked by HTTP; what it wants to know of a user is unescaped."""
    assert read_proxy(text) == proxy


def test_a_proxy_that_is_shown_has_no_user():
    """Whoever prints the settings prints no password."""
    assert basic(b"u:" + PASSWORD.encode()) not in repr(Proxies(http=read_proxy(f"http://u:{PASSWORD}@proxy.example")))


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"])
@pytest.mark.parametrize(
    "text",
    [
        f"socks5://user:{PASSWORD}@proxy.example:1080",
        f"http://user:{PASSWORD}@[::1",
        f"http://user:{PASSWORD}@proxy.example:99999",
        f"http://user:{PASSWORD}@proxy.example:0",
        f"http://user:{PASSWORD}@",
        f"http://user:{PASSWORD}@proxy.example/path",
        f"http://user:{PASSWORD}#@proxy.example:3128",
        f"http://user:12/{PASSWORD}@proxy.example:3128",
        f"http://user:12?{PASSWORD}@proxy.example:3128",
        f"user:{PASSWORD}@pro xy.example",
        f"://user:{PASSWORD}@proxy.example",
        f"http://user:{PASSWORD}@127.1:3128",
        f"http://user:{PASSWORD}\udcff@proxy.example",
        f"http://user:{PASSWORD}\u2100@proxy.example",
    ],
)
def test_a_malformed_proxy_ends_the_start_by_its_name(monkeypatch, variable, text):
    """In capitals or not; what is wrong is said without a part of the value."""
    monkeypatch.setenv(variable, text)
    with pytest.raises(
        ConfigurationError, match=rf"^{variable}=\(not shown\): a proxy such as http://host:3128"
    ) as caught:
        load(ApiSettings)

    assert "user" not in str(caught.value)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_several_slips_are_told_together(monkeypatch):
    """With those of the other settings of a fetch, which are shown."""
    monkeypatch.setenv("HTTP_PROXY", f"socks5://u:{PASSWORD}@x")
    monkeypatch.setenv("FOREBAY_FETCH_DENY_HOSTS", "evil.example:80")
    monkeypatch.setenv("FOREBAY_FETCH_NAT64", "fd00::/95")
    with pytest.raises(ConfigurationError) as caught:
        load(ApiSettings)

    told = str(caught.value).split("; FOREBAY_FETCH_NAT64") + str(caught.value).split("; HTTP_PROXY")
    assert len(told) == 4
    assert "FOREBAY_FETCH_DENY_HOSTS='evil.example:80': 'evil.example:80' is no pattern of hosts" in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_small_letters_are_read_where_capitals_say_nothing(monkeypatch):
    """As most tools have it; an empty value in capitals says that there is none."""
    monkeypatch.setenv("http_proxy", "small.example:1")
    monkeypatch.setenv("https_proxy", "small.example:2")
    monkeypatch.setenv("no_proxy", "inside.example")
    monkeypatch.setenv("HTTPS_PROXY", "")

    found = load(ApiSettings).proxies

    assert found == Proxies(Proxy("http", "small.example", 1), None, read_no_proxy("inside.example"))


PROXY = Proxy("http", "proxy.example", 3128)
EXCEPT = "localhost, 127.0.0.1,.svc inside.example,*.cluster.local.,10.0.0.0/8,fd00::/8,bücher.example,192.168.*,"
EXCEPT += "port.example:8080,[2606::1]:80,172.16.0.1/12,2606::2"


@pytest.mark.parametrize(
    ("url", "is_direct"),
    [
        ("http://localhost/", True),
        ("http://127.0.0.1/", True),
        ("http://127.0.0.2/", False),
        ("http://svc/", True),
        ("http://a.b.svc/", True),
        ("http://asvc/", False),
        ("http://inside.example/", True),
        ("https://WWW.inside.example./", True),
        ("http://outinside.example/", False),
        ("http://x.cluster.local/", True),
        ("http://10.200.0.1/", True),
        ("http://11.0.0.1/", False),
        ("http://[fd12::1]/", True),
        ("http://[2001:db8::1]/", False),
        ("http://bücher.example/", True),
        ("http://a.xn--bcher-kva.example/", True),
        ("http://192.168.7.7/", True),
        ("http://port.example:8080/", True),
        ("http://port.example/", False),
        ("http://[2606::1]/", True),
        ("https://[2606::1]/", False),
        ("http://[2606::2]/", True),
        ("http://172.31.0.1/", True),
        ("http://pictures.example/", False),
    ],
)
def test_who_is_asked_without_a_proxy(url, is_direct):
    """A host and all below it, an address, a network, perhaps at one port; names are not looked up for it."""
    proxies = Proxies(PROXY, PROXY, read_no_proxy(EXCEPT))

    assert (proxies.of(read_address(url, "p")) is None) == is_direct


def test_a_star_is_everybody_and_nothing_is_nobody():
    """By scheme, too: https has its own."""
    http, https = read_address("http://any.example/", "p"), read_address("https://any.example/", "p")

    assert Proxies(PROXY, PROXY, read_no_proxy("*")).of(http) is None
    assert Proxies(http=PROXY).of(http) == PROXY
    assert Proxies(http=PROXY).of(https) is None
    assert Proxies(https=PROXY, without=read_no_proxy(" , ")).of(https) == PROXY


@pytest.mark.parametrize(
    "text", ["http://inside.example", "inside.example:http", "a..b", "<local>", "[::1", "10.0.0.0/33"]
)
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_exceptions_that_cannot_be_read_end_the_start(monkeypatch, variable, text):
    """Such a host would be asked for at the proxy, without a word."""
    monkeypatch.setenv(variable, f"localhost,{text}")
    with pytest.raises(ConfigurationError, match=rf"^{variable}=.*is no pattern of hosts"):
        load(ApiSettings)
