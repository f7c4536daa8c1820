"""The report of parity is of what is shipped, and of the versions that are pinned."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPORT = (ROOT / "docs" / "parity.md").read_text()
ROW = re.compile(r"^\| ([^|]+?) \| (\w+) \| (\w+) \| (\d+) \| (\d+) \| (\S+) \|$", re.MULTILINE)
NAMES = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["forebay.processors"]
AUDIO_TOLERANCE = 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_every_processor_is_in_the_report_and_in_its_document(name):
    """A family that nobody compared is a family that nobody knows."""
    document = (ROOT / "docs" / "processors.md").read_text()

    assert f"`{name}`" in document
    assert f"`{name}`" in REPORT or re.search(rf"^\| {re.escape(name)} \|", REPORT, re.MULTILINE)


def test_what_is_not_bit_equal_is_audio_and_within_its_tolerance():
    """As promised: pictures and videos to the bit."""
    rows = ROW.findall(REPORT)

    assert len(rows) > 30
    for family, modality, mode, compared, equal, largest in rows:
        assert int(compared) > 0, family
        if modality == "audio":
            assert float(largest) <= AUDIO_TOLERANCE, family
        else:
            assert (equal, largest) == (compared, "0"), (family, mode)


@pytest.mark.parametrize("package", ["transformers", "pillow", "numpy"])
def test_the_report_is_of_the_versions_that_are_installed(package):
    """With another release it is to be made again: `make parity`."""
    assert f"{package} {version(package)}" in REPORT
