"""What a worker imports for its children before the first fork."""

from __future__ import annotations

import subprocess
import sys

from forebay import ModelSource
from forebay.plugins import needs

PROGRAM = """
import os, sys
from workers.cores import one_thread_each
from forebay import ModelSource
from workers.preload import preload

def threads():
    return len(os.listdir("/proc/self/task"))

one_thread_each()
before = threads()  # NumPy's BLAS has its own already, and ends them before a fork
preload([ModelSource("qwen2-vl")])
assert "torch" in sys.modules
assert threads() == before, "a thread does not cross a fork, and what it holds stays held"

if os.fork() == 0:
    import torch
    fits = torch.equal(torch.nn.functional.avg_pool2d(torch.ones(1, 1, 512, 512), 2), torch.ones(1, 1, 256, 256))
    os._exit(0 if fits else 1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""


def test_torch_is_imported_once_and_starts_no_thread():
    """A fork with threads is a deadlock that waits for its day."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr


WITHOUT = """
import sys

from forebay import ModelSource
from forebay.plugins import needs
from forebay import ModelSource
from workers.preload import preload

preload([ModelSource("mine", processor="tests.support.toys:Toy"), ModelSource("not-installed")])
assert "torch" not in sys.modules
"""


def test_nobody_waits_for_what_no_package_needs():
    """A model that is not installed is told of by the child that should load it."""
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr


def test_what_a_package_needs_is_read_and_not_imported(tmp_path, monkeypatch):
    """With an extra, a marker or another spelling; a name that only begins so is another's."""
    for name, line in {"a": 'Torch (>=2) ; extra == "tier"', "b": "torchvision>=0.2", "c": "numpy"}.items():
        info = tmp_path / f"mine_{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mine-{name}\nVersion: 1\nRequires-Dist: {line}\n")
        (info / "entry_points.txt").write_text(f"[forebay.processors]\nmine-{name} = no_such_module:Mine\n")
    monkeypatch.syspath_prepend(tmp_path)

    found = [needs(ModelSource("any", processor=f"mine-{name}"), "torch") for name in "abc"]

    assert found == [True, False, False]
    assert needs(ModelSource("qwen2-vl"), "torch")
