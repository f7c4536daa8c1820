"""Cutting a partition of cores into one set a child."""

import os
import subprocess
import sys

import pytest

from forebay import ConfigurationError
from workers.cores import THREAD_VARIABLES, check_partition, one_thread_each, share_of


@pytest.mark.parametrize(
    ("children", "cores", "shares"),
    [
        (2, (4, 5, 6, 7), [(4, 5), (6, 7)]),
        (3, (0, 1, 2, 3), [(0,), (1,), (2, 3)]),
        (4, (0, 1, 2, 3), [(0,), (1,), (2,), (3,)]),
        (5, (8, 9), [(8,), (9,), (8,), (9,), (8,)]),
        (1, (3, 9), [(3, 9)]),
        (2, (), [(), ()]),
    ],
)
def test_children_share_the_cores(children, cores, shares):
    """Disjoint and complete while there are enough, else in turn; without a partition nobody is pinned."""
    assert [share_of(child, children, cores) for child in range(children)] == shares


def test_every_core_belongs_to_exactly_one_child_while_there_are_enough():
    """Over every combination that a machine may have."""
    for count in range(1, 17):
        for children in range(1, count + 1):
            cores = tuple(range(10, 10 + count))
            given = [core for child in range(children) for core in share_of(child, children, cores)]
            assert sorted(given) == sorted(cores)
            assert all(share_of(child, children, cores) for child in range(children))


def test_cores_that_this_process_may_not_use_are_refused_by_number():
    """A container has fewer than its host."""
    allowed = os.sched_getaffinity(0)
    check_partition(sorted(allowed))
    check_partition(())

    with pytest.raises(ConfigurationError, match=r"FOREBAY_CORES names cores \[100000\]; this process may use \["):
        check_partition([min(allowed), 100_000])


def test_numerical_libraries_start_one_thread_each(monkeypatch):
    """Whatever the environment said before: the children share the cores."""
    for variable in (*THREAD_VARIABLES, "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(variable, "64")

    one_thread_each()

    assert {os.environ[variable] for variable in THREAD_VARIABLES} == {"1"}
    assert os.environ["TOKENIZERS_PARALLELISM"] == "false"


def test_a_library_that_is_loaded_already_is_limited_too():
    """NumPy comes with the first import of all, before anybody could set a variable for its BLAS."""
    program = """
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from workers.cores import limit_threads, one_thread_each

threadpool_limits(7)
one_thread_each()
assert {pool["num_threads"] for pool in threadpool_info()} == {7}, threadpool_info()
import torch
torch.set_num_threads(7)
limit_threads(1)
assert {pool["num_threads"] for pool in threadpool_info()} == {1}, threadpool_info()
assert torch.get_num_threads() == 1
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
