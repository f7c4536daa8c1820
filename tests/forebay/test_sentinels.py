"""The address of a Redis that Sentinels watch."""

from urllib.parse import urlsplit

import pytest

from forebay.sentinels import Sentinels
from forebay.settings import read_redis_url
from handoff.connection import without_password


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("sentinel://a/m", Sentinels((("a", 26379),), "m")),
        ("sentinel://a:1,b:2/m/3", Sentinels((("a", 1), ("b", 2)), "m", 3)),
        ("sentinel://[::1]:1,[::2]/m", Sentinels((("::1", 1), ("::2", 26379)), "m")),
        ("sentinel://u:p%40%2F@a/m", Sentinels((("a", 26379),), "m", 0, "u", "p@/")),
        ("sentinel://:p@a/m?sentinel_password=q", Sentinels((("a", 26379),), "m", 0, "", "p", "q")),
    ],
)
def test_who_they_are_and_what_they_watch(url, found):
    """Hosts, the master's name, the database, and who we are to each of them."""
    assert Sentinels.read(url) == found
    assert read_redis_url(url) == url


@pytest.mark.parametrize(
    "url",
    ["sentinel://a", "sentinel:///m", "sentinel://a:x/m", "sentinel://a,/m", "sentinel://a/m/x", "sentinel://a/m?db=1"],
)
def test_another_shape_is_refused(url):
    """At start, not when the first command comes."""
    with pytest.raises(ValueError, match=r"expected|invalid literal"):
        read_redis_url(url)


def test_kombu_is_told_of_each_of_them():
    """In its own spelling, with what is special in a password escaped."""
    url = "sentinel://u:p%40@a:1,b:2/m/3?sentinel_password=q"

    assert Sentinels.read(url).broker_url == "sentinel://u:p%40@a:1/3;sentinel://u:p%40@b:2/3"


def test_kombu_reads_an_address_of_ipv6():
    """Whose colons are none of a port's."""
    url = Sentinels.read("sentinel://[::1]:26379/m").broker_url

    assert (urlsplit(url).hostname, urlsplit(url).port) == ("::1", 26379)


def test_no_password_is_shown():
    """Neither of the Redis nor of those who watch it."""
    assert without_password("sentinel://u:p@a/m?sentinel_password=q") == "sentinel://…@a/m?sentinel_password=…"
    assert without_password("sentinel://a/m") == "sentinel://a/m"
    assert without_password("sentinel://a/m?sentinel_password=q") == "sentinel://a/m?sentinel_password=…"
