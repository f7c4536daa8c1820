"""A folder's prompts through our processor and through Hugging Face's own, side by side.

Also a program, so that it runs where torchvision was never imported: ``python -m tests.processors.hf_cases FOLDER``.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from forebay import Audio, Image, Media, Modality, ModelSource, Output, testing
from processors.huggingface import HuggingFace, named_tensors
from processors.huggingface.loading import load_processor
from tests.processors.pictures import landscape, noise

SIZES = [(60, 90), (300, 200), (56, 56), (10, 150), (333, 517), (3, 40), (150, 10), (480, 640)]
SECONDS = (0.5, 1.0, 2.37, 7.0)


@dataclass(frozen=True, slots=True)
class Compared:
    """One prompt: what differed, nothing where all was bit-equal."""

    name: str
    backend: str
    differences: tuple[str, ...]
    largest: float


def compare_folder(folder: Path) -> list[Compared]:
    """Every case of a folder."""
    ours, theirs = HuggingFace(ModelSource("transformers", folder)), load_processor(folder)
    part = getattr(theirs, "image_processor", None) or theirs.feature_extractor
    backend = getattr(part, "backend", "numpy")
    return [_compare(ours, theirs, backend, name, text, media) for name, text, media in cases(ours, theirs)]


def cases(ours: HuggingFace, theirs: Any) -> list[tuple[str, str, list[Media]]]:
    """One item, several, several without a word between, the same twice, and no item where the family allows it."""
    modality = next(iter(ours.capabilities().modalities))
    token = getattr(theirs, f"{modality}_token", None) or ""
    items = pictures() if modality is Modality.IMAGE else recordings()
    made: list[tuple[str, str, list[Media]]] = [
        (f"one {number}", f"What is this?\n{token}\nDescribe it", [item]) for number, item in enumerate(items)
    ]
    made += [
        ("two apart", f"First {token} and then {token}, what differs?", items[:2]),
        ("three in a row", f"{token * 3}\n\nWhat is said?", items[1:4]),
        ("at the ends", f"{token}between{token}", [items[3], items[0]]),
        ("twice", f"{token} and {token} are the same", [items[2], items[2]]),
    ]
    if type(theirs).__name__ not in ("PaliGemmaProcessor",):  # which takes no text alone
        made.append(("text alone", "What is this?", []))
    return made


def pictures() -> list[Media]:
    draw = (noise, landscape)
    return [testing.image(draw[number % 2](*size, seed=number)) for number, size in enumerate(SIZES)]


def recordings() -> list[Media]:
    rng = np.random.default_rng(0)
    return [testing.audio(rng.normal(0, 0.1, int(seconds * 16_000))) for seconds in SECONDS]


def call_directly(theirs: Any, text: str, media: Sequence[Media]) -> dict[str, np.ndarray]:
    given: dict[str, Any] = {"text": [text], "return_tensors": "np"}
    if images := [Pillow.fromarray(one.pixels) for one in media if isinstance(one, Image)]:
        given["images"] = images
    if audio := [one for one in media if isinstance(one, Audio)]:
        given |= {"audio": [one.samples for one in audio], "sampling_rate": audio[0].rate_hz}
    return {name: np.asarray(value) for name, value in dict(theirs(**given)).items()}


def _compare(ours: HuggingFace, theirs: Any, backend: str, name: str, text: str, media: Sequence[Media]) -> Compared:
    expected = call_directly(theirs, text, media)
    output = testing.run_processor(ours, media, text=text)
    differences, largest = [], 0.0
    ids = expected.pop("input_ids", expected.get("labels"))
    mask = expected.pop("attention_mask", None)
    if mask is not None and not mask.all():
        differences.append("attention_mask")
    if not np.array_equal(output.input_ids, ids[0]):
        differences.append("input_ids")
    joined = join(output, expected) if media else {}
    for key, tensor in (expected if media else {}).items():
        found = joined.pop(key, None)
        if found is None or found.dtype != tensor.dtype or not np.array_equal(found, tensor):
            differences.append(key)
            if found is not None and found.shape == tensor.shape:
                largest = max(largest, float(np.abs(found.astype(float) - tensor).max()))
    differences += [f"{key} is not theirs" for key in joined]
    differences += wrong_spans(ours, output, media)
    return Compared(name, backend, tuple(differences), largest)


def join(output: Output, expected: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors of the whole request, from those of its items."""
    items = [named_tensors(item.feature.array, item.model_specific) for item in output.items]
    joined = {}
    for name in items[0]:
        parts = [item[name] for item in items if name in item]
        axis = 1 if len(parts) > 1 and name in expected and expected[name].shape[0] == 1 else 0
        joined[name] = np.concatenate(parts, axis) if len(parts) > 1 else parts[0]
    return joined


def wrong_spans(ours: HuggingFace, output: Output, media: Sequence[Media]) -> list[str]:
    """The spans of all items are exactly the tokens that features stand behind, in order."""
    traits = next(iter(ours._traits.values()))
    if not media or traits.carrier is None:
        return []
    carriers = np.flatnonzero(output.input_ids == ours._caller.id_of(traits.carrier)).tolist()
    covered = [at for item in output.items for span in item.spans for at in range(span.first, span.last + 1)]
    return [] if covered == carriers else ["spans"]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    assert "torchvision" not in sys.modules
    found = {
        folder: [[one.name, one.backend, one.differences, one.largest] for one in compare_folder(Path(folder))]
        for folder in sys.argv[1:]
    }
    print(json.dumps(found))
