"""What happens to a request, as ``GET /v1/requests/{rid}/events`` tells it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from forebay.client.errors import UnreachableError, failure_in
from forebay.client.sse import EventReader, ServerEvent
from forebay.client.statuses import Status
from forebay.client.talk import Pause, Reply, Retries, Send, Talk, exchange, path_of
from forebay.states import State


@dataclass(frozen=True, slots=True)
class StateReached:
    """The request has come to a state; ``at_ms`` is on the deployment's clock. After ``admitted`` the texts begin anew.

    ``id`` is what ``events`` takes as ``after``, to go on behind this event.
    """

    id: str | None
    state: State
    attempt: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What is new of answer number ``index``, and how many tokens it is."""

    id: str | None
    index: int
    text: str
    tokens: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The request has ended, well or badly; nothing comes after it."""

    id: str | None
    status: Status


Event = StateReached | Piece | Ended


def read_event(sent: ServerEvent) -> Event | None:
    """An event as it was sent; ``None`` for a kind that a later API may have."""
    match sent.name:
        case "state":
            told = json.loads(sent.data)
            return StateReached(sent.id, State(told["state"]), told["attempt"], told["at_ms"])
        case "token":
            told = json.loads(sent.data)
            return Piece(sent.id, told["index"], told["text"], told["tokens"], told["sequence"])
        case "end":
            return Ended(sent.id, Status.of(json.loads(sent.data)))
        case _:
            return None


@dataclass(slots=True)
class Following:
    """A request's events over however many connections it takes. Each goes on behind the last event that came.

    As many connections may break one after another, without an event between them, as there are retries.
    """

    rid: str
    last: str | None
    retries: Retries
    is_over: bool = False
    _breaks: int = 0
    _reader: EventReader = field(default_factory=EventReader)

    def open(self) -> Talk[Reply | None]:
        """Connect, after a pause where the last connection broke; ``None`` when there is nothing more to come."""
        if self._breaks:
            yield Pause(min(0.1 * 2**self._breaks, 2.0))
        self._reader = EventReader()
        after = {} if self.last is None else {"Last-Event-ID": self.last}
        send = Send("GET", f"{path_of(self.rid)}/events", headers=after, is_repeatable=True, stream=True)
        reply = yield from exchange(send, self.retries)
        if reply.status == 204:
            self.is_over = True
            return None
        return reply

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that these bytes complete.

        Raises:
            UnreachableError: the API says why it cannot go on; it is a connection that broke, with a reason.
        """
        for sent in self._reader.feed(data):
            if sent.name == "error":
                reason = failure_in(json.loads(sent.data)["error"])
                raise UnreachableError(f"the events ended before the request did: {reason}", was_sent=True)
            event = read_event(sent)
            self.last = sent.id or self.last
            self._breaks = 0
            self.is_over = isinstance(event, Ended)
            if event is not None:
                yield event

    def broke(self, error: UnreachableError) -> None:
        """A connection ended before the request did.

        Raises:
            UnreachableError: it is one too many.
        """
        self._breaks += 1
        if self._breaks > self.retries.most:
            raise error
