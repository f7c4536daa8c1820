"""The same bodies for Forebay and for SGLang: the same split or the same refusal, or a difference that is intended."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from api.body import read_call
from api.incoming import Incoming
from api.tenants import ANYBODY
from forebay import DType, Feature, Item, Modality, Rejected, Span
from forebay.drive import apply_caller_hashes
from tests.api.differences import Row, ids
from tests.api.observed import ROWS

OWN = 1000
UNNAMED = Item(Modality.IMAGE, Feature.of(np.ones((1, 1), np.float32), DType.FLOAT32), (Span(0, 0),), 1, hash=OWN)


def hashes(slot: Incoming) -> tuple[int | str, ...]:
    """What each item is called in the end."""
    named = apply_caller_hashes((UNNAMED,) * len(slot.sources), slot.caller_hashes)
    return tuple("own" if item.hash == OWN else item.hash for item in named)


def rid(slot: Incoming) -> str:
    return "32 hex digits" if re.fullmatch("[0-9a-f]{32}", slot.rid or "") else str(slot.rid)


LOOKED_AT: dict[str, Callable[[Incoming], Any]] = {
    "images": lambda slot: [one.text for one in slot.sources if one.modality is Modality.IMAGE],
    "prompt": lambda slot: slot.prompt.ids if slot.prompt.text is None else slot.prompt.text,
    "rid": rid,
    "samples": lambda slot: slot.samples,
    "sampling": lambda slot: slot.sampling,
    "hashes": hashes,
    "extensions": lambda slot: slot.extensions,
}


def answer(row: Row) -> Any:
    """The status of a refused call, or what is looked at of each prompt, or the status of that prompt's error."""
    raw = row.body if isinstance(row.body, bytes) else json.dumps(row.body).encode()
    try:
        call = read_call(raw, row.limits).of(ANYBODY)
    except Rejected as error:
        return error.status
    look = LOOKED_AT[row.of]
    return [slot.status if isinstance(slot, Rejected) else look(slot) for slot in call.slots]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_a_body_is_read_as_sglang_reads_it_or_otherwise_on_purpose(row: Row):
    """A difference that nobody has named is a fault; and one that is named is still one."""
    assert row.is_sound
    assert answer(row) == row.expected


def test_no_body_stands_there_twice():
    """A row that hides behind another's name would never be missed."""
    names = ids(ROWS)

    assert sorted(set(names)) == sorted(names)
