"""The CPU side: speech in, log-mel features out. It takes over the whole flow, because the model reads no prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from forebay import (
    Audio,
    Capabilities,
    DType,
    Feature,
    Item,
    Media,
    Modality,
    ModelSource,
    Output,
    Planned,
    Processor,
    Rejected,
    Span,
    Tokenizer,
    Work,
)
from forebay_whisper_tiny_en import mel, tokens


class WhisperTinyEnProcessor(Processor):
    """Makes one ``float32 [80, 3000]`` feature of a recording of up to 30 seconds, and the decoder's prompt."""

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        self._log_mel = mel.LogMel()

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.AUDIO: 1},
            audio_rate_hz=mel.RATE_HZ,
            vocabulary=tokens.VOCABULARY,
            needs_prompt_tokens=False,
        )

    def config(self) -> Mapping[str, Any]:
        return {"bands": mel.BANDS, "fft": mel.FFT, "hop": mel.HOP, "seconds": mel.SECONDS}

    def plan_item(self, media: Media) -> Planned | None:
        return Planned((mel.BANDS, mel.FRAMES), DType.FLOAT32, tokens=1)

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        recording = _only_recording(work.media)
        array = work.empty([mel.BANDS, mel.FRAMES])
        self._log_mel.write(recording.samples, array)
        item = Item(Modality.AUDIO, Feature.of(array, DType.FLOAT32), (Span(0, 0),), tokens=1)
        return Output(np.array([tokens.AUDIO, *tokens.DECODER_PROMPT], dtype=np.int64), (item,))


def _only_recording(media: tuple[Media, ...]) -> Audio:
    """The one recording of the request.

    Raises:
        Rejected: there is none, or it is empty or too long.
    """
    if not media:
        raise Rejected("missing_audio", "the request has 0 recordings; this model takes 1", param="audio_data")
    recording = media[0]
    assert isinstance(recording, Audio)  # the flow hands over no modality that we do not declare
    samples = len(recording.samples)
    if not samples:
        raise Rejected("empty_audio", "empty audio: the recording has no sample", param="audio_data")
    if samples > mel.SAMPLES:
        raise Rejected(
            "audio_too_long",
            f"the audio is {recording.duration_s:.2f} s long ({samples} samples); "
            f"the limit is {mel.SECONDS} s ({mel.SAMPLES} samples)",
            param="audio_data",
        )
    return recording
