"""How a request stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forebay.client.answers import Answer
from forebay.client.errors import RequestFailedError, failure_in
from forebay.client.preparations import Preparation
from forebay.errors import Problem
from forebay.states import State


@dataclass(frozen=True, slots=True)
class Submitted:
    """A request that was sent without waiting."""

    rid: str
    model: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Status:
    """What the API's record of a request says.

    Attributes:
        attempt: how often it was begun.
        node: where it is, or was.
        position: how many stand before it on its queue; ``None`` when it does not stand there.
        deadline_ms, times_ms: milliseconds since 1970, on the deployment's clock.
        worker_ms: where the worker's time went.
        answers: of a request that is done, as many as it wanted.
        preparation: of a ``preprocess`` that is done.
        error: of a request that ended badly.
        raw: the API's own words.
    """

    rid: str
    state: State
    model: str
    attempt: int
    node: str | None
    deadline_ms: int
    position: int | None = None
    times_ms: Mapping[str, int] = field(default_factory=dict)
    worker_ms: Mapping[str, float] = field(default_factory=dict)
    answers: tuple[Answer, ...] = ()
    preparation: Preparation | None = None
    error: RequestFailedError | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def answer(self) -> Answer:
        """The first answer.

        Raises:
            RequestFailedError: the request ended badly, or has no answer yet.
        """
        if self.error is not None:
            raise self.error
        if not self.answers:
            problem = Problem(code="no_answer", message=f"the request is {self.state}; it has no answer", status=409)
            raise RequestFailedError(problem, self.rid)
        return self.answers[0]

    @property
    def submitted(self) -> Submitted:
        """The same as its submission told."""
        return Submitted(self.rid, self.model, self.deadline_ms)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Status:
        result = told["result"]
        results = result if isinstance(result, list) else [] if result is None else [result]
        is_answered = all("meta_info" in one for one in results)
        is_prepared = bool(results) and "processor" in results[0]
        return cls(
            rid=told["rid"],
            state=State(told["state"]),
            model=told["model"],
            attempt=told["attempt"],
            node=told["node"],
            deadline_ms=told["deadline_ms"],
            position=told.get("position"),
            times_ms=told["times_ms"],
            worker_ms=told["worker_ms"],
            answers=tuple(Answer.of(one, index) for index, one in enumerate(results)) if is_answered else (),
            preparation=Preparation.of(results[0]) if is_prepared else None,
            error=None if told["error"] is None else failure_in(told["error"]),
            raw=told,
        )
