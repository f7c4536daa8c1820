"""Fetching through real proxies on loopback: what they are told, and what they are asked for."""

from __future__ import annotations

import base64
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trustme

from api.fetch.proxies import Proxies, Proxy, read_no_proxy, read_proxy
from forebay.errors import Failed, Rejected
from tests.api.fetch.kit import fetching
from tests.api.fetch.listeners import listening, ok, says, status, tunnel

PICTURE = b"picture" * 100
SECRET = "p@ss/word"
SAID = "Proxy-Authorization: Basic " + base64.b64encode(f"user:{SECRET}".encode()).decode()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between tries, shorter."""
    monkeypatch.setattr("api.fetch.fetcher._PAUSES_S", (0.01, 0.02))


@pytest.fixture
def tls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ssl.SSLContext:
    """A server's certificate for pictures.example, of an authority that this process trusts."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("pictures.example").configure_cert(context)
    return context


def proxy_at(port: int, user: str = "") -> Proxy | None:
    return read_proxy(f"{user}127.0.0.1:{port}")


async def test_a_proxy_is_asked_instead():
    """By its own rules; the address itself is not dialled, and hosts that need none are."""
    async with listening({}, default=ok(PICTURE)) as proxy, listening({"/": ok(b"direct")}) as there:
        proxies = Proxies(http=proxy_at(proxy.port), without=read_no_proxy("127.0.0.1,.inside.example"))
        async with fetching(there.port, 80, proxies=proxies) as kit:
            assert await kit.fetch("http://pictures.example/a.png") == PICTURE
            assert await kit.fetch(there.url()) == b"direct"

    assert proxy.paths == ["http://pictures.example/a.png"]
    assert "Authorization" not in proxy.heads[0]
    assert kit.looked_up == []


async def test_a_proxy_is_not_asked_for_the_inside():
    """What an address in the URL says is known without a look-up."""
    async with (
        listening({}, default=ok(PICTURE)) as proxy,
        fetching(inside=False, proxies=Proxies(http=proxy_at(proxy.port))) as kit,
    ):
        with pytest.raises(Rejected) as caught:
            await kit.fetch("http://169.254.169.254/latest/")

    assert caught.value.code == "blocked_address"
    assert proxy.connections == 0


async def test_a_proxy_is_told_its_user_beside_that_of_the_url():
    """Each of them where it belongs."""
    async with listening({}, default=ok(PICTURE)) as proxy:
        proxies = Proxies(http=proxy_at(proxy.port, "http://user:p%40ss%2Fword@"))
        async with fetching(proxies=proxies) as kit:
            assert await kit.fetch("http://me:mine@pictures.example/a.png") == PICTURE

    lines = proxy.heads[0].split("\r\n")
    assert SAID in lines
    assert "Authorization: Basic bWU6bWluZQ==" in lines
    assert "@" not in lines[0]


async def test_a_tunnel_is_asked_for_with_its_user_and_nothing_of_the_rest(tls):
    """The proxy of https sees a host and a port; the server sees no proxy."""
    async with (
        listening({"/a?key=s": ok(PICTURE)}, tls=tls) as there,
        listening({}, default=tunnel(there.port)) as proxy,
    ):
        proxies = Proxies(https=proxy_at(proxy.port, "user:p%40ss%2Fword@"))
        async with fetching(proxies=proxies) as kit:
            assert await kit.fetch("https://me:mine@pictures.example/a?key=s") == PICTURE

    assert proxy.paths == ["pictures.example:443"]
    assert SAID in proxy.heads[0].split("\r\n")
    assert "bWU6bWluZQ==" not in proxy.heads[0]
    assert "Proxy-Authorization" not in there.heads[0]
    assert "Authorization: Basic bWU6bWluZQ==" in there.heads[0]


async def test_an_address_of_ipv6_stands_in_brackets_wherever_a_port_may_follow():
    """In what a proxy is asked for, and in Host."""
    async with listening({}, default=ok(PICTURE)) as proxy:
        both = proxy_at(proxy.port)
        async with fetching(80, 443, 8080, proxies=Proxies(http=both, https=both)) as kit:
            await kit.fetch("http://[2606:2800:220:1::1]/a")
            await kit.fetch("http://[2606:2800:220:1::1]:8080/a")
            with pytest.raises(Failed):  # this proxy makes no tunnel
                await kit.fetch("https://[2606:2800:220:1::1]/a")

    assert proxy.paths[:3] == [
        "http://[2606:2800:220:1::1]/a", "http://[2606:2800:220:1::1]:8080/a", "[2606:2800:220:1::1]:443"
    ]  # fmt: skip
    assert "Host: [2606:2800:220:1::1]" in proxy.heads[0].split("\r\n")
    assert "Host: [2606:2800:220:1::1]:8080" in proxy.heads[1].split("\r\n")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_another_user_is_not_the_callers_fault(scheme):
    """A 502 at once; it says that the proxy answered, and nothing of who was told to it."""
    async with listening({}, default=status(407, "Proxy-Authenticate: Basic")) as proxy:
        one = proxy_at(proxy.port, "user:p%40ss%2Fword@")
        async with fetching(proxies=Proxies(http=one, https=one)) as kit:
            with pytest.raises(Failed, match="its proxy answered 407") as caught:
                await kit.fetch(f"{scheme}://pictures.example/a.png")

    assert (caught.value.code, caught.value.status) == ("media_fetch_failed", 502)
    assert "ss" not in caught.value.message.split("answered")[1]
    assert proxy.connections == 1


@pytest.mark.parametrize("answer", [status(503), says(b"HTTP/1.1 200 Connected\r\n\r\n", b"no TLS at all")])
async def test_tunnels_that_fail_leave_room_for_others(tls, answer):
    """More of them than there may be connections; each is closed and forgotten."""
    async with listening({"/": ok(PICTURE)}, tls=tls) as there:
        through = [*[answer] * 6, tunnel(there.port)]
        async with listening({"pictures.example:443": through}) as proxy:
            proxies = Proxies(https=proxy_at(proxy.port))
            async with fetching(proxies=proxies, connections=2, at_once=2) as kit:
                for _ in range(2):
                    with pytest.raises(Failed, match=r"the connection failed|answered 503"):
                        await kit.fetch("https://pictures.example/")
                assert await kit.fetch("https://pictures.example/") == PICTURE

    assert proxy.connections == 7


async def test_a_tunnel_that_is_given_up_leaves_room_for_others(tls):
    """Nobody answers within it, and the fetch has no more time."""
    silent = says(b"HTTP/1.1 200 Connected\r\n\r\n", b"", pause_s=60.0)
    async with listening({"/": ok(PICTURE)}, tls=tls) as there, AsyncExitStack() as stack:
        answers = {"pictures.example:443": [silent, silent, tunnel(there.port)]}
        proxies = Proxies(https=proxy_at((await stack.enter_async_context(listening(answers))).port))
        kit = await stack.enter_async_context(fetching(proxies=proxies, connections=2, at_once=2))
        for _ in range(2):
            with pytest.raises(Failed, match="longer than"):
                await kit.fetch("https://pictures.example/", left_s=0.2)
        assert await kit.fetch("https://pictures.example/") == PICTURE
