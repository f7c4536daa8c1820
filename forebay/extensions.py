"""The extension map: the ``multimodal_*`` fields of a request, carried untouched to the processor that owns them.

The host never interprets a value. It only refuses what could not travel exactly or would not fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgpack

from forebay.errors import Rejected

PREFIX = "multimodal_"
MAX_BYTES = 1 << 20  # packed; far above any option map, far below what would hurt Redis
MAX_DEPTH = 32
_INT64_MIN = -(2**63)
_UINT64_MAX = 2**64 - 1


def extract(body: Mapping[str, Any], *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """The extension map of a request body: fields named ``multimodal_…`` that are not null.

    Raises:
        Rejected: a value that MessagePack cannot carry exactly, or a map too deep or too large; the path is named.
    """
    extensions = {name: value for name, value in body.items() if name.startswith(PREFIX) and value is not None}
    for name, value in extensions.items():
        check_text(name, "the name of a field")
        _check(value, name, 1, max_depth)
    packed = len(msgpack.packb(extensions)) if extensions else 0
    if packed > max_bytes:
        raise Rejected("extensions_too_large", f"the extension map takes {packed} bytes; the limit is {max_bytes}")
    return extensions


def is_present(value: Any) -> bool:
    """Whether a value says anything: null does not, nor does a list of nothing but such. False, 0, "" and {} do."""
    return any(map(is_present, value)) if isinstance(value, list) else value is not None


def check_carried(value: Any, name: str) -> None:
    """Hold any other field that is carried unread to the rules of the extension map.

    Raises:
        Rejected: as ``extract``.
    """
    _check(value, name, 1, MAX_DEPTH)
    packed = len(msgpack.packb(value))
    if packed > MAX_BYTES:
        raise Rejected("field_too_large", f"{name} takes {packed} bytes; the limit is {MAX_BYTES}", param=name)


def _check(value: Any, path: str, depth: int, max_depth: int) -> None:
    if depth > max_depth:
        raise Rejected("extension_too_deep", f"{path} is nested deeper than {max_depth} levels", param=path)
    if isinstance(value, dict):
        for key, inner in value.items():
            check_text(key, path)
            _check(inner, f"{path}.{key}", depth + 1, max_depth)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check(inner, f"{path}[{index}]", depth + 1, max_depth)
    else:
        _check_scalar(value, path)


def _check_scalar(value: Any, path: str) -> None:
    if isinstance(value, str):
        check_text(value, path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise Rejected("invalid_number", f"{path} is {value}; numbers must be finite", param=path)
    elif isinstance(value, int) and not _INT64_MIN <= value <= _UINT64_MAX:
        raise Rejected("invalid_number", f"{path} is an integer beyond 64 bits", param=path)


def check_text(text: str, path: str) -> None:
    """Refuse what Python calls a string and UTF-8 cannot carry.

    Raises:
        Rejected: naming ``path``.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Rejected(
            "invalid_text", f"{path} holds a lone surrogate, which is no Unicode text", param=path
        ) from error
