"""One trial: which function gets which bytes, by two numbers; and whether what came of it is lawful."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from forebay.codes import CODES
from forebay.errors import Rejected
from tests.fuzz.targets import PARAM, TARGETS, Target
from workers.item_limits import ItemLimits

LIMITS = ItemLimits(wall_s=60, cpu_s=20, memory_bytes=1 << 30)
"""Of one trial. The wall is wide, because others use the machine too."""
VALUE = "value"


@dataclass(frozen=True, slots=True)
class Trial:
    """Bytes for a function. ``name`` says which one, and what file they come from."""

    target: str
    name: str
    data: bytes

    @classmethod
    def of(cls, seed: int, number: int, targets: Mapping[str, Target] = TARGETS) -> Trial:
        rng = Random(f"{seed}:{number}")
        name = rng.choices(list(targets), [one.weight for one in targets.values()])[0]
        target = targets[name]
        files = target.seeds()
        kind, data = rng.choice(files)
        return cls(name, kind, target.mutate(data, rng, [other for _, other in files]))


def outcome(target: Target, data: bytes, limits: ItemLimits = LIMITS) -> tuple[str, str]:
    """What a function made of its input, ``value`` or a code; and what is wrong with that, empty if nothing is."""
    try:
        with limits.over(PARAM):
            target.read(data)
    except Rejected as error:
        return error.code, _wrong(error, target)
    except BaseException as error:  # whatever it is, it is the finding
        return type(error).__name__, f"{type(error).__name__}: {error}"[:300]
    return VALUE, ""


def _wrong(error: Rejected, target: Target) -> str:
    if error.code not in CODES:
        return f"the code {error.code} is unknown"
    if not 400 <= error.status < 500:
        return f"{error.code} has status {error.status}"
    place = error.param or ""
    if target.names_item and not (place.startswith(PARAM) and error.message.startswith(place)):
        return f"{error.code} does not name the item: {error.message[:100]!r}"
    return ""
