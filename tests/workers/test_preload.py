"""What a worker imports for its children before the first fork."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys
from workers.cores import one_thread_each
from workers.preload import preload

def threads():
    return len(os.listdir("/proc/self/task"))

one_thread_each()
before = threads()  # NumPy's BLAS has its own already, and ends them before a fork
preload()
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
