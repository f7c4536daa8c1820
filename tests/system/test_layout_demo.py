"""The outsider that uses all of the contract, through real processes: what a worker made is what a scheduler reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from forebay.client import Client, RequestFailedError
from tests.support import media, videos
from tests.support.deployment import Deployment, running

pytestmark = pytest.mark.system

FOLDER = Path(__file__).parents[2] / "examples" / "layout_demo" / "model"
PAGE, ROW, THUMBNAIL, CROP, PLACE = 256, 258, 259, 260, 261


def half_dark() -> bytes:
    """A page of 64x32 pixels: its left half is black, its right half white."""
    pixels = np.full((32, 64, 3), 255, np.uint8)
    pixels[:, :32] = 0
    return media.encoded(pixels, "PNG")


# A page of that shape has 4 rows of 8 patches.
REQUEST = {
    "model": "layout-demo",
    "text": "Read <page>.",
    "images": [half_dark()],
    "extensions": {"multimodal_boxes": [[0, 0, 32, 32], [16, 0, 48, 16]], "multimodal_hint": "total; "},
}
IDS = [*b"total; Read ", THUMBNAIL, *([PAGE] * 8 + [ROW]) * 4, CROP, PLACE, CROP, PLACE, *b"."]


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with running(["--model", f"layout-demo={FOLDER}", "--workers", "1", "--cores", "0,1"]) as deployment:
        yield deployment


@pytest.fixture
def api(deployment: Deployment) -> Iterator[Client]:
    with Client(deployment.url) as client:
        yield client


def test_every_type_span_number_and_position_arrives_in_the_scheduler(api):
    """Bit for bit, by the digests that the worker and the scheduler made of the same features."""
    answer = api.generate(**REQUEST)
    prepared = api.preprocess(**REQUEST, features="sha256")

    patches, thumbnail, crops, places = answer.engine["items"]
    assert [one["dtype"] for one in answer.engine["items"]] == ["float32", "uint8", "bfloat16", "int64"]
    assert [one["shape"] for one in answer.engine["items"]] == [[32, 768], [1, 3, 256], [2, 768], [2, 4]]
    assert [one["sha256"] for one in answer.engine["items"]] == [item.sha256 for item in prepared.items]
    assert patches["spans"] == [[at, at + 7] for at in range(13, 49, 9)]
    assert (thumbnail["spans"], crops["spans"], places["spans"]) == (
        [[12, 12]],
        [[49, 49], [51, 51]],
        [[50, 50], [52, 52]],
    )
    assert patches["model_specific"] == {
        "part": 0, "page": 0, "grid": [4, 8], "boxes": 2, "to_pixels": [8.0, 0.0, 0.0, 0.0, 8.0, 0.0],
        "pages": 1, "regions": 2,
    }  # fmt: skip
    assert places["model_specific"]["boxes"] == [0, 0, 32, 32, 16, 0, 48, 16]
    assert answer.engine["rows"][13:31] == [*[0] * 8, 21, *[1] * 8, 30]
    assert answer.engine["columns"][13:31] == [*range(8), 21, *range(8), 30]


def test_it_says_what_is_on_the_page(api):
    """From the numbers of three features."""
    answer = api.generate(**REQUEST)

    assert answer.text == "page 0 is 50 % bright; at [0, 0, 500, 1000] it is 0 %; at [250, 0, 750, 500] it is 50 %"
    assert answer.prompt_tokens == len(IDS)


def test_preprocess_shows_the_prompt_and_all_four_features(api):
    """The hint stands first, by the tokenizer of the model's folder; the thumbnail has its normalisation beside it."""
    prepared = api.preprocess(**REQUEST)

    assert list(prepared.input_ids) == IDS
    assert [item.dtype for item in prepared.items] == ["float32", "uint8", "bfloat16", "int64"]
    assert prepared.items[1].raw["feature"]["normalisation"] == {"mean": [127.5] * 3, "std": [127.5] * 3, "copies": 1}
    assert prepared.mrope is not None


@pytest.mark.parametrize(
    ("extensions", "code", "told"),
    [
        ({"multimodal_boxes": [[0, 0, 65, 5]]}, "box_outside_page", "of 64x32 pixels"),
        ({"multimodal_boxes": [[5, 5, 5, 5]]}, "invalid_extensions", "is no box"),
        ({"multimodal_boxes": [[0, 0, 5, 5]] * 9}, "invalid_extensions", "at most 8"),
        ({"multimodal_boxes": [[], []]}, "length_mismatch", "boxes for 2 pages, the request has 1"),
        ({"multimodal_hint": "<page>"}, "invalid_extensions", "the model's own token 256"),
        ({"multimodal_hints": "x"}, "invalid_extensions", "multimodal_hints"),
    ],
)
def test_a_bad_extension_is_refused_with_what_is_wrong(api, extensions, code, told):
    """As the caller's mistake."""
    with pytest.raises(RequestFailedError, match=told) as refusal:
        api.generate(**REQUEST | {"extensions": extensions})

    assert (refusal.value.code, refusal.value.status) == (code, 400)


def test_of_a_film_the_middle_frame_is_the_page(api):
    """The fifth of nine shades of grey, and no other, was decoded to pixels."""
    film = videos.encoded(videos.shades(9))

    answer = api.generate(model="layout-demo", text="<film>", videos=[film])

    grey = (answer.engine["items"][0]["mean"] + 1) * 127.5
    assert abs(grey - videos.shade_of(4)) < 4 < videos.shade_of(5) - videos.shade_of(4)


def test_a_child_was_warm_before_it_took_a_request(deployment):
    """As ``start_worker`` says in the worker's log, with the cores that the child has."""
    assert deployment.find(r"(page reader is warm .*)") == "page reader is warm  child=0 cores=0,1"
