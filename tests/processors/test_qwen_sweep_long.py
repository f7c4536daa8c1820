"""Sizes, counts and limits that nobody chose, in both modes of resizing, against Hugging Face's own processors."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay import ModelSource, testing
from processors.qwen_vl import Qwen2VL
from tests.processors.films import film
from tests.processors.pictures import landscape, noise
from tests.processors.qwen_prompts import FAMILIES, PICTURE, SUFFIX, VIDEO, Film, Request, differences, prepared
from tests.support.tiny_qwen import PREPROCESSOR, config

pytestmark = pytest.mark.parity

EXAMPLES = 150
PAD = 151_655
sides = st.one_of(st.integers(1, 60), st.integers(1, 400))
sizes = st.tuples(sides, sides).filter(lambda size: max(size) <= 200 * min(size))
limits = st.tuples(st.integers(1, 40_000), st.integers(0, 80_000)).map(lambda two: (two[0], two[0] + two[1]))


films = st.tuples(
    st.integers(2, 9), st.integers(14, 120), st.integers(14, 120), st.sampled_from([1.0, 2.0, 12.5, 30.0])
)


def limited(cls, resample, smallest, largest):
    """A family with limits of somebody's own."""
    geometry = replace(cls.defaults.geometry, min_pixels=smallest, max_pixels=largest)
    return with_defaults(cls, geometry=geometry, resample=resample)


def with_defaults(cls, **changes):
    return type(cls.__name__, (cls,), {"defaults": replace(cls.defaults, **changes)})(ModelSource("any"))


@st.composite
def requests(draw):
    """Up to three pictures and two videos in any order, with words between them or without, and limits of any kind."""
    stills = [noise(*size, seed=number) for number, size in enumerate(draw(st.lists(sizes, max_size=3)))]
    wanted = draw(st.lists(films, min_size=not stills, max_size=2))
    moving = [Film(film(*size, seed=number), fps) for number, (*size, fps) in enumerate(wanted)]
    marks = draw(st.permutations([PICTURE] * len(stills) + [VIDEO] * len(moving)))
    text = draw(st.sampled_from(["", "Look: "])) + draw(st.sampled_from(["", " and\n"])).join(marks)
    given = {}
    for prefix in ("multimodal_", "multimodal_video_"):
        smallest, largest = draw(limits)
        given |= draw(
            st.sampled_from([{}, {"min": smallest}, {"max": largest}, {"min": smallest, "max": largest}]).map(
                lambda two, prefix=prefix: {f"{prefix}{name}_pixels": value for name, value in two.items()}
            )
        )
    return Request(text, stills, moving, given)


@pytest.mark.parametrize("resample", SUFFIX)
@pytest.mark.parametrize("cls", FAMILIES.values(), ids=FAMILIES)
@settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(request=requests())
def test_any_request_is_equal_to_the_last_position(transformers, cls, resample, request):
    """Ids, features, grids, seconds, M-RoPE positions: of images, videos and mixes, as the family's own processor."""
    processor = with_defaults(cls, resample=resample)

    assert differences(transformers, processor, request, prepared(processor, request)) == []


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
