"""Media that a body carries: base64 and ``data:`` URLs. A string is never guessed to be a path."""

from __future__ import annotations

import binascii
import re
from urllib.parse import unquote_to_bytes

import pybase64

from forebay.errors import Rejected

FETCHED = ("http", "https", "file")
"""Schemes of sources whose bytes are elsewhere."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_WHITESPACE = str.maketrans("", "", " \t\n\r\f")
_URL_SAFE = str.maketrans("-_", "+/")
_SHOWN = 24  # characters of a payload that a message may quote


def scheme_of(source: str) -> str:
    """The scheme of a source that is a URL; empty for base64."""
    match = _SCHEME.match(source[:32])
    return match[1].lower() if match else ""


def resolve(source: str, param: str, limit_bytes: int) -> bytes:
    """The bytes that a source stands for.

    Raises:
        Rejected: empty, too large, not base64, or a kind of source that is not supported.
    """
    scheme = scheme_of(source)
    if not scheme:
        data = decode_base64(source, param, limit_bytes)
    elif scheme == "data":
        data = _data_url(source, param, limit_bytes)
    else:
        message = f"{param}: {scheme!r} sources are not supported; send base64, a URL or the id of an upload"
        raise Rejected("unsupported_source", message, param=param)
    if not data:
        raise Rejected("empty_media", f"{param} is empty", param=param)
    return data


def decode_base64(text: str, param: str, limit_bytes: int) -> bytes:
    """Base64 as people send it: line breaks and missing padding are fine, the URL-safe alphabet too, junk is not."""
    if len(text) > limit_bytes * 2:  # line breaks included, no base64 of the limit is twice as long
        raise _too_large(param, len(text) * 3 // 4, limit_bytes)
    try:
        data = pybase64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = _forgiving(text, param)
    if len(data) > limit_bytes:
        raise _too_large(param, len(data), limit_bytes)
    return data


def _forgiving(text: str, param: str) -> bytes:
    plain = text.translate(_WHITESPACE)
    if ("-" in plain or "_" in plain) and not ("+" in plain or "/" in plain):
        plain = plain.translate(_URL_SAFE)
    plain += "=" * (-len(plain) % 4)
    try:
        return pybase64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError) as error:
        shown = text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")
        raise Rejected("invalid_base64", f"{param}: invalid base64 ({shown!r})", param=param) from error


def _data_url(source: str, param: str, limit_bytes: int) -> bytes:
    head, comma, payload = source.partition(",")
    if not comma:
        raise Rejected("invalid_data_url", f"{param}: a data: URL without a comma", param=param)
    if not head.lower().rstrip().endswith(";base64"):
        raise Rejected("invalid_data_url", f"{param}: a data: URL without ';base64'", param=param)
    if "%" in payload:
        payload = unquote_to_bytes(payload.encode(errors="replace")).decode("latin-1")
    return decode_base64(payload, param, limit_bytes)


def _too_large(param: str, size: int, limit: int) -> Rejected:
    message = f"{param} is {size} bytes; the limit is {limit}"
    return Rejected("media_too_large", message, param=param, status=413)
