"""The processors of recordings: one whose model reads them alone, one that reads them among words."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from forebay import (
    Audio,
    Capabilities,
    DType,
    Feature,
    Item,
    Layout,
    Media,
    Modality,
    ModelSource,
    Output,
    Planned,
    Processed,
    Processor,
    Rejected,
    Span,
    Tokenizer,
    Work,
)
from forebay.drive import prompt_ids
from forebay.features import ids_array
from processors.log_mel.folder import CONFIG, read_hearing

MAX_RECORDINGS = 16
STAND_IN = 0
"""The token that a recording goes with where the decoder reads none."""
FRAMES = "feature_frames"


class LogMelFamily(Processor):
    """A feature is ``float32 [bands, frames]``, of all that the model hears; silence fills what a recording leaves."""

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        self.hearing = read_hearing(model)
        # torch comes with the kernel, so only where a processor is built: in a worker's child, after the fork.
        from processors.log_mel.kernel import LogMel

        self._mel = LogMel(self.hearing)

    def config(self) -> Mapping[str, Any]:
        torch = version("torch").partition("+")[0]
        return {"hearing": self.hearing.as_json(), "transform": f"torch {torch}, float32"}

    def plan_item(self, media: Media) -> Planned | None:
        if not isinstance(media, Audio):
            return None
        frames = self._frames(media)
        shape = (self.hearing.bands, self.hearing.frames)
        return Planned(shape, DType.FLOAT32, self._tokens(media, frames), {FRAMES: frames})

    def process_item(self, media: Media, work: Work) -> Processed:
        planned = self.plan_item(media)
        if planned is None or not isinstance(media, Audio):
            return super().process_item(media, work)
        array = work.empty(planned.shape, planned.dtype)
        self._mel.write(media.samples, array)
        return Processed(Feature.of(array, planned.dtype), planned.tokens, planned.model_specific)

    def _frames(self, media: Audio) -> int:
        """Frames that begin within the recording.

        Raises:
            Rejected: it is empty, or longer than the model hears; both lengths are told.
        """
        samples, most = len(media.samples), self.hearing.samples
        if not samples:
            raise Rejected("audio_too_short", "the recording has 0 samples; at least 1 is heard", param=media.param)
        if samples > most:
            raise Rejected(
                "audio_too_long",
                f"the audio has {samples} samples ({media.duration_s:.2f} s); the model hears {most} "
                f"({self.hearing.seconds} s)",
                param=media.param,
            )
        return -(-samples // self.hearing.hop)

    def _tokens(self, media: Audio, frames: int) -> int:
        return 1


class Whisper(LogMelFamily):
    """Whisper: a recording for the encoder, and words or ids that the decoder begins with."""

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.AUDIO: 1}, audio_rate_hz=self.hearing.rate_hz, needs_prompt_tokens=False
        )

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        if not work.media:
            raise Rejected(
                "placeholder_mismatch", "the request has 0 recordings; this model takes 1", param="audio_data"
            )
        made = self.process_item(work.media[0], work)
        item = Item(Modality.AUDIO, made.feature, (Span(0, 0),), 1, model_specific=made.model_specific)
        return Output(ids_array([STAND_IN, *self._words(work, tokenizer)]), (item,))

    def _words(self, work: Work, tokenizer: Tokenizer | None) -> list[int]:
        if work.prompt.ids is None and (not work.prompt.text or tokenizer is None):
            return []
        words: list[int] = prompt_ids(work.prompt, tokenizer).tolist()
        return words


class Qwen2Audio(LogMelFamily):
    """Qwen2-Audio: a token for every four frames, which its tower's two steps leave of them."""

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        config = model.json(CONFIG)
        token: int | None = config.get("audio_token_id", int, default=None)
        self._placeholder = config.get("audio_token_index", int) if token is None else token
        self._vocabulary: int | None = config.get("text_config.vocab_size", int, default=None)
        self._context: int | None = config.get("text_config.max_position_embeddings", int, default=None)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.AUDIO: MAX_RECORDINGS},
            placeholders={Modality.AUDIO: self._placeholder},
            audio_rate_hz=self.hearing.rate_hz,
            vocabulary=self._vocabulary,
            context_tokens=self._context,
            cacheable=True,
        )

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        return Layout.repeat(self._placeholder, processed.tokens)

    def _tokens(self, media: Audio, frames: int) -> int:
        tokens = ((frames - 1) // 2 - 1) // 2 + 1
        if tokens < 1:
            least = 2 * self.hearing.hop + 1
            message = f"the audio has {len(media.samples)} samples; a token needs {least}"
            raise Rejected("audio_too_short", message, param=media.param)
        return tokens
