"""What can go wrong with a fetch that is not the caller's fault, until it is clear whether another try would help."""

from __future__ import annotations

from forebay.errors import Failed


class Trouble(Exception):
    """A try that failed.

    Args:
        reason: said after the address: "it answered 503".
        is_passing: whether another try may go better.
        is_slow: whether it took too long.
    """

    def __init__(self, reason: str, *, is_passing: bool = False, is_slow: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_passing = is_passing
        self.is_slow = is_slow

    def as_failure(self, param: str, shown: str) -> Failed:
        """What the caller is told once nobody tries again."""
        message = f"{param}: {shown} could not be fetched: {self.reason}"
        if self.is_slow:
            return Failed("media_fetch_timeout", message, status=504, retry_after_s=5)
        return Failed("media_fetch_failed", message, status=502, retry_after_s=5)
