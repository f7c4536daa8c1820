"""The release of kombu whose private methods this transport overrides."""

from __future__ import annotations

import kombu

KOMBU = "5.7."


def difference() -> str:
    """Why the transport must not be used with the kombu that is installed; empty when it may."""
    if kombu.__version__.startswith(KOMBU):
        return ""
    return f"kombu {kombu.__version__} is installed; this release works with {KOMBU}x"
