"""One call of a Hugging Face processor and all that it tells: ids, named tensors, what replaced each placeholder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay import Audio, ConfigurationError, Image, Media, Modality
from forebay.features import Int64Array, ids_array
from processors.huggingface.loading import Parts

Tensors = Mapping[str, npt.NDArray[Any]]
_IDS, _MASK = "input_ids", "attention_mask"


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What one call gave.

    Attributes:
        ids: the expanded prompt, ``int64 [n]``; empty where no text was given.
        tensors: everything else by its name, as the model's ``forward`` takes it, for a batch of one.
        replacements: the text that took the place of each item's placeholder, by modality, in order.
    """

    ids: Int64Array
    tensors: Tensors
    replacements: Mapping[Modality, Sequence[str]] = field(default_factory=dict)


class Caller:
    """Calls a processor and listens to how it expands its placeholders.

    Every multimodal processor of transformers replaces placeholders in one method, whatever else it overrides; what
    that method is given is what the prompt became, so nothing of the expansion is computed a second time.
    """

    def __init__(self, processor: Any) -> None:
        self.processor = processor
        self.tokenizer: Any = getattr(processor, "tokenizer", None)
        self.image_part: Any = getattr(processor, "image_processor", None)
        self.audio_part: Any = getattr(processor, "feature_extractor", None)
        self._heard: dict[Modality, list[str]] = {}
        if self.image_part is None and self.audio_part is None:
            raise ConfigurationError(f"a {type(processor).__name__} takes neither images nor audio")
        if hasattr(processor, "get_text_with_replacements"):
            self._expand = processor.get_text_with_replacements
            processor.get_text_with_replacements = self._listen

    @property
    def modalities(self) -> tuple[Modality, ...]:
        parts = {Modality.IMAGE: self.image_part, Modality.AUDIO: self.audio_part}
        return tuple(modality for modality, part in parts.items() if part is not None)

    def placeholder(self, modality: Modality) -> str | None:
        """What stands for an item in a text; ``None`` where the family has no such thing."""
        token = getattr(self.processor, f"{modality}_token", None)
        return token if isinstance(token, str) and token else None

    def count(self, text: str, modality: Modality) -> int:
        token = self.placeholder(modality)
        return len(re.findall(re.escape(token), text)) if token else 0

    def call(self, text: str | None, media: Sequence[Media]) -> Answer:
        """Run it on one prompt. Whatever it raises goes to the caller."""
        self._heard = {}
        given = self._given(text, media)
        out = self._parts(given) if isinstance(self.processor, Parts) else self.processor(**given)
        heard, self._heard = self._heard, {}
        tensors = {name: np.asarray(value) for name, value in dict(out).items() if value is not None}
        ids = tensors.pop(_IDS, None)
        if ids is None and text is not None:
            ids = np.asarray([self.tokenizer(text).input_ids])
        mask = tensors.get(_MASK)
        if ids is not None and mask is not None and mask.shape == ids.shape and mask.all():
            del tensors[_MASK]  # a batch of one is never padded, so it tells nothing
        return Answer(ids_array([] if ids is None else ids[0]), tensors, heard)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False).input_ids
        return ids

    def id_of(self, token: str) -> int:
        return int(self.tokenizer.convert_tokens_to_ids(token))

    def spelling(self, token_id: int) -> str:
        return str(self.tokenizer.convert_ids_to_tokens(token_id))

    def _given(self, text: str | None, media: Sequence[Media]) -> dict[str, Any]:
        from PIL import Image as Pillow  # a picture says which axis is which; an array of 3 rows does not

        given: dict[str, Any] = {"return_tensors": "np"}
        pictures = [Pillow.fromarray(one.pixels) for one in media if isinstance(one, Image)]
        recordings = [one for one in media if isinstance(one, Audio)]
        if text is not None:
            given["text"] = [text]
        if pictures:
            given["images"] = pictures
        if recordings:
            given["audio"] = [one.samples for one in recordings]
            given["sampling_rate"] = recordings[0].rate_hz
        return given

    def _parts(self, given: dict[str, Any]) -> dict[str, Any]:
        """Of a folder with a tokenizer and an image processor or feature extractor, and nothing that binds them."""
        out: dict[str, Any] = {}
        if "text" in given and self.tokenizer is not None:
            out |= self.tokenizer(given["text"], return_tensors="np")
        if "images" in given:
            out |= self.image_part(given["images"], return_tensors="np")
        if "audio" in given:
            out |= self.audio_part(given["audio"], sampling_rate=given["sampling_rate"], return_tensors="np")
        return out

    def _listen(self, text: list[str], *replacements: Any, **named: Any) -> Any:
        names = ("images_replacements", "videos_replacements", "audio_replacements")
        told = dict(zip(names, replacements, strict=False)) | named
        self._heard = {
            modality: list(told.get(name) or ())
            for modality, name in ((Modality.IMAGE, names[0]), (Modality.AUDIO, names[2]))
        }
        return self._expand(text, *replacements, **named)
