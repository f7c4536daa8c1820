"""The commands for authors: names are judged, nothing is written by halves, and a verdict can be read."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from forebay.cli import GROUP
from forebay.kit.check_command import check_processor
from forebay.kit.new_command import new_processor
from forebay.testing import CHECKS
from tests.support import broken

ROOT = Path(__file__).parents[2]
clean_up = pytest.fixture(autouse=True)(broken.clean_up)


def new(*arguments):
    return CliRunner().invoke(new_processor, [str(one) for one in arguments])


def check(*arguments):
    return CliRunner().invoke(check_processor, arguments)


def test_a_package_has_its_tests_and_its_entry_point(tmp_path):
    """And the processor is the small one that was promised."""
    done = new("my-model", "--dir", tmp_path)

    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        "my-model/pyproject.toml",
        "my-model/README.md",
        "my-model/src/my_model/__init__.py",
        "my-model/src/my_model/processor.py",
        "my-model/tests/test_my_model.py",
    }
    assert '"my-model" = "my_model.processor:MyModel"' in (tmp_path / "my-model/pyproject.toml").read_text()
    assert "@" not in (tmp_path / "my-model/README.md").read_text()
    assert "forebay check-processor my-model" in done.output
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("My Model", "a name has small letters and digits"),
        ("1st", "begins with a letter"),
        ("a" * 61, "at most 60 characters"),
        ("class", "'class' is a word of Python's own"),
        ("qwen2-vl", "an installed package offers a model of that name already"),
        ("json", "Python has a module 'json' already"),
        ("forebay", "that is Forebay itself"),
        ("../up", "a name has small letters"),
    ],
)
def test_a_bad_name_is_refused(tmp_path, name, reason):
    """With the reason, and nothing is written."""
    done = new(name, "--dir", tmp_path / "new")

    assert done.exit_code == 2
    assert reason in done.output
    assert not (tmp_path / "new").exists()


def test_what_is_there_is_not_touched(tmp_path):
    """A second time is refused."""
    (tmp_path / "my-model").mkdir()

    done = new("my-model", "--dir", tmp_path)

    assert done.exit_code == 2
    assert "is there already; nothing was changed" in done.output
    assert [path.name for path in tmp_path.rglob("*")] == ["my-model"]


def test_a_package_that_cannot_be_written_leaves_nothing(tmp_path):
    """Here a file is in the way of the folder."""
    (tmp_path / "file").write_text("")

    done = new("my-model", "--dir", tmp_path / "file" / "below")

    assert done.exit_code == 2
    assert "cannot be written" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_write_that_is_cut_short_leaves_nothing(tmp_path, monkeypatch):
    """The package gets its name when it is whole."""
    from forebay.kit import new_command

    monkeypatch.setattr(new_command, "files_of", lambda name: {"a": "text", "a/b": "a is no folder"})

    done = new("my-model", "--dir", tmp_path)

    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["check-processor", "new-processor", "try-processor"])
def test_a_command_is_offered_by_its_name(name):
    """What pyproject.toml names is there, and says in one line what it does."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]

    command = EntryPoint(name, points[name], GROUP).load()

    assert command.name == name
    assert command.get_short_help_str(200).endswith((".", "?"))


def test_a_sound_processor_is_told_so():
    """A mark for each check, a bar for each item, the verdict; 0 for a shell."""
    done = check("tests.support.broken:Sound", "--calls", "50")

    assert done.exit_code == 0, done.output
    assert all(f"✓ {one.name} " in done.output for one in CHECKS)
    assert "█" in done.output
    assert "Sound is sound (24 passed, 0 failed, 0 not run)" in done.output


def test_a_processor_is_started_as_by_a_worker():
    """Here, in the fresh process and in the forked child: without that this one can make nothing."""
    done = check("tests.support.broken:Warmed", "--calls", "20")

    assert done.exit_code == 0, done.output


def test_a_broken_processor_is_told_what_and_how_to_mend():
    """The rule, what was found, what to do; 1 for a shell."""
    done = check("tests.support.broken:WrongFlag")

    assert done.exit_code == 1
    assert "✗ dtypes: The element type that is told is the one that the bytes have." in done.output
    assert "found: item 0: dtype bfloat16 is carried as uint16, but the array is float32" in done.output
    assert "mend:  Ask work.empty for the dtype that Feature.of is told." in done.output
    assert "WrongFlag breaks the contract" in done.output


def test_one_check_can_be_asked_for():
    """It brings those that it needs, and no other."""
    done = check("tests.support.broken:Sound", "--only", "alone", "--json")

    report = json.loads(done.output)
    assert report["is_sound"]
    assert [one["check"] for one in report["findings"]] == [
        *("capabilities", "result", "ids", "dtypes", "values", "shapes", "spans", "alone")
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no-such-model", "no package offers 'no-such-model'"),
        ("no_such_module:Class", "No module named 'no_such_module'"),
        ("tests.support.broken:Gain", "is not a Processor class"),
        ("qwen2-vl:", "cannot be imported"),
    ],
)
def test_a_processor_that_is_not_there_is_a_usage_error(name, reason):
    """2 for a shell: there is nothing to judge."""
    done = check(name)

    assert done.exit_code == 2
    assert reason in " ".join(done.output.split())


def test_a_module_of_the_folder_one_is_in_is_found(tmp_path, monkeypatch):
    """While a processor is written, nothing is installed."""
    (tmp_path / "beginnings.py").write_text("from tests.support.broken import Sound\nclass First(Sound): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    done = check("beginnings:First", "--calls", "20")

    assert done.exit_code == 0, done.output
    assert os.fspath(tmp_path) not in done.output
