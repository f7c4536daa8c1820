"""The processor that knows no family: it asks a folder's own, and takes what it says apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from forebay import (
    Audio,
    Capabilities,
    ConfigurationError,
    FileTokenizer,
    Image,
    Item,
    Layout,
    Media,
    Modality,
    ModelSource,
    Output,
    Processor,
    Rejected,
    Run,
    Span,
    Tokenizer,
    Work,
)
from forebay.drive import prompt_ids
from forebay.features import Int64Array
from forebay.layout import expand
from processors.huggingface.calls import Answer, Caller
from processors.huggingface.loading import load_processor
from processors.huggingface.probe import Traits, probe, tokens_of
from processors.huggingface.split import parts_of, spans_of
from processors.huggingface.tensors import carry, prompt_tensors
from processors.pixels.sides import check_sides

_CONFIG = "config.json"
_PACKAGES = ("transformers", "pillow", "numpy", "torch")


class HuggingFace(Processor):
    """Images and audio for any folder with a Hugging Face processor: its own output, bit for bit.

    It takes over the whole flow, because many families add text around an item's tokens, which only the whole text's
    tokenization gets right. An item's feature is the largest of its tensors; ``named_tensors`` has all of them.
    """

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        if model.folder is None:
            raise ConfigurationError(f"model {model.name!r} was given no folder: use {model.name}=DIR")
        self._caller = Caller(load_processor(model.folder))
        findings = probe(self._caller, str(model.folder))
        self._traits, self._prompt_names = findings.traits, findings.prompt_names

    def capabilities(self) -> Capabilities:
        tokenizer, audio = self._caller.tokenizer, self._caller.audio_part
        return Capabilities(
            modalities={modality: traits.limit for modality, traits in self._traits.items()},
            placeholders=self._placeholders(),
            audio_rate_hz=int(getattr(audio, "sampling_rate", 16_000)),
            vocabulary=None if tokenizer is None else len(tokenizer),
            context_tokens=self._context(),
            needs_prompt_tokens=tokenizer is not None,
        )

    def config(self) -> Mapping[str, Any]:
        processor = self._caller.processor
        return {
            "versions": {name: version(name).partition("+")[0] for name in _PACKAGES},
            "classes": [type(part).__name__ for part in self._parts()],
            "settings": [json.loads(part.to_json_string()) for part in self._parts()],
            "processor": type(processor).__name__,
        }

    def tokenizer(self) -> Tokenizer | None:
        fast = getattr(self._caller.tokenizer, "backend_tokenizer", None)
        return None if fast is None else FileTokenizer(fast)

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        self._check_sizes(work.media)
        if work.prompt.ids is None:
            return self._from_text(work.prompt.text or "", work)
        return self._from_ids(work, tokenizer)

    def _from_text(self, text: str, work: Work) -> Output:
        """As the family itself does it, from the text to the expanded ids."""
        for modality, traits in self._traits.items():
            self._check_count(text, modality, traits, len(_of(work.media, modality)))
        answer = self._ask(text, work.media)
        counted = self._tokens(answer, work.media)
        if not answer.ids.size:
            raise Rejected("empty_prompt", "the text has no token", param="text")
        spans: dict[Modality, list[tuple[Span, ...]]] = {}
        for modality, tokens in counted.items():
            traits = self._traits[modality]
            if traits.carrier is not None:
                carrier = self._caller.id_of(traits.carrier)
                spans[modality] = spans_of(answer.ids, carrier, tokens, f"{modality}_data")
        beside = {name: answer.tensors[name] for name in self._prompt_names & set(answer.tensors)}
        told = prompt_tensors(beside) if work.media else {}
        return self._output(answer.ids, answer, work, spans, told)

    def _from_ids(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        """Ids are taken as they are: each placeholder among them becomes what its text would."""
        prompt = prompt_ids(work.prompt, tokenizer, self.capabilities().vocabulary)
        text = "".join(
            (traits.placeholder or "") * len(_of(work.media, modality)) for modality, traits in self._traits.items()
        )
        answer = self._ask(text or None, work.media) if work.media else Answer(prompt, {})
        modalities, layouts, numbers = [], [], []
        for modality, traits in self._traits.items():
            if traits.carrier is None:
                continue
            places = [number for number, one in enumerate(work.media) if one.modality is modality]
            replacements = answer.replacements.get(modality, ())
            modalities += [modality] * len(places)
            layouts += [self._layout(replacement, traits.carrier) for replacement in replacements]
            numbers += places
        expansion = expand(prompt, self._placeholders(), modalities, layouts)
        spans: dict[Modality, list[tuple[Span, ...]]] = {}
        for modality, found in zip(modalities, expansion.spans, strict=True):
            spans.setdefault(modality, []).append(found)
        return self._output(expansion.input_ids, answer, work, spans, {})

    def _output(
        self,
        ids: Int64Array,
        answer: Answer,
        work: Work,
        spans: Mapping[Modality, Sequence[tuple[Span, ...]]],
        beside: Mapping[str, Any],
    ) -> Output:
        items: dict[int, Item] = {}
        tokens, tensors = self._tokens(answer, work.media), self._tensors_of(answer)
        for modality, counts in tokens.items():
            numbers = [number for number, one in enumerate(work.media) if one.modality is modality]
            parts = {name: parts_of(name, tensor, counts) for name, tensor in tensors[modality].items()}
            placed = spans.get(modality) or self._unplaced(numbers, len(ids), modality)
            for place, number in enumerate(numbers):
                feature, told = carry({name: part[place] for name, part in parts.items()}, work)
                items[number] = Item(modality, feature, placed[place], counts[place], model_specific=told)
        if items and beside:
            first = items[0]
            items[0] = Item(
                first.modality,
                first.feature,
                first.spans,
                first.tokens,
                model_specific={**first.model_specific, **beside},
            )
        return Output(ids, tuple(items[number] for number in sorted(items)))

    def _unplaced(self, numbers: Sequence[int], length: int, modality: Modality) -> list[tuple[Span, ...]]:
        """Where a prompt has nothing that stands for an item, it goes with the prompt's token of its own number."""
        if numbers[-1] >= length:
            raise Rejected(
                "placeholder_mismatch",
                f"the prompt has {length} tokens for {numbers[-1] + 1} items; each stands on one of its own",
                param=f"{modality}_data",
            )
        return [(Span(number, number),) for number in numbers]

    def _tensors_of(self, answer: Answer) -> dict[Modality, dict[str, Any]]:
        """Whose each tensor is: a family of several modalities has names of each."""
        own = {name: tensor for name, tensor in answer.tensors.items() if name not in self._prompt_names}
        audio = self._caller.audio_part
        if Modality.IMAGE not in self._traits or audio is None:
            return dict.fromkeys(self._traits, own)
        heard = {name for name in own if "audio" in name or name in audio.model_input_names or "input_feat" in name}
        return {
            Modality.IMAGE: {name: tensor for name, tensor in own.items() if name not in heard},
            Modality.AUDIO: {name: tensor for name, tensor in own.items() if name in heard},
        }

    def _tokens(self, answer: Answer, media: Sequence[Media]) -> dict[Modality, list[int]]:
        counted = {}
        for modality, traits in self._traits.items():
            if items := len(_of(media, modality)):
                counted[modality] = tokens_of(answer.replacements.get(modality), traits.carrier, items)
                self._check_tokens(counted[modality], modality)
        return counted

    @staticmethod
    def _check_tokens(tokens: Sequence[int], modality: Modality) -> None:
        """A family may give a very short item no token; its features would stand behind nothing."""
        if 0 in tokens:
            place = tokens.index(0)
            code = "audio_too_short" if modality is Modality.AUDIO else "invalid_media"
            message = f"the model's own processor gives {modality} {place} 0 tokens; at least 1 is needed"
            raise Rejected(code, message, param=f"{modality}_data[{place}]")

    def _ask(self, text: str | None, media: Sequence[Media]) -> Answer:
        try:
            return self._caller.call(text, media)
        except (ValueError, TypeError) as error:  # with what a family refuses a prompt or an item
            said = " ".join(str(error).split())[:300]
            raise Rejected("invalid_media", f"the model's own processor refuses the request: {said}") from error

    def _layout(self, replacement: str, carrier: str) -> Layout:
        carrying = self._caller.id_of(carrier)
        ids = np.asarray(self._caller.encode(replacement))
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        counts = np.diff(np.append(starts, ids.size))
        runs = zip(ids[starts].tolist(), counts.tolist(), strict=True)
        return Layout(tuple(Run(token, count, carries=token == carrying) for token, count in runs))

    def _placeholders(self) -> dict[Modality, int]:
        return {
            modality: self._caller.id_of(traits.placeholder)
            for modality, traits in self._traits.items()
            if traits.placeholder is not None
        }

    def _check_count(self, text: str, modality: Modality, traits: Traits, items: int) -> None:
        found = self._caller.count(text, modality)
        if traits.placeholder is None or found == items or (traits.infers and not found):
            return
        raise Rejected(
            "placeholder_mismatch",
            f"the prompt has {found} {modality} placeholders ({traits.placeholder}), the request has {items}",
            param=f"{modality}_data",
        )

    def _check_sizes(self, media: Sequence[Media]) -> None:
        """What would cost out of all proportion, or be cut.

        A family that brings the shorter side to a size makes gigabytes of a line of pixels. Of a long recording the
        reference leaves the end out in silence.
        """
        most = getattr(self._caller.audio_part, "n_samples", None)
        for one in media:
            if isinstance(one, Image):
                check_sides(one.height, one.width, one.param)
            if isinstance(one, Audio) and most is not None and len(one.samples) > most:
                raise Rejected(
                    "audio_too_long",
                    f"the audio has {len(one.samples)} samples; the model takes {most}",
                    param=one.param,
                )

    def _parts(self) -> list[Any]:
        return [part for part in (self._caller.image_part, self._caller.audio_part) if part is not None]

    def _context(self) -> int | None:
        if self.model.folder is None or not (self.model.folder / _CONFIG).is_file():
            return None
        config = self.model.json(_CONFIG)
        for key in ("text_config.max_position_embeddings", "max_position_embeddings"):
            found: int | None = config.get(key, int, default=None)
            if found:
                return found
        return None


def _of(media: Sequence[Media], modality: Modality) -> list[Media]:
    return [one for one in media if one.modality is modality]
