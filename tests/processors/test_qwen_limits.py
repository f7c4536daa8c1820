"""Limits of a request's own for the size of its images."""

import pytest
from PIL import Image as Pillow

from forebay import ModelSource, Rejected, testing
from forebay.drive import typed_extensions
from processors.qwen_vl import Qwen2VL, Qwen3VL
from tests.processors.pictures import landscape

PAD = 151_655
PICTURE = landscape(300, 401)


@pytest.fixture(scope="module", params=[Qwen2VL, Qwen3VL], ids=["qwen2-vl", "qwen3-vl"])
def processor(request):
    return request.param(ModelSource("any"))


def prepared(processor, **limits):
    extensions = {f"multimodal_{name}": value for name, value in limits.items()}
    output = testing.run_processor(processor, [testing.image(PICTURE)], input_ids=[PAD], extensions=extensions)
    return output.items[0]


@pytest.mark.parity
@pytest.mark.parametrize(
    "limits", [{"max_pixels": 40_000}, {"min_pixels": 400_000}, {"min_pixels": 50_000, "max_pixels": 60_000}]
)
def test_each_limit_counts_alone_and_both_together(transformers, processor, limits):
    """What Hugging Face gives under the same limits, bit for bit."""
    geometry, normalisation = processor.settings.geometry, processor.settings.normalisation
    most = limits.get("max_pixels", geometry.max_pixels)
    theirs = transformers.Qwen2VLImageProcessor(
        patch_size=geometry.patch,
        size={"shortest_edge": limits.get("min_pixels", min(geometry.min_pixels, most)), "longest_edge": most},
        image_mean=list(normalisation.mean),
        image_std=list(normalisation.std),
    )

    expected = theirs(images=[Pillow.fromarray(PICTURE)], return_tensors="np")

    item = prepared(processor, **limits)
    assert item.model_specific["image_grid_thw"] == expected["image_grid_thw"][0].tolist()
    assert item.feature.array.tobytes() == expected["pixel_values"].tobytes()


def test_no_limit_leaks_to_the_next_request(processor):
    before = prepared(processor)
    small = prepared(processor, max_pixels=20_000)
    after = prepared(processor)

    assert small.tokens < before.tokens
    assert after.feature.array.tobytes() == before.feature.array.tobytes()


def test_room_is_planned_for_what_the_request_will_be_given(processor):
    """The reservation, ``/v1/plan`` and the check of the context all ask the same."""
    extensions = typed_extensions(processor.capabilities(), {"multimodal_min_pixels": 500_000})
    media = testing.image(PICTURE)

    item = prepared(processor, min_pixels=500_000)

    assert processor.feature_bytes_with(media, extensions) == item.feature.size_bytes
    assert processor.plan_with(media, extensions).tokens == item.tokens
    assert processor.feature_bytes(media) < item.feature.size_bytes


def test_a_largest_below_the_models_smallest_is_kept(processor):
    """Else a small picture would be enlarged past what the request allows."""
    item = prepared(processor, max_pixels=2_000)

    assert item.tokens * processor.settings.geometry.factor**2 <= 2_000


@pytest.mark.parametrize("name", ["min_pixels", "max_pixels"])
def test_more_than_the_model_takes_is_refused_with_both_numbers(processor, name):
    """A caller may not make a small picture into a large one at everybody's cost."""
    most = processor.settings.geometry.max_pixels
    with pytest.raises(Rejected) as caught:
        prepared(processor, **{name: most + 1})

    assert (caught.value.code, caught.value.param) == ("invalid_extensions", f"multimodal_{name}")
    assert f"{most + 1}; the model takes at most {most}" in caught.value.message


@pytest.mark.parametrize("limits", [{"min_pixels": 5000, "max_pixels": 4000}, {"max_pixels": 0}, {"min_pixels": "no"}])
def test_limits_that_are_none_are_refused(processor, limits):
    with pytest.raises(Rejected) as caught:
        prepared(processor, **limits)

    assert caught.value.code == "invalid_extensions"
