"""What a loaded processor takes and how it tells it, found by asking it: it is run on small media of our own.

Nothing is known of a family beforehand. Where two items cannot be told apart in what it gives, it takes one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebay import Audio, ConfigurationError, ForebayError, Image, Media, Modality
from processors.huggingface.calls import Answer, Caller
from processors.huggingface.split import is_part_of, parts_of

MAX_ITEMS = 64
_SIZES = ((240, 320), (480, 200))  # of two pictures, one wide and one high
_SECONDS = (1.0, 2.5)


@dataclass(frozen=True, slots=True)
class Traits:
    """How a family tells one modality.

    Attributes:
        placeholder: what stands for an item in a text; ``None`` where nothing does.
        carrier: the token that features stand behind, in its spelling; ``None`` likewise.
        limit: the most items of a request.
        infers: whether placeholders may be left out, because the family puts them in.
    """

    placeholder: str | None
    carrier: str | None
    limit: int
    infers: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """Of the whole processor; ``prompt_names`` are the tensors that go with the prompt."""

    traits: Mapping[Modality, Traits]
    prompt_names: frozenset[str]


def probe(caller: Caller, folder: str) -> Findings:
    """Try each modality that the processor has a part for.

    Raises:
        ConfigurationError: it takes none; what it said is told.
    """
    traits: dict[Modality, Traits] = {}
    names: set[str] = set()
    refusals = []
    for modality in caller.modalities:
        try:
            traits[modality], found = _traits(caller, modality)
            names |= found
        except ForebayError:
            raise
        except Exception as error:  # noqa: BLE001  (any family's own; the operator needs its words)
            refusals.append(f"{modality}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
    if not traits:
        raise ConfigurationError(f"{folder}: its processor takes no medium; {'; '.join(refusals)}")
    return Findings(traits, frozenset(names))


def _traits(caller: Caller, modality: Modality) -> tuple[Traits, set[str]]:
    placeholder, first = caller.placeholder(modality), _samples(caller, modality)[0]
    short = caller.call(_text(caller, placeholder, 1), [first])
    long = caller.call(_text(caller, placeholder, 1, "a longer prompt"), [first])
    names = _of_prompts(short, long)
    heard = short.replacements.get(modality)
    if placeholder is None or not heard:
        return Traits(None, None, MAX_ITEMS if _agrees(caller, modality, None, None, names) else 1), names
    carrier = _carrier(caller, heard[0])
    limit = MAX_ITEMS if _agrees(caller, modality, placeholder, carrier, names) else 1
    return Traits(placeholder, carrier, limit, _infers(caller, carrier, first)), names


def _text(caller: Caller, placeholder: str | None, count: int, more: str = "a") -> str | None:
    if caller.tokenizer is None:
        return None
    return (placeholder or "") * count + more


def _of_prompts(short: Answer, long: Answer) -> set[str]:
    """Tensors as long as the prompt, whatever its length is."""
    return {
        name
        for name, tensor in short.tensors.items()
        if name in long.tensors
        and tensor.shape == (1, len(short.ids))
        and long.tensors[name].shape == (1, len(long.ids))
        and len(short.ids) != len(long.ids)
    }


def _carrier(caller: Caller, replacement: str) -> str:
    """The token that an item's text repeats. Of equals it is the first in the text that is a token of its own."""
    ids = caller.encode(replacement)
    [(most, _)] = Counter(ids).most_common(1)
    return caller.spelling(most)


def _infers(caller: Caller, carrier: str, first: Media) -> bool:
    try:
        answer = caller.call("a", [first])
    except Exception:  # noqa: BLE001  (that it refuses is the answer)
        return False
    return bool((answer.ids == caller.id_of(carrier)).any())


def _agrees(
    caller: Caller, modality: Modality, placeholder: str | None, carrier: str | None, prompt_names: set[str]
) -> bool:
    """Whether what two items give together, taken apart, is what each gives alone."""
    items = _samples(caller, modality)
    try:
        both = caller.call(_text(caller, placeholder, 2), items)
        alone = [caller.call(_text(caller, placeholder, 1), [one]) for one in items]
        tokens = tokens_of(both.replacements.get(modality), carrier, len(items))
        for name in set(both.tensors) - prompt_names:
            parts = parts_of(name, both.tensors[name], tokens)
            if not all(is_part_of(one.tensors[name], part) for one, part in zip(alone, parts, strict=True)):
                return False
    except Exception:  # noqa: BLE001  (whatever stops it, two at a time are not to be had)
        return False
    return True


def tokens_of(replacements: Sequence[str] | None, carrier: str | None, items: int) -> list[int]:
    """How many tokens each item has; one, where nothing stands for it."""
    if not replacements or carrier is None:
        return [1] * items
    return [text.count(carrier) for text in replacements]


def _samples(caller: Caller, modality: Modality) -> tuple[Media, Media]:
    if modality is Modality.IMAGE:
        one, two = (_picture(*size) for size in _SIZES)
        return one, two
    rate = int(caller.audio_part.sampling_rate) if caller.audio_part is not None else 16_000
    first, second = (_tone(seconds, rate) for seconds in _SECONDS)
    return first, second


def _picture(height: int, width: int) -> Image:
    """Two slopes, so that no two tiles of it are alike."""
    rows, columns = np.mgrid[0:height, 0:width]
    pixels = np.stack([rows * 255 // height, columns * 255 // width, (rows + columns) % 256], axis=-1)
    return Image(pixels.astype(np.uint8), "", 0)


def _tone(seconds: float, rate: int) -> Audio:
    times = np.arange(int(seconds * rate), dtype=np.float32) / rate
    return Audio(np.sin(2 * np.pi * 440 * times).astype(np.float32), rate, "", 0)
