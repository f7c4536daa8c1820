"""A real kombu consumer of a node's lanes, over the worker's transport and a real server, in this process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kombu import Consumer

from forebay.settings import SharedSettings
from handoff.connection import Client
from handoff.envelope import Label, envelope
from handoff.keys import LANES, Keys, queue_name
from handoff.queue import QueueWorker, make_app

NODE = "n1"
KEYS = Keys("test:")
SECRET = b"0123456789abcdef"
LABEL = Label.of("r", 1, "toy", 0, 0)


def entry(number: int, lane: str = "text") -> bytes:
    """An intact queue entry, told from others by its task's id."""
    return envelope(f"r{number}.1", queue_name(NODE, lane), b"message", LABEL)


def push(client: Client, *entries: bytes, lane: str = "text", rings: bool = True) -> None:
    """Put entries on a queue, the first to be taken first, and ring as the moves do."""
    client.lpush(KEYS.queue(NODE, lane), *entries)
    if rings:
        client.lpush(KEYS.bell(NODE), "1")


class Hand:
    """Takes messages and keeps them until it is told what to do with them."""

    def __init__(self, connection: Any, credit: int) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        self.channel = connection.default_channel
        self.channel.basic_qos(0, credit, False)

    def on_message(self, message: Any) -> None:
        self.messages.append(message)

    def take(self, for_s: float = 1.5, most: int = 1) -> list[str]:
        """The ids of what came, until so many have come or the time is over."""
        before = len(self.messages)
        with suppress(socket.timeout):
            while len(self.messages) < before + most:
                self.connection.drain_events(timeout=for_s)
        return [message.headers["id"].removesuffix(".1") for message in self.messages[before:]]


@contextmanager
def consuming(redis_url: str, life: str = "w1", credit: int = 10) -> Iterator[Hand]:
    """A consumer of all lanes, which drops its connection afterwards without giving anything back."""
    app = make_app(SharedSettings(secret=SECRET, redis_url=redis_url, deployment="test"), QueueWorker(NODE, life))
    with app, app.connection_for_read() as connection:
        hand = Hand(connection, credit)
        consumer = Consumer(hand.channel, app.conf.task_queues, on_message=hand.on_message, accept=["msgpack"])
        with consumer:
            yield hand


def in_hand(client: Client, life: str = "w1") -> dict[str, list[bytes]]:
    """What lies in a slot, by lane, the newest first."""
    lists = {lane: client.lrange(KEYS.taken(NODE, life, lane), 0, -1) for lane in LANES}
    return {lane: found for lane, found in lists.items() if found}


def queued(client: Client, lane: str = "text") -> list[bytes]:
    """What waits on a queue, the next one first."""
    return client.lrange(KEYS.queue(NODE, lane), 0, -1)[::-1]
