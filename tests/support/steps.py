"""Interrupting the pool's code between any two of its steps: by death, or by an exception as a signal handler raises.

A step is an instruction of Python. What another process can see changes only where something is stored, so dying
before each store shows every state that there is.
"""

from __future__ import annotations

import dis
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn

import handoff.pool
from tests.support.forks import fork

FOLDER = str(Path(handoff.pool.__file__).parent)
_STORES = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}


class Interrupted(Exception):
    """What a signal handler raises in the middle of something."""


class _Stepper:
    """Counts the instructions of the pool's code, or its stores alone, and acts at the one that was asked for."""

    def __init__(self, at: int, act: Callable[[], None], *, stores_only: bool) -> None:
        self._left = at
        self._act = act
        self._stores_only = stores_only
        self._codes: dict[CodeType, bytes] = {}

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode" and (not self._stores_only or self._is_store(frame)):
            if not self._left:
                self._act()
            self._left -= 1
        return self

    def _is_store(self, frame: FrameType) -> bool:
        code = frame.f_code
        if code not in self._codes:
            self._codes[code] = code.co_code
        return self._codes[code][frame.f_lasti] in _STORES


def dies_at(step: int, act: Callable[[], object]) -> bool:
    """Do something in a child that is killed before its ``step``-th store; ``False`` when it came to its end."""

    def traced() -> None:
        sys.settrace(_Stepper(step, _die, stores_only=True))
        act()

    pid = fork()
    if not pid:
        _act_and_exit(traced)
    _, status = os.waitpid(pid, 0)
    died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert died or status == 0
    return died


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _act_and_exit(act: Callable[[], object]) -> NoReturn:
    status = 1
    try:
        act()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)  # nothing of pytest's is to run twice


def dies_after(act: Callable[[], object]) -> None:
    """Do something in a child that is killed as soon as it is done."""
    pid = fork()
    if not pid:
        _act_and_exit(lambda: [act(), _die()])
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def interrupted_at(step: int, act: Callable[[], object]) -> bool:
    """Do something that an exception interrupts at its ``step``-th instruction; ``False`` when it came to its end."""

    def interrupt() -> None:
        raise Interrupted

    sys.settrace(_Stepper(step, interrupt, stores_only=False))
    try:
        act()
    except Interrupted:
        return True
    finally:
        sys.settrace(None)
    return False


def interrupted_after(delay_s: float, act: Callable[[], object]) -> bool:
    """Do something that a signal interrupts after a time; ``False`` when it had come to its end by then."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, delay_s)
        try:
            act()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        return True
    finally:
        signal.signal(signal.SIGALRM, before)
    return False
