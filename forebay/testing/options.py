"""Checks of the extension map: that the cache key sees every option, and that nonsense is the caller's mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel

from forebay.drive import drive_item
from forebay.errors import Rejected
from forebay.extensions import PREFIX
from forebay.features import Processed
from forebay.outcome import outcome_of
from forebay.processor import Prompt, TypedExtensions, Work
from forebay.testing.media import placed
from forebay.testing.report import Fault, NotRun
from forebay.testing.subject import Request, Subject
from forebay.testing.values import WRONG, fields_of, valid_values

_UNKNOWN = f"{PREFIX}no_such_option"


def check_key(subject: Subject) -> str:
    """An option that changes what is made of an item changes the key under which that is found again."""
    model = subject.capabilities.extensions
    if model is None or not subject.makes_items_alone:
        raise NotRun("it takes no options" if model is None else "its items are not cached")
    tried: dict[str, int] = dict.fromkeys(fields_of(model), 0)
    for request in subject.requests:
        if not request.media:
            continue
        as_it_is = subject.typed(request)
        before, plain = _made(subject, request, as_it_is), _key(subject, subject.own(request, as_it_is)[0])
        for name, value, typed in _options(subject, model, request):
            after = _made(subject, request, typed)
            tried[name] += after is not None
            if after is None or _key(subject, subject.own(request, typed)[0]) != plain:
                continue
            if not _is_same(before, after):
                told = f"with {name}={json.dumps(value)} an item differs, but the cache key is the same"
                raise Fault(f"{request.name}: {told}")
    untried = [name for name, count in tried.items() if not count]
    return f"{sum(tried.values())} values of {len(tried)} options" + (
        f"; none was found that suits {', '.join(untried)}" if untried else ""
    )


def _options(subject: Subject, model: type[BaseModel], request: Request) -> Iterator[tuple[str, Any, TypedExtensions]]:
    for name, values in valid_values(model, request.extensions).items():
        for value in values:
            yield name, value, subject.typed_map({**request.extensions, name: value})


def _key(subject: Subject, own: TypedExtensions) -> str:
    """What the cache key has of the extension map, of which an item has its ``own`` part, as a worker makes it."""
    fields = subject.capabilities.item_fields
    include = None if fields is None else set(fields)
    return json.dumps({} if own is None else own.model_dump(mode="json", include=include), sort_keys=True)


def _made(subject: Subject, request: Request, typed: TypedExtensions) -> Processed | None:
    """The request's first item, which is made without a prompt, as for a cache."""
    try:
        own = subject.own(request, typed)[0]
        (media,) = placed([request.media[0].make(subject.processor, own)])
        return drive_item(subject.processor, subject.capabilities, media, Work("key", Prompt(ids=()), (), own))
    except Rejected:  # an option that does not suit these media
        return None


def _is_same(one: Processed | None, other: Processed) -> bool:
    if one is None or (one.tokens, dict(one.model_specific)) != (other.tokens, dict(other.model_specific)):
        return False
    mine, its = one.feature, other.feature
    return mine.dtype == its.dtype and np.array_equal(mine.array, its.array)


def check_extensions(subject: Subject) -> str:
    """What the model does not know is refused by name, and whatever it takes ends in a result or a refusal."""
    model = subject.capabilities.extensions
    if _refusal(subject, {_UNKNOWN: 1}) is None:
        raise Fault(f"{_UNKNOWN!r} is taken, so a caller's misspelling has no effect: use extra='forbid'")
    if model is None:
        return "any is refused"
    refused = taken = 0
    for name in fields_of(model):
        if not name.startswith(PREFIX):
            raise Fault(f"the field {name!r} can never be set: extensions are named {PREFIX}…")
        for value in WRONG:
            if _refusal(subject, {name: value}) is not None:
                refused += 1
            else:
                taken += 1
                _check_taken(subject, name, value)
    return f"{refused} of {refused + taken} odd values are refused, the others are taken"


def _refusal(subject: Subject, extensions: Mapping[str, Any]) -> Rejected | None:
    """How the map is refused; ``None`` when it is taken."""
    (name, value), *_ = extensions.items()
    try:
        subject.typed_map(extensions)
    except Rejected as error:
        if not error.param:
            raise Fault(f"{name}={json.dumps(value)} is refused without the path of the field") from error
        return error
    except Exception as error:
        raise Fault(f"{name}={json.dumps(value)} ends the model's validation with {outcome_of(error)}") from error
    return None


def _check_taken(subject: Subject, name: str, value: Any) -> None:
    """A value that the model takes must not end a request in a fault."""
    for request in subject.requests:
        extensions = {**request.extensions, name: value}
        if _refusal(subject, extensions) is not None:
            continue
        try:
            subject.ask(request, subject.typed_map(extensions))
        except Rejected:
            continue
        except Exception as error:
            told = f"{name}={json.dumps(value)} is taken, and ends in {outcome_of(error)}"
            raise Fault(f"{request.name}: {told}: let the model refuse it") from error
