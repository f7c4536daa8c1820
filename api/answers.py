"""The shapes of answers: SGLang's native one for ``/generate``, ours for status and preprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.replies import Ended
from forebay.errors import Failed, Problem
from forebay.task import Kind
from handoff.history import Brief
from handoff.record import Record


class EndedBadly(Failed):
    """The request has an end that is not ``done``; the caller gets its problem as the answer."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code, problem.message, status=problem.status, retry_after_s=problem.retry_after_s)
        self.problem = problem


def result_of(ended: Ended) -> Mapping[str, Any]:
    """The result of a good end.

    Raises:
        EndedBadly: any other end.
    """
    if ended.result is not None:
        return ended.result
    raise EndedBadly(ended.problem or Problem("internal_error", "the request ended without a result", 500))


def generations(rid: str, result: Mapping[str, Any], elapsed_s: float) -> list[dict[str, Any]]:
    """The finished answers of one request of ``/generate``: as many as it wanted."""
    return [_generation(rid, result["prompt_tokens"], output, elapsed_s) for output in result["outputs"]]


def _generation(rid: str, prompt_tokens: int, output: Mapping[str, Any], elapsed_s: float) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "id": rid,
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output["completion_tokens"],
        "finish_reason": {"type": output["finish_reason"]},
        "e2e_latency": round(elapsed_s, 6),
    }
    if output["meta"]:
        meta["engine"] = output["meta"]
    return {"text": output["text"], "meta_info": meta}


def one_or_all(answers: list[dict[str, Any]]) -> dict[str, Any] | list[dict[str, Any]]:
    """A single request's answer: itself, or a list where several were wanted."""
    return answers[0] if len(answers) == 1 else answers


def partial(rid: str, text: str, tokens: int) -> dict[str, Any]:
    """An unfinished answer of a stream: all of the text so far, as SGLang streams it."""
    return {"text": text, "meta_info": {"id": rid, "completion_tokens": tokens, "finish_reason": None}}


def brief(one: Brief, rid: str) -> dict[str, Any]:
    """A request in a list; ``rid`` is the caller's name of it."""
    return {
        "rid": rid,
        "state": str(one.state),
        "model": one.model,
        "kind": one.kind,
        "attempt": one.attempt,
        "node": one.node or None,
        "accepted_ms": one.accepted_ms,
        "deadline_ms": one.deadline_ms,
    }


def status(found: Record, rid: str, position: int | None = None) -> dict[str, Any]:
    """What ``GET /v1/requests/{rid}`` tells of a request; ``rid`` is the caller's name of it.

    Args:
        found: its record.
        rid: the caller's name of it.
        position: how many are before it where it waits.
    """
    return {
        "rid": rid,
        "state": str(found.state),
        "position": position,
        "model": found.model,
        "attempt": found.attempt,
        "node": found.node or None,
        "deadline_ms": found.deadline_ms,
        "times_ms": dict(found.times_ms),
        "worker_ms": dict(found.worker_ms),
        "error": None if found.problem is None else found.problem.body(rid)["error"],
        "result": _result(found, rid),
    }


def _result(found: Record, rid: str) -> dict[str, Any] | list[dict[str, Any]] | None:
    if found.result is None:
        return None
    if found.kind != Kind.GENERATE:
        return {"rid": rid, "model": found.model, **found.result}
    elapsed_s = (found.times_ms["end"] - found.times_ms["accepted"]) / 1000
    return one_or_all(generations(rid, found.result, elapsed_s))
