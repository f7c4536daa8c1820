"""Whatever bytes come, a decoder gives a value or a refusal; and a fuzzer that would hear of anything else."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace

import pytest

from forebay.errors import Rejected
from tests.fuzz.crew import explore
from tests.fuzz.targets import PARAM, Target
from tests.fuzz.trial import LIMITS, Trial, outcome
from workers.decode.quiet import quiet

SECONDS = float(os.environ.get("FOREBAY_FUZZ_S", "60" if os.environ.get("CI") else "20"))
SEED = int(os.environ.get("FOREBAY_FUZZ_SEED", "0"))


def test_every_input_gives_a_value_or_a_refusal_with_a_known_code():
    """No other exception, no crash, nothing printed, and no more memory than the limit."""
    with quiet():  # an encoder of AV1 speaks of itself while the seeds are made
        report = explore(SECONDS, SEED)

    assert report.findings == []
    assert report.trials > 50
    assert report.peak_bytes <= LIMITS.memory_bytes
    assert {came for _, came in report.outcomes} > {"value", "damaged_image", "damaged_video", "damaged_audio"}


def test_the_same_numbers_give_the_same_bytes():
    """A finding can be had again from its seed and its number."""
    once = [Trial.of(3, number) for number in range(30)]

    assert once == [Trial.of(3, number) for number in range(30)]
    assert once != [Trial.of(4, number) for number in range(30)]


def target(read, **changes: object) -> dict[str, Target]:
    return {"it": Target(read, lambda: (("seed", b"seed"),), lambda data, rng, others: data, **changes)}


def crash(data: bytes) -> object:
    os.kill(os.getpid(), signal.SIGSEGV)
    return signal.pause()


def say(data: bytes) -> object:
    print("Corrupt JPEG data", file=sys.stderr, flush=True)
    return data


def spin(data: bytes) -> object:
    while True:
        pass


def refuse(code: str, status: int = 400, message: str = f"{PARAM} is bad"):
    def read(data: bytes) -> object:
        raise Rejected(code, message, param=PARAM, status=status)

    return read


def fail(data: bytes) -> object:
    raise ValueError("a codec's own")


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (crash, "died of SIGSEGV"),
        (say, "printed to the standard error: b'Corrupt JPEG data\\n'"),
        (fail, "ValueError: a codec's own"),
        (refuse("made_up"), "the code made_up is unknown"),
        (refuse("damaged_image", 503), "damaged_image has status 503"),
        (refuse("damaged_image", message="bad"), "damaged_image does not name the item: 'bad'"),
    ],
)
def test_what_may_not_happen_is_found(read, what):
    """Each with the input, and the run goes on behind it."""
    report = explore(30, 0, target(read), most=3)

    assert [(one.number, one.trial.data, one.what) for one in report.findings] == [
        (number, b"seed", what) for number in range(3)
    ]
    assert report.trials == 3


def test_what_takes_too_long_or_too_much_is_a_refusal():
    """The limits of a worker hold here, too."""
    limits = replace(LIMITS, cpu_s=0.2)

    assert outcome(target(spin)["it"], b"", limits) == ("media_too_slow", "")
    assert outcome(target(lambda data: bytearray(2 << 30))["it"], b"", limits) == ("media_too_costly", "")
