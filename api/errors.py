"""Errors at the HTTP door: every one of them leaves as ``{"error": {type, code, message, param, rid}}``."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from api.answers import EndedBadly
from api.intake import ClientGoneError
from api.metrics import Metrics
from forebay.errors import Failed, Problem, Rejected

log = logging.getLogger(__name__)

_CLIENT_CLOSED = 499  # nginx' code for it; nobody receives it


def respond(problem: Problem, rid: str | None) -> JSONResponse:
    """A problem as a response."""
    headers = {} if problem.retry_after_s is None else {"Retry-After": str(problem.retry_after_s)}
    return JSONResponse(problem.body(rid), problem.status, headers)


def install(app: FastAPI, metrics: Metrics) -> None:
    """Translate whatever a route raises, and count what never became a request."""

    async def ours(request: Request, error: Exception) -> JSONResponse:
        problem = error.problem if isinstance(error, EndedBadly) else Problem.of(error)
        if not isinstance(error, EndedBadly):  # that one was counted by its route, with its model
            metrics.refused(request.url.path, problem)
        return respond(problem, getattr(request.state, "rid", None))

    app.add_exception_handler(Rejected, ours)
    app.add_exception_handler(Failed, ours)
    app.add_exception_handler(ClientGoneError, _gone)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _unforeseen)


async def _gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=_CLIENT_CLOSED)


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    message = f"{request.method} {request.url.path}: {error.detail}"
    response = respond(Problem(code, message, error.status_code), None)
    response.headers.update(error.headers or {})  # a 405 must say what is allowed
    return response


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    rid = getattr(request.state, "rid", None)
    log.error("unforeseen error", extra={"rid": rid, "path": request.url.path}, exc_info=error)
    return respond(Problem.of(error), rid)
