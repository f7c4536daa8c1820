"""One rank of a model's scheduler, as a process: it maps what it is given, says what it read, and releases when told.

``python -m tests.support.rank RANK COUNT RENDEZVOUS [dies]``; where the node and its Redis are stands in the
environment. It says ``open``, then the sum of the features, then ``released``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from forebay import Room
from forebay.settings import load
from scheduler import Broadcast, Intake, Ranks, SchedulerSettings, Taken, open_intake, torch_broadcast
from scheduler.ranks import Turn

_POLLS, _EVERY_S = 1000, 0.02


def main(rank: int, count: int, rendezvous: str, dies: bool) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=count, timeout=timedelta(seconds=120)
    )
    broadcast = _dying_at_news(torch_broadcast()) if dies else torch_broadcast()
    with open_intake(load(SchedulerSettings), Ranks(count, rank, broadcast)) as intake:
        print("open", flush=True)
        taken = _first(intake)
        print(sum(float(item.array.sum()) for item in taken.admission.items), flush=True)
        sys.stdin.readline()
        intake.release(taken)
        print("released", flush=True)


def _first(intake: Intake) -> Taken:
    for _ in range(_POLLS):
        taken, _ = intake.poll(Room(1, 1000))
        if taken:
            return taken[0]
        if intake.ranks.leads:
            time.sleep(_EVERY_S)
    raise TimeoutError("nothing was parked")


def _dying_at_news(broadcast: Broadcast) -> Callable[[bytes | None], bytes]:
    """Killed after it has been told of a request, and before it maps it."""

    def receive(data: bytes | None) -> bytes:
        told = broadcast(data)
        if told[:1] == b"\x92" and Turn.unpack(told).shares:
            os.kill(os.getpid(), signal.SIGKILL)
        return told

    return receive


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], "dies" in sys.argv)
