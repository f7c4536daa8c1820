"""A model's answer, as every route gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. While it grows, ``finish_reason`` is ``None`` and ``text`` is all of the text so far.

    Attributes:
        text: what the model said.
        rid: the request's id.
        prompt_tokens: with the media's; ``None`` while the answer grows.
        completion_tokens: of the answer; ``None`` where the route does not count them yet.
        finish_reason: ``stop`` or ``length``, for example.
        index: which answer this is, where several were asked for.
        elapsed_s: from acceptance to end, where the route tells it.
        engine: what the engine told besides the text.
        raw: the API's own words.
    """

    text: str
    rid: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    index: int = 0
    elapsed_s: float | None = None
    engine: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether nothing more will come."""
        return self.finish_reason is not None

    @classmethod
    def of(cls, told: Mapping[str, Any], index: int = 0) -> Answer:
        """From the native shape, whole or growing."""
        meta = told["meta_info"]
        reason = meta["finish_reason"]
        return cls(
            text=told["text"],
            rid=meta["id"],
            prompt_tokens=meta.get("prompt_tokens"),
            completion_tokens=meta.get("completion_tokens"),
            finish_reason=None if reason is None else reason["type"],
            index=told.get("index", index),
            elapsed_s=meta.get("e2e_latency"),
            engine=meta.get("engine") or {},
            raw=told,
        )

    @classmethod
    def of_chat(cls, told: Mapping[str, Any]) -> Answer:
        """From the first choice of a whole conversation's answer."""
        choice, usage = told["choices"][0], told["usage"]
        return cls(
            text=choice["message"]["content"],
            rid=told["id"],
            prompt_tokens=usage["prompt_tokens"],
            completion_tokens=usage["completion_tokens"],
            finish_reason=choice["finish_reason"],
            raw=told,
        )
