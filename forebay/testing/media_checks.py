"""Checks with media of many sizes: what is not taken is refused, what is taken ends in a result, and plans are kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from forebay.drive import check_items
from forebay.errors import Rejected
from forebay.features import Modality, Planned
from forebay.outcome import outcome_of
from forebay.processor import Processor
from forebay.testing.media import Made, array_of, noise
from forebay.testing.report import Fault, NotRun, Timing
from forebay.testing.subject import Request, Seen, Subject

# The least, one line, odd and even, larger than a model reads; of audio also around one frame and one second.
_FUZZ: dict[Modality, tuple[tuple[int, ...], ...]] = {
    Modality.IMAGE: ((1, 1), (1, 2), (2, 1), (3, 3), (1, 199), (199, 1), (2, 1500), (1500, 2), (27, 29), (900, 1200)),
    Modality.VIDEO: ((1, 1, 1), (1, 40, 60), (2, 1, 90), (3, 90, 1), (5, 27, 29), (40, 32, 32)),
    Modality.AUDIO: ((1,), (2,), (159,), (160,), (399,), (15_999,), (16_001,), (80_001,), (480_000,), (700_000,)),
}
_RANDOM = 6
_LARGEST: dict[Modality, tuple[int, ...]] = {
    Modality.IMAGE: (300, 300),
    Modality.VIDEO: (12, 80, 80),
    Modality.AUDIO: (50_000,),
}
# Sizes that differ a little in shape and sixteenfold in what they hold.
_TIMED: dict[Modality, tuple[tuple[int, ...], ...]] = {
    Modality.IMAGE: (
        (64, 64),
        (63, 65),
        (65, 63),
        (128, 128),
        (256, 256),
        (255, 257),
        (257, 255),
        (512, 32),
        (32, 512),
    ),
    Modality.VIDEO: ((2, 64, 64), (3, 63, 65), (4, 64, 64), (8, 64, 64), (8, 65, 63)),
    Modality.AUDIO: ((4_000,), (16_000,), (16_001,), (48_000,), (160_000,)),
}
_OVERHEAD = 1 << 16  # bytes that a call may be worth by itself, so that small items are not judged by it
_TIMES_SLOWER, _LEAST_SLOW_S = 20, 0.02


def check_modalities(subject: Subject) -> str:
    """What is not declared is refused by its name, and so are more items than are declared."""
    refused = []
    for modality in Modality:
        limit = subject.capabilities.modalities.get(modality, 0)
        code = "too_many_items" if limit else "unsupported_modality"
        try:
            check_items(subject.capabilities, [modality] * (limit + 1))
        except Rejected as error:
            if error.code != code or str(modality) not in error.message:
                raise Fault(f"{limit + 1} of {modality}: refused as {error.code}: {error}") from error
            refused.append(modality)
    if len(refused) < len(Modality):
        raise Fault(f"refused are only {', '.join(refused)}")
    unsupported = [str(one) for one in Modality if one not in subject.capabilities.modalities]
    return f"refused: {', '.join(unsupported) or 'too many'}"


def check_fuzz(subject: Subject) -> str:
    """Any media end in a result that is valid, or in a refusal."""
    made = refused = 0
    for request in _fuzzed(subject):
        try:
            work = subject.work(request, subject.typed(request))
            output = subject.drive(work)
        except Rejected:
            refused += 1
            continue
        except Exception as error:
            raise Fault(f"{request.name} ends in {outcome_of(error)}") from error
        made += 1
        subject.note(work, output)
    if not made:
        raise Fault(f"all {refused} media of other sizes are refused")
    return f"{made} media made into features, {refused} refused"


def _fuzzed(subject: Subject) -> Iterator[Request]:
    random = np.random.default_rng(0)
    for modality in subject.capabilities.modalities:
        sizes = list(_FUZZ[modality])
        sizes += [tuple(int(random.integers(1, most + 1)) for most in _LARGEST[modality]) for _ in range(_RANDOM)]
        for seed, size in enumerate(sizes):
            yield _single(subject, modality, size, seed)


def _single(subject: Subject, modality: Modality, size: tuple[int, ...], seed: int) -> Request:
    whole = noise(modality, size, subject.capabilities.audio_rate_hz, seed)
    return subject.request_of(modality, Made(whole, is_sampled=True))


def check_plan(subject: Subject) -> str:
    """What is planned, without a look at the content, is what is made; room is reserved by it."""
    planned = [_check_planned(subject, seen) for seen in subject.seen]
    if not any(planned):
        raise NotRun("it plans nothing; a plan_item would let room be reserved beforehand")
    return f"{sum(planned)} plans kept"


def _check_planned(subject: Subject, seen: Seen) -> bool:
    size = f"{seen.outline.modality} {list(array_of(seen.outline).shape)}"
    feature = seen.item.feature
    try:
        planned = subject.processor.plan_with(seen.outline, seen.extensions)
        reserved = subject.processor.feature_bytes_with(seen.outline, seen.extensions)
    except Rejected as error:
        raise Fault(f"{size}: the plan refuses what is processed ({error.code}: {error})") from error
    except Exception as error:
        raise Fault(f"{size}: the plan ends in {outcome_of(error)}") from error
    if reserved and reserved < feature.size_bytes:
        raise Fault(f"{size}: {reserved} bytes are reserved, the feature has {feature.size_bytes}")
    if planned is None:
        return False
    made = Planned(feature.shape, feature.dtype, seen.item.tokens)
    if (planned.shape, planned.dtype, planned.tokens) != (made.shape, made.dtype, made.tokens):
        raise Fault(f"{size}: planned is {_told(planned)}, made is {_told(made)}")
    if _is_all_from_items(subject):
        _check_beside(planned, seen, size)
    return True


def _is_all_from_items(subject: Subject) -> bool:
    """Whether an item in a result is what ``process_item`` has made of it, and nothing else."""
    kind = type(subject.processor)
    return kind.process is Processor.process and kind.wrap_result is Processor.wrap_result


def _check_beside(planned: Planned, seen: Seen, size: str) -> None:
    """What the model reads beside a feature: of one that a caller has made, it is the plan's."""
    sides = {
        "model_specific": (dict(planned.model_specific), dict(seen.item.model_specific)),
        "normalisation": (planned.normalisation, seen.item.feature.normalisation),
    }
    for name, (foreseen, made) in sides.items():
        if foreseen != made:
            raise Fault(f"{size}: planned {name} is {foreseen}, made is {made}")


