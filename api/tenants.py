"""Whose a request is. What a tenant may see is its own: its requests, its uploads, its cached features.

Inside the tier a request is called ``tenant/rid``; its caller knows it by its own id alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastapi import Request

from handoff.moves import FREE, Quota


@dataclass(frozen=True, slots=True)
class Tenant:
    """One of those who may ask. The name is empty where nobody is told from anybody.

    Attributes:
        quota: what it may have at most.
        is_operator: whether it may see what is about everybody.
    """

    name: str = ""
    quota: Quota = FREE
    is_operator: bool = False

    def inside(self, rid: str) -> str:
        """The name of its request within the tier."""
        return f"{self.name}/{rid}" if self.name else rid

    def outside(self, rid: str) -> str:
        """The caller's own name of a request."""
        return rid.removeprefix(f"{self.name}/") if self.name else rid

    def operating(self) -> Tenant:
        """The same, with an operator's key."""
        return replace(self, is_operator=True)


ANYBODY = Tenant()


def tenant_of(request: Request) -> Tenant:
    """Who asks; the door has found out."""
    tenant: Tenant = request.state.tenant
    return tenant
