"""Finding model packages by entry point; a broken one harms only its own model."""

import importlib
import sys
from importlib.metadata import EntryPoint

import pytest

from forebay import ConfigurationError, DType, ModelSource, plugins
from forebay.plugins import BrokenPackageError, engine_class, load_processor, names
from tests.support.toys import Toy


@pytest.fixture
def offered(monkeypatch):
    """Entry points as installed packages would offer them; each value names something in this module."""

    def offer(group, **points):
        found = [EntryPoint(name.replace("_", "-"), value, group) for name, value in points.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: [p for p in found if p.group == group])

    return offer


def processors(offered, **values):
    offered(plugins.PROCESSORS, **values)


class NoProcessor:
    """Something else under a processor's entry point."""


def test_the_shipped_families_are_found():
    """Through the same door as a stranger's package."""
    assert {"qwen2-vl", "qwen2.5-vl", "qwen3-vl"} <= set(names(plugins.PROCESSORS))
    assert "qwen2-vl" in names(plugins.ENGINES)


def test_an_unknown_model_is_refused_with_what_is_installed():
    """A typo is seen at once."""
    with pytest.raises(
        ConfigurationError, match=r"no package offers 'qwen9' in forebay\.processors; installed: .*qwen2-vl"
    ):
        load_processor(ModelSource("qwen9"))


def test_a_processor_is_loaded_with_what_is_asked_of_it_for_every_request(offered):
    """Capabilities and fingerprint are taken once."""
    processors(offered, toy="tests.support.toys:Toy")

    loaded = load_processor(ModelSource("toy"))

    assert isinstance(loaded.processor, Toy)
    assert loaded.capabilities.vocabulary == 1000
    assert len(loaded.fingerprint) == 16
    assert loaded.tokenizer is None


def test_the_fingerprint_changes_with_the_settings(offered, monkeypatch):
    """Two with the same one compute the same; so other settings need another."""
    processors(offered, toy="tests.support.toys:Toy")
    before = load_processor(ModelSource("toy")).fingerprint

    monkeypatch.setattr(Toy, "config", lambda self: {"gain": 2})

    assert load_processor(ModelSource("toy")).fingerprint != before


def test_the_fingerprint_changes_with_the_feature_dtype(offered, monkeypatch):
    """Of every processor, also one whose own settings say nothing of it."""
    processors(offered, toy="tests.support.toys:Toy")
    monkeypatch.setattr(Toy, "feature_dtypes", tuple(DType))

    prints = {load_processor(ModelSource("toy", feature_dtype=dtype)).fingerprint for dtype in DType}

    assert len(prints) == len(DType)


def test_a_dtype_that_a_processor_does_not_write_is_refused(offered, monkeypatch):
    """With the model, what was asked for and what there is; float32 alone, where a processor says nothing."""
    processors(offered, toy="tests.support.toys:Toy")
    with pytest.raises(ConfigurationError) as caught:
        load_processor(ModelSource("toy", feature_dtype=DType.UINT8))
    assert str(caught.value) == "model 'toy': its processor writes no uint8 features; it offers: float32"

    monkeypatch.setattr(Toy, "feature_dtypes", (DType.BFLOAT16, DType.UINT8))
    with pytest.raises(ConfigurationError, match=r"writes no float32 features; it offers: bfloat16, uint8$"):
        load_processor(ModelSource("toy"))
    assert load_processor(ModelSource("toy", feature_dtype=DType.UINT8)).processor.model.feature_dtype == "uint8"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("no_such_package:Toy", "cannot be imported: No module named 'no_such_package'"),
        ("tests.support.toys:Nobody", "cannot be imported: "),
        ("tests.forebay.test_plugins:NoProcessor", "is not a Processor class"),
        ("tests.support.toys:loaded", "is not a Processor class"),
    ],
)
def test_a_broken_package_is_named(offered, value, told):
    """The operator reads which model, which object and why."""
    processors(offered, broken=value)

    with pytest.raises(ConfigurationError, match=r"forebay\.processors: broken") as caught:
        load_processor(ModelSource("broken"))

    assert told in str(caught.value)
    assert value in str(caught.value)


def test_two_packages_with_one_name_are_refused(monkeypatch):
    """Whichever came first must not win silently; the same object twice is no quarrel."""
    group = plugins.PROCESSORS
    one, other = EntryPoint("toy", "tests.support.toys:Toy", group), EntryPoint("toy", "other:Toy", group)

    monkeypatch.setattr(plugins, "entry_points", lambda group: [one, one])
    assert load_processor(ModelSource("toy")).name == "toy"

    monkeypatch.setattr(plugins, "entry_points", lambda group: [one, other])
    with pytest.raises(ConfigurationError, match=r"several packages offer 'toy' in forebay\.processors"):
        load_processor(ModelSource("toy"))


