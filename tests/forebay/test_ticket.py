"""The ticket: what a worker parks is what a scheduler reads."""

from dataclasses import replace

import msgpack
import numpy as np
import pytest

from forebay import DType, Modality, Normalisation, Span
from forebay.ticket import ArrayAt, Handle, Ticket, TicketItem

IDS = np.array([5, 7, 7, 6], "<i8")
ITEM = TicketItem(
    modality=Modality.IMAGE,
    hash=2**64 - 1,
    digest="sha256:" + "a" * 64,
    spans=(Span(1, 2),),
    tokens=2,
    feature=ArrayAt(0, 64, DType.BFLOAT16, (2, 3)),
    model_specific={"image_grid_thw": [1, 2, 2], "rows": -3},
)
# A float32 value, as a double, has more digits than anyone writes; they all travel.
PIXELS = replace(
    ITEM,
    feature=ArrayAt(0, 64, DType.UINT8, (2, 3, 4)),
    normalisation=Normalisation((122.77093505859375, 116.74600982666016, 104.09373474121094), (1.0, 2.0, -3.5), 2),
)
TICKET = Ticket(
    rid="rid-1",
    attempt=2,
    model="toy",
    blocks=(Handle("pool", 3, 4096, 128, 2**40),),
    ids=ArrayAt(0, 0, DType.INT64, (4,)),
    items=(ITEM, PIXELS),
    mrope=ArrayAt(0, 128, DType.INT64, (3, 4)),
    mrope_delta=-3,
    sampling={"max_new_tokens": 3},
)


@pytest.mark.parametrize("ticket", [TICKET, Ticket("r", 1, "toy", (), IDS.tobytes())])
def test_a_ticket_comes_back_as_it_was(ticket):
    """With blocks or without, to the last type."""
    assert Ticket.unpack(ticket.pack()) == ticket


@pytest.mark.parametrize("ticket", [TICKET, Ticket("r", 1, "toy", (), IDS.tobytes())])
def test_a_ticket_knows_how_long_its_prompt_is(ticket):
    """Admission asks before anything is mapped."""
    assert ticket.prompt_tokens == 4


def test_another_version_is_refused_by_number():
    """A scheduler of another release does not guess."""
    fields = msgpack.unpackb(TICKET.pack())

    with pytest.raises(ValueError, match="ticket version 9; this release reads 2"):
        Ticket.unpack(msgpack.packb([9, *fields[1:]]))
