"""What Redis holds after ten thousand requests: the records that are kept a while, and nothing that grows."""

from __future__ import annotations

import random

import pytest

from forebay.ticket import Ticket
from handoff.keys import LANES
from handoff.media import Spool
from handoff.moves import LOG, RETENTION_MS, Admit, End, Fence
from handoff.nodes import KEPT_MS, announce
from handoff.pool import Owner, Pool
from handoff.scripts import perform, perform_all
from handoff.slot import Slot
from tests.support.ways import MODEL, NODE, SCHEDULER, WORKER, Way
from workers.janitor import Janitor

pytestmark = pytest.mark.service

REQUESTS, AT_ONCE = 10_000, 200
TICKET = Ticket("r", 1, MODEL, (), b"").pack()

FOR_EVER = {"tenant:": 2, "tenant:acme": 2}
"""What stays, with its length: two numbers for each tenant."""

FOR_A_DAY = {f"bell:{NODE}": 1, f"wake:{NODE}:{MODEL}": 1, f"looked:{NODE}": 1, "nodes": 1}
"""What a node leaves, with its length: a token for each who may sleep, the time of its last look, its name."""

MOST_BYTES = 2000
"""Of memory, for each key that is no request's; the longest has a few names and numbers."""


def admit(number: int, chance: random.Random) -> Admit:
    reply = chance.choice(["", LOG, "api-gone"])
    tenant = chance.choice(["", "acme"])
    rid = f"{tenant}/r{number}" if tenant else f"r{number}"
    return Admit(rid, f"t{number}", MODEL, "generate", 0, reply, 60_000, REQUESTS, tenant, chance.randrange(1000))


