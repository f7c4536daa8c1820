"""A processor that does what a picture tells it to, in a package that a worker process can find.

The colour of the picture's first pixel is the order: what a codec or a guest does to its child, at the test's word.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from forebay import Processed
from tests.support.media import plain_png
from tests.support.toys import Toy
from workers import loader
from workers.decode import decode_image

NAME = "hostile"


class Hostile(Toy):
    """Obeys the red of the first pixel."""

    kept: ClassVar[list[Any]] = []

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        loader.decode_image = _decode

    def process_item(self, media: Any, work: Any) -> Processed:
        order = int(media.pixels[0, 0, 0])
        if order == Order.SLEEP:
            time.sleep(60)
        if order == Order.NEVER_RETURN:
            _stay_in_c()
        if order == Order.DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        if order == Order.NO_MEMORY:
            raise MemoryError
        if order == Order.LEAK:
            self.kept.append(np.ones(64 << 17))  # 64 MiB
        if order == Order.TAKE_A_WHILE:
            time.sleep(0.5)
        return super().process_item(media, work)


def _decode(data: bytes, param: str, left: int) -> Any:
    """As the worker does, with what a codec may come to."""
    pixels = decode_image(data, param, left)
    order = int(pixels[0, 0, 0])
    if order == Order.CRASH_IN_CODEC:
        os.kill(os.getpid(), signal.SIGSEGV)
    if order == Order.KILLED_IN_CODEC:
        os.kill(os.getpid(), signal.SIGKILL)
    if order == Order.SLOW_CODEC:
        time.sleep(60)
    if order == Order.HUNGRY_CODEC:
        bytearray(64 << 20)
    if order == Order.DEAF_CODEC:
        _stay_in_c()
    return pixels


class Order:
    """Reds."""

    CRASH_IN_CODEC, KILLED_IN_CODEC, SLOW_CODEC, DEAF_CODEC, HUNGRY_CODEC = 70, 80, 90, 100, 110
    NOTHING, SLEEP, NEVER_RETURN, NO_MEMORY, LEAK, TAKE_A_WHILE, DIE = 0, 10, 20, 30, 40, 50, 60


def _stay_in_c() -> None:
    """No signal handler of Python's runs until it returns, in some minutes."""
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 1_000_000_000)


def picture(order: int, number: int = 0) -> bytes:
    """A small picture with an order; the number makes it another one."""
    return plain_png(2, 3, (order, number % 256, number // 256))


def install(folder: Path) -> None:
    """A distribution with the one entry point, for whoever has the folder on its path."""
    place = folder / "hostile-0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 0\n")
    (place / "entry_points.txt").write_text(f"[forebay.processors]\n{NAME} = tests.support.hostile:Hostile\n")
