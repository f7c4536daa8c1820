"""The conformance suite finds each of twelve faults, by the check that names it, and finds nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from forebay import DType, ModelSource, Planned
from forebay.testing import CHECKS, Fault, Verdict, check_processor, examine, image
from processors.qwen_vl import Qwen2VL
from tests.support import broken
from tests.support.broken import FOUND_BY, PICTURE, BlindKey, Gain, Sound
from tests.support.tiny_qwen import write_settings

ROOT = Path(__file__).parents[2]
MODEL = ModelSource("mine")
clean_up = pytest.fixture(autouse=True)(broken.clean_up)


def verdicts(report):
    return {finding.check: finding.verdict for finding in report.findings}


def test_a_sound_processor_passes_every_check():
    """None is left out, so each of them has been seen to pass."""
    report = examine(Sound(MODEL))

    assert verdicts(report) == {check.name: Verdict.PASSED for check in CHECKS}
    assert report.timings


@pytest.mark.parametrize("cls", FOUND_BY, ids=lambda cls: cls.__name__)
def test_each_fault_is_found_by_the_check_that_names_it(cls):
    """And by that one alone: what depends on it is not run."""
    report = examine(cls(MODEL), calls=200)

    assert [finding.check for finding in report.failed] == [FOUND_BY[cls]], report


def test_twelve_faults_are_seeded():
    """Two of them may not be the same one."""
    assert len(FOUND_BY) == len(set(FOUND_BY.values())) == 12


def test_qwen_is_sound_from_a_folder(tmp_path):
    """Images and videos, six options, limits from the folder's settings; the memory check in its short form."""
    folder = write_settings(tmp_path, max_pixels=28 * 28 * 16)

    report = examine(Qwen2VL(ModelSource("qwen2-vl", folder)), calls=10)

    assert [str(one) for one in report.failed] == []
    assert {finding.check for finding in report.findings if finding.verdict is Verdict.NOT_RUN} == set()


def test_an_authors_own_request_is_held_to_what_one_request_can_tell():
    """No other process, no thousand calls; the output of the request comes back."""
    picture = image([[[0, 0, 0]], [[3, 6, 9]]])

    output = check_processor(Sound(MODEL), [picture], input_ids=[PICTURE], extensions={"multimodal_gain": 2})

    assert output.items[0].feature.array.tolist() == [[0, 0, 0], [6, 12, 18]]


def test_what_is_broken_fails_a_test_with_every_rule():
    """The text of the error is all that pytest shows."""
    with pytest.raises(Fault, match=r"BlindKey breaks the contract:\n  key: image: with multimodal_gain="):
        check_processor(BlindKey(MODEL), calls=10)


def test_an_option_hidden_from_the_key_is_found():
    """A field that is left out of what is dumped is in no key, whatever item_fields says."""

    class Hidden(Gain):
        multimodal_gain: Annotated[int, Field(ge=1, le=4, exclude=True)] = 1

    class Blind(Sound):
        def capabilities(self):
            return replace(super().capabilities(), extensions=Hidden)

    report = examine(Blind(MODEL), only=["key"])

    assert [one.check for one in report.failed] == ["key"]


def test_a_misspelt_option_that_is_taken_is_found():
    """A model that ignores what it does not know leaves the caller in the dark."""

    class Lax(BaseModel):
        multimodal_gain: int = 1

    class Careless(Sound):
        def capabilities(self):
            return replace(super().capabilities(), extensions=Lax)

    report = examine(Careless(MODEL), only=["extensions"])

    assert "use extra='forbid'" in report.failed[0].detail


def test_a_size_that_ends_in_a_fault_is_named():
    """Whatever a caller sends is a result or a refusal."""

    class Halving(Sound):
        def process_item(self, media, work):
            media.height // (media.width // 2)
            return super().process_item(media, work)

    report = examine(Halving(MODEL), only=["fuzz"])

    said = "image [1, 1] ends in ZeroDivisionError: integer division or modulo by zero"
    assert re.fullmatch(rf"{re.escape(said)} \(test_conformance.py:\d+ in process_item\)", report.failed[0].detail)


def test_memory_that_grows_is_found():
    """A list that gets longer with every request, though by little."""

    class Growing(Sound):
        def __init__(self, model):
            super().__init__(model)
            self.seen = []

        def process_item(self, media, work):
            self.seen.append([str(media.height), str(media.width)])
            return super().process_item(media, work)

    report = examine(Growing(MODEL), only=["memory"], calls=200)

    assert [one.check for one in report.failed] == ["memory"]


def test_a_plan_that_leaves_out_what_the_model_reads_is_found():
    """Of a feature that a caller has made, the plan is all that is known."""

    class Forgetful(Sound):
        def process_item(self, media, work):
            return replace(super().process_item(media, work), model_specific={"lines": media.height})

    report = examine(Forgetful(MODEL), only=["plan"])

    assert "planned model_specific is {}, made is {'lines': " in report.failed[0].detail


def test_a_plan_that_is_not_kept_is_found():
    """Room is reserved by it."""

    class Hopeful(Sound):
        def plan_item(self, media):
            return Planned((1, 3), DType.FLOAT32, 1)

    report = examine(Hopeful(MODEL), only=["plan"])

    assert "12 bytes are reserved, the feature has 732" in report.failed[0].detail


def test_a_check_that_there_is_not_is_an_error():
    """A misspelt name would pass for ever."""
    with pytest.raises(ValueError, match="there is no check 'speed'"):
        examine(Sound(MODEL), only=["speed"])


def test_every_check_is_explained_to_authors():
    """docs/authors.md has a row for each, in their order, and what it says to mend is what the command says."""
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \| (.*) \|$", (ROOT / "docs/authors.md").read_text(), re.MULTILINE)

    assert [(name, mend) for name, _, mend in rows] == [(check.name, check.mend) for check in CHECKS]
