"""URLs, read strictly: what two readers could take for two hosts is refused, and nothing of a key is shown."""

import base64

import pytest

from api.fetch.address import Address, read_address
from forebay.errors import Rejected


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://example.org", ("http", "example.org", 80, "/")),
        ("HTTPS://Example.ORG:8443/A%20b?x=1#part", ("https", "example.org", 8443, "/A%20b?x=1")),
        ("https://example.org./a", ("https", "example.org", 443, "/a")),
        ("http://[2001:DB8::0:1]:80/", ("http", "2001:db8::1", 80, "/")),
        ("http://8.8.8.8/a", ("http", "8.8.8.8", 80, "/a")),
        ("https://bücher.example/ä", ("https", "xn--bcher-kva.example", 443, "/%C3%A4")),
        ("http://a_b.example/", ("http", "a_b.example", 80, "/")),
        ("http://example.org?x=1", ("http", "example.org", 80, "/?x=1")),
        ("http://example.org:/", ("http", "example.org", 80, "/")),
        ("http://BÜCHER\u3002example/", ("http", "xn--bcher-kva.example", 80, "/")),
        ("http://example.org/a|b'c%zz", ("http", "example.org", 80, "/a|b'c%zz")),
    ],
)
def test_an_address_is_read_into_one_form(url, address):
    """Names in small letters and ASCII, ports spelled out, fragments gone."""
    found = read_address(url, "image_data")

    assert (found.scheme, found.host, found.port, found.target) == address


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http:///a",
        "http:// example.org/",
        "http://example.org/a b",
        "http://example.org/\r\nHost: x",
        "http://exa\tmple.org/",
        "http://example.org\\@127.0.0.1/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://127.0.0.1.:80.0/",
        "http://1.2.3.4.5/",
        "http://example.org:0/",
        "http://example.org:70000/",
        "http://example.org:80x/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://-a.example/",
        "http://a..example/",
        "http://exa%6dple.org/",
        "http://" + "a" * 300 + "/",
        "http://example.org/" + "a" * 9000,
        "http://example.org/\ud800",
        "http://us\udcffer@example.org/",
        "http://\ud800.example.org/",
        "http://example.org/\x85",
        "http://example.org/\x00",
        "http://[v1.example]/",
        "http://[example.org]/",
        "http://example.org[::1]/",
        "http://[::1]example.org:80/",
        "http://example.org:8\u0661/",
        "http://example.org:080000/",
        "http://stra\u00dfe.example/",
        "http://exa\u200dmple.org/",
        "http://" + "\u00fc" * 8000 + "/",
        "http://\uff11\uff12\uff17.0.0.1\u3002/\ud800",
    ],
)
def test_an_odd_url_is_refused(url):
    """C076: by name, without a connection; nothing of it is repeated."""
    with pytest.raises(Rejected) as caught:
        read_address(url, "image_data[1]")

    assert (caught.value.code, caught.value.param) == ("invalid_url", "image_data[1]")
    assert "example" not in caught.value.message


@pytest.mark.parametrize("url", ["ftp://example.org/", "gopher://x/", "file:///etc/passwd"])
def test_only_http_is_fetched(url):
    """Also where a redirect leads there."""
    with pytest.raises(Rejected, match="http and https"):
        read_address("http://example.org/", "image_data").follow(url.encode(), "image_data")


def test_what_a_url_says_of_a_user_is_sent_to_its_host_and_shown_to_nobody():
    """A redirect elsewhere does not take it along; one within the host does."""
    found = read_address("https://us%40er:pass@example.org/a?key=secret", "image_data")

    assert found.authorization == "Basic dXNAZXI6cGFzcw=="
    assert found.shown == "https://example.org/a"
    assert found.follow(b"/b", "p") == Address("https", "example.org", 443, "/b", found.authorization)
    assert found.follow(b"https://other.example/b", "p").authorization is None
    assert found.follow(b"http://example.org/b", "p").authorization is None
    assert "pass" not in repr(found.shown)


@pytest.mark.parametrize(
    ("said", "user"),
    [("user", b"user:"), (":pw", b":pw"), ("%FFx:%2F%40", b"\xffx:/@"), ("a@b:c", b"a@b:c"), ("ü:é", "ü:é".encode())],
)
def test_a_user_is_sent_byte_by_byte_as_the_url_spells_it(said, user):
    """Escapes are bytes, whatever characters they would be."""
    found = read_address(f"http://{said}@example.org/", "image_data").authorization

    assert found == "Basic " + base64.b64encode(user).decode()


@pytest.mark.parametrize("said", ["", ":"])
def test_a_user_without_a_name_and_a_password_is_none(said):
    """As everybody else takes it."""
    assert read_address(f"http://{said}@example.org/", "image_data").authorization is None


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("b.png", "http://example.org:80/x/b.png"),
        ("/b.png", "http://example.org:80/b.png"),
        ("//other.example/b", "http://other.example:80/b"),
        ("?y=2", "http://example.org:80/x/a?y=2"),
        ("https://example.org/b", "https://example.org:443/b"),
        ("//bücher.example/ä", "http://xn--bcher-kva.example:80/%C3%A4"),
    ],
)
def test_a_redirect_may_be_relative(location, url):
    """C075: to where it stands."""
    assert read_address("http://example.org/x/a?y=1", "p").follow(location.encode(), "p").url == url


def test_a_redirect_in_no_known_encoding_is_followed_as_it_came():
    """Byte by byte."""
    assert read_address("http://example.org/", "p").follow(b"/\xe4?\xff", "p").target == "/%E4?%FF"


@pytest.mark.parametrize("location", [b"http://[x", b"//[::1", b"http://example.org:99999/", b"http:// x"])
def test_a_redirect_to_a_malformed_url_is_refused(location):
    """And raises nothing that nobody foresaw."""
    with pytest.raises(Rejected) as caught:
        read_address("http://example.org/", "p").follow(location, "p")

    assert caught.value.code == "invalid_url"
