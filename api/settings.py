"""What the API process needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.settings import SharedSettings, read_port, read_size, setting, whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings(SharedSettings):
    """Settings of ``forebay api``."""

    host: str = setting("FOREBAY_HOST", str, "127.0.0.1")
    port: int = setting("FOREBAY_PORT", read_port, 8000)
    listen_fd: int | None = setting("FOREBAY_LISTEN_FD", int, None)
    """A listening socket that the launcher already holds, so that a restart refuses no connection."""
    timeout_ms: int = setting("FOREBAY_TIMEOUT_MS", whole_number(1), 120_000)
    """Time to the deadline of a request that names none."""
    max_live: int = setting("FOREBAY_MAX_LIVE", whole_number(1), 2048)
    """Most requests between accepted and ended, over the whole deployment."""
    max_body_bytes: int = setting("FOREBAY_MAX_BODY_BYTES", read_size, 256 << 20)
    max_item_bytes: int = setting("FOREBAY_MAX_ITEM_BYTES", read_size, 64 << 20)
    drain_s: int = setting("FOREBAY_DRAIN_S", whole_number(0), 30)
    """How long a stopping process waits for the requests it serves."""
