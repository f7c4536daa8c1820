"""The example's own model folder, and others that differ from it in a setting."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forebay_layout_demo.processor import LayoutDemoProcessor

from forebay import FileTokenizer, ModelSource

FOLDER = Path(__file__).parents[1] / "model"
Changed = Callable[..., ModelSource]


@pytest.fixture(scope="session")
def model() -> ModelSource:
    return ModelSource("layout-demo", FOLDER)


@pytest.fixture(scope="session")
def processor(model: ModelSource) -> LayoutDemoProcessor:
    return LayoutDemoProcessor.build(model)


@pytest.fixture(scope="session")
def tokenizer(model: ModelSource) -> FileTokenizer:
    """The host's, of the folder: a token is a byte."""
    return FileTokenizer.load(model.file("tokenizer.json"))


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    """A model whose folder has other settings."""

    def change(**settings: Any) -> ModelSource:
        shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
        file = tmp_path / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_bytes()), **settings}))
        return ModelSource("layout-demo", tmp_path)

    return change
