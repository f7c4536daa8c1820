"""What a body says once for all its prompts or one by one: ids, sampling, hashes, extension fields.

The law of every column: a prompt of a batch is asked for exactly as if it had been sent alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from api.limits import Limits
from api.schema import json_type
from forebay import extensions
from forebay.errors import Rejected

_RID = re.compile(r"[\x21-\x7e]+")


def length_mismatch(name: str, length: int, prompts: int) -> Rejected:
    """A list that is not as long as its batch."""
    return Rejected("length_mismatch", f"{name}: list length {length} does not match batch size {prompts}", param=name)


def extension_maps(body: Mapping[str, Any], prompts: int | None, limits: Limits) -> list[dict[str, Any]]:
    """The extension map of each prompt; ``prompts`` is ``None`` for a request that is no batch.

    In a batch a list is split by position, an empty list goes to every prompt, any other value goes to every prompt.

    Raises:
        Rejected: what could not be carried; a list of another length than the batch; with strict extensions, a value
            that is no list.
    """
    carried = extensions.extract(body, max_bytes=limits.extension_bytes, max_depth=limits.extension_depth)
    if prompts is None:
        return [carried]
    columns = {name: _column(name, value, prompts, limits) for name, value in carried.items()}
    return [
        {name: column[number] for name, column in columns.items() if column[number] is not None}
        for number in range(prompts)
    ]


def _column(name: str, value: Any, prompts: int, limits: Limits) -> Sequence[Any]:
    if isinstance(value, list) and value:
        if len(value) != prompts:
            raise length_mismatch(name, len(value), prompts)
        return value
    if not isinstance(value, list) and limits.strict_extensions:
        message = f"{name} must be a list for batch processing, not {json_type(value)}"
        raise Rejected("invalid_extensions", message, param=name)
    return [value] * prompts


def rids(given: str | list[str] | None, prompts: int | None, limits: Limits) -> list[str | None]:
    """The id of each prompt; one for a whole batch is numbered.

    Raises:
        Rejected: another number of ids than of prompts, one twice, or one that is none.
    """
    if prompts is None:
        if isinstance(given, list):
            raise Rejected("invalid_rid", f"rid: a list of {len(given)} for a single request", param="rid")
        return [_rid(given, "rid", limits)]
    if not given:
        return [None] * prompts
    if isinstance(given, str):
        return [_rid(f"{given}_{number}", "rid", limits) for number in range(prompts)]
    if len(given) != prompts:
        raise length_mismatch("rid", len(given), prompts)
    own = [_rid(rid, f"rid[{number}]", limits) for number, rid in enumerate(given)]
    twice = sorted(rid for rid, count in Counter(given).items() if count > 1 and rid)
    if twice:
        raise Rejected("duplicate_rid", f"rid: {', '.join(map(repr, twice[:10]))} stand there twice", param="rid")
    return own


def is_rid(text: str, limits: Limits) -> bool:
    """Whether a request may be called so. HTTP clients take ``.`` and ``..`` out of a path, however it is written."""
    return len(text) <= limits.rid_length and _RID.fullmatch(text) is not None and text not in (".", "..")


def _rid(rid: str | None, param: str, limits: Limits) -> str | None:
    if rid and not is_rid(rid, limits):
        wanted = f"1 to {limits.rid_length} printable ASCII characters without spaces"
        message = f"{param} must be {wanted}, got {len(rid)} characters"
        raise Rejected("invalid_rid", message, param=param)
    return rid or None


def samplings(
    given: dict[str, Any] | list[dict[str, Any]] | None, prompts: int | None
) -> list[tuple[dict[str, Any], str]]:
    """The sampling parameters of each prompt, with their place.

    Raises:
        Rejected: another number than of prompts.
    """
    if prompts is None and isinstance(given, list):
        message = f"sampling_params: a list of {len(given)} for a single request"
        raise Rejected("invalid_request", message, param="sampling_params")
    if not isinstance(given, list):
        return [(given or {}, "sampling_params")] * (prompts or 1)
    if len(given) != prompts:
        raise length_mismatch("sampling_params", len(given), prompts or 1)
    return [(one, f"sampling_params[{number}]") for number, one in enumerate(given)]


def hashes(given: Sequence[Any] | None, prompts: int | None) -> list[tuple[str, ...]]:
    """The caller's own hashes of each prompt's items.

    Raises:
        Rejected: nested for a single request, flat for a batch, or another number of lists than of prompts.
    """
    if not given:
        return [()] * (prompts or 1)
    is_nested = any(not isinstance(one, str) for one in given)
    if prompts is None:
        if is_nested:
            message = "mm_hashes must be a flat list of hex strings for a single request"
            raise Rejected("invalid_hashes", message, param="mm_hashes")
        return [_checked(given, "mm_hashes")]
    if not is_nested:
        message = f"mm_hashes must be a list of lists, one for each of the {prompts} prompts of a batch"
        raise Rejected("invalid_hashes", message, param="mm_hashes")
    if len(given) != prompts:
        raise length_mismatch("mm_hashes", len(given), prompts)
    return [_checked(one or (), f"mm_hashes[{number}]") for number, one in enumerate(given)]


def _checked(texts: Sequence[str], path: str) -> tuple[str, ...]:
    for number, text in enumerate(texts):
        extensions.check_text(text, f"{path}[{number}]")
    return tuple(texts)
