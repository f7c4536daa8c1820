"""``forebay demo``: the whole way on a terminal, for a photo and a spoken sentence."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import click
from rich.console import Console
from rich.table import Column, Table

from forebay import logs
from forebay.cli import configuration_errors
from forebay.client import Client, Status
from forebay.dtypes import DType
from forebay.errors import ConfigurationError
from forebay.settings import load
from launch.proof import Traces
from launch.settings import UpSettings

_MODELS = "efficientnet-lite0,whisper-tiny-en,qwen2-vl"
_PHOTO = ("skimage", "data/coffee.png")
_RECORDING = ("pytest_audioeval", "samples/audio/en/quick_brown_fox.wav")
_QUESTION = "<|vision_start|><|image_pad|><|vision_end|>What is in this picture?"
_BAR_WIDTH = 36
_STAGES = ("accepted", "queued", "processing", "parked", "admitted", "first_token", "end")


@click.command()
@click.option("--pool-bytes", default="256MiB", show_default=True, metavar="SIZE", help="Size of the feature pool.")
def demo(pool_bytes: str) -> None:
    """Start everything, send a photo and a recording, show what happens, stop, and prove that nothing is left."""
    from launch.supervisor import EndedError, PartFailedError
    from launch.up import running

    console = Console(highlight=False)
    logs.set_up("demo", "WARNING")
    with configuration_errors():
        photo, recording = _find(*_PHOTO), _find(*_RECORDING)
        settings = load(
            UpSettings,
            {"FOREBAY_MODELS": _MODELS, "FOREBAY_PORT": "0", "FOREBAY_POOL_BYTES": pool_bytes, "REDIS_URL": ""},
        )
        began = time.monotonic()
        traces = Traces()
        console.print("[bold]Starting[/] Redis, the API, a worker, two schedulers and Flower …")
        try:
            with running(settings, console.print) as (supervisor, urls):
                console.print("[dim]times count from a request's acceptance; a bar lasts until the next state[/]")
                console.print(f"ready after {time.monotonic() - began:.1f} s at {urls.api}; Flower at {urls.flower}\n")
                with Client(urls.api) as client:
                    _show_everything(console, client, photo, recording)
                traces.take(supervisor)
                console.print("[bold]Stopping[/] …")
        except (PartFailedError, EndedError) as error:
            console.print(str(error))
            sys.exit(1)
    _prove(console, traces)
    console.print(f"done in {time.monotonic() - began:.1f} s")


def _find(package: str, name: str) -> Path:
    """A file of an installed package, without importing it.

    Raises:
        ConfigurationError: it is not installed.
    """
    spec = find_spec(package)
    folders = (spec.submodule_search_locations if spec else None) or []
    for path in (Path(folder) / name for folder in folders):
        if path.is_file():
            return path
    raise ConfigurationError(f"the demo needs {name} of the package {package!r}: run 'make demo'")


def _show_everything(console: Console, client: Client, photo: Path, recording: Path) -> None:
    _show_label(console, client, photo)
    _show_transcript(console, client, recording)
    _show_features(console, client, photo)


def _show_label(console: Console, client: Client, photo: Path) -> None:
    console.print(f"[bold]1. A photo to EfficientNet-Lite0[/]  ({photo.name}, {_kib(photo)})")
    answer = client.generate(model="efficientnet-lite0", text="What is this?", images=[photo], rid="demo-photo")
    best = answer.engine["images"][0]
    console.print(f"   label: [green]{answer.text}[/], probability {best['probability']:.2f}")
    _show_timeline(console, client.status("demo-photo"))


def _show_transcript(console: Console, client: Client, recording: Path) -> None:
    console.print(f"[bold]2. A recording to Whisper tiny.en[/]  ({recording.name}, {_kib(recording)}), streamed")
    console.print("   text: ", end="")
    shown = ""
    for answer in client.stream(model="whisper-tiny-en", text="transcribe", audio=[recording], rid="demo-audio"):
        console.print(f"[green]{answer.text[len(shown) :]}[/]", end="")
        shown = answer.text
    console.print()
    _show_timeline(console, client.status("demo-audio"))


def _show_features(console: Console, client: Client, photo: Path) -> None:
    console.print("[bold]3. The photo prepared for Qwen2-VL[/]  (features only; no engine needed)")
    answer = client.preprocess(model="qwen2-vl", text=_QUESTION, images=[photo])
    item = answer.items[0]
    size = math.prod(item.shape) * DType(item.dtype).itemsize
    spans = [list(span) for span in item.spans]
    table = Table("", Column(overflow="fold"), show_header=False, box=None, padding=(0, 1, 0, 3))
    for name, value in (
        ("grid (t, h, w)", item.data["image_grid_thw"]),
        ("tokens", f"{len(answer.input_ids)} in the prompt, offsets {spans} are the image"),
        ("feature", f"{item.dtype} {list(item.shape)}"),
        ("bytes in the pool", f"{size:,} while it was there; released by now"),
        ("hash", item.hash),
        ("sha256", item.sha256),
        ("M-RoPE delta", answer.mrope["delta"] if answer.mrope else "none"),
        ("processor", f"{answer.processor} {answer.fingerprint}"),
    ):
        table.add_row(name, str(value))
    console.print(table)
    _show_stages(console, answer.timings_ms)


def _show_timeline(console: Console, status: Status) -> None:
    """When each state was reached, on Redis' clock, as bars from the first to the last."""
    times = [(name, status.times_ms[name]) for name in _STAGES if name in status.times_ms]
    rows = [(name, at - times[0][1]) for name, at in times]
    spans = [(name, start, (rows[i + 1][1] if i + 1 < len(rows) else start)) for i, (name, start) in enumerate(rows)]
    _draw(console, [("done" if name == "end" else name.replace("_", " "), a, b) for name, a, b in spans])


def _show_stages(console: Console, timings_ms: Mapping[str, float]) -> None:
    """Where the worker's time went, one stage after the other."""
    at, rows = 0.0, []
    for name, spent in timings_ms.items():
        if name != "total":
            rows.append((name, at, at + spent))
            at += spent
    _draw(console, rows)


def _draw(console: Console, rows: Sequence[tuple[str, float, float]]) -> None:
    whole = max((end for _, _, end in rows), default=0) or 1
    table = Table(show_header=False, box=None, padding=(0, 1, 0, 3))
    for name, start, end in rows:
        first = round(start / whole * _BAR_WIDTH)
        length = max(1, round((end - start) / whole * _BAR_WIDTH))
        table.add_row(name, f"{start:8.1f} ms", " " * first + "[cyan]" + "━" * length + "[/]")
    console.print(table)
    console.print()


def _prove(console: Console, traces: Traces) -> None:
    left = traces.left()
    for kind, found in left.items():
        mark = "[green]none[/]" if not found else f"[red]{', '.join(map(str, found))}[/]"
        console.print(f"   {kind} left: {mark}")
    if any(left.values()):
        sys.exit(1)


def _kib(path: Path) -> str:
    return f"{path.stat().st_size / 1024:.0f} KiB"
