"""What a processor made of a request, on a terminal: tokens in colours, numbers of each feature, times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from forebay.features import Item, Output
from forebay.processor import Tokenizer
from launch.trying.canvas import values_of

_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_LONGEST_RUN = 4  # tokens of one kind that are shown before they are counted
_LONGEST_LIST = 8


def tell(console: Console, output: Output, tokenizer: Tokenizer | None, names: Sequence[str]) -> None:
    """Tokens, then each item."""
    console.print(f"\n[bold]Prompt[/]: {len(output.input_ids)} tokens")
    console.print(_tokens(output, tokenizer), soft_wrap=True)
    for number, item in enumerate(output.items):
        name = names[number] if number < len(names) else f"item {number}"
        console.print(
            Text.assemble("\n", (name, f"bold {_colour(number)}"), f": {item.modality}, {item.tokens} tokens")
        )
        console.print(_numbers(item))


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _tokens(output: Output, tokenizer: Tokenizer | None) -> Text:
    """Each token as its text, or as its id; those of an item in the item's colour, and long runs of one counted."""
    owners = np.full(len(output.input_ids), -1)
    for number, item in enumerate(output.items):
        for span in item.spans:
            owners[span.first : span.last + 1] = number
    text = Text()
    pairs = zip(output.input_ids.tolist(), owners.tolist(), strict=True)
    for (token, owner), run in groupby(pairs):
        count = sum(1 for _ in run)
        style = f"reverse {_colour(owner)}" if owner >= 0 else ""
        word = _word(token, tokenizer)
        shown = " ".join([word] * count) if count <= _LONGEST_RUN else f"{word} x {count}"
        text.append(f" {shown} ", style)
    return text


def _word(token: int, tokenizer: Tokenizer | None) -> str:
    """How a token is spelled; one that stands for no text by its number."""
    spelled = tokenizer.decode([token]) if tokenizer is not None else ""
    return spelled if spelled.strip() and spelled.isprintable() else f"[{token}]"


def _numbers(item: Item) -> Table:
    feature = item.feature
    values = values_of(feature)
    wrong = int((~np.isfinite(values)).sum())
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    table.add_row("feature", f"{feature.dtype} {list(feature.shape)}, {feature.size_bytes:,} bytes")
    least, mean, most = (float(fold(values)) for fold in (np.min, np.mean, np.max))
    table.add_row("values", f"min {least:.4g}, mean {mean:.4g}, max {most:.4g}, NaN or infinite {wrong}")
    table.add_row("spans", ", ".join(f"[{span.first}, {span.last}]" for span in item.spans[:_LONGEST_LIST]))
    for key, value in item.model_specific.items():
        table.add_row(key, _shortened(value))
    return table


def _shortened(value: Any) -> str:
    if isinstance(value, list) and len(value) > _LONGEST_LIST:
        return f"{value[:_LONGEST_LIST]} … of {len(value)}"
    return str(value)


def tell_times(console: Console, times: Mapping[str, float]) -> None:
    """Seconds by stage."""
    told = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in times.items())
    console.print(f"\n[bold]Times[/]: {told}")
