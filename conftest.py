"""For all tests: a torchvision that loads, and the same generated examples wherever a build must come out alike."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from hypothesis import settings

# Its library cannot stand beside the tier's NumPy. tests/system/test_outsiders.py runs its tests where it can.
collect_ignore = ["examples/pixtral"]


class ShimFirst(MetaPathFinder):
    """Makes torchvision ready when transformers, which looks for it once, is about to be imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "transformers":
            sys.meta_path.remove(self)
            with suppress(ModuleNotFoundError):  # without it, only the tests that compare with it are missing
                import_module("tests.support.torchvision_shim")
        return None


sys.meta_path.insert(0, ShimFirst())


def pytest_collection_finish() -> None:
    """What is there by now stays: the collector need not look through all of it again and again while tests run."""
    gc.collect()
    gc.freeze()


# At home every run looks elsewhere. A build says the same of the same commit; what was found at home is kept as a test.
settings.register_profile("build", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("build")
