"""``forebay try-processor``: one request through a processor, in this process, and what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from forebay.cli import configuration_errors, tell_native_crashes
from forebay.client.sending import Sending
from forebay.drive import check_items, drive, typed_extensions
from forebay.errors import ConfigurationError, Failed, ForebayError, Rejected
from forebay.extensions import PREFIX
from forebay.features import Output
from forebay.kit.found import find
from forebay.outcome import outcome_of
from forebay.plugins import LoadedProcessor
from forebay.processor import Work
from launch.trying.asking import prompt_for
from launch.trying.canvas import canvas_of
from launch.trying.drawing import draw
from launch.trying.reading import Read, read
from launch.trying.telling import tell, tell_times


@dataclass(frozen=True, slots=True, eq=False)
class _Tried:
    """What came of a request."""

    files: Sequence[Read]
    output: Output
    note: str
    seconds: float


@click.command("try-processor")
@click.argument("name")
@click.argument("arguments", nargs=-1, required=True, metavar="FILE... [TEXT]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path(), metavar="DIR",
    help="Where the pictures are drawn; here by default.",
)  # fmt: skip
@click.option(
    "--model-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="The model's Hugging Face folder, where it needs one.",
)  # fmt: skip
@click.option("--set", "options", multiple=True, metavar="KEY=VALUE", help=f"A {PREFIX}… field; VALUE is JSON or text.")
def try_processor(
    name: str, arguments: tuple[str, ...], out: Path, model_dir: Path | None, options: tuple[str, ...]
) -> None:
    """Run the processor NAME on files: forebay try-processor NAME photo.jpg "What is this?".

    NAME is an installed model's, or module:Class. No Redis and no worker is needed. What was made of each file is drawn
    as a picture with the grid of its tokens.
    """
    tell_native_crashes()
    console = Console(highlight=False)
    with configuration_errors():
        extensions = _extensions(options)
        found = find(name, model_dir)
    try:
        tried = _try(found, Sending.of(arguments), extensions)
        if tried.note:
            console.print(f"[dim]{tried.note}[/]")
        tell(console, tried.output, found.tokenizer, [one.path.name for one in tried.files])
        _draw(console, tried, out)
    except Rejected as error:
        raise click.ClickException(f"refused as {error.code}: {error}") from error
    except (Failed, ForebayError) as error:
        raise click.ClickException(str(error)) from error
    except ModuleNotFoundError:
        raise  # whoever runs commands says what to install
    except Exception as error:  # whatever a guest raises
        raise click.ClickException(f"the processor raises {outcome_of(error)}") from error
    tell_times(console, {f"decode {one.path.name}": one.seconds for one in tried.files} | {"process": tried.seconds})


def _extensions(options: Sequence[str]) -> dict[str, Any]:
    """``KEY=VALUE`` pairs as a request would carry them.

    Raises:
        ConfigurationError: one that is no pair, or no extension.
    """
    extensions = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.startswith(PREFIX):
            raise ConfigurationError(f"--set {option!r}: {PREFIX}name=value was expected")
        try:
            extensions[key] = json.loads(value)
        except ValueError:
            extensions[key] = value
    return extensions


def _try(found: LoadedProcessor, sending: Sending, extensions: Mapping[str, Any]) -> _Tried:
    processor, capabilities = found.processor, found.capabilities
    typed = typed_extensions(capabilities, extensions, load=processor.load_extensions)
    files = read(sending.paths, processor, capabilities, typed)
    media = tuple(one.media for one in files)
    check_items(capabilities, [one.modality for one in media])
    asked = prompt_for(sending.prompt, media, capabilities, found.tokenizer)
    work = Work("try", asked.prompt, media, typed)
    began = time.perf_counter()
    output = drive(processor, capabilities, work, found.tokenizer)
    return _Tried(files, output, asked.note, time.perf_counter() - began)


def _draw(console: Console, tried: _Tried, out: Path) -> None:
    """A picture of each item beside its file's name.

    Raises:
        ConfigurationError: one cannot be written.
    """
    for number, (file, item) in enumerate(zip(tried.files, tried.output.items, strict=False)):
        canvas = canvas_of(item, file.media)
        path = out / f"{file.path.stem}.{number}.png"
        try:
            draw(canvas, path)
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
        console.print(f"\n[bold]{path}[/]: {canvas.what}", soft_wrap=True)
