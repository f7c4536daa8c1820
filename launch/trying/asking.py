"""The prompt of a trial: the caller's text, with a placeholder for each item that it does not name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from forebay.media import Media
from forebay.processor import Capabilities, Prompt, Tokenizer

_WORD = 1  # stands for a text where nothing can tokenize one


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, and what was done to the caller's text; empty when nothing was."""

    prompt: Prompt
    note: str = ""


def prompt_for(
    text: str | None, media: Sequence[Media], capabilities: Capabilities, tokenizer: Tokenizer | None
) -> Asked:
    """The prompt as token ids, or as text where the processor reads none."""
    if not capabilities.needs_prompt_tokens:
        return Asked(Prompt(text=text or ""), "this model reads no text" if text else "")
    note = ""
    if tokenizer is None:
        ids = [_WORD]
        note = "there is no tokenizer (--model-dir?), so token 1 stands for the text" if text else ""
    else:
        ids = tokenizer.encode(text) if text else []
    missing = _missing(ids, media, capabilities)
    if missing and text and tokenizer is not None:
        note = f"the text has no placeholder for {len(missing)} of the items, so theirs were put before it"
    return Asked(Prompt(ids=tuple([*missing, *ids] or [_WORD])), note)


def _missing(ids: Sequence[int], media: Sequence[Media], capabilities: Capabilities) -> list[int]:
    """Placeholders of the items that the ids have none for, in the items' order."""
    there = Counter(ids)
    missing = []
    for one in media:
        placeholder = capabilities.placeholders.get(one.modality)
        if placeholder is None:
            continue
        if there[placeholder]:
            there[placeholder] -= 1
        else:
            missing.append(placeholder)
    return missing
