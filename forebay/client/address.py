"""Where the API is, and how its caller is known there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE, KEY_VARIABLE = "FOREBAY_URL", "FOREBAY_API_KEY"


@dataclass(frozen=True, slots=True)
class Address:
    """One API, as one caller reaches it."""

    url: str
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str | None, api_key: str | None, environ: Mapping[str, str]) -> Address:
        """What was given, else what the environment says, else this machine without a key.

        Raises:
            ConfigurationError: an address without http:// or https://, or a key that cannot be sent.
        """
        found = url or environ.get(URL_VARIABLE) or DEFAULT_URL
        if not found.startswith(("http://", "https://")):
            raise ConfigurationError(f"the API's address {found!r} must begin with http:// or https://")
        return cls(found.rstrip("/"), _read_key(api_key or environ.get(KEY_VARIABLE) or ""))

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every request."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}


def _read_key(text: str) -> str | None:
    """A key as a file or a variable has it, perhaps with a line's end; it is never shown, not even a wrong one."""
    key = text.strip()
    if not all("!" <= character <= "~" for character in key):
        raise ConfigurationError("an API key is printable ASCII without spaces; this one is not")
    return key or None
