"""Patterns of hosts: read once, in the form that hosts are read into, or refused."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from api.fetch.names import read_host, to_ascii, unbracketed

_DOTS = re.compile("[.\u3002\uff0e\uff61]")  # IDNA takes all of them for a dot
_LABEL = re.compile(r"[a-z0-9_*?-]+")
_WILD = re.compile(r"[*?]")


def read_hosts(text: str) -> tuple[str, ...]:
    """Host patterns, separated by commas.

    Raises:
        ValueError: one that no host could match.
    """
    return tuple(read_pattern(part.strip()) for part in text.split(",") if part.strip())


def read_pattern(text: str) -> str:
    """``example.org``, ``*.example.org`` or ``.example.org`` (itself and all below it), an address, ``*`` anywhere.

    Raises:
        ValueError: it is none.
    """
    bare = unbracketed(text)
    try:
        return read_host(bare) if ":" in bare or not _has_wildcard(bare) else _read_wild(bare)
    except ValueError as error:
        hint = "; a host has neither scheme, port nor path here" if re.search("[:/]", bare) else ""
        raise ValueError(f"{text!r} is no pattern of hosts: {error}{hint}") from error


def matches(host: str, pattern: str) -> bool:
    """Whether a pattern is of a host; ``*.example.org`` is of example.org too."""
    return fnmatchcase(host, pattern) or pattern == f"*.{host}"


def _has_wildcard(text: str) -> bool:
    return bool(_WILD.search(text)) or text.startswith(".")


def _read_wild(text: str) -> str:
    labels = _DOTS.split(text)
    if len(labels) > 1 and not labels[-1]:
        labels.pop()
    if len(labels) > 1 and not labels[0]:
        labels[0] = "*"
    read = [label.lower() if label.isascii() else _read_label(label) for label in labels]
    for label in read:
        if not _LABEL.fullmatch(label):
            raise ValueError("it has a part that no host has")
    return ".".join(read)


def _read_label(label: str) -> str:
    if _WILD.search(label):
        raise ValueError("a part with * or ? must be ASCII, because hosts are compared with xn--")
    return to_ascii(label)
