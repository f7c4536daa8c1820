"""Whisper tiny.en in torch: an encoder that listens to a recording, a decoder that says what it heard."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F  # noqa: N812  # torch's own name for it
from torch import Tensor

from forebay_whisper_tiny_en.layers import CrossAttention, FeedForward, KeyValues, Linear, Norm, SelfAttention
from forebay_whisper_tiny_en.weights import Weights

LAYERS = 4
WIDTH = 384


class Encoder:
    """Features ``[80, 3000]`` in, ``[1500, WIDTH]`` out: every position has heard the whole recording."""

    def __init__(self, weights: Weights) -> None:
        self._conv1 = Linear.of(weights.below("conv1"))
        self._conv2 = Linear.of(weights.below("conv2"))
        self._positions = weights.tensor("position_encodings/encodings")
        self._layers = [_EncoderLayer.of(weights.below(f"layer_{number}")) for number in range(LAYERS)]
        self._norm = Norm.of(weights.below("layer_norm"))

    def __call__(self, features: Tensor) -> Tensor:
        x = F.gelu(F.conv1d(features, self._conv1.weight, self._conv1.bias, padding=1))
        x = F.gelu(F.conv1d(x, self._conv2.weight, self._conv2.bias, stride=2, padding=1))
        x = x.T + self._positions
        for layer in self._layers:
            x, _ = layer.attention(x, is_causal=False)
            x = layer.feed_forward(x)
        return self._norm(x)


@dataclass(frozen=True, slots=True, eq=False)
class _EncoderLayer:
    attention: SelfAttention
    feed_forward: FeedForward

    @classmethod
    def of(cls, weights: Weights) -> _EncoderLayer:
        return cls(SelfAttention.of(weights.below("self_attention")), FeedForward.of(weights.below("ffn")))


@dataclass(slots=True)
class Memory:
    """What the decoder knows of one recording: by layer, what was heard and what it has said since."""

    heard: list[KeyValues]
    said: list[KeyValues | None]
    length: int = 0


class Decoder:
    """The tokens said since the last call in, the logits of the next token out."""

    def __init__(self, weights: Weights) -> None:
        self._embeddings = weights.tensor("embeddings/weight")  # also the last projection
        self._positions = weights.tensor("position_encodings/encodings")
        self._layers = [_DecoderLayer.of(weights.below(f"layer_{number}")) for number in range(LAYERS)]
        self._norm = Norm.of(weights.below("layer_norm"))

    @property
    def context(self) -> int:
        """Tokens that it can remember."""
        return len(self._positions)

    def remember(self, heard: Tensor) -> Memory:
        """A new memory of what the encoder heard."""
        return Memory([layer.cross_attention.look(heard) for layer in self._layers], [None] * len(self._layers))

    def __call__(self, tokens: Tensor, memory: Memory) -> Tensor:
        x = F.embedding(tokens, self._embeddings) + self._positions[memory.length : memory.length + len(tokens)]
        memory.length += len(tokens)
        for number, layer in enumerate(self._layers):
            # Only the prompt holds several tokens at once, and it has no past: causal means the square it spans.
            past = memory.said[number]
            x, memory.said[number] = layer.attention(x, past, is_causal=past is None)
            x = layer.feed_forward(layer.cross_attention(x, memory.heard[number]))
        return F.linear(self._norm(x[-1]), self._embeddings)


@dataclass(frozen=True, slots=True, eq=False)
class _DecoderLayer:
    attention: SelfAttention
    cross_attention: CrossAttention
    feed_forward: FeedForward

    @classmethod
    def of(cls, weights: Weights) -> _DecoderLayer:
        return cls(
            SelfAttention.of(weights.below("self_attention")),
            CrossAttention.of(weights.below("attention")),
            FeedForward.of(weights.below("ffn")),
        )