def some(way: Way, first: int, chance: random.Random) -> int:
    """Some requests side by side, each to the end that chance gives it; how many ended while they were parked."""
    client, moves = way.client, way.moves
    asked = [admit(number, chance) for number in range(first, first + AT_ONCE)]
    perform_all(client, [moves.accept(one) for one in asked])
    queued = [one for one in asked if chance.random() < 0.95]
    perform_all(client, [moves.enqueue(one.rid, one.token, b"", NODE, "text", b"m", size_bytes=1) for one in queued])
    begun = [one for one in queued if chance.random() < 0.9]
    perform_all(client, [moves.begin(one.rid, one.token, WORKER) for one in begun])
    parked = [one for one in begun if chance.random() < 0.9]
    perform_all(client, [moves.park(one.rid, 1, WORKER, TICKET, 1, {}) for one in parked])
    claimed = perform(client, moves.claim(SCHEDULER, f"c{first}", NODE, MODEL, most=AT_ONCE // 2, tokens=1 << 30))
    perform_all(client, [moves.emit(one.rid, one.claim, 0, b"piece") for one in claimed])
    perform_all(client, [moves.renew(SCHEDULER, NODE, MODEL, {one.rid: one.claim}) for one in claimed[:3]])
    lapsed = [one.rid for one in claimed if chance.random() < 0.1]
    for rid in lapsed:
        way.let_lapse(rid)
    assert set(perform(client, moves.lapse(NODE, MODEL))) == set(lapsed)
    done = [one for one in claimed if one.rid not in lapsed]
    perform_all(client, [moves.finish(one.rid, Fence.claim(one.claim), End.done({"n": 1})) for one in done])
    late = [one.rid for one in asked if chance.random() < 0.2]
    for rid in set(late) & set(way.live()):
        way.pass_deadline(rid)
    perform(client, moves.expire())
    perform_all(client, [moves.cancel(one.rid) for one in asked])
    return len(parked) - len(done)


def take_all(way: Way) -> None:
    """What workers do with the messages of requests that have ended."""
    slot = Slot(way.moves.keys, NODE, "parent-1")
    taken = perform_all(way.client, [slot.take(LANES)] * (AT_ONCE + 1))
    assert taken[-1] is None
    way.do(slot.drop(one for one in taken if one is not None))


def length(client, key: bytes) -> int:
    count = {
        b"list": "llen",
        b"zset": "zcard",
        b"set": "scard",
        b"hash": "hlen",
        b"string": "strlen",
        b"stream": "xlen",
    }
    return getattr(client, count[client.type(key)])(key)


@pytest.fixture
def janitor(client, moves, shm, tmp_path):
    Pool.create(shm / "pool", 1 << 20)
    life = Owner(shm, "janitor")
    pool = Pool(shm / "pool", life.id, writable=True)
    yield Janitor(life.id, NODE, shm, b"0123456789abcdef", client, moves, pool, Spool(tmp_path / "media"), [MODEL])
    pool.close()
    life.close()


def test_nothing_is_left_of_ten_thousand_requests_but_what_expires(way, client, moves, keys, janitor):
    """Every key has an end or is one of few; and none of these or of a node's is the longer for so many requests."""
    chance = random.Random(5)
    for first in range(0, REQUESTS, AT_ONCE):
        announce(client, keys, NODE, "workers", {})
        ended_in_wait = some(way, first, chance)
        assert len(way.purged()) == ended_in_wait  # each is one ticket, which the janitor takes out
        take_all(way)
        janitor.tick()

    for_ever, for_a_day = {}, {}
    found = list(client.scan_iter(f"{keys.prefix}*", count=1000))
    pipe = client.pipeline(transaction=False)
    for key in found:
        pipe.pttl(key)
    for key, ends_ms in zip(found, pipe.execute(), strict=True):
        name = key.decode().removeprefix(keys.prefix)
        if 0 < ends_ms <= RETENTION_MS:
            continue
        (for_a_day if 0 < ends_ms <= KEPT_MS else for_ever)[name] = length(client, key)
        assert client.memory_usage(key, samples=0) < MOST_BYTES, name
    assert for_ever == FOR_EVER
    assert for_a_day == FOR_A_DAY
    assert [client.hgetall(keys.tenant(name)) for name in ("", "acme")] == [{b"live": b"0", b"bytes": b"0"}] * 2


def test_every_key_of_a_node_has_an_end_while_it_is_used(way, client, keys, janitor):
    """In each state of a request: whenever the node goes for good, what it leaves goes a day later."""
    announce(client, keys, NODE, "workers", {})
    announce(client, keys, NODE, f"engine:{MODEL}", {})
    for number, state in enumerate(["accepted", "queued", "processing", "parked", "admitted", "parked", "queued"]):
        way.to(state, rid=f"r{number}", token=f"t{number}")
    way.cancel("r5")
    for part in ("worker-dead", "parent-1"):
        assert way.do(Slot(keys, NODE, part).take(LANES)) is not None
    way.do(Slot(keys, NODE, "worker-dead").inherit())
    way.client.lpop(keys.queue(NODE, "text"))
    way.age("r6")
    way.client.delete(keys.queue(NODE, "text"))
    way.do(way.moves.resend("r6", way.record("r6").seen, b"again"))
    way.do(way.moves.look(NODE, MODEL))

    of_the_node = {key.decode(): client.pttl(key) for key in client.scan_iter(f"*{NODE}*")} | {
        keys.nodes: client.pttl(keys.nodes)
    }

    assert len(of_the_node) >= 12
    assert {key: ends for key, ends in of_the_node.items() if not 0 < ends <= KEPT_MS} == {}


def test_a_node_that_comes_back_when_all_of_its_keys_have_ended_works_on(way, client, keys, janitor, shm):
    """Its first announcement, message, ticket and claim are as good as those of a new one."""
    announce(client, keys, NODE, "workers", {})
    way.admitted("r1", "t1")
    way.cancel("r1")
    client.delete(*client.scan_iter(f"*{NODE}*"), keys.nodes)

    announce(client, keys, NODE, "workers", {})
    way.queued("r2", "t2")
    take_all(way)
    janitor.tick()
    way.begin("r2", "t2")
    way.park("r2")

    assert [one.rid for one in way.claim("c2")] == ["r2"]
    assert way.do(way.moves.finish("r2", Fence.claim("c2"), End.done({"n": 1}))).ok
