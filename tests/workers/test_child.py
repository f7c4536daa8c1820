"""What a child of the worker opens."""

import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from forebay import ConfigurationError, DType, Modality
from forebay.settings import load
from tests.support.toys import Toy
from workers.child import load_all
from workers.command import worker
from workers.settings import WorkerSettings

SECRET = "0123456789abcdef"


def test_a_child_loads_each_model_with_its_own_feature_dtype(monkeypatch):
    """One of them may have small features while another has float32."""
    monkeypatch.setenv("FOREBAY_SECRET", SECRET)
    given = {"FOREBAY_MODELS": "qwen2-vl,qwen3-vl", "FOREBAY_FEATURE_DTYPE": "qwen2-vl=uint8"}

    processors, broken = load_all(load(WorkerSettings, given))

    assert {name: loaded.processor.model.feature_dtype for name, loaded in processors.items()} == {
        "qwen2-vl": DType.UINT8,
        "qwen3-vl": DType.FLOAT32,
    }
    assert broken == {}


def test_a_broken_package_harms_only_its_own_model(monkeypatch):
    """The others are served; with none left there is nothing to run."""
    monkeypatch.setenv("FOREBAY_SECRET", SECRET)
    given = {"FOREBAY_MODELS": "qwen2-vl,mine", "FOREBAY_PROCESSOR": "mine=no_such_module:Mine"}

    processors, broken = load_all(load(WorkerSettings, given))

    assert list(processors) == ["qwen2-vl"]
    assert broken == {
        "mine": "forebay.processors: mine (no_such_module:Mine) cannot be imported: No module named 'no_such_module'"
    }
    with pytest.raises(ConfigurationError, match="No module named 'no_such_module'"):
        load_all(load(WorkerSettings, given | {"FOREBAY_MODELS": "mine"}))


class NoSampler(Toy):
    """Takes videos, and does not say which of their frames."""

    def capabilities(self):
        return replace(super().capabilities(), modalities={Modality.VIDEO: 1}, placeholders={Modality.VIDEO: 9})


class SaysNo(Toy):
    """Does not like its folder."""

    def __init__(self, model):
        raise ConfigurationError(f"{model.name}/config.json: key 'size' is missing")


class Exits(Toy):
    """Thinks that it is alone in its process."""

    def __init__(self, model):
        sys.exit("no licence")


@pytest.mark.parametrize(
    ("guest", "reason"),
    [
        ("NoSampler", "model 'two': its processor takes videos, but has no sample_frames"),
        ("SaysNo", "two/config.json: key 'size' is missing"),
        ("Exits", "model 'two': its processor tests.workers.test_child:Exits fails to start: SystemExit: no licence"),
    ],
)
def test_whatever_a_package_raises_harms_only_its_own_model(monkeypatch, guest, reason):
    """A mistake of the operator's own, a name that nobody offers, ends the worker; what a package says does not."""
    monkeypatch.setenv("FOREBAY_SECRET", SECRET)
    given = {"FOREBAY_MODELS": "one,two", "FOREBAY_PROCESSOR": f"one=tests.support.toys:Toy,two={__name__}:{guest}"}

    processors, broken = load_all(load(WorkerSettings, given))

    assert list(processors) == ["one"]
    assert broken == {"two": reason}


def test_a_module_that_exits_when_it_is_imported_harms_only_its_own_model(monkeypatch, tmp_path):
    """As a script does that somebody made a module of."""
    monkeypatch.setenv("FOREBAY_SECRET", SECRET)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaving_guest.py").write_text("raise SystemExit(3)\n")
    given = {"FOREBAY_MODELS": "one,two", "FOREBAY_PROCESSOR": "one=tests.support.toys:Toy,two=leaving_guest:Mine"}

    processors, broken = load_all(load(WorkerSettings, given))

    assert list(processors) == ["one"]
    assert broken["two"].endswith("(leaving_guest:Mine) cannot be imported: SystemExit: 3")


def test_the_option_may_be_given_again(monkeypatch):
    """A general dtype and those of single models; nothing starts with one for a model that is not there."""
    monkeypatch.setenv("FOREBAY_SECRET", SECRET)
    options = ["--model", "toy", "--feature-dtype", "bfloat16", "--feature-dtype", "other=uint8"]

    refused = CliRunner().invoke(worker, options)

    assert refused.exit_code == 2
    assert "feature dtype other=uint8: not among the models (toy)" in refused.output
