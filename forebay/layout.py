"""The token layout: what each media item's placeholder becomes in the prompt.

Prompt expansion, spans and positions all derive from the one ``Expansion`` made here, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebay.errors import Rejected
from forebay.features import Int64Array, Modality, Span, ids_array


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` copies of one token; ``carries`` says whether features stand behind them."""

    token_id: int
    count: int
    carries: bool = True


@dataclass(frozen=True, slots=True)
class Layout:
    """The runs that replace one placeholder: feature tokens, and separators between them where a family has any."""

    runs: tuple[Run, ...]

    @property
    def length(self) -> int:
        return sum(run.count for run in self.runs)

    @property
    def tokens(self) -> int:
        """Tokens with features behind them."""
        return sum(run.count for run in self.runs if run.carries)

    @classmethod
    def repeat(cls, token_id: int, count: int) -> Layout:
        """The usual layout: the placeholder itself, once per feature token."""
        return cls((Run(token_id, count),))

    def ids(self) -> Int64Array:
        return np.repeat(ids_array([r.token_id for r in self.runs]), [r.count for r in self.runs])

    def spans_from(self, start: int) -> tuple[Span, ...]:
        """Spans of the feature runs when the layout begins at token ``start``."""
        spans, at = [], start
        for run in self.runs:
            if run.carries and run.count:
                spans.append(Span(at, at + run.count - 1))
            at += run.count
        return tuple(spans)


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """An expanded prompt: ``input_ids`` is ``int64 [n]``; ``spans[i]`` are the tokens of item ``i``."""

    input_ids: Int64Array
    spans: tuple[tuple[Span, ...], ...]


def expand(
    prompt: Sequence[int] | Int64Array,
    placeholders: Mapping[Modality, int],
    modalities: Sequence[Modality],
    layouts: Sequence[Layout],
) -> Expansion:
    """Replace the i-th placeholder of a modality by the layout of its i-th item.

    Args:
        prompt: token ids before expansion.
        placeholders: the token that stands for one item, by modality.
        modalities: the modality of each item, in the order the caller gave them.
        layouts: one layout an item, in the same order.

    Raises:
        Rejected: when a modality has another number of placeholders than of items; both counts are named.
    """
    ids = ids_array(prompt)
    sites = _sites(ids, placeholders, modalities)
    pieces: list[Int64Array] = []
    spans: list[tuple[Span, ...]] = [()] * len(layouts)
    taken = length = 0
    for site, item in sites:
        pieces.append(ids[taken:site])
        length += site - taken
        spans[item] = layouts[item].spans_from(length)
        pieces.append(layouts[item].ids())
        length += layouts[item].length
        taken = site + 1
    pieces.append(ids[taken:])
    return Expansion(np.concatenate(pieces), tuple(spans))


def _sites(
    ids: Int64Array, placeholders: Mapping[Modality, int], modalities: Sequence[Modality]
) -> list[tuple[int, int]]:
    """Pairs of (index in the prompt, item), in prompt order."""
    sites: list[tuple[int, int]] = []
    for modality in dict.fromkeys([*placeholders, *modalities]):
        items = [number for number, kind in enumerate(modalities) if kind == modality]
        token_id = placeholders.get(modality)
        found = np.flatnonzero(ids == token_id).tolist() if token_id is not None else []
        _check_counts(modality, len(found), len(items))
        sites.extend(zip(found, items, strict=True))
    return sorted(sites)


def _check_counts(modality: Modality, placeholders: int, items: int) -> None:
    if placeholders != items:
        raise Rejected(
            "placeholder_mismatch",
            f"the prompt has {_plural(placeholders, f'{modality} placeholder')}, "
            f"the request has {_plural(items, str(modality))}",
            param=f"{modality}_data",
        )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
