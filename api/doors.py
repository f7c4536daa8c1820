"""Who may come in, decided before anything of a call is read: a key's tenant, or anybody where there are no keys."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.errors import respond
from api.keyring import KeyRing
from api.metrics import Metrics
from api.settings import MetricsAccess
from api.tenants import ANYBODY, Tenant
from forebay.errors import Problem
from handoff.moves import Quota

OPEN_PATHS = frozenset({"/health", "/ready", "/openapi.json", "/docs"})
"""What says nothing of anybody: probes and the documentation."""
_DOCS = "/docs/"
_METRICS = "/metrics"

_UNKNOWN = Problem("invalid_api_key", "no valid API key; send it as Authorization: Bearer", 401)
_NOT_OPERATOR = Problem("not_permitted", "this needs the key of an operator", 403)
_SWITCHED_OFF = Problem("not_found", "GET /metrics: switched off", 404)


class Doors:
    """Finds out who asks, and leaves it in the request's state."""

    def __init__(
        self, app: ASGIApp, keys: KeyRing | None, default: Quota, access: MetricsAccess, metrics: Metrics
    ) -> None:
        self._app = app
        self._keys = keys
        self._anybody = Tenant(ANYBODY.name, default, is_operator=True)
        self._access = access
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        tenant = self._tenant(scope)
        problem = self._refusal(scope["path"], tenant)
        if problem is None:
            scope.setdefault("state", {})["tenant"] = tenant or ANYBODY
            await self._app(scope, receive, send)
            return
        self._metrics.refused("door", problem)
        response = respond(problem, None)
        if problem.status == _UNKNOWN.status:
            response.headers["WWW-Authenticate"] = "Bearer"
        await response(scope, receive, send)

    def _tenant(self, scope: Scope) -> Tenant | None:
        if self._keys is None:
            return self._anybody
        scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
        return self._keys.tenant(key.strip()) if scheme.lower() == "bearer" and key.strip() else None

    def _refusal(self, path: str, tenant: Tenant | None) -> Problem | None:
        if path in OPEN_PATHS or path.startswith(_DOCS):
            return None
        if path == _METRICS and self._access is not MetricsAccess.OPERATOR:
            return None if self._access is MetricsAccess.OPEN else _SWITCHED_OFF
        if tenant is None:
            return _UNKNOWN
        if path == _METRICS and not tenant.is_operator:
            return _NOT_OPERATOR
        return None