def test_a_model_without_an_engine_has_none(offered, tmp_path):
    """Preprocessing works without one; an engine that needs a folder is none without it."""
    assert engine_class(ModelSource("qwen3-vl")) is None
    assert engine_class(ModelSource("qwen2-vl")) is None
    assert engine_class(ModelSource("qwen2-vl", tmp_path)).__name__ == "Qwen2VLEngine"


def test_a_folders_tokenizer_serves_a_processor_without_one_of_its_own(offered, tmp_path):
    """One that is no tokenizer is named; a model without a folder has none."""
    processors(offered, toy="tests.support.toys:Toy")
    (tmp_path / "tokenizer.json").write_text("{}")

    with pytest.raises(ConfigurationError, match=r"tokenizer\.json: not a tokenizer"):
        load_processor(ModelSource("toy", tmp_path))
    assert load_processor(ModelSource("toy")).tokenizer is None


# whose processor


def test_a_model_may_have_the_processor_of_another_name(offered):
    """Two models of one family, each under a name of its own."""
    processors(offered, toy="tests.support.toys:Toy")

    loaded = load_processor(ModelSource("my-toy", processor="toy"))

    assert (loaded.name, type(loaded.processor)) == ("my-toy", Toy)
    assert loaded.fingerprint != load_processor(ModelSource("toy")).fingerprint


def write_module(folder, name, gain):
    (folder / f"{name}.py").write_text(f"from tests.support.toys import Toy\n\n\nclass Mine(Toy):\n    gain = {gain}\n")


def test_a_class_in_the_folder_where_one_works_needs_no_package(tmp_path, monkeypatch):
    """``module:Class``; its source is its version, so that the cache forgets what older code has made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if entry])
    fingerprints = []
    for gain in (1, 2):
        write_module(tmp_path, "my_dev_module", gain)
        monkeypatch.delitem(sys.modules, "my_dev_module", raising=False)
        importlib.invalidate_caches()
        loaded = load_processor(ModelSource("mine", processor="my_dev_module:Mine"))
        fingerprints.append(loaded.fingerprint)
        assert (loaded.name, type(loaded.processor).__name__) == ("mine", "Mine")
    monkeypatch.delitem(sys.modules, "my_dev_module")

    assert fingerprints[0] != fingerprints[1]


@pytest.mark.parametrize("value", ["no_such_module:Mine", "json:Nothing", "json:JSONEncoder"])
def test_a_class_that_is_not_there_is_named(value):
    """Import, attribute, kind."""
    with pytest.raises(BrokenPackageError, match=value):
        load_processor(ModelSource("mine", processor=value))


def test_a_package_that_fails_to_start_is_named(offered):
    """Whatever its constructor raises; the operator's own mistakes stay what they are."""
    processors(offered, sick="tests.forebay.test_plugins:Sick")

    with pytest.raises(BrokenPackageError, match=r"test_plugins:Sick fails to start: ZeroDivisionError"):
        load_processor(ModelSource("sick"))


class Sick(Toy):
    """Has a bad day."""

    def capabilities(self):
        return 1 / 0


def test_only_allowed_packages_are_loaded():
    """By distribution, however its name is spelled; a class that the operator names needs no leave."""
    model = ModelSource("efficientnet-lite0")
    assert load_processor(model, ["Forebay_EfficientNet.lite0"]).name == "efficientnet-lite0"
    with pytest.raises(ConfigurationError, match="'efficientnet-lite0' is of forebay-efficientnet-lite0, which is not"):
        load_processor(model, ["forebay"])
    assert load_processor(ModelSource("mine", processor="tests.support.toys:Toy"), ["forebay"]).name == "mine"


def test_only_engines_of_allowed_packages_are_loaded():
    """They are code, too, and the launcher itself asks for them."""
    model = ModelSource("efficientnet-lite0")
    assert engine_class(model, ["forebay-efficientnet-lite0"]) is not None
    with pytest.raises(ConfigurationError, match="which is not allowed"):
        engine_class(model, ["forebay"])


def test_a_class_of_a_namespace_has_its_own_source_as_its_version(tmp_path, monkeypatch):
    """Not whatever else lies in the folder where one works, nor an editor's link to nowhere."""
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "my_namespace"
    package.mkdir()
    (package / ".#mine.py").symlink_to("nowhere")
    fingerprints = []
    for gain in (1, 2):
        write_module(package, "mine", gain)
        for name in ("my_namespace", "my_namespace.mine"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        fingerprints.append(load_processor(ModelSource("mine", processor="my_namespace.mine:Mine")).fingerprint)
    for name in ("my_namespace", "my_namespace.mine"):
        monkeypatch.delitem(sys.modules, name)

    assert fingerprints[0] != fingerprints[1]


def test_an_engine_is_found_by_the_models_name_or_its_processors(tmp_path):
    """A folder under another name runs all the same."""
    assert engine_class(ModelSource("mine", tmp_path, processor="qwen2-vl")).__name__ == "Qwen2VLEngine"
    assert engine_class(ModelSource("mine", tmp_path, processor="tests.support.toys:Toy")) is None
