"""Where a second processor is tried on real requests: who wants samples, samples on their way, what was found.

Nothing here is owed to anybody. Samples may be lost; a request never waits for one, nor fails by it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from handoff.connection import AsyncClient, Client, redis_failures
from handoff.keys import Keys
from handoff.scripts import Move

WANTED_S = 10  # after its last sign of life nobody makes samples for a shadow any more
MOST_WAITING = 8
MOST_NOTES = 100
IN, PASSED_OVER = "in ", "passed over: "
"""What the names of counts begin with: of requests that differ in something, and of those that were not compared."""
_FINGERPRINT = "fingerprint"
_WAITING_S = 600  # below the time that media live
_FOUND_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a shadow wants of a model's requests.

    Attributes:
        share: of the requests, from 0 to 1.
        max_bytes: of a request's features; one that has more is passed over.
        who: the shadow.
    """

    share: float
    max_bytes: int
    who: str = ""

    @classmethod
    def read(cls, told: bytes | None) -> Wanted | None:
        """What a shadow has written; ``None`` for whatever else stands there, of another release for example."""
        try:
            fields = json.loads(told or b"")
            return cls(float(fields["share"]), int(fields["max_bytes"]), str(fields.get("who", "")))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


@dataclass(frozen=True, slots=True)
class Note:
    """What a request showed that was prepared twice.

    Attributes:
        rid: of the request.
        kinds: in what the two differ; empty where they are equal.
        said: for each kind a sentence with both sides.
        max_abs_error: over all features whose shapes are alike.
        cpu_ms: that the first and the second took; the first is 0 where nothing was made.
        fingerprints: of the first and the second.
    """

    rid: str
    kinds: tuple[str, ...]
    said: tuple[str, ...]
    max_abs_error: float
    cpu_ms: tuple[float, float]
    fingerprints: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything found of a model: counts by name, the largest error, and the latest requests that differ.

    Attributes:
        fingerprint: of the processor on trial, whose findings they are.
        is_running: whether its shadow is there.
    """

    counts: Mapping[str, int]
    max_abs_error: float
    notes: tuple[Note, ...] = ()
    fingerprint: str = ""
    is_running: bool = False


def ask(client: Client, keys: Keys, model: str, wanted: Wanted) -> bool:
    """Want samples of a model for the next seconds; ``False`` where another shadow does."""
    with redis_failures():
        if client.set(keys.shadow(model), json.dumps(asdict(wanted)), ex=WANTED_S, nx=True):
            return True
    other = wanted_of(client, keys, model)
    if other is not None and other.who != wanted.who:
        return False
    with redis_failures():
        client.set(keys.shadow(model), json.dumps(asdict(wanted)), ex=WANTED_S)
    return True


def stop_asking(client: Client, keys: Keys, model: str) -> None:
    """Want none any more. What waits is the caller's to take."""
    with redis_failures():
        client.delete(keys.shadow(model))


def wanted_of(client: Client, keys: Keys, model: str) -> Wanted | None:
    """What is wanted of a model's requests; ``None`` where nobody looks."""
    with redis_failures():
        told: Any = client.get(keys.shadow(model))
    return Wanted.read(told)


def begin(client: Client, keys: Keys, model: str, fingerprint: str) -> bool:
    """Count for a processor; whether something was there of another one, which is forgotten."""
    with redis_failures():
        before: Any = client.hget(keys.shadow_found(model), _FINGERPRINT)
    is_anothers = before is not None and before.decode() != fingerprint
    if is_anothers:
        forget(client, keys, model)
    with redis_failures():
        client.hset(keys.shadow_found(model), _FINGERPRINT, fingerprint)
        client.expire(keys.shadow_found(model), _FOUND_S)
    return is_anothers


def has_room(client: Client, keys: Keys, model: str) -> bool:
    """Whether fewer samples wait than may."""
    with redis_failures():
        waiting: Any = client.llen(keys.shadowed(model))
    return int(waiting) < MOST_WAITING


def push(client: Client, keys: Keys, model: str, sample: bytes) -> None:
    """Leave a sample for the model's shadow; the oldest goes where there are too many."""
    with redis_failures():
        pipe = client.pipeline(transaction=True)
        pipe.lpush(keys.shadowed(model), sample)
        pipe.ltrim(keys.shadowed(model), 0, MOST_WAITING - 1)
        pipe.expire(keys.shadowed(model), _WAITING_S)
        pipe.execute()


def pop(client: Client, keys: Keys, model: str, within_s: float = 0) -> bytes | None:
    """The sample that waits longest; ``None`` when there is none in time."""
    with redis_failures():
        if not within_s:
            now: Any = client.rpop(keys.shadowed(model))
            return None if now is None else bytes(now)
        found: Any = client.brpop([keys.shadowed(model)], within_s)
    return None if found is None else bytes(found[1])


def note(keys: Keys, model: str, found: Note) -> Move[None]:
    """Count a comparison, and keep it if the two differ."""
    counts = {"compared": 1, "different" if found.kinds else "equal": 1, **{f"{IN}{kind}": 1 for kind in found.kinds}}
    entry = json.dumps(asdict(found)) if found.kinds else ""
    return _count(keys, model, counts, found.max_abs_error, entry)


def passed_over(keys: Keys, model: str, why: str) -> Move[None]:
    """Count a request that was not compared."""
    return _count(keys, model, {f"{PASSED_OVER}{why}": 1})


def _count(keys: Keys, model: str, counts: Mapping[str, int], error: float = 0.0, entry: str = "") -> Move[None]:
    once = secrets.token_hex(8)
    args = (keys.prefix, model, json.dumps(counts), repr(error), entry, MOST_NOTES, _FOUND_S, once)
    return Move("shadow", keys.shadow_found(model), args, lambda _: None)


def findings(client: Client, keys: Keys, model: str) -> Findings:
    """What has been found of a model, for a week after the last sample."""
    with redis_failures():
        pipe = client.pipeline(transaction=True)
        pipe.hgetall(keys.shadow_found(model))
        pipe.lrange(keys.shadow_notes(model), 0, -1)
        pipe.exists(keys.shadow(model))
        raw, packed, is_running = pipe.execute()
    return replace(_read(raw, packed), is_running=bool(is_running))


async def counts_of(client: AsyncClient, keys: Keys, model: str) -> Findings:
    """The same without the requests."""
    with redis_failures():
        raw: Any = await client.hgetall(keys.shadow_found(model))
    return _read(raw, ())


def forget(client: Client, keys: Keys, model: str) -> None:
    """Begin anew."""
    with redis_failures():
        client.delete(keys.shadow_found(model), keys.shadow_notes(model))


def _read(raw: Mapping[bytes, bytes], packed: Any) -> Findings:
    counts = {name.decode(): value for name, value in raw.items()}
    largest = float(counts.pop("max_abs_error", b"0"))
    fingerprint = counts.pop(_FINGERPRINT, b"").decode()
    notes = tuple(_note(json.loads(one)) for one in packed)
    return Findings({name: int(value) for name, value in counts.items()}, largest, notes, fingerprint)


def _note(told: Mapping[str, Any]) -> Note:
    return Note(
        rid=told["rid"],
        kinds=tuple(told["kinds"]),
        said=tuple(told["said"]),
        max_abs_error=told["max_abs_error"],
        cpu_ms=(told["cpu_ms"][0], told["cpu_ms"][1]),
        fingerprints=(told["fingerprints"][0], told["fingerprints"][1]),
    )
