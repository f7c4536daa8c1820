"""Photographs to test with, and the model loaded once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from forebay_efficientnet_lite0.engine import EfficientNetLite0Engine

from forebay import Image, ModelSource
from forebay.testing import image

Photograph = Callable[[str], Image]


@pytest.fixture(scope="session")
def model() -> ModelSource:
    return ModelSource("efficientnet-lite0")


@pytest.fixture(scope="session")
def photograph() -> Photograph:
    """A picture of scikit-image's, by its file name."""
    spec = find_spec("skimage")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0]) / "data"

    def read(name: str) -> Image:
        with PIL.Image.open(folder / name) as picture:
            return image(np.asarray(picture.convert("RGB")))

    return read


@pytest.fixture(scope="session")
def loaded_engine(model: ModelSource) -> EfficientNetLite0Engine:
    return EfficientNetLite0Engine.create(model)


@pytest.fixture
def engine(loaded_engine: EfficientNetLite0Engine) -> EfficientNetLite0Engine:
    """The engine with nothing admitted."""
    loaded_engine.close()
    return loaded_engine
