"""The shapes of answers: SGLang's native one for ``/generate``, ours for status and preprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.replies import Ended
from forebay.errors import Failed, Problem
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


def generation(rid: str, result: Mapping[str, Any], elapsed_s: float) -> dict[str, Any]:
    """A finished answer of ``/generate``."""
    meta: dict[str, Any] = {
        "id": rid,
        "prompt_tokens": result["prompt_tokens"],
        "completion_tokens": result["completion_tokens"],
        "finish_reason": {"type": result["finish_reason"]},
        "e2e_latency": round(elapsed_s, 6),
    }
    if result["meta"]:
        meta["engine"] = result["meta"]
    return {"text": result["text"], "meta_info": meta}


def partial(rid: str, text: str, tokens: int) -> dict[str, Any]:
    """An unfinished answer of a stream: all of the text so far, as SGLang streams it."""
    return {"text": text, "meta_info": {"id": rid, "completion_tokens": tokens, "finish_reason": None}}


def status(found: Record) -> dict[str, Any]:
    """What ``GET /v1/requests/{rid}`` tells of a request."""
    return {
        "rid": found.rid,
        "state": str(found.state),
        "model": found.model,
        "attempt": found.attempt,
        "node": found.node or None,
        "deadline_ms": found.deadline_ms,
        "times_ms": dict(found.times_ms),
        "worker_ms": dict(found.worker_ms),
        "error": None if found.problem is None else found.problem.body(found.rid)["error"],
        "result": _result(found),
    }


def _result(found: Record) -> dict[str, Any] | None:
    if found.result is None:
        return None
    if found.kind == "preprocess":
        return {"rid": found.rid, "model": found.model, **found.result}
    elapsed_s = (found.times_ms["end"] - found.times_ms["accepted"]) / 1000
    return generation(found.rid, found.result, elapsed_s)
