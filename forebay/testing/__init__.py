"""Help for authors: run a processor as a worker would, in one process, and hold it to the contract.

``check_processor(mine)`` is the whole suite for a test; ``forebay check-processor`` is the same on a terminal.
"""

from forebay.testing.media import audio, image, video
from forebay.testing.report import Fault, Finding, Report, Timing, Verdict
from forebay.testing.running import run_processor
from forebay.testing.suite import CALLS, CHECKS, Check, check_processor, examine

__all__ = [
    "CALLS",
    "CHECKS",
    "Check",
    "Fault",
    "Finding",
    "Report",
    "Timing",
    "Verdict",
    "audio",
    "check_processor",
    "examine",
    "image",
    "run_processor",
    "video",
]
