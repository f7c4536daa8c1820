"""The conformance suite finds each of twelve faults, by the check that names it, and finds nothing else."""

from __future__ import annotations

import pytest

from forebay import ModelSource
from forebay.testing import CHECKS, Verdict, examine
from tests.support import broken
from tests.support.broken import FOUND_BY, Sound

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
