"""The layers that Whisper is made of, as values that can be called. A sequence is ``[length, WIDTH]``, not a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own name for it
from torch import Tensor

from forebay_whisper_tiny_en.weights import Weights

HEADS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A matrix and a bias."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, weights: Weights) -> Linear:
        return cls(weights.tensor("weight"), weights.tensor("bias"))

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """A layer normalisation."""

    gamma: Tensor
    beta: Tensor

    @classmethod
    def of(cls, weights: Weights) -> Norm:
        return cls(weights.tensor("gamma"), weights.tensor("beta"))

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta)


@dataclass(frozen=True, slots=True, eq=False)
class FeedForward:
    """Two linear layers, GELU between them, added to what came in."""

    norm: Norm
    widen: Linear
    narrow: Linear

    @classmethod
    def of(cls, weights: Weights) -> FeedForward:
        return cls(
            Norm.of(weights.below("layer_norm")),
            Linear.of(weights.below("linear_0")),
            Linear.of(weights.below("linear_1")),
        )

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.narrow(F.gelu(self.widen(self.norm(x))))


@dataclass(frozen=True, slots=True, eq=False)
class KeyValues:
    """What an attention looks at: ``[HEADS, length, width of a head]`` each."""

    keys: Tensor
    values: Tensor

    def then(self, later: KeyValues) -> KeyValues:
        return KeyValues(torch.cat((self.keys, later.keys), 1), torch.cat((self.values, later.values), 1))


@dataclass(frozen=True, slots=True, eq=False)
class SelfAttention:
    """A sequence looks at itself and at what came before it; the three projections are one matrix."""

    norm: Norm
    project: Linear
    out: Linear

    @classmethod
    def of(cls, weights: Weights) -> SelfAttention:
        return cls(
            Norm.of(weights.below("layer_norm")),
            Linear.of(weights.below("linear_0")),
            Linear.of(weights.below("linear_1")),
        )

    def __call__(self, x: Tensor, past: KeyValues | None = None, *, is_causal: bool) -> tuple[Tensor, KeyValues]:
        """The sequence, changed, and what the next call needs as its past."""
        queries, keys, values = self.project(self.norm(x)).chunk(3, dim=-1)
        seen = KeyValues(_split(keys), _split(values))
        if past is not None:
            seen = past.then(seen)
        return x + self.out(_attend(_split(queries), seen, is_causal=is_causal)), seen


@dataclass(frozen=True, slots=True, eq=False)
class CrossAttention:
    """A sequence looks at what the encoder heard."""

    norm: Norm
    query: Linear
    project: Linear
    out: Linear

    @classmethod
    def of(cls, weights: Weights) -> CrossAttention:
        return cls(
            Norm.of(weights.below("layer_norm")),
            Linear.of(weights.below("linear_0")),
            Linear.of(weights.below("linear_1")),
            Linear.of(weights.below("linear_2")),
        )

    def look(self, heard: Tensor) -> KeyValues:
        """Keys and values of the encoder's output; they serve every token."""
        keys, values = self.project(heard).chunk(2, dim=-1)
        return KeyValues(_split(keys).contiguous(), _split(values).contiguous())

    def __call__(self, x: Tensor, heard: KeyValues) -> Tensor:
        return x + self.out(_attend(_split(self.query(self.norm(x))), heard, is_causal=False))


def _split(x: Tensor) -> Tensor:
    """``[length, WIDTH]`` as ``[HEADS, length, width of a head]``."""
    return x.view(len(x), HEADS, -1).transpose(0, 1)


def _attend(queries: Tensor, seen: KeyValues, *, is_causal: bool) -> Tensor:
    # The leading axis is a batch of one: torch has its fast kernel only for four axes.
    mixed = F.scaled_dot_product_attention(queries[None], seen.keys[None], seen.values[None], is_causal=is_causal)
    return mixed[0].transpose(0, 1).flatten(1)
