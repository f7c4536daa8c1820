"""Speech to test with, and the model loaded once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from forebay_whisper_tiny_en.engine import WhisperTinyEnEngine

from forebay import ModelSource

Clip = Callable[[str], npt.NDArray[np.float32]]


@pytest.fixture(scope="session")
def model() -> ModelSource:
    return ModelSource("whisper-tiny-en")


@pytest.fixture(scope="session")
def clip() -> Clip:
    """Samples of a spoken English clip, 16 kHz mono, by its name."""
    spec = find_spec("pytest_audioeval")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0]) / "samples" / "audio" / "en"

    def read(name: str) -> npt.NDArray[np.float32]:
        samples, rate_hz = soundfile.read(folder / f"{name}.wav", dtype="float32")
        assert rate_hz == 16_000
        return samples

    return read


@pytest.fixture(scope="session")
def loaded_engine(model: ModelSource) -> WhisperTinyEnEngine:
    return WhisperTinyEnEngine.create(model)


@pytest.fixture
def engine(loaded_engine: WhisperTinyEnEngine) -> WhisperTinyEnEngine:
    """The engine with nothing admitted."""
    loaded_engine.close()
    return loaded_engine
