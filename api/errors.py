"""Errors at the HTTP door: every one of them leaves as ``{"error": {type, code, message, param, rid}}``."""

from __future__ import annotations

import logging
import re
import secrets

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.answers import EndedBadly
from api.intake import ClientGoneError
from api.metrics import Metrics
from forebay.errors import Failed, Problem, Rejected

log = logging.getLogger(__name__)

_OWN_ID, _CALL_ID = re.compile(r"[\x21-\x7e]+"), re.compile(r"[\x21-\x7e]{1,128}")
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
            metrics.refused(request.scope["path"], problem)
        return respond(problem, getattr(request.state, "rid", None))

    app.add_middleware(RequestIds)
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
    response = respond(Problem.of(error), rid)
    response.headers["X-Request-Id"] = _id_of(request.scope)  # this one goes out above every middleware
    return response


class RequestIds:
    """Puts ``X-Request-Id`` on every response: the request's own id, the caller's of the call, or a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = _id_of(scope)
            await send(message)

        await self._app(scope, receive, send_with_id)


def _id_of(scope: Scope) -> str:
    own = scope.get("state", {}).get("rid") or ""
    if _OWN_ID.fullmatch(own):
        return str(own)
    given = Headers(scope=scope).get("x-request-id", "")
    return given if _CALL_ID.fullmatch(given) else secrets.token_hex(16)
