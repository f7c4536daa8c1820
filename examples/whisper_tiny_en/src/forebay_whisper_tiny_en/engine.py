"""The GPU side: every step gives each admitted request one more token of its transcription."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay import Admission, Emission, Engine, ModelSource, Rejected, Room
from forebay_whisper_tiny_en import tokens
from forebay_whisper_tiny_en.files import model_files
from forebay_whisper_tiny_en.transcript import Transcript
from forebay_whisper_tiny_en.vocabulary import read_vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from forebay_whisper_tiny_en.whisper import Utterance, Whisper

MOST_REQUESTS = 4


@dataclass(slots=True)
class Transcription:
    """One admitted request; ``utterance`` is ``None`` until the first step has listened to the recording."""

    rid: str
    features: Tensor
    prompt: list[int]
    most_tokens: int
    transcript: Transcript
    utterance: Utterance | None = None


class WhisperTinyEnEngine(Engine):
    """Greedy decoding, several requests side by side, text streamed token by token."""

    def __init__(self, whisper: Whisper, vocabulary: Sequence[bytes]) -> None:
        self._whisper = whisper
        self._vocabulary = vocabulary
        self._active: dict[str, Transcription] = {}

    @classmethod
    def create(cls, model: ModelSource) -> WhisperTinyEnEngine:
        # torch is loaded here, not with this module: looking an engine up must be quick.
        from forebay_whisper_tiny_en.whisper import Whisper

        files = model_files(model)
        return cls(Whisper.load(files), read_vocabulary(files))

    def room(self) -> Room:
        free = MOST_REQUESTS - len(self._active)
        return Room(requests=free, tokens=free * self._whisper.context)

    def admit(self, admission: Admission) -> None:
        item = admission.items[0]
        prompt = [token for token in admission.input_ids.tolist() if token != tokens.AUDIO]
        self._active[admission.rid] = Transcription(
            rid=admission.rid,
            # Copied at once: a view into shared memory that is never kept cannot be kept too long.
            features=self._whisper.upload(item.array),
            prompt=prompt,
            most_tokens=_most_tokens(admission.max_new_tokens, self._whisper.context - len(prompt)),
            transcript=Transcript(self._vocabulary),
        )

    def step(self) -> Sequence[Emission]:
        return [self._advance(transcription) for transcription in tuple(self._active.values())]

    def abort(self, rid: str) -> None:
        self._active.pop(rid, None)

    def close(self) -> None:
        self._active.clear()

    def _advance(self, transcription: Transcription) -> Emission:
        if transcription.utterance is None:
            transcription.utterance = self._whisper.listen(transcription.features, transcription.prompt)
        token = self._whisper.say(transcription.utterance)
        if token == tokens.END_OF_TEXT:
            return self._finish(transcription, "", "stop")
        text = transcription.transcript.add(token)
        if transcription.utterance.said == transcription.most_tokens:
            return self._finish(transcription, text, "length")
        return Emission(transcription.rid, text, tokens=1)

    def _finish(self, transcription: Transcription, text: str, reason: str) -> Emission:
        del self._active[transcription.rid]
        return Emission(transcription.rid, text + transcription.transcript.end(), tokens=1, finish_reason=reason)


def _most_tokens(wanted: int, possible: int) -> int:
    if wanted < 1:
        raise Rejected("invalid_sampling", f"max_new_tokens is {wanted}; it must be 1 or more", param="max_new_tokens")
    return min(wanted, possible)
