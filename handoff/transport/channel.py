"""kombu's Redis transport with another way to take, to acknowledge and to put back the messages of a node's lanes.

kombu pops a message and notes in a second step that it has it; a worker that dies between the two has lost it for ever.
Here a message goes from its queue to the list of what this worker has in hand in one step (``take.lua``), and leaves it
with its acknowledgement. Nothing else is noted, so a message costs two round trips where it cost three.

What is overridden are private methods of kombu 5.7: how the blocking pop is sent and read, and the verbs of its book of
unacknowledged messages. A worker refuses any other kombu; the tests of this folder come before that line of
``release.py`` is changed.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Sequence
from queue import Empty
from time import monotonic
from typing import Any, TypeVar

import redis
from kombu.transport import redis as kombu_redis
from kombu.transport.virtual import base as virtual
from redis.exceptions import NoScriptError, ResponseError

from handoff.keys import Keys, queue_name
from handoff.quarantine import Entry, set_aside_taken
from handoff.scripts import Move, sha, source
from handoff.slot import Slot, Taken, lane_of
from handoff.transport.guard import Fault, fault_of

T = TypeVar("T")

log = logging.getLogger(__name__)

# kombu's types are half there, which is worse than none.
_QoS: Any = kombu_redis.QoS
_Channel: Any = kombu_redis.Channel
_Transport: Any = kombu_redis.Transport
_SentinelChannel: Any = kombu_redis.SentinelChannel


class Book(_QoS):  # type: ignore[misc]
    """Who has what. Of a lane's messages this process remembers the tag, and the slot in Redis has the message."""

    def append(self, message: Any, delivery_tag: str) -> None:
        if self.channel.is_ours(delivery_tag):
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        if not self.channel.is_ours(delivery_tag):
            super().ack(delivery_tag)
            return
        virtual.QoS.ack(self, delivery_tag)  # first: a broken connection must not cost the credit for good
        self.channel.drop(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        if not self.channel.is_ours(delivery_tag):
            super().reject(delivery_tag, requeue=requeue)
            return
        virtual.QoS.ack(self, delivery_tag)
        if requeue:
            self.channel.give_back(delivery_tag, last=True)
        else:
            self.channel.drop(delivery_tag)

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        # Of kombu's own book: what workers of an earlier release have left there comes back as it did then.
        if self.channel.is_ours(tag):
            self.channel.give_back(tag, last=leftmost)
        else:
            super().restore_by_tag(tag, client=client, leftmost=leftmost)

    def restore_unacked(self, client: Any = None) -> None:
        try:
            for tag in reversed(self._delivered):  # the newest first, so that the oldest is the next one again
                self.restore_by_tag(tag, client=client)
            self._delivered.clear()
        except self.channel.connection_errors as error:
            # They lie in the slot: its next channel puts them back, or whoever finds its owner dead.
            log.warning("messages stay in hand until Redis is back", extra={"reason": str(error)})
            self._delivered.clear()


class Channel(_Channel):  # type: ignore[misc]
    """A channel whose ``node`` and ``life`` come as transport options. It takes from the lanes of that node."""

    QoS = Book
    node = ""
    life = ""
    from_transport_options: tuple[str, ...] = (*_Channel.from_transport_options, "node", "life")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.taken: dict[str, Taken] = {}
        self._to_drop: list[Taken] = []
        self._number = 0
        self._mark = f"{secrets.token_hex(8)}."
        # A channel begins with nothing in hand: what its slot has is of one whose connection was lost.
        self._is_in_doubt = True
        super().__init__(*args, **kwargs)
        self.slot = Slot(Keys(self.global_keyprefix), self.node, self.life)

    # Taking.

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Wait for the bell and take: two commands in one go, for one round trip.

        Redis holds the second back until the first has its answer. A bell that was lost costs its time-out, no more.
        """
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        if self._is_in_doubt:
            self._recover()
        move = self.slot.take([lane_of(queue, self.node) for queue in queues])
        wait = ("BRPOP", move.key, timeout or self.brpop_timeout or 0)
        connection = self.client.connection
        self._in_poll = connection
        self._brpop_sent_at = monotonic()
        connection.send_packed_command(
            connection.pack_commands([wait, ("EVALSHA", sha(move.script), 1, move.key, *move.args)])
        )

    def _brpop_read(self, **options: Any) -> bool:
        try:
            taken = self._read_taken()
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()
        if taken is None:
            raise Empty()
        self._queue_cycle.rotate(queue_name(self.node, taken.lane))
        self._hand_on(taken)
        return True

    def _read_taken(self) -> Taken | None:
        connection = self.client.connection
        try:
            _, reply = _answer(connection), _answer(connection)
        except self.connection_errors:
            self._is_in_doubt = True  # it may have been taken, and we shall never hear of it
            connection.disconnect()
            raise
        if isinstance(reply, NoScriptError):
            self._redis.script_load(source("take"))
            return None
        if isinstance(reply, Exception):
            log.warning("the broker refuses to give a message", extra={"reason": str(reply)})
            return None
        return self.slot.take(()).read(reply)

    def _hand_on(self, taken: Taken) -> None:
        """Give a message to Celery, or set it aside."""
        fault = fault_of(taken.message)
        if fault is not None:
            self._set_aside(taken, fault)
            return
        self._number += 1
        # Not the sender's tag: two messages with the same one would be one to kombu.
        tag = f"{self._mark}{self._number}"
        self.taken[tag] = taken
        payload = json.loads(taken.message)
        payload["properties"]["delivery_tag"] = tag
        try:
            self.connection._deliver(payload, queue_name(self.node, taken.lane))
        except Exception as error:  # what the guard did not foresee must not end Celery's parent
            # kombu counts a KeyError among a connection's errors, and would connect again for the same one for ever.
            if isinstance(error, self.connection_errors) and not isinstance(error, KeyError):
                raise
            log.exception("Celery cannot take a message", extra={"lane": taken.lane})
            self.taken.pop(tag, None)
            virtual.QoS.ack(self.qos, tag)
            self._set_aside(taken, Fault("undeliverable", f"{type(error).__name__}: {error}"))

    def _set_aside(self, taken: Taken, fault: Fault) -> None:
        entry = Entry.of_message(taken.message, fault.reason, fault.detail, self.node)
        self._perform(set_aside_taken(self.slot.keys, entry, self.slot.list_of(taken.lane), taken.message))
        # Not the particulars: they quote what somebody sent.
        log.error("message set aside", extra={"reason": fault.reason, "digest": entry.digest, "lane": taken.lane})

    # Having done with what was taken.

    @property
    def is_gone(self) -> bool:
        """Whether it was closed; tasks that it has handed out go on, and tell it of their ends.

        Or its connection was, under it: kombu may close the channel last, and nothing could be sent any more.
        """
        return self.connection is None or self.connection.client is None

    def is_ours(self, tag: str) -> bool:
        """Whether a delivery tag is of a message that this channel took from a lane."""
        return str(tag).startswith(self._mark)

    def drop(self, tag: str) -> None:
        """A message is acknowledged. One that Redis does not hear of now, it hears of with the next."""
        taken = self.taken.pop(tag, None)
        if taken is None or self.is_gone:  # the connection was lost, and it went back; its record will refuse it
            return
        self._to_drop.append(taken)
        self._perform(self.slot.drop(self._to_drop))
        self._to_drop.clear()

    def give_back(self, tag: str, *, last: bool) -> None:
        """A message goes back to its queue, to be the next one or the ``last``."""
        taken = self.taken.get(tag)
        if taken is not None and not self.is_gone:  # else the next channel finds it in the slot
            self._perform(self.slot.give_back(taken, last=last))
            del self.taken[tag]

    def _recover(self) -> None:
        """Put back what the slot has and nobody here knows of, and teach a server that may be a new one to take."""
        self._redis.script_load(source("take"))
        known = [*self.taken.values(), *self._to_drop]
        back = self._perform(self.slot.recover(known))
        self._is_in_doubt = False
        if back:
            log.warning("messages of a lost connection put back", extra={"messages": back})

    def close(self) -> None:
        super().close()
        self._disconnect_pools()  # giving back what was in hand has opened one more

    def _on_connection_disconnect(self, connection: Any) -> None:
        if self._in_poll is connection:
            self._is_in_doubt = True
        super()._on_connection_disconnect(connection)

    @property
    def _redis(self) -> Any:
        """A client whose key names are whole, over kombu's own connections."""
        return redis.Redis(connection_pool=self.pool)

    def _perform(self, move: Move[T]) -> T:
        """As ``handoff.scripts.perform``, with the errors that kombu knows how to take."""
        try:
            reply = self._redis.evalsha(sha(move.script), 1, move.key, *move.args)
        except NoScriptError:
            reply = self._redis.eval(source(move.script), 1, move.key, *move.args)
        return move.read(reply)


def _answer(connection: Any) -> Sequence[Any] | ResponseError | None:
    """One reply; what Redis refuses is a reply too, for another one comes after it."""
    try:
        reply: Sequence[Any] | None = connection.read_response()
    except ResponseError as error:
        return error
    return reply


class _Named(type):
    """Celery's log quotes a transport as the scheme of a URL."""

    def __str__(cls) -> str:
        return "redis"


class Transport(_Transport, metaclass=_Named):  # type: ignore[misc]
    """The transport over which a worker consumes its node's lanes."""

    Channel = Channel


class SentinelChannel(Channel, _SentinelChannel):  # type: ignore[misc]
    """The same over connections to whoever is the master."""

    from_transport_options: tuple[str, ...] = (*_SentinelChannel.from_transport_options, "node", "life")


class SentinelTransport(Transport):
    """The transport where Sentinels know the server."""

    default_port = kombu_redis.SentinelTransport.default_port
    Channel = SentinelChannel
