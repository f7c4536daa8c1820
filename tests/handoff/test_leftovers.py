"""What Redis holds after ten thousand requests: the records that are kept a while, and nothing that grows."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from handoff.moves import LOG, RETENTION_MS, Admit, End, Fence, Moves
from handoff.scripts import perform, perform_all
from tests.support.ways import MODEL, NODE, SCHEDULER, WORKER

pytestmark = pytest.mark.service

REQUESTS, AT_ONCE = 10_000, 200
STAYS = {
    "tenant": "two numbers for each tenant",
    "bell": "one token for each node",
    "wake": "one token for each scheduler's model",
    "purge": "what the node's janitor is to free; it takes them out",
    "mm.n1.text": "messages, which workers take out",
}


def admit(number: int, chance: random.Random) -> Admit:
    reply = chance.choice(["", LOG, "api-gone"])
    tenant = chance.choice(["", "acme"])
    rid = f"{tenant}/r{number}" if tenant else f"r{number}"
    return Admit(rid, f"t{number}", MODEL, "generate", 0, reply, 60_000, REQUESTS, tenant, chance.randrange(1000))


def some(client, moves: Moves, first: int, chance: random.Random) -> None:
    """Some requests side by side, each to the end that chance gives it."""
    asked = [admit(number, chance) for number in range(first, first + AT_ONCE)]
    perform_all(client, [moves.accept(one) for one in asked])
    perform_all(client, [moves.enqueue(one.rid, one.token, b"", NODE, "text", b"m", size_bytes=1) for one in asked])
    begun = [one for one in asked if chance.random() < 0.9]
    perform_all(client, [moves.begin(one.rid, one.token, WORKER) for one in begun])
    parked = [one for one in begun if chance.random() < 0.9]
    perform_all(client, [moves.park(one.rid, 1, WORKER, b"ticket", 1, {}) for one in parked])
    claimed = perform(client, moves.claim(SCHEDULER, f"c{first}", NODE, MODEL, most=AT_ONCE // 2, tokens=1 << 30))
    perform_all(client, [moves.emit(one.rid, one.claim, 0, b"piece") for one in claimed])
    perform_all(client, [moves.finish(one.rid, Fence.claim(one.claim), End.done({"n": 1})) for one in claimed])
    perform_all(client, [moves.cancel(one.rid) for one in asked])


def test_nothing_is_left_of_ten_thousand_requests_but_what_expires(client, moves, keys):
    """Every key has an end, or does not grow with the number of requests."""
    chance = random.Random(5)
    for first in range(0, REQUESTS, AT_ONCE):
        some(client, moves, first, chance)

    stays: Counter[str] = Counter()
    for key in client.scan_iter(f"{keys.prefix}*", count=1000):
        if not 0 < client.pttl(key) <= RETENTION_MS:
            stays[key.decode().removeprefix(keys.prefix).partition(":")[0]] += 1
    assert set(stays) <= set(STAYS)
    assert max(stays.values()) <= 2
    assert [client.hgetall(keys.tenant(name)) for name in ("", "acme")] == [{b"live": b"0", b"bytes": b"0"}] * 2
    assert client.zcard(keys.due) == 0
