"""The requests an engine is working on, and the answer of each so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgpack

from forebay.engine import Emission
from scheduler.intake import Taken


@dataclass(slots=True, eq=False)
class Running:
    """One admitted request."""

    taken: Taken
    pieces: list[str] = field(default_factory=list)
    tokens: int = 0
    emitted: int = 0

    def take(self, emission: Emission) -> None:
        """Add what a step produced."""
        if emission.text:
            self.pieces.append(emission.text)
        self.tokens += emission.tokens

    def piece(self, emission: Emission) -> bytes:
        """The emission as it travels to the caller."""
        return bytes(msgpack.packb([emission.text, emission.tokens]))

    def next_sequence(self) -> int:
        self.emitted += 1
        return self.emitted - 1

    def result(self, emission: Emission) -> dict[str, Any]:
        """The whole answer, with its last emission."""
        return {
            "text": "".join(self.pieces),
            "prompt_tokens": self.taken.ticket.prompt_tokens,
            "completion_tokens": self.tokens,
            "finish_reason": emission.finish_reason,
            "meta": dict(emission.meta),
        }
