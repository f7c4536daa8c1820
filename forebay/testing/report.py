"""What the conformance suite has found: a finding for each check, and the times that it measured."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from forebay.features import Output


class Fault(AssertionError):
    """A rule of the contract that the processor breaks; the text says what was found."""


class NotRun(Exception):
    """A check cannot be made here; the text says why."""


class Verdict(StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's verdict; ``detail`` says what was found, or why it was not run."""

    check: str
    verdict: Verdict
    detail: str

    def __str__(self) -> str:
        return f"{self.check}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one item took: the best of three, in seconds.

    Attributes:
        label: modality and size.
        size_bytes: of what goes in and what comes out.
    """

    label: str
    size_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """All findings about a processor, in the order of the checks.

    Attributes:
        output: of the first request, where there is one.
    """

    processor: str
    findings: tuple[Finding, ...]
    timings: tuple[Timing, ...] = ()
    output: Output | None = None

    @property
    def failed(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.verdict is Verdict.FAILED)

    @property
    def is_sound(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        lines = "\n".join(f"  {one}" for one in self.failed)
        return f"{self.processor} breaks the contract:\n{lines}" if lines else f"{self.processor} is sound"
