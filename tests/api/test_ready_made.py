"""A feature in the place of media: what is read of it, and what is refused before a worker hears of it."""

import json
from base64 import b64encode
from hashlib import sha256

import numpy as np
import pytest

from api.body import read_call
from api.ready_made import check_allowed, packed
from api.reels import check_not_ours
from forebay import DType, Rejected
from forebay.client import ready_made
from handoff.ready_made import SentFeature, is_ready_made, unpack

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
PICTURE = ready_made(VALUES.tobytes(), "float32", VALUES.shape, height=28, width=56)


def source_of(item: object, field: str = "image_data"):
    return read_call(json.dumps({"text": "Hi", field: item}).encode()).only.sources[0]


def test_it_travels_on_as_it_was_sent():
    """Elements, element type, shape, and what it was made of."""
    data = packed(source_of(PICTURE), 1 << 20)

    feature, made_of = unpack(data)
    assert is_ready_made(data)
    assert (feature.dtype, feature.shape, made_of) == (DType.FLOAT32, (2, 3), {"height": 28, "width": 56})
    assert feature.array.tobytes() == VALUES.tobytes()


def test_a_video_has_other_numbers_than_a_picture():
    """And what else a caller writes is not carried."""
    video = ready_made(b"12", "uint8", [1, 2, 1], frames=4, fps=2.0, height=28, width=28)
    video["feature"]["normalisation"] = {"mean": [1.0, 2.0], "std": [3.0, 4.0], "copies": 2}

    feature, made_of = unpack(packed(source_of(video, "video_data"), 1 << 20))

    assert feature.normalisation is None
    assert made_of == {"frames": 4, "fps": 2.0, "height": 28, "width": 28}


def changed(**fields: object) -> dict[str, object]:
    return {**PICTURE, **fields}


FEATURE = PICTURE["feature"]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (changed(feature=None), "image_data.feature"),
        (changed(feature={**FEATURE, "dtype": "float64"}), "image_data.feature.dtype: .*'float32'"),
        (changed(feature={**FEATURE, "shape": [2, -3]}), r"image_data.feature.shape.1: .*greater than or equal to 1"),
        (changed(feature={**FEATURE, "shape": [1] * 9}), "image_data.feature.shape: .*at most 8 items"),
        (changed(feature={**FEATURE, "shape": []}), "image_data.feature.shape: .*at least 1 item"),
        (changed(made_of={"height": 28}), "image_data.made_of.width is missing"),
        (changed(made_of={"height": 28, "width": 0}), "image_data.made_of.width"),
        (changed(made_of={"samples": 28}), "height is missing; what a picture is made of is told by height, width"),
        (changed(made_of={"height": 28, "width": 28, "frames": 4}), "image_data.made_of.frames says nothing"),
        (changed(image_grid_thw=[1, 2, 2]), "image_data.image_grid_thw: Extra inputs are not permitted"),
        (changed(feature={**FEATURE, "dtype": "float16"}), "image_data.feature.dtype: .*, not 'float16'"),
    ],
)
def test_what_is_none_is_refused_by_its_field(item, said):
    """Before anything is decoded."""
    with pytest.raises(Rejected, match=said) as refused:
        source_of(item)

    assert refused.value.code == "invalid_precomputed"


@pytest.mark.parametrize(
    ("name", "said"),
    [("precomputed_embedding", "is 'precomputed_embedding'; .*'processor_output'"), (3, "is a number")],
)
def test_a_format_that_nobody_reads_is_told(name, said):
    """SGLang has another one."""
    with pytest.raises(Rejected, match=f"image_data.format {said}") as refused:
        source_of(changed(format=name))

    assert refused.value.code == "invalid_media"


def test_a_length_that_is_not_the_shapes_is_told_with_both():
    """Declared shape against length."""
    item = changed(feature={**FEATURE, "shape": [3, 3]})

    with pytest.raises(Rejected, match=r"image_data.feature.data is 24 bytes; float32 \[3, 3\] has 36"):
        packed(source_of(item), 1 << 20)


def test_what_the_api_has_answered_may_be_sent_back_as_it_is():
    """Its bytes are called base64 there; its hash is held against them."""
    told = {key: value for key, value in FEATURE.items() if key != "data"} | {"base64": FEATURE["data"]}
    digest = sha256(VALUES.tobytes()).hexdigest()

    feature, _ = unpack(packed(source_of(changed(feature={**told, "sha256": digest})), 1 << 20))
    assert feature.array.tobytes() == VALUES.tobytes()
    with pytest.raises(Rejected, match=f"feature.sha256 is 'x'; that of the data is {digest}"):
        packed(source_of(changed(feature={**told, "sha256": "x"})), 1 << 20)


def test_what_is_no_base64_and_what_is_too_large_are_refused():
    """By the limit of ready-made features, not by that of media."""
    junk = changed(feature={**FEATURE, "data": "?"})

    with pytest.raises(Rejected, match="invalid base64"):
        packed(source_of(junk), 1 << 20)
    with pytest.raises(Rejected, match="24 bytes; the limit is 23") as refused:
        packed(source_of(PICTURE), 23)
    assert refused.value.status == 413


def test_none_is_taken_where_the_deployment_does_not_say_so():
    """Off by default."""
    with pytest.raises(Rejected, match="image_data: this deployment takes no ready-made features") as refused:
        check_allowed(source_of(PICTURE), 0)

    assert refused.value.code == "precomputed_off"


def test_nobody_but_the_api_writes_one():
    """As a file, it would be past the limits and the switch."""
    data = SentFeature(DType.UINT8, (1,), {"height": 1, "width": 1}).pack(b"1")

    with pytest.raises(Rejected, match="image_data is no media file"):
        check_not_ours(data, "image_data")


def test_its_data_are_no_source():
    """Neither an upload's id nor a URL is looked up."""
    item = changed(feature={**FEATURE, "data": "https://example.org/x"})

    assert not source_of(item).is_elsewhere


def test_one_for_a_whole_batch_counts_for_each():
    """As media do."""
    body = {"text": ["a", "b"], "image_data": changed(feature={**FEATURE, "data": b64encode(bytes(40 << 20)).decode()})}

    with pytest.raises(Rejected) as refused:
        read_call(json.dumps(body).encode())
    assert refused.value.code == "broadcast_too_large"
