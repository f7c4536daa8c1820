"""What the engine reads of a request's features, and that it keeps none of them."""

from __future__ import annotations

import gc
import hashlib
import weakref

import numpy as np
import pytest
from forebay_layout_demo.engine import MOST_REQUESTS, LayoutDemoEngine

from forebay import Admission, AdmittedItem, Rejected, Room
from forebay.plugins import engine_class
from forebay.testing import image, run_processor

PAGE = 256


@pytest.fixture
def engine(model):
    return LayoutDemoEngine.create(model)


@pytest.fixture
def admit(processor):
    """Prepare a request as a worker would and hand it to the engine as the scheduler would."""

    def admit(engine, rid, *pages, boxes=()):
        output = run_processor(
            processor, pages, input_ids=[7] + [PAGE] * len(pages), extensions={"multimodal_boxes": [*boxes]}
        )
        for item in output.items:
            item.feature.array.flags.writeable = False  # as the pool's views are
        admitted = tuple(
            AdmittedItem(
                item.modality, item.feature.array, item.feature.dtype, item.spans, item.hash or 0, item.model_specific,
                item.feature.normalisation,
            )
            for item in output.items
        )  # fmt: skip
        engine.admit(Admission(rid, output.input_ids, admitted, output.positions, {}))
        return output

    return admit


def page():
    """White, but for a black square in the middle that is a quarter of it."""
    pixels = np.full((32, 32, 3), 255)
    pixels[8:24, 8:24] = 0
    return image(pixels)


def test_the_engine_is_found_by_the_models_name(model):
    """With a folder alone, which says how long a prompt may be."""
    assert engine_class(model) is LayoutDemoEngine
    assert LayoutDemoEngine.create(model).room() == Room(requests=8, tokens=8 * 1024)


def test_every_feature_is_read(engine, admit):
    """Patches tell how bright a page is, crops its regions, places where these are; the thumbnail agrees."""
    output = admit(engine, "one", page(), boxes=[[[8, 8, 24, 24], [0, 0, 32, 8]]])

    [emission] = engine.step()

    assert emission.text == "page 0 is 75 % bright; at [250, 250, 750, 750] it is 0 %; at [0, 0, 1000, 250] it is 100 %"
    assert (emission.rid, emission.finish_reason) == ("one", "stop")
    told = emission.meta["items"]
    assert [(one["part"], one["dtype"], one["mean"]) for one in told] == [
        ("patches", "float32", 0.5),
        ("thumbnail", "uint8", 0.5),
        ("crops", "bfloat16", 0.0),
        ("places", "int64", 406.25),
    ]
    arrays = [item.feature.array for item in output.items]
    assert [one["sha256"] for one in told] == [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]
    assert [one["spans"] for one in told] == [[[s.first, s.last] for s in item.spans] for item in output.items]
    assert emission.meta["rows"] == output.positions.mrope[1].tolist()


def test_pages_are_told_in_their_order(engine, admit):
    """Each with its own regions, and requests with their own pages."""
    admit(engine, "two", page(), page(), boxes=[[], [[8, 8, 24, 24]]])
    admit(engine, "dark", image(np.zeros((5, 5, 3))))

    two, dark = engine.step()

    assert two.text == "page 0 is 75 % bright; page 1 is 75 % bright; at [250, 250, 750, 750] it is 0 %"
    assert (dark.rid, dark.text) == ("dark", "page 0 is 0 % bright")


def test_a_request_without_a_page_is_refused(engine, admit):
    """It has nothing to say of one, and goes on with the others."""
    with pytest.raises(Rejected, match="0 pages; this model reads 1 or more") as refusal:
        admit(engine, "none")

    assert (refusal.value.code, refusal.value.param) == ("missing_image", "image_data")
    assert engine.room().requests == MOST_REQUESTS


def test_room_shrinks_as_requests_come_and_returns_as_they_go(engine, admit):
    """By an answer or by an abort; an unknown one is no error."""
    for number in range(MOST_REQUESTS):
        admit(engine, str(number), page())
    assert engine.room() == Room(requests=0, tokens=0)

    engine.abort("0")
    engine.abort("unknown")

    assert engine.room().requests == 1
    assert [emission.rid for emission in engine.step()] == [str(number) for number in range(1, MOST_REQUESTS)]
    assert engine.room().requests == MOST_REQUESTS
    assert engine.step() == []


def test_no_view_into_shared_memory_is_kept(engine, admit):
    """What is said of a feature is made when the request is admitted, so its block may be freed at any time after."""
    views = [weakref.ref(item.feature.array) for item in admit(engine, "one", page(), boxes=[[[0, 0, 5, 5]]]).items]

    gc.collect()

    assert [view() for view in views] == [None] * 4
