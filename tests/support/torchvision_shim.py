"""Import this before transformers: it lets torchvision load beside a torch without CUDA.

torchvision's own operators live in a library that needs CUDA. Its Python code registers fakes for them and fails when
their names are unknown, so the names are declared here; nobody calls them. It is installed in a folder of its own,
where nothing but the tests can take it for a working one.
"""

import importlib.util
import re
import sys
import warnings
from pathlib import Path

import torch

sys.path.append(str(Path(sys.prefix) / "oracle"))

_REGISTERED = re.compile(r'(?:register_fake\("torchvision::|register_meta\(")(\w+)"')


def _declare_operators() -> torch.library.Library:
    spec = importlib.util.find_spec("torchvision")
    if spec is None:
        raise ModuleNotFoundError("No module named 'torchvision'", name="torchvision")
    source = Path(spec.submodule_search_locations[0], "_meta_registrations.py").read_text()
    library = torch.library.Library("torchvision", "DEF")
    for name in sorted(set(_REGISTERED.findall(source))):
        library.define(f"{name}(Tensor[] x) -> Tensor")
    return library


LIBRARY = _declare_operators()  # the operators live as long as this does

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torchvision  # noqa: F401
