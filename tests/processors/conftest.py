"""Golden values, pictures and the reference processors."""

import json
import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


@dataclass(frozen=True)
class Golden:
    """The recorded values and the pixels they start from."""

    cases: list[dict]
    decoded: dict[str, dict]
    pil_cases: list[dict]

    def pixels(self, name: str) -> np.ndarray:
        """Pixels of an input, from the recorded decode where that differs from Pillow's."""
        recorded = self.decoded[name].get("decoded_png")
        with Pillow.open(GOLDEN / (recorded or f"inputs/{name}")) as picture:
            return np.array(picture.convert("RGB"))


@pytest.fixture(scope="session")
def golden() -> Golden:
    data = json.loads((GOLDEN / "golden.json").read_text())
    by_mode: dict[str, list[dict]] = {"aten_u8": [], "pil": []}
    for case in data["cases"]:
        by_mode[case["resample"]].append(case)
    return Golden(by_mode["aten_u8"], data["decode"], by_mode["pil"])


@pytest.fixture(scope="session")
def transformers():
    """Hugging Face transformers with its torchvision backend; absent at home is a skip, in CI a failure."""
    try:
        import_module("tests.support.torchvision_shim")  # first: transformers looks for torchvision once
        transformers = import_module("transformers")
    except ModuleNotFoundError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{error.name} is not installed")
    assert transformers.__version__ == "5.24.0"
    return transformers
