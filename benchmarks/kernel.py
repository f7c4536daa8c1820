"""JPEG bytes to features on one thread: our kernel into the pool, Hugging Face's, and Hugging Face's plus a copy."""

from __future__ import annotations

import io
import tempfile
from importlib import import_module
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from benchmarks.clock import Cost, race
from benchmarks.picture import jpeg
from forebay import Image, ModelSource, Prompt, Work
from forebay.plugins import load_processor
from handoff.pool import Pool
from workers.cores import one_thread_each
from workers.decode import decode_image
from workers.reservation import Reservation

OURS, THEIRS, COPIED, DECODE = "forebay: bytes to pool", "transformers", "transformers + fresh segment", "decode alone"
ROUNDS = 60


def measure(rounds: int = ROUNDS) -> dict[str, Cost]:
    """The cost of one 1280x720 JPEG, bytes to features, each way."""
    one_thread_each()
    import torch

    torch.set_num_threads(1)
    data = jpeg()
    theirs = _transformers()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        ours = _Ours(Path(folder))
        _check_equal(ours, theirs, data)
        return race(
            {
                OURS: lambda: ours.run(data),
                THEIRS: lambda: _run_transformers(theirs, data),
                COPIED: lambda: _copy_to_segment(_run_transformers(theirs, data)),
                DECODE: lambda: decode_image(data, "image"),
            },
            rounds,
        )


def measure_ours(rounds: int = 3 * ROUNDS) -> Cost:
    """The cost of our way alone; several of these at once show what it costs while the other cores work too."""
    one_thread_each()
    import torch

    torch.set_num_threads(1)
    data = jpeg()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        ours = _Ours(Path(folder))
        return race({OURS: lambda: ours.run(data)}, rounds)[OURS]


class _Ours:
    """What a worker does with one image, from its bytes to a written block."""

    def __init__(self, folder: Path) -> None:
        Pool.create(folder / "pool", 64 << 20)
        self.pool = Pool(folder / "pool", "benchmark", writable=True)
        self.processor = load_processor(ModelSource("qwen2-vl")).processor

    def run(self, data: bytes) -> None:
        self._write(data)[1].free()

    def values(self, data: bytes) -> np.ndarray:
        feature, reservation = self._write(data)
        values = feature.copy()
        del feature
        reservation.free()
        return values

    def _write(self, data: bytes) -> tuple[np.ndarray, Reservation]:
        reservation = Reservation(self.pool, "benchmark", 1, 0)
        image = Image(decode_image(data, "image"), "", 0)
        reservation.reserve(self.processor.feature_bytes(image))
        work = Work("benchmark", Prompt(ids=(0,)), (image,), None, reservation.empty)
        return self.processor.process_item(image, work).feature.array, reservation


def _transformers() -> Any:
    import_module("tests.support.torchvision_shim")
    size = {"shortest_edge": 3136, "longest_edge": 12_845_056}
    return import_module("transformers").Qwen2VLImageProcessor(size=size)


def _run_transformers(processor: Any, data: bytes) -> np.ndarray:
    picture = Pillow.open(io.BytesIO(data)).convert("RGB")
    values: np.ndarray = processor(picture, return_tensors="pt")["pixel_values"].numpy()
    return values


def _copy_to_segment(values: np.ndarray) -> None:
    segment = SharedMemory(create=True, size=values.nbytes)
    np.copyto(np.frombuffer(segment.buf, values.dtype, values.size).reshape(values.shape), values)
    segment.close()
    segment.unlink()


def _check_equal(ours: _Ours, theirs: Any, data: bytes) -> None:
    """A fast wrong kernel is no result."""
    assert np.array_equal(ours.values(data), _run_transformers(theirs, data)), "the features differ"
