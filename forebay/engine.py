"""The engine contract: what a model package brings so that the scheduler can run the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy.typing as npt

from forebay.dtypes import DType
from forebay.features import Attribute, Int64Array, Modality, Normalisation, Positions, Span
from forebay.model import ModelSource


@dataclass(frozen=True, slots=True)
class Room:
    """What an engine can take now: requests, and prompt tokens over all of them."""

    requests: int
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class AdmittedItem:
    """One media item of an admitted request.

    ``array`` is a read-only view of the feature in shared memory. It is valid until the engine reports the request
    as finished; an engine keeps no reference beyond that.

    ``normalisation`` says how ``uint8`` pixels become what the model reads; for an engine in torch,
    ``scheduler.engines.tensors.model_tensor`` does it.
    """

    modality: Modality
    array: npt.NDArray[Any]
    dtype: DType
    spans: tuple[Span, ...]
    hash: int
    model_specific: Mapping[str, Attribute]
    normalisation: Normalisation | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """A request that the scheduler hands to the engine: ``input_ids`` is ``int64 [n]``, expanded."""

    rid: str
    input_ids: Int64Array
    items: tuple[AdmittedItem, ...]
    positions: Positions | None
    sampling: Mapping[str, Any]

    @property
    def max_new_tokens(self) -> int:
        return int(self.sampling.get("max_new_tokens", DEFAULT_MAX_NEW_TOKENS))


DEFAULT_MAX_NEW_TOKENS = 128  # SGLang's default


@dataclass(frozen=True, slots=True)
class Emission:
    """What one step produced for one request.

    Attributes:
        rid: whose it is.
        text: text to append to the answer; may be empty while a character is incomplete.
        tokens: how many tokens this is, a stop token included.
        finish_reason: ``stop`` or ``length`` on the last emission, else ``None``.
        meta: facts of the model's own about the whole answer, given with the last emission.
        error: why this request alone cannot go on; the engine has forgotten it.
    """

    rid: str
    text: str = ""
    tokens: int = 0
    finish_reason: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    error: Exception | None = None


class Engine(ABC):
    """A model that takes requests as they come and advances all of them a step at a time."""

    needs_folder: ClassVar[bool] = False
    """Whether the engine can only run with ``--model NAME=DIR``."""

    @classmethod
    @abstractmethod
    def create(cls, model: ModelSource) -> Engine:
        """Load the model.

        Raises:
            ConfigurationError: naming the file or key that is missing or unsupported.
        """

    @abstractmethod
    def room(self) -> Room:
        """What could be admitted now."""

    @abstractmethod
    def admit(self, admission: Admission) -> None:
        """Take a request in. ``Rejected`` refuses it; anything else it raises fails that request alone."""

    @abstractmethod
    def step(self) -> Sequence[Emission]:
        """Advance every admitted request; returns at once with nothing when there is none.

        An exception raised here fails every admitted request; ``abort`` is called for each.
        """

    @abstractmethod
    def abort(self, rid: str) -> None:
        """Forget a request; an unknown one is no error."""

    def close(self) -> None:
        """Give back what ``create`` took; the usual engine has nothing to give back."""
        return
