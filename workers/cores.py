"""Cutting a node's CPU partition into one core set a child."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from threadpoolctl import threadpool_limits

from forebay.errors import ConfigurationError

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def share_of(child: int, children: int, cores: Sequence[int]) -> tuple[int, ...]:
    """The cores of child number ``child`` of ``children``: disjoint while there are enough, else shared in turn."""
    if not cores:
        return ()
    if children >= len(cores):
        return (cores[child % len(cores)],)
    first, last = child * len(cores) // children, (child + 1) * len(cores) // children
    return tuple(cores[first:last])


def check_partition(cores: Sequence[int]) -> None:
    """Refuse cores that this process may not use.

    Raises:
        ConfigurationError: naming the cores outside and those allowed.
    """
    allowed = os.sched_getaffinity(0)
    outside = sorted(set(cores) - allowed)
    if outside:
        raise ConfigurationError(f"FOREBAY_CORES names cores {outside}; this process may use {sorted(allowed)}")


def one_thread_each() -> None:
    """Keep numerical libraries that are loaded from now on from starting a thread a core in every child."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def limit_threads(count: int) -> None:
    """Let each numerical library that is loaded compute with ``count`` threads; as a rule one: siblings own the rest.

    The environment is too late for those that were imported before anybody could set it, as NumPy's BLAS is.
    """
    threadpool_limits(count)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)
