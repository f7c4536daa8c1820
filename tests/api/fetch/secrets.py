"""A URL that is full of keys, and the proof that nobody has repeated one."""

from __future__ import annotations

import base64
import re

USER, PASSWORD, SIGNATURE = "us3r-n4me", "p4ss-w0rd", "s1gn4ture"
AUTHORIZATION = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_KEYS = (USER, PASSWORD, SIGNATURE, AUTHORIZATION.removeprefix("Basic "))
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")  # so Celery has the bodies of its events


def secret_url(port: int, path: str, host: str = "127.0.0.1") -> str:
    """On loopback, with a user and a signed query."""
    return f"http://{USER}:{PASSWORD}@{host}:{port}{path}?X-Amz-Signature={SIGNATURE}"


def repeated_in(text: str) -> list[str]:
    """The lines in which a key stands, plain or in base64."""
    return [line[:400] for line in text.splitlines() if any(key in f"{line} {decoded(line)}" for key in _KEYS)]


def decoded(text: str) -> str:
    """What stands in it as base64, as far as it is any."""
    found = (one[0].rstrip("=") for one in _BASE64.finditer(text))
    whole = (one[: len(one) - (len(one) % 4 == 1)] for one in found)
    return " ".join(base64.b64decode(one + "=" * (-len(one) % 4)).decode(errors="replace") for one in whole)
