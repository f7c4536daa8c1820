"""What ``/v1/preprocess`` tells of features."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from forebay import DType, Feature, Item, Modality, Normalisation, Output, Positions, Prompt, Span
from forebay.task import Kind, TaskBody
from handoff.media import Spool
from workers.results import describe

FEATURE = Feature.of(np.arange(6, dtype=np.float32).reshape(2, 3), DType.FLOAT32)
ITEM = Item(Modality.IMAGE, FEATURE, (Span(1, 2),), 2, hash=255, digest="sha256:x", model_specific={"grid": [1, 2]})
OUTPUT = Output(np.array([5, 7, 7]), (ITEM,), Positions(np.zeros((3, 3), np.int64), -1))
RAW = FEATURE.array.tobytes()


@pytest.fixture
def store(tmp_path):
    return Spool(tmp_path)


def told(store, features, output=OUTPUT):
    body = TaskBody(Kind.PREPROCESS, Prompt(ids=(1,)), features=features)
    return describe(output, body, store, [True] * len(output.items))


def test_a_result_is_described_without_its_features(store):
    """Spans are inclusive, the identity is hex of 64 bits."""
    result = told(store, "none")

    assert result == {
        "input_ids": [5, 7, 7],
        "items": [
            {
                "modality": "image",
                "offsets": [[1, 2]],
                "hash": "00000000000000ff",
                "digest": "sha256:x",
                "cached": True,
                "feature": {"dtype": "float32", "shape": [2, 3]},
                "model_specific_data": {"grid": [1, 2]},
            }
        ],
        "mrope": {"positions": [[0, 0, 0]] * 3, "delta": -1},
    }
    assert list(store.folder.iterdir()) == []


def test_pixels_are_described_with_how_to_normalise_them(store):
    """Whoever reads the bytes needs it; other features have no such key."""
    pixels = Feature.of(np.zeros((2, 1, 3), np.uint8), DType.UINT8, Normalisation((0.5,), (127.5,), 2))
    output = Output(np.array([5, 7, 7]), (replace(ITEM, feature=pixels),))

    assert told(store, "none", output)["items"][0]["feature"] == {
        "dtype": "uint8",
        "shape": [2, 1, 3],
        "normalisation": {"mean": [0.5], "std": [127.5], "copies": 2},
    }


def test_the_digest_is_of_the_features_bytes(store):
    """Little-endian, in C order: what a caller computes from its own."""
    assert told(store, "sha256")["items"][0]["feature"]["sha256"] == hashlib.sha256(RAW).hexdigest()
    assert list(store.folder.iterdir()) == []


def test_the_bytes_themselves_take_the_media_store(store):
    """Never the record."""
    feature = told(store, "base64")["items"][0]["feature"]

    assert store.get(feature["stored"]) == RAW
    assert feature["sha256"] == hashlib.sha256(RAW).hexdigest()


def test_a_text_has_neither_items_nor_positions(store):
    """Where the model has none."""
    assert told(store, "sha256", Output(np.array([1, 2]))) == {"input_ids": [1, 2], "items": [], "mrope": None}
