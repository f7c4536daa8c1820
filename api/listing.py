"""What a list of requests is asked for: which of them, how many, from where on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from forebay.errors import Rejected
from forebay.states import State
from handoff.history import Brief, Mark

DEFAULT, MOST = 50, 200
STATES = (*map(str, State), "live", "ended")
_CURSOR = re.compile(r"([0-9]{1,16})\.([\x21-\x7e]{1,128})")


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list. ``state`` is one, or ``live`` or ``ended``; the mark's rid is the caller's."""

    state: str | None
    model: str | None
    limit: int
    after: Mark | None

    def wants(self, one: Brief) -> bool:
        """Whether a request is to be listed."""
        group = "ended" if one.state.is_end else "live"
        return self.state in (None, group, str(one.state)) and self.model in (None, one.model)


def read_listing(query: Mapping[str, str]) -> Listing:
    """The page that a query asks for.

    Raises:
        Rejected: naming the parameter that is wrong.
    """
    state = query.get("state") or None
    if state is not None and state not in STATES:
        raise Rejected("invalid_request", f"state {state[:32]!r} is none of {', '.join(STATES)}", param="state")
    limit = query.get("limit") or str(DEFAULT)
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= MOST:
        raise Rejected("invalid_request", f"limit must be 1 to {MOST}, got {limit[:16]!r}", param="limit")
    return Listing(state, query.get("model") or None, int(limit), _mark(query.get("cursor")))


def _mark(cursor: str | None) -> Mark | None:
    if not cursor:
        return None
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise Rejected("invalid_request", f"cursor {cursor[:32]!r} is not one of a list", param="cursor")
    return Mark(int(match[1]), match[2])
