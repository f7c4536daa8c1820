"""Whole requests through one node's worker and scheduler: what is hand-off, and what a hit of the cache saves."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.node import SECRET, BenchNode, bench_node
from benchmarks.picture import jpeg
from forebay import DType, Feature, Item, Modality, ModelSource, Output, Positions, Prompt, Span
from forebay.plugins import load_processor
from forebay.task import Task
from handoff.scripts import perform
from workers.reservation import Reservation
from workers.results import make_ticket

ROWS, VALUES = 92 * 52, 1176  # 1288x728 pixels of Qwen2-VL: 22.5 MB of float32
_QWEN_PROMPT = Prompt(ids=(151652, 151655, 151653))
_POOL_BYTES = 256 << 20
_FEATURE_BYTES = 4 * ROWS * VALUES
_WARM_UP = 5


def measure_requests(rounds: int = 60) -> dict[str, float]:
    """CPU of a request at 720p, and of what of it is hand-off: everything but computing and placing the features."""
    qwen = load_processor(ModelSource("qwen2-vl"))
    with bench_node(qwen, _POOL_BYTES, cache_bytes=0) as node:
        data, whole, handing = jpeg(), [], []
        for number in range(-_WARM_UP, rounds):
            spent = _whole_request(node, data), _hand_off_alone(node, data)
            if number >= 0:
                whole.append(spent[0])
                handing.append(spent[1])
        copied = node.driver.pool.stats().counters["copied_bytes"]
    written = _FEATURE_BYTES * (rounds + _WARM_UP)
    request, handoff = (statistics.median(taken) * 1000 for taken in (whole, handing))
    return {
        "request": request,
        "handoff": handoff,
        "share": handoff / request,
        "bytes_copied_per_feature_byte": (written + copied) / written,
    }


def _whole_request(node: BenchNode, data: bytes) -> float:
    """CPU seconds from the message to the released features."""
    message = node.message(data, _QWEN_PROMPT)
    began = time.process_time()
    node.work(message)
    node.read()
    return time.process_time() - began


def _hand_off_alone(node: BenchNode, data: bytes) -> float:
    """CPU seconds of a request whose features cost nothing: reserve, place, ticket, park; poll, map, release."""
    driver = node.driver
    task = Task.unpack(node.message(data, _QWEN_PROMPT), SECRET)
    perform(driver.redis, driver.moves.begin(task.rid, task.token, driver.owner))
    began = time.process_time()
    reservation = Reservation(driver.pool, task.rid, 1, 0)
    reservation.reserve(_FEATURE_BYTES)
    array = reservation.empty((ROWS, VALUES), DType.FLOAT32)
    item = Item(Modality.IMAGE, Feature.of(array, DType.FLOAT32), (Span(1, ROWS // 4),), ROWS // 4, 1)
    ids = np.zeros(ROWS // 4 + 2, np.int64)
    output = Output(ids, (item,), Positions(np.zeros((3, len(ids)), np.int64), 0))
    ticket = make_ticket(output, reservation, task.rid, 1, task.model, {})
    reservation.park()
    moved = perform(driver.redis, driver.moves.park(task.rid, 1, driver.owner, ticket.pack(), ticket.prompt_tokens, {}))
    assert moved.ok
    del array, item, output
    assert not reservation.let_go()
    node.read()
    return time.process_time() - began


def measure_cache(rounds: int = 60) -> dict[str, float]:
    """CPU of a worker's part, for a picture that was never seen and for one that was."""
    qwen = load_processor(ModelSource("qwen2-vl"))
    pictures = [jpeg(seed) for seed in range(8)]
    with bench_node(qwen, _POOL_BYTES, cache_bytes=64 << 20) as node:
        # Eight pictures in turn, and room for fewer: each is gone before it comes again.
        fresh, known = itertools.cycle(pictures), jpeg(99)
        return _in_turns(
            {"miss": (node, lambda: next(fresh), _QWEN_PROMPT), "hit": (node, lambda: known, _QWEN_PROMPT)}, rounds
        )


def _in_turns(runs: Mapping[str, tuple[BenchNode, Callable[[], bytes], Prompt]], rounds: int) -> dict[str, float]:
    """CPU milliseconds of the worker's part, medians: from the message to the parked ticket."""
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(-_WARM_UP, rounds):
        for name, (node, picture, prompt) in runs.items():
            message = node.message(picture(), prompt)
            began = time.process_time()
            node.work(message)
            spent = time.process_time() - began
            node.read()
            if number >= 0:
                samples[name].append(spent)
    return {name: statistics.median(taken) * 1000 for name, taken in samples.items()}
