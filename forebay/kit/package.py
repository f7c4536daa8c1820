"""The files of a new model package: what an author starts from, small and whole."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from importlib.util import find_spec

from forebay.errors import ConfigurationError
from forebay.plugins import PROCESSORS, names

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class PackageName:
    """How the package is called: ``my-model`` as a distribution and a model, ``my_model`` as a module, ``MyModel``."""

    model: str

    @property
    def module(self) -> str:
        return self.model.replace("-", "_")

    @property
    def cls(self) -> str:
        return "".join(part.capitalize() for part in self.module.split("_"))

    @classmethod
    def parse(cls, text: str) -> PackageName:
        """Read a name.

        Raises:
            ConfigurationError: it is no name for a package, or another package's.
        """
        if not _NAME.fullmatch(text) or len(text) > _LONGEST:
            message = "a name has small letters and digits, begins with a letter, and joins words with '-'"
            raise ConfigurationError(f"NAME {text!r}: {message}; at most {_LONGEST} characters")
        found = cls(text)
        if keyword.iskeyword(found.module):
            raise ConfigurationError(f"NAME {text!r}: {found.module!r} is a word of Python's own")
        if found.module == "forebay":
            raise ConfigurationError(f"NAME {text!r}: that is Forebay itself")
        if text in names(PROCESSORS):
            raise ConfigurationError(f"NAME {text!r}: an installed package offers a model of that name already")
        if find_spec(found.module) is not None:
            raise ConfigurationError(f"NAME {text!r}: Python has a module {found.module!r} already")
        return found


def files_of(name: PackageName) -> dict[str, str]:
    """Each file's text, by its path in the package."""
    texts = {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README,
        f"src/{name.module}/__init__.py": _INIT,
        f"src/{name.module}/processor.py": _PROCESSOR,
        f"tests/test_{name.module}.py": _TEST,
    }
    return {path: _filled(text, name) for path, text in texts.items()}


def _filled(text: str, name: PackageName) -> str:
    for mark, value in (("@MODEL@", name.model), ("@MODULE@", name.module), ("@CLASS@", name.cls)):
        text = text.replace(mark, value)
    return text


_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "@MODEL@"
version = "0.1.0"
description = "@MODEL@ for Forebay"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["forebay", "numpy>=2.1", "pydantic>=2.10"]

[project.optional-dependencies]
test = ["pytest>=9"]

# This is all that connects the package to Forebay: the model's name, and the class.
[project.entry-points."forebay.processors"]
"@MODEL@" = "@MODULE@.processor:@CLASS@"

[tool.setuptools.packages.find]
where = ["src"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

_README = """\
# @MODEL@

A processor for Forebay: pictures in, features and tokens out. It has no engine, so `/v1/preprocess` answers for it, and
`/generate` does when an engine of yours has the same name.

```sh
pip install -e '.[test]'
pytest
forebay check-processor @MODEL@
forebay try-processor @MODEL@ photo.jpg
forebay up --model @MODEL@
```

`src/@MODULE@/processor.py` is the whole of it. A feature is `float32 [cells * cells, 3]`: the mean colour of each cell
of a grid, with a token for each. `multimodal_cells` chooses the grid.
"""

_INIT = '''\
"""@MODEL@: a processor for Forebay."""

from @MODULE@.processor import @CLASS@

__all__ = ["@CLASS@"]
'''

_PROCESSOR = '''\
"""The CPU side of @MODEL@: what becomes of a picture."""

from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from forebay import Capabilities, DType, Feature, Layout, Media, Modality, Planned, Processed, Processor, Work

PLACEHOLDER = 7  # the token that stands for a picture in a prompt


class Options(BaseModel):
    """What a request may choose: a field is a key of its body."""

    model_config = ConfigDict(extra="forbid", strict=True)

    multimodal_cells: Annotated[int, Field(ge=1, le=16)] = 4


class @CLASS@(Processor):
    """The mean colour of each cell of a grid over the picture; a token for each cell."""

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.IMAGE: 8},
            placeholders={Modality.IMAGE: PLACEHOLDER},
            extensions=Options,
            rows_per_token=1,
            cacheable=True,
        )

    def plan_item(self, media: Media) -> Planned:
        return self.plan_with(media, Options())

    def plan_with(self, media: Media, extensions: BaseModel | None) -> Planned:
        cells = extensions.multimodal_cells**2
        return Planned((cells, 3), DType.FLOAT32, tokens=cells)

    def process_item(self, media: Media, work: Work) -> Processed:
        cells = work.extensions.multimodal_cells
        feature = work.empty((cells * cells, 3), DType.FLOAT32)  # lies in the pool: written in place, never copied
        # A cell has at least one line and one column, also of a picture with fewer than there are cells.
        for number, row in enumerate(feature):
            top, left = (number // cells) * media.height // cells, (number % cells) * media.width // cells
            bottom = max(top + 1, (number // cells + 1) * media.height // cells)
            right = max(left + 1, (number % cells + 1) * media.width // cells)
            np.mean(media.pixels[top:bottom, left:right], axis=(0, 1), dtype=np.float32, out=row)
        return Processed(Feature.of(feature, DType.FLOAT32), tokens=len(feature))

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        return Layout.repeat(PLACEHOLDER, processed.tokens)
'''

_TEST = '''\
"""@MODEL@ keeps Forebay's contract, and does what it says."""

import numpy as np
import pytest

from forebay import ModelSource, Rejected, Span, testing
from @MODULE@ import @CLASS@
from @MODULE@.processor import PLACEHOLDER


@pytest.fixture
def processor():
    return @CLASS@(ModelSource("@MODEL@"))


def test_it_keeps_the_contract(processor):
    """Every check of Forebay's own suite: forebay check-processor shows them one by one."""
    testing.check_processor(processor)


def test_a_picture_becomes_the_mean_colours_of_its_cells(processor):
    """One row and one token a cell, where the placeholder was."""
    black_and_white = testing.image(np.repeat([[[0] * 3], [[200] * 3]], 4, axis=1))

    output = testing.run_processor(
        processor, [black_and_white], input_ids=[1, PLACEHOLDER, 2], extensions={"multimodal_cells": 2}
    )

    assert output.items[0].feature.array.tolist() == [[0] * 3, [0] * 3, [200] * 3, [200] * 3]
    assert output.items[0].spans == (Span(1, 4),)
    assert output.input_ids.tolist() == [1, PLACEHOLDER, PLACEHOLDER, PLACEHOLDER, PLACEHOLDER, 2]


@pytest.mark.parametrize("cells", [0, 17, "4"])
def test_a_grid_that_cannot_be_is_refused(processor, cells):
    """By the name of the field."""
    picture = testing.image(np.zeros((4, 4, 3)))

    with pytest.raises(Rejected, match="multimodal_cells"):
        testing.run_processor(processor, [picture], input_ids=[PLACEHOLDER], extensions={"multimodal_cells": cells})
'''