def _told(planned: Planned) -> str:
    return f"{planned.dtype} {list(planned.shape)} for {planned.tokens} tokens"


def check_time(subject: Subject) -> str:
    """No item takes out of all proportion to its size: one caller's would stop everybody's."""
    for modality in subject.capabilities.modalities:
        requests = [_single(subject, modality, size, 0) for size in _TIMED[modality]]
        timings = _time(subject, requests)
        if _judge(timings):
            # Somebody else may have had the machine: what is slow by itself is slow the second time too.
            timings = [min(pair, key=_cost) for pair in zip(timings, _time(subject, requests), strict=True)]
        subject.timings.extend(timings)
        slow = _judge(timings)
        if slow:
            raise Fault(slow)
    if not subject.timings:
        raise NotRun("no item of these sizes is taken")
    slowest = max(subject.timings, key=lambda one: one.seconds)
    return f"{slowest.seconds * 1e3:.1f} ms for {slowest.label}, the slowest of {len(subject.timings)}"


def _judge(timings: Sequence[Timing]) -> str:
    """Which item is slower than its size lets expect, in a sentence; empty when none is."""
    if not timings:
        return ""
    worst = max(timings, key=_cost)
    times = _cost(worst) / median(map(_cost, timings))
    if worst.seconds <= _LEAST_SLOW_S or times <= _TIMES_SLOWER:
        return ""
    return f"{worst.label} takes {worst.seconds * 1e3:.0f} ms, {times:.0f} times what its size lets expect"


def _time(subject: Subject, requests: Sequence[Request]) -> list[Timing]:
    """The best of three of each; one that is refused is left out. They take turns, so that all see the same machine."""
    best: dict[str, Timing] = {}
    for _ in range(3):
        for request in requests:
            timing = _timed(subject, request)
            if timing is not None:
                best[request.name] = min(timing, best.get(request.name, timing), key=_cost)
    return list(best.values())


def _timed(subject: Subject, request: Request) -> Timing | None:
    try:
        work = subject.work(request, subject.typed(request))
        began = time.perf_counter()
        output = subject.drive(work)
    except Rejected:
        return None
    seconds = time.perf_counter() - began
    read = sum(array_of(one).nbytes for one in work.media)
    return Timing(request.name, read + sum(item.feature.size_bytes for item in output.items), seconds)


def _cost(timing: Timing) -> float:
    return timing.seconds / (timing.size_bytes + _OVERHEAD)
