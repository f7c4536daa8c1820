"""The model at work: listen to a recording, then say one token after another, the likeliest each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from forebay import ConfigurationError, ModelSource
from forebay_whisper_tiny_en import tokens
from forebay_whisper_tiny_en.checkpoint import Checkpoint, read_checkpoint
from forebay_whisper_tiny_en.network import WIDTH, Decoder, Encoder, Memory
from forebay_whisper_tiny_en.suppression import Suppression
from forebay_whisper_tiny_en.weights import Weights


@dataclass(slots=True)
class Utterance:
    """One recording on its way to text.

    Attributes:
        memory: what the decoder knows.
        unseen: tokens that the decoder has not seen yet: the prompt, later the last token said.
        said: number of tokens said so far.
    """

    memory: Memory
    unseen: Sequence[int]
    said: int = 0


class Whisper:
    """Encoder, decoder and forbidden tokens, on the GPU where there is one."""

    def __init__(self, weights: Weights, suppression: Suppression) -> None:
        self._device = weights.device
        self._encoder = Encoder(weights.below("encoder"))
        self._decoder = Decoder(weights.below("decoder"))
        self._suppression = suppression

    @classmethod
    def load(cls, files: ModelSource) -> Whisper:
        """Fill the model from ``model.bin`` and ``config.json``.

        Raises:
            ConfigurationError: naming the file, and the variable or key that is missing.
        """
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        checkpoint = read_checkpoint(files.file("model.bin"))
        _check_size(checkpoint)
        return cls(Weights(checkpoint, device), Suppression.read(files, device))

    @property
    def context(self) -> int:
        """Tokens of one utterance, prompt included."""
        return self._decoder.context

    def upload(self, array: npt.NDArray[Any]) -> Tensor:
        """A copy of a feature where the model runs; nothing of ``array`` is kept."""
        return torch.tensor(array, device=self._device)

    @torch.inference_mode()
    def listen(self, features: Tensor, prompt: Sequence[int]) -> Utterance:
        """Hear the recording; what is said will begin after ``prompt``."""
        return Utterance(self._decoder.remember(self._encoder(features)), prompt)

    @torch.inference_mode()
    def say(self, utterance: Utterance) -> int:
        """The next token."""
        logits = self._decoder(torch.tensor(utterance.unseen, device=self._device), utterance.memory)
        token = int(self._suppression.apply(logits, is_first=utterance.said == 0).argmax())
        utterance.unseen, utterance.said = [token], utterance.said + 1
        return token


def _check_size(checkpoint: Checkpoint) -> None:
    """Refuse a Whisper of another size or vocabulary: its first layers would load, and the rest be missing."""
    found, needed = checkpoint.array("decoder/embeddings/weight").shape, (tokens.VOCABULARY, WIDTH)
    if found != needed:
        raise ConfigurationError(f"{checkpoint.path}: embeddings are {list(found)}, tiny.en has {list(needed)}")
