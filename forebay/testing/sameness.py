"""Checks that a request is answered by itself alone: the same each time, and nothing of it is changed or kept."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.drive import drive_item
from forebay.dtypes import DType
from forebay.processor import Prompt, Work
from forebay.testing.media import array_of, placed
from forebay.testing.probe import probe
from forebay.testing.report import Fault, NotRun
from forebay.testing.subject import Request, Snapshot, Subject


class _Watched(Work):
    """A request that can be watched: a weak reference to it does not keep it."""

    __slots__ = ("__weakref__",)


def check_determinism(subject: Subject) -> str:
    """Two equal requests have equal features, ids and spans."""
    for request, before in zip(subject.requests, subject.snapshots, strict=True):
        difference = before.difference(Snapshot.of(subject.ask(request)))
        if difference:
            raise Fault(f"{request.name}: {difference} between two equal requests")
    return "the same twice"


def check_fresh(subject: Subject) -> str:
    """A process that was started for it computes the same."""
    exact = True
    for request, before, after in zip(subject.requests, subject.snapshots, probe(subject).results, strict=True):
        difference = before.difference(after, is_rounding_allowed=True)
        if difference:
            raise Fault(f"{request.name}: {difference} in a fresh process")
        exact = exact and not before.difference(after)
    # There numerical libraries have one thread, as on a worker, and sum up in another order than here.
    return "the same in another process" if exact else "the same but for rounding, which the number of threads changes"


def check_fork(subject: Subject) -> str:
    """A child that was forked when the processor had been loaded computes the same."""
    answer = probe(subject)
    if answer.fork_error:
        raise Fault(f"loaded, then forked: {answer.fork_error}")
    for request, before, after in zip(subject.requests, answer.results, answer.forked, strict=True):
        difference = before.difference(after)
        if difference:
            raise Fault(f"{request.name}: {difference} in a child that was forked after it was loaded")
    return "the same in a forked child"


def check_hashes(subject: Subject) -> str:
    """An item's hash is its content's: the same each time and everywhere, and no other item's."""
    is_own = False
    for number, (request, before) in enumerate(zip(subject.requests, subject.snapshots, strict=True)):
        if request.caller_hashes:
            continue
        _check_hash(request, before, Snapshot.of(subject.ask(request)), "the second time")
        if subject.can_be_probed:
            _check_hash(request, before, probe(subject).results[number], "in a fresh process")
        named = [one for one in before.hashes if one is not None]
        is_own = is_own or bool(named)
        others = {one.whole.hash for one in request.media}  # the media's own, which the author may have made up
        if len(others) == len(request.media) == len(named) > len(set(named)):
            raise Fault(f"{request.name}: items with other content have the same hash, {named}")
    return "stable" if is_own else "the media's own"


def _check_hash(request: Request, before: Snapshot, after: Snapshot, when: str) -> None:
    for number, (one, other) in enumerate(zip(before.hashes, after.hashes, strict=True)):
        # The flow puts the media's own hash where the processor names none.
        if one is not None and one != other:
            raise Fault(f"{request.name}: item {number} has the hash {one:#x}, and {other or 0:#x} {when}")


def check_fingerprint(subject: Subject) -> str:
    """``config`` is of JSON values, and the same each time and everywhere."""
    first = _config(subject)
    if first != _config(subject):
        raise Fault("config() says something else the second time")
    if subject.can_be_probed and probe(subject).config != first:
        raise Fault(f"config() says something else in a fresh process: {first}, then {probe(subject).config}")
    return f"config() is {len(first)} characters of JSON"


def _config(subject: Subject) -> str:
    try:
        return json.dumps(subject.processor.config(), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Fault(f"config() is no JSON, so there is no fingerprint: {error}") from error


def check_inputs(subject: Subject) -> str:
    """Media are read, never written: other processors may look at the same bytes."""
    for request in subject.requests:
        work = subject.work(request, subject.typed(request))
        before = [array_of(one).copy() for one in work.media]
        subject.drive(work)
        for number, (one, copy) in enumerate(zip(work.media, before, strict=True)):
            if not np.array_equal(array_of(one), copy):
                raise Fault(f"{request.name}: the input of item {number} was changed")
    return "unchanged"


def check_kept(subject: Subject) -> str:
    """Nothing of a request is held when it has ended: on a worker, its memory is the next one's by then."""
    for request, output, before in zip(subject.requests, subject.outputs, subject.snapshots, strict=True):
        for number, (item, copy) in enumerate(zip(output.items, before.features, strict=True)):
            if not np.array_equal(item.feature.array, copy):
                raise Fault(f"{request.name}: item {number} was overwritten by a later request")
        watched = _watch(subject, request)
        gc.collect()
        kept = [name for name, reference in watched if reference() is not None]
        if kept:
            raise Fault(f"{request.name}: it keeps {', '.join(kept)} after the request has ended")
    return "nothing"


def _watch(subject: Subject, request: Request) -> list[tuple[str, weakref.ref[Any]]]:
    """Ask once; weak references to all that belongs to the request."""
    watched: list[tuple[str, weakref.ref[Any]]] = []

    def allocate(shape: tuple[int, ...], dtype: DType) -> npt.NDArray[Any]:
        array = np.empty(shape, dtype.carrier)
        watched.append(("an array of work.empty", weakref.ref(array)))
        return array

    plain = subject.work(request, subject.typed(request))
    work = _Watched(plain.rid, plain.prompt, plain.media, plain.extensions, allocate)
    watched.append(("the Work", weakref.ref(work)))
    watched.extend((f"the input of {one.param}", weakref.ref(array_of(one))) for one in plain.media)
    if plain.extensions is not None:
        watched.append(("the extension map", weakref.ref(plain.extensions)))
    subject.drive(work)
    return watched


def check_alone(subject: Subject) -> str:
    """What may be cached is the same whatever else its request holds."""
    if not subject.makes_items_alone:
        raise NotRun("its items are not cached")
    for request, before in zip(subject.requests, subject.snapshots, strict=True):
        typed = subject.typed(request)
        own = subject.own(request, typed)
        media = placed([one.make(subject.processor, said) for one, said in zip(request.media, own, strict=True)])
        for number, (one, feature) in enumerate(zip(media, before.features, strict=True)):
            work = Work("alone", Prompt(ids=()), (), own[number])
            alone = drive_item(subject.processor, subject.capabilities, one, work).feature.array
            if not np.array_equal(alone, feature):
                raise Fault(f"{request.name}: item {number} is cacheable, but differs when it is alone")
    return "the same alone"
