"""The requests an engine is working on, and the answers of each so far: one, or as many as its caller wants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack

from forebay.engine import Admission, Emission
from scheduler.intake import Taken
from scheduler.stops import StopFilter, stops_in


@dataclass(slots=True, eq=False)
class Sample:
    """One answer in the making. ``rid`` is what the engine knows it by."""

    running: Running
    number: int
    rid: str
    stops: StopFilter
    pieces: list[str] = field(default_factory=list)
    tokens: int = 0
    last: Emission | None = None

    @property
    def admission(self) -> Admission:
        """What the engine gets; all samples of a request read the same features."""
        assert self.running.taken.admission is not None
        return replace(self.running.taken.admission, rid=self.rid)

    def take(self, emission: Emission) -> Emission:
        """Add what a step produced; what of it is new to the caller. A stop text ends the answer before itself."""
        text = self.stops.feed(emission.text) if emission.text else ""
        if self.stops.is_over:
            emission = replace(emission, finish_reason="stop")
        elif emission.finish_reason is not None:
            text += self.stops.flush()
        emission = replace(emission, text=text)
        if text:
            self.pieces.append(text)
        self.tokens += emission.tokens
        if emission.finish_reason is not None:
            self.last = emission
        return emission

    def piece(self, emission: Emission) -> bytes:
        """The emission as it travels to the caller."""
        return bytes(msgpack.packb([emission.text, emission.tokens, self.number]))

    def output(self) -> dict[str, Any]:
        """The whole answer, once its last emission is there."""
        assert self.last is not None
        return {
            "text": "".join(self.pieces),
            "completion_tokens": self.tokens,
            "finish_reason": self.last.finish_reason,
            "meta": dict(self.last.meta),
        }


@dataclass(slots=True, eq=False)
class Running:
    """One admitted request."""

    taken: Taken
    samples: list[Sample] = field(default_factory=list)
    emitted: int = 0

    @classmethod
    def of(cls, taken: Taken) -> Running:
        running, count = cls(taken), taken.ticket.samples
        names = [taken.rid] if count == 1 else [f"{taken.rid}#{number}" for number in range(count)]
        stops = stops_in(taken.ticket.sampling)
        running.samples = [Sample(running, number, name, StopFilter(stops)) for number, name in enumerate(names)]
        return running

    @property
    def is_done(self) -> bool:
        """Whether every answer is whole."""
        return all(sample.last is not None for sample in self.samples)

    def next_sequence(self) -> int:
        self.emitted += 1
        return self.emitted - 1

    def result(self) -> dict[str, Any]:
        """All answers, once they are whole."""
        return result_of(self.taken.ticket.prompt_tokens, [sample.output() for sample in self.samples])

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)


def result_of(prompt_tokens: int, outputs: list[dict[str, Any]]) -> dict[str, Any]:
    """What a good end holds: the size of the prompt, and for each answer its text, tokens and how it ended."""
    return {"prompt_tokens": prompt_tokens, "outputs": outputs}
