"""What decoding one item may take: a clear error, or at worst the end of the child, and never more than that."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import threading
import time

import numpy as np
import pytest

from forebay.errors import Rejected
from tests.support.forks import fork
from tests.support.media import plain_png
from workers.decode import decode_image
from workers.item_limits import NO_LIMITS, ItemLimits

BIG = plain_png(4000, 4000)  # 48 MB of pixels


def test_what_fits_is_not_touched():
    """The same pixels, and every limit and signal as it was before."""
    before = [signal.getsignal(one) for one in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)]

    with ItemLimits().over("image_data"):
        pixels = decode_image(BIG, "image_data")

    assert np.array_equal(pixels, decode_image(BIG, "image_data"))
    assert [signal.getsignal(one) for one in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)] == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == signal.getitimer(signal.ITIMER_PROF)[0] == 0
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_more_memory_than_allowed_is_refused_with_the_limit():
    """And what comes next has all of its memory again."""
    with pytest.raises(Rejected) as refused, ItemLimits(memory_bytes=16 << 20).over("image_data[3]"):
        decode_image(BIG, "image_data[3]")

    assert (refused.value.code, refused.value.status, refused.value.param) == ("media_too_costly", 413, "image_data[3]")
    assert str(refused.value) == "image_data[3] takes more than 16777216 bytes of memory to decode"
    assert decode_image(BIG, "image_data").shape == (4000, 4000, 3)


def compute() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("limits", "work", "said"),
    [
        (ItemLimits(wall_s=0.1), lambda: time.sleep(30), "video_data takes more than 0.1 s to decode"),
        (ItemLimits(cpu_s=0.1), compute, "0.1 s of computing"),
    ],
)
def test_what_takes_too_long_is_refused_with_the_limit(limits, work, said):
    """By the clock, and by what it computes."""
    with pytest.raises(Rejected, match=said) as refused, limits.over("video_data"):
        work()

    assert (refused.value.code, refused.value.status) == ("media_too_slow", 400)


def test_a_codec_that_does_not_come_back_ends_its_child_and_nobody_else():
    """No handler of Python's can run, so the kernel does it."""
    pid = fork()
    if not pid:
        with ItemLimits(cpu_s=0.1).over("image_data"):
            hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 1_000_000_000)
        os._exit(0)

    _, status = os.waitpid(pid, 0)

    assert os.WTERMSIG(status) == signal.SIGPROF


def test_no_limits_are_none():
    """Whoever drives a processor without a worker."""
    with NO_LIMITS.over("image_data"):
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_another_thread_has_no_limits():
    """Signals are the main thread's; limits that cannot be kept are not set."""
    seen = []

    def look() -> None:
        with ItemLimits(wall_s=0.05).over("image_data"):
            time.sleep(0.2)
            seen.append("done")

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert seen == ["done"]
