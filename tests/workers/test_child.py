"""What a child of the worker opens."""

import pytest
from click.testing import CliRunner

from forebay import ConfigurationError, DType
from forebay.settings import load
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


def test_the_option_may_be_given_again(monkeypatch):
    """A general dtype and those of single models; nothing starts with one for a model that is not there."""
    monkeypatch.setenv("FOREBAY_SECRET", SECRET)
    options = ["--model", "toy", "--feature-dtype", "bfloat16", "--feature-dtype", "other=uint8"]

    refused = CliRunner().invoke(worker, options)

    assert refused.exit_code == 2
    assert "feature dtype other=uint8: not among the models (toy)" in refused.output
