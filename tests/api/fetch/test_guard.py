"""The guard, against real listeners that count who comes: a blocked URL makes no connection."""

from __future__ import annotations

import pytest

from forebay.errors import Rejected
from tests.api.fetch.kit import fetching
from tests.api.fetch.listeners import listening, ok, says, status

PICTURE = b"picture" * 100


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between tries, shorter."""
    monkeypatch.setattr("api.fetch.fetcher._PAUSES_S", (0.01, 0.02))


async def blocked(kit, url: str) -> Rejected:
    with pytest.raises(Rejected) as caught:
        await kit.fetch(url)
    assert (caught.value.code, caught.value.status) == ("blocked_address", 400)
    assert "is a blocked address" in caught.value.message
    return caught.value


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "[64:ff9b::7f00:1]"])
async def test_an_address_of_the_inside_is_not_dialled(host):
    """As it stands in the URL, in any wrapping."""
    async with listening({"/": ok(PICTURE)}) as there, fetching(there.port, inside=False) as kit:
        await blocked(kit, there.url(host=host))

    assert there.connections == 0


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["127.0.0.1", "93.184.216.34"], ["::1"]]
)
async def test_a_name_of_the_inside_is_not_dialled(addresses):
    """C076: a mixed answer is refused as a whole; looked up once, not tried again."""
    names = {"pictures.example": [addresses]}
    async with listening({"/": ok(PICTURE)}) as there, fetching(there.port, names=names, inside=False) as kit:
        await blocked(kit, there.url(host="pictures.example"))

    assert there.connections == 0
    assert kit.looked_up == ["pictures.example"]


async def test_the_address_that_was_checked_is_the_one_that_is_dialled():
    """C076: a name that answers otherwise the second time is not asked a second time."""
    names = {"pictures.example": [["127.0.0.1"], ["127.0.0.2"]]}
    async with listening({"/": ok(PICTURE)}) as there, fetching(there.port, names=names) as kit:
        assert await kit.fetch(there.url(host="pictures.example")) == PICTURE

    assert kit.looked_up == ["pictures.example"]


async def test_the_next_address_is_dialled_when_the_first_does_not_answer():
    """As every client does."""
    names = {"pictures.example": [["127.0.0.9", "127.0.0.1"]]}
    async with listening({"/": ok(PICTURE)}) as there, fetching(there.port, names=names) as kit:
        assert await kit.fetch(there.url(host="pictures.example")) == PICTURE


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://169.254.169.254/latest/meta-data/", "blocked_address"),
        ("http://metadata.example/", "blocked_address"),
        ("//10.0.0.1/", "blocked_address"),
        ("http://127.0.0.1:1/", "blocked_address"),
        ("file:///etc/passwd", "unsupported_source"),
        ("ftp://127.0.0.1/", "unsupported_source"),
        ("http://127.1/", "invalid_url"),
    ],
)
async def test_every_hop_is_checked(location, code):
    """C075: scheme, port, host and address; the target sees no connection."""
    names = {"metadata.example": [["169.254.169.254"]]}
    async with (
        listening({"/": status(302, f"Location: {location}")}) as there,
        fetching(there.port, 80, names=names) as kit,
    ):
        with pytest.raises(Rejected) as caught:
            await kit.fetch(there.url())

    assert caught.value.code == code
    assert there.connections == 1


async def test_a_redirect_is_followed():
    """C075: relative too, up to five times."""
    answers = {f"/{n}": status(302, f"Location: {n + 1}") for n in range(5)} | {"/5": ok(PICTURE)}
    async with listening(answers) as there, fetching(there.port) as kit:
        assert await kit.fetch(there.url("/0")) == PICTURE


async def test_redirects_have_an_end():
    """C075: the sixth is refused, at once."""
    async with listening({"/": status(307, "Location: /")}) as there, fetching(there.port) as kit:
        with pytest.raises(Rejected, match="too many redirects; the limit is 5") as caught:
            await kit.fetch(there.url())

    assert (caught.value.code, caught.value.status) == ("too_many_redirects", 400)
    assert len(there.paths) == 6


async def test_another_port_is_blocked():
    """80 and 443, unless the deployment says otherwise."""
    async with listening({"/": ok(PICTURE)}) as there, fetching() as kit:
        await blocked(kit, there.url())

    assert there.connections == 0


async def test_a_server_that_does_not_speak_tls_is_trouble():
    """C083: and one that stalls in the handshake is given up."""
    async with listening({"/": says(b"")}) as there, fetching(there.port, total_s=1.0) as kit:
        with pytest.raises(Exception, match="could not be fetched"):
            await kit.fetch(f"https://127.0.0.1:{there.port}/")
