"""Performing moves: by blocking and asyncio clients, also on a server that has forgotten the scripts."""

import pytest

from forebay import Failed
from handoff.connection import connect, connect_async
from handoff.scripts import perform, perform_all, perform_async, sha, source
from tests.support.ways import Way

pytestmark = pytest.mark.service

MOVES = [
    *(
        "accept",
        "begin",
        "cancel",
        "claim",
        "emit",
        "enqueue",
        "expire",
        "finish",
        "lapse",
        "look",
        "lost",
        "neglected",
    ),
    *("park", "renew", "replay", "resend", "take", "drop", "give_back", "inherit", "recover", "quarantine", "shadow"),
    "worn",
]


@pytest.fixture
def forgetful(client):
    """A server that was restarted: it knows no script."""
    client.script_flush()
    return client


def test_a_server_that_forgot_the_scripts_learns_them_again(forgetful, moves):
    """A restart is no failure."""
    assert perform(forgetful, moves.cancel("unknown")) == ""
    assert forgetful.script_exists(sha("cancel")) == [True]


def test_a_pipeline_of_moves_survives_a_server_that_forgot_them(forgetful, moves):
    """Each is atomic by itself; the replies keep their order."""
    way = Way(forgetful, moves)
    way.admitted("r1", "t1", claim="c1")
    forgetful.script_flush()

    kept = perform_all(forgetful, [moves.emit("r1", "c1", 0, b"a"), moves.emit("r2", "c1", 0, b"b")])

    assert kept == [True, False]


def test_no_moves_need_no_server(moves):
    """An engine's quiet step costs no round trip."""
    assert perform_all(connect("redis://127.0.0.1:1", "nobody"), []) == []


async def test_an_event_loop_performs_the_same_moves(forgetful, redis_url, moves):
    """And learns them as well."""
    client = connect_async(redis_url, "test")

    assert await perform_async(client, moves.cancel("unknown")) == ""
    assert await perform_async(client, moves.cancel("unknown")) == ""
    await client.aclose()


def test_a_server_that_cannot_be_reached_is_a_failure_with_a_time_to_retry(moves):
    """The caller gets a 503, not a traceback."""
    nobody = connect("redis://127.0.0.1:1", "nobody")

    for attempt in (lambda: perform(nobody, moves.cancel("r")), lambda: perform_all(nobody, [moves.cancel("r")])):
        with pytest.raises(Failed) as caught:
            attempt()
        assert (caught.value.code, caught.value.status, caught.value.retry_after_s) == ("redis_unavailable", 503, 2)


async def test_an_event_loop_learns_of_a_server_that_cannot_be_reached(moves):
    """In the same words."""
    client = connect_async("redis://127.0.0.1:1", "nobody")

    with pytest.raises(Failed, match="the request store cannot be reached"):
        await perform_async(client, moves.cancel("r"))
    await client.aclose()


def test_a_server_that_refuses_is_told_from_one_that_is_away(client, moves, keys):
    """Out of memory or of another type: the operator reads Redis' own word."""
    client.set(keys.record("r1"), "not a hash")

    with pytest.raises(Failed, match=r"refused a step: .*WRONGTYPE") as caught:
        perform(client, moves.cancel("r1"))

    assert (caught.value.code, caught.value.status) == ("redis_refused", 503)


@pytest.mark.parametrize("name", MOVES)
def test_a_move_is_one_file_over_the_shared_prelude(name, client):
    """Every file is a script that the server takes, under the name that we compute."""
    assert client.script_load(source(name)) == sha(name)


def test_every_script_is_a_move(client):
    """No file is left that nothing performs."""
    from importlib.resources import files

    found = {path.name.removesuffix(".lua") for path in (files("handoff") / "lua").iterdir()}

    assert found == {*MOVES, "prelude"}
