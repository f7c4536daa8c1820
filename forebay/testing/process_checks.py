"""Checks of what a processor leaves in its process: threads, open files, memory."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

from forebay.errors import Rejected
from forebay.features import Modality
from forebay.testing.media import Made, noise
from forebay.testing.probe import probe
from forebay.testing.report import Fault
from forebay.testing.subject import Request, Subject

_ROUND = 2
_SMALL: dict[Modality, tuple[int, ...]] = {
    Modality.IMAGE: (20, 30),
    Modality.VIDEO: (2, 20, 30),
    Modality.AUDIO: (3_200,),
}
# So many small items take turns: one that is kept by its content is kept once. Videos are the slowest to make.
_DIFFERENT = {Modality.IMAGE: 16, Modality.AUDIO: 16, Modality.VIDEO: 2}
_MOST_BYTES = 8 << 20  # what an allocator may keep for itself between two looks
_MOST_OBJECTS = 200  # likewise, of so few calls that they tell little
_PAGE = 4096


def check_threads(subject: Subject) -> str:
    """No thread is left: it would take a sibling's core, and a fork does not take it along."""
    for request in subject.requests:
        subject.ask(request)
    left = sorted(one.name for one in set(threading.enumerate()) - subject.threads if one.is_alive())
    if not left and subject.can_be_probed:
        left = list(probe(subject).threads)
    if left:
        raise Fault(f"{len(left)} threads are left: {', '.join(left[:4])}")
    return "none is left"


def check_files(subject: Subject) -> str:
    """No file is left open by a request; what is opened once, for all, may stay."""
    _round(subject)
    before = _open_files()
    _round(subject)
    left = sorted(target for number, target in _open_files().items() if before.get(number) != target)
    if left:
        raise Fault(f"{len(left)} files are left open by {_ROUND * len(subject.requests)} requests: {left[0]}")
    return "none is left open"


def _round(subject: Subject) -> None:
    for request in subject.requests:
        for _ in range(_ROUND):
            subject.ask(request)
    gc.collect()


def _open_files() -> dict[str, str]:
    """What each descriptor of this process leads to."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            found[link.name] = str(link.readlink())
        except FileNotFoundError:  # the listing's own
            continue
    return found


def check_memory(subject: Subject) -> str:
    """A thousand requests need no more memory than five hundred."""
    requests = _small_requests(subject)
    first, rest = subject.calls // 2, max(1, subject.calls - subject.calls // 2)
    _repeat(subject, requests, first)
    blocks, size = _growth(subject, requests, rest)
    if _is_growth(blocks, size, rest):
        # An allocator may take a step once; what grows with the requests grows again.
        blocks, size = _growth(subject, requests, rest)
    told = f"{rest} calls after {first} leave {size / 1024:.0f} KiB and {blocks} objects"
    if _is_growth(blocks, size, rest):
        raise Fault(told)
    return told


def _growth(subject: Subject, requests: list[Request], calls: int) -> tuple[int, int]:
    """Objects and bytes that so many calls leave."""
    blocks, size = sys.getallocatedblocks(), _resident_bytes()
    _repeat(subject, requests, calls)
    return sys.getallocatedblocks() - blocks, _resident_bytes() - size


def _is_growth(blocks: int, size: int, calls: int) -> bool:
    # Fewer than one object a call is no request's: a table that grows, a string that is interned.
    return size > _MOST_BYTES or blocks > max(_MOST_OBJECTS, calls)


def _small_requests(subject: Subject) -> list[Request]:
    """Small items that are taken; else the usual requests."""
    rate = subject.capabilities.audio_rate_hz
    requests = [
        subject.request_of(modality, Made(noise(modality, _SMALL[modality], rate, seed), is_sampled=True))
        for modality in subject.capabilities.modalities
        for seed in range(_DIFFERENT[modality])
    ]
    return [one for one in requests if _is_taken(subject, one)] or list(subject.requests)


def _is_taken(subject: Subject, request: Request) -> bool:
    try:
        subject.ask(request)
    except Rejected:
        return False
    return True


def _repeat(subject: Subject, requests: list[Request], calls: int) -> None:
    for number in range(calls):
        subject.ask(requests[number % len(requests)])
    gc.collect()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
