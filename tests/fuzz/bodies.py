"""JSON bodies in disorder: values of other types at any place, keys that go and come, and now and then plain noise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.fuzz.mutate import mutated

_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, -(2**63), 10**40, 0.5, -0.0, 1e308, 1e-320),
    *("", " ", "a", "\0", "\ud800", "é" * 100, "data:", "data:,", "data:;base64,", "sha256:", "http://", "x" * 5000),
    *(
        [],
        [None],
        [[]],
        [[None]],
        [1],
        ["a"],
        [["a"], "a"],
        {},
        {"url": None},
        {"url": []},
        {"": {}},
        {"url": "data:,"},
    ),
    *({"type": "text"}, {"type": "image_url", "image_url": []}, {"type": ["text"]}, {"role": "user", "content": [{}]}),
)


def disordered(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """A body with one to four values changed; every fifth as bytes."""
    if rng.random() < 0.2:
        return mutated(data, rng, others)
    body = json.loads(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.choice(_places(body))
        _change(*place, rng)
    return json.dumps(body).encode("utf-8", "surrogatepass")


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every entry of every list and map, as what holds it and its key."""
    keys: Sequence[Any] = (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    )
    inner = [place for key in keys for place in _places(value[key])]
    return [(value, key) for key in keys] + inner


def _change(holder: Any, key: Any, rng: Random) -> None:
    draw = rng.random()
    if draw < 0.6:
        holder[key] = json.loads(json.dumps(rng.choice(_ODD)))
    elif draw < 0.7:
        del holder[key]
    elif draw < 0.8:
        holder[key] = [holder[key]]
    elif isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[rng.choice(("multimodal_a", "text", "input_ids", "video_data", "frames", "rid"))] = holder[key]
