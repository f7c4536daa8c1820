"""The conformance suite: a processor held to the contract, each rule by a check that has a name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from forebay.features import Output
from forebay.media import Media
from forebay.outcome import outcome_of
from forebay.processor import Processor, Tokenizer
from forebay.testing import media_checks, options, process_checks, result, sameness
from forebay.testing.as_worker import as_on_a_worker
from forebay.testing.report import Fault, Finding, NotRun, Report, Verdict
from forebay.testing.subject import Subject, given_request, standard_requests

CALLS = 1000
"""Requests of the memory check."""


@dataclass(frozen=True, slots=True)
class Check:
    """One rule of the contract.

    Attributes:
        mend: what an author does about a fault.
        needs: checks without which it says nothing.
        is_costly: whether it needs media of its own, another process, or many calls.
    """

    name: str
    run: Callable[[Subject], str]
    mend: str
    needs: tuple[str, ...] = ()
    is_costly: bool = False

    @property
    def asks(self) -> str:
        """The rule, in a sentence."""
        return (self.run.__doc__ or "").strip().splitlines()[0]


_RESULT = ("result", "ids", "dtypes", "values", "shapes", "spans")

CHECKS = (
    Check("capabilities", result.check_capabilities, "Declare a limit and a placeholder for each modality."),
    Check("result", result.check_result, "Return a result for ordinary media.", ("capabilities",)),
    Check("ids", result.check_ids, "Make input_ids with np.array(…, dtype=np.int64).", ("result",)),
    Check(
        "dtypes", result.check_dtypes, "Ask work.empty for the dtype that Feature.of is told.", ("result",)
    ),
    Check(
        "values", result.check_values, "Find the division by zero, or the part of the array that is not written.",
        ("result", "dtypes"),
    ),
    Check(
        "shapes", result.check_shapes, "Use Feature.of, and make rows_per_token rows for each token.",
        ("result", "dtypes", "values"),
    ),
    Check(
        "spans", result.check_spans, "Leave expansion and spans to Layout, or count from the item's first token.",
        ("result", "ids"),
    ),
    Check("determinism", sameness.check_determinism, "Write every element; use no random number.", _RESULT),
    Check("fresh", sameness.check_fresh, "Follow no set's order, no hash() and no clock.", _RESULT, is_costly=True),
    Check("fork", sameness.check_fork, "Start no thread and no pool when it is loaded.", _RESULT, is_costly=True),
    Check("hashes", sameness.check_hashes, "Make the hash of the item's content alone, or leave it out.", _RESULT),
    Check("fingerprint", sameness.check_fingerprint, "Return JSON values that follow from settings alone.", _RESULT),
    Check("inputs", sameness.check_inputs, "Copy before changing in place.", _RESULT),
    Check("kept", sameness.check_kept, "Keep copies of numbers, never an array, a Work or a view of them.", _RESULT),
    Check("alone", sameness.check_alone, "Read nothing but the item in process_item, or drop cacheable.", _RESULT),
    Check("key", options.check_key, "Name it in item_fields, and let it be dumped.", _RESULT, is_costly=True),
    Check("extensions", options.check_extensions, "Forbid others, bound each value.", _RESULT, is_costly=True),
    Check("modalities", media_checks.check_modalities, "Leave the count of items to the flow.", ("capabilities",)),
    Check("fuzz", media_checks.check_fuzz, "Handle the size, or refuse it with Rejected.", _RESULT, is_costly=True),
    Check("plan", media_checks.check_plan, "Compute plan and feature with the same function.", _RESULT),
    Check("threads", process_checks.check_threads, "End threads before returning, or use none.", _RESULT),
    Check("files", process_checks.check_files, "Open files in a with block, or once in __init__.", _RESULT),
    Check("time", media_checks.check_time, "Find what that size does; let NumPy loop.", _RESULT, is_costly=True),
    Check(
        "memory", process_checks.check_memory, "Bound what is remembered; look at lists and caches that grow.",
        (*_RESULT, "kept", "threads", "files"), is_costly=True,
    ),
)  # fmt: skip


def check_processor(
    processor: Processor,
    media: Sequence[Media] | None = None,
    *,
    everything: bool | None = None,
    calls: int = CALLS,
    tokenizer: Tokenizer | None = None,
    **request: Any,
) -> Output:
    """Hold a processor to the contract; for tests.

    Without ``media`` the suite makes its own, and runs every check. With them, it runs those that a single request can
    tell: a valid result, the same one twice, independent of what ran between, and nothing changed, kept or left.

    Args:
        processor: whom to examine.
        media: the items of a request of the author's own.
        everything: whether to run the costly checks too; by default where no media are given.
        calls: requests of the memory check.
        tokenizer: for a request with text; else the processor's own.
        request: ``text`` or ``input_ids``, ``extensions`` and ``caller_hashes``, as for ``run_processor``.

    Returns:
        The output of the first request.

    Raises:
        Fault: an ``AssertionError`` with every rule that was broken.
    """
    report = examine(processor, media, everything=everything, calls=calls, tokenizer=tokenizer, **request)
    if not report.is_sound or report.output is None:
        raise Fault(str(report))
    return report.output


def examine(
    processor: Processor,
    media: Sequence[Media] | None = None,
    *,
    everything: bool | None = None,
    calls: int = CALLS,
    tokenizer: Tokenizer | None = None,
    only: Collection[str] = (),
    told: Callable[[Finding], None] = lambda finding: None,
    **request: Any,
) -> Report:
    """As ``check_processor``, with a report of every check instead of an error.

    Args:
        processor: whom to examine.
        media: as there.
        everything: as there.
        calls: as there.
        tokenizer: as there.
        only: names of the checks to run, with those that they need; all when empty.
        told: is called with each finding as it is made.
        request: as there.
    """
    capabilities = processor.capabilities()
    requests = standard_requests(capabilities) if media is None else (given_request(media, **request),)
    everything = media is None if everything is None else everything
    subject = Subject(processor, capabilities, tokenizer or processor.tokenizer(), requests, calls, everything)
    findings: dict[str, Finding] = {}
    with as_on_a_worker() as settle:
        for check in _wanted(only):
            if not check.is_costly or everything or check.name in only:
                findings[check.name] = _run(check, subject, findings)
                settle()
                told(findings[check.name])
    output = subject.outputs[0] if subject.outputs else None
    return Report(type(processor).__qualname__, tuple(findings.values()), tuple(subject.timings), output)


def _wanted(only: Collection[str]) -> list[Check]:
    """The checks to run: all, or these with what they need."""
    if not only:
        return list(CHECKS)
    by_name = {check.name: check for check in CHECKS}
    unknown = sorted(set(only) - set(by_name))
    if unknown:
        raise ValueError(f"there is no check {unknown[0]!r}; there are {', '.join(by_name)}")
    wanted = set(only)
    for check in reversed(CHECKS):  # a check stands behind those that it needs
        if check.name in wanted:
            wanted.update(check.needs)
    return [check for check in CHECKS if check.name in wanted]


def _run(check: Check, subject: Subject, earlier: dict[str, Finding]) -> Finding:
    missing = [name for name in check.needs if name not in earlier or earlier[name].verdict is not Verdict.PASSED]
    if missing:
        return Finding(check.name, Verdict.NOT_RUN, f"{missing[0]} did not pass")
    try:
        return Finding(check.name, Verdict.PASSED, check.run(subject))
    except Fault as fault:
        return Finding(check.name, Verdict.FAILED, str(fault))
    except NotRun as reason:
        return Finding(check.name, Verdict.NOT_RUN, str(reason))
    except Exception as error:  # noqa: BLE001 - whatever a guest raises is a finding
        return Finding(check.name, Verdict.FAILED, outcome_of(error))
