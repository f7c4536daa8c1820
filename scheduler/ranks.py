"""Several ranks that read the same features: rank 0 claims, and tells the others what to map.

Rank 0 takes a hold on each block for every rank before it tells anybody, so a block outlives whichever rank is slowest,
and goes when the last has released it or has died. Every rank calls ``Intake.poll`` in step with the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from forebay.errors import ConfigurationError
from forebay.ticket import Handle
from handoff.pool import Owner, is_alive

Broadcast = Callable[[bytes | None], bytes]
"""Rank 0 gives bytes, the others ``None``; every rank gets the bytes of rank 0. The engine provides it."""

_COME_WITHIN_S = 120.0  # ranks load a model's weights at their own pace
_LOOK_EVERY_S = 0.01


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of one model, as one of them sees them."""

    count: int
    rank: int
    broadcast: Broadcast

    @property
    def leads(self) -> bool:
        """Whether this is the rank that claims."""
        return self.rank == 0

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.count:
            raise ConfigurationError(f"rank {self.rank} of {self.count}; ranks count from 0 to {self.count - 1}")


def reader_of(leader: str, rank: int) -> str:
    """Under which name a rank holds its blocks; the leader knows the names of all."""
    return leader if rank == 0 else f"{leader}.{rank}"


def begin_life(folder: Path, ranks: Ranks | None) -> Owner:
    """The life of this process, under a name that its leader knows.

    Raises:
        ConfigurationError: not every rank has come in time; which one is named.
    """
    if ranks is None:
        return Owner(folder, "scheduler")
    if not ranks.leads:
        return Owner.named(folder, reader_of(ranks.broadcast(None).decode(), ranks.rank))
    life = Owner(folder, "scheduler")
    ranks.broadcast(life.id.encode())
    for rank in range(1, ranks.count):
        _await(folder, reader_of(life.id, rank), rank, ranks.count)
    return life


def _await(folder: Path, reader: str, rank: int, count: int) -> None:
    give_up_at = time.monotonic() + _COME_WITHIN_S
    while not is_alive(folder, reader):  # a hold for one who does not live yet would be taken for a dead one's
        if time.monotonic() > give_up_at:
            raise ConfigurationError(f"rank {rank} of {count} has not come within {_COME_WITHIN_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)


@dataclass(frozen=True, slots=True)
class Share:
    """A claimed ticket, and each other rank's handles on its blocks: ``handles[rank - 1]``."""

    claim: str
    ticket: bytes
    handles: Sequence[Sequence[Handle]]


@dataclass(frozen=True, slots=True)
class Turn:
    """What rank 0 tells the others at each poll: what is new, and what is no longer theirs."""

    shares: Sequence[Share]
    lost: Sequence[str]

    def pack(self) -> bytes:
        shares = [
            [share.claim, share.ticket, [[_pack(handle) for handle in own] for own in share.handles]]
            for share in self.shares
        ]
        return bytes(msgpack.packb([shares, list(self.lost)]))

    @classmethod
    def unpack(cls, data: bytes) -> Turn:
        shares, lost = msgpack.unpackb(data)
        return cls([_share(*one) for one in shares], lost)


def _share(claim: str, ticket: bytes, each: list[list[list[Any]]]) -> Share:
    return Share(claim, ticket, [[Handle(*handle) for handle in own] for own in each])


def _pack(handle: Handle) -> list[Any]:
    return [handle.pool, handle.slot, handle.offset, handle.length, handle.generation]


def torch_broadcast(group: Any = None) -> Broadcast:
    """A ``Broadcast`` over a group of ``torch.distributed`` (``None``: the default one), from global rank 0.

    The group must take CPU tensors, as gloo does.
    """
    import torch
    import torch.distributed as dist

    def broadcast(data: bytes | None) -> bytes:
        size = torch.tensor([len(data or b"")], dtype=torch.int64)
        dist.broadcast(size, 0, group=group)
        if not size.item():
            return b""
        body = torch.empty(int(size.item()), dtype=torch.uint8)
        if data is not None:
            body.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        dist.broadcast(body, 0, group=group)
        return body.numpy().tobytes()

    return broadcast
