"""Sizes, counts and limits that nobody chose, in both modes of resizing, against Hugging Face's own processors."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from forebay import ModelSource, testing
from processors.pixels.modes import Resample
from processors.qwen_vl import Qwen2VL, Qwen3VL
from tests.processors.pictures import landscape, noise
from tests.support.long import LONG
from tests.support.tiny_qwen import PREPROCESSOR, config

pytestmark = pytest.mark.parity

EXAMPLES = 200 if LONG else 4
START, PAD, END = 151_652, 151_655, 151_653
SUFFIX = {Resample.TORCHVISION: "", Resample.PIL: "Pil"}
sides = st.one_of(st.integers(1, 60), st.integers(1, 400))
sizes = st.tuples(sides, sides).filter(lambda size: max(size) <= 200 * min(size))
limits = st.tuples(st.integers(1, 40_000), st.integers(0, 80_000)).map(lambda two: (two[0], two[0] + two[1]))


def limited(cls, resample, smallest, largest):
    """A family with limits of somebody's own."""
    geometry = replace(cls.defaults.geometry, min_pixels=smallest, max_pixels=largest)
    defaults = replace(cls.defaults, geometry=geometry, resample=resample)
    return type(cls.__name__, (cls,), {"defaults": defaults})(ModelSource("any"))


@pytest.mark.parametrize("resample", SUFFIX)
@pytest.mark.parametrize("cls", [Qwen2VL, Qwen3VL], ids=["qwen2-vl", "qwen3-vl"])
@settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(several=st.lists(sizes, min_size=1, max_size=4), bounds=limits, close=st.booleans(), seed=st.integers(0, 999))
def test_any_pictures_are_bit_equal_and_keep_their_places(transformers, cls, resample, several, bounds, close, seed):
    """Pixels, grids and the tokens of each, placeholders with words between them or without."""
    ours = limited(cls, resample, *bounds)
    geometry, normalisation = ours.settings.geometry, ours.settings.normalisation
    theirs = getattr(transformers, f"Qwen2VLImageProcessor{SUFFIX[resample]}")(
        patch_size=geometry.patch,
        merge_size=geometry.merge,
        size={"shortest_edge": bounds[0], "longest_edge": bounds[1]},
        image_mean=list(normalisation.mean),
        image_std=list(normalisation.std),
    )
    pixels = [(noise, landscape)[number % 2](*size, seed=seed + number) for number, size in enumerate(several)]
    prompt = [PAD] * len(pixels) if close else [token for _ in pixels for token in (START, PAD, END, 9)]

    expected = theirs(images=[Pillow.fromarray(one) for one in pixels], return_tensors="np")
    output = testing.run_processor(ours, [testing.image(one) for one in pixels], input_ids=prompt)

    grids = expected["image_grid_thw"].tolist()
    assert [item.model_specific["image_grid_thw"] for item in output.items] == grids
    joined = np.concatenate([item.feature.array for item in output.items])
    assert joined.tobytes() == expected["pixel_values"].tobytes()
    tokens = [t * h * w // geometry.merge**2 for t, h, w in grids]
    assert [item.spans[0].length for item in output.items] == tokens
    covered = [at for item in output.items for at in range(item.spans[0].first, item.spans[0].last + 1)]
    assert covered == np.flatnonzero(output.input_ids == PAD).tolist()


def test_a_folder_chooses_the_mode_by_the_class_it_names(transformers, tmp_path):
    """``…Pil`` is Pillow's arithmetic; its fingerprint is another, and so is every cached feature's key."""
    config().save_pretrained(tmp_path)
    found = {}
    for resample, suffix in SUFFIX.items():
        named = {**PREPROCESSOR, "image_processor_type": f"Qwen2VLImageProcessor{suffix}"}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(named))
        processor = Qwen2VL(ModelSource("qwen2-vl", tmp_path))
        found[json.dumps(processor.config())] = processor.settings.resample
        assert processor.settings.resample is resample

    assert list(found.values()) == list(SUFFIX)


def test_the_modes_differ_where_it_is_told(transformers):
    """By few levels: 2 of 255 where Pillow keeps its order of passes, which is all that normalised values tell."""
    picture = testing.image(landscape(300, 401))
    arrays = [limited(Qwen2VL, resample, 3136, 12_845_056) for resample in SUFFIX]
    first, second = (testing.run_processor(one, [picture], input_ids=[PAD]).items[0].feature.array for one in arrays)

    level = max(1 / 255 / deviation for deviation in Qwen2VL.defaults.normalisation.std)
    difference = np.abs(first - second).max()
    assert 0 < difference <= 2.01 * level
