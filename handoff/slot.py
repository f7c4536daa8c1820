"""What one worker of a node has in hand: messages between a queue and their acknowledgement, in a list of its own.

The list bears the name of the worker's life, whose lock file tells whether it is still somebody's. One who finds that
it is nobody's puts everything back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from handoff.connection import Client, redis_failures, texts
from handoff.keys import LANES, Keys, queue_name
from handoff.scripts import Argument, Move


@dataclass(frozen=True, slots=True)
class Taken:
    """A message in somebody's hand, byte for byte as it lay on the queue."""

    lane: str
    message: bytes


@dataclass(frozen=True, slots=True)
class Estate:
    """What a dead worker had in hand: how many messages went back, and which have had too many dead owners for that."""

    returned: int
    deadly: tuple[Taken, ...]


MOST_DEATHS = 5
"""A message may go back so often. More than a request has attempts: whoever dies has others' messages in hand, too."""

_DEATHS_KEPT_S = 3600


@dataclass(frozen=True, slots=True)
class Slot:
    """The moves of one worker's messages. All of them are atomic."""

    keys: Keys
    node: str
    life: str

    @property
    def bell(self) -> str:
        """What an idle worker blocks on; who waits for it takes afterwards, whether it has rung or not."""
        return self.keys.bell(self.node)

    def take(self, lanes: Sequence[str]) -> Move[Taken | None]:
        """The oldest message of the first of ``lanes`` that has one."""
        return Move("take", self.bell, (self.keys.prefix, self.node, self.life, *lanes), _read_taken)

    def drop(self, messages: Iterable[Taken]) -> Move[int]:
        """They are done with."""
        return self._move("drop", *(part for one in messages for part in (one.lane, one.message)))

    def give_back(self, taken: Taken, *, last: bool) -> Move[int]:
        """Put one back on its queue, to be taken next or ``last``."""
        return self._move("give_back", taken.lane, taken.message, "LEFT" if last else "RIGHT")

    def recover(self, kept: Sequence[Taken] = ()) -> Move[int]:
        """Put everything back, but for what is ``kept``. How many went back."""
        return self._move("recover", len(LANES), *LANES, *(one.message for one in kept))

    def inherit(self) -> Move[Estate]:
        """Put back what its owner, who is dead, had in hand; what kills each of its owners stays, and is told."""
        args = (self.keys.prefix, self.node, self.life, MOST_DEATHS, _DEATHS_KEPT_S, *LANES)
        return Move("inherit", self.keys.takers(self.node), args, _read_estate)

    def list_of(self, lane: str) -> str:
        """Where it keeps the messages of a lane."""
        return self.keys.taken(self.node, self.life, lane)

    def _move(self, script: str, *args: Argument) -> Move[int]:
        return Move(script, self.keys.takers(self.node), (self.keys.prefix, self.node, self.life, *args), int)


def takers(client: Client, keys: Keys, node: str) -> list[str]:
    """The lives of a node's workers that may have messages in hand."""
    with redis_failures():
        return sorted(texts(client.smembers(keys.takers(node))))


def lane_of(queue: str, node: str) -> str:
    """The lane of a Celery queue; ``''`` for a queue that is no lane of the node's."""
    return {queue_name(node, lane): lane for lane in LANES}.get(queue, "")


def _read_taken(reply: Sequence[Any]) -> Taken | None:
    return Taken(reply[0].decode(), reply[1]) if reply else None


def _read_estate(reply: Sequence[Any]) -> Estate:
    returned, *rest = reply
    deadly = (Taken(lane.decode(), message) for lane, message in zip(rest[::2], rest[1::2], strict=True))
    return Estate(int(returned), tuple(deadly))
