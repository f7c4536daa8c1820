"""Four ways to hand an array to another process, which looks at a byte of every page and answers.

Each is a sender in this process and a receiver in a process of its own, joined by a pipe for the small words.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from abc import ABC, abstractmethod
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import redis

from forebay import DType
from forebay.ticket import ArrayAt, Handle
from handoff.pool import Pool

_PAGE = 4096


def look(array: np.ndarray) -> int:
    """A byte of every page, so that no way gets away without touching the memory."""
    return int(array.reshape(-1).view(np.uint8)[::_PAGE].sum())


class Way(ABC):
    """One way to hand an array over. ``send`` returns what the receiver saw, and the CPU seconds it took there."""

    def __init__(self, *given: Any) -> None:
        context = mp.get_context("spawn")
        self.here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(type(self), there, *given), daemon=True)
        self._process.start()
        there.close()
        self.given = given
        self.here.recv()  # it is ready

    @abstractmethod
    def send(self, array: np.ndarray) -> tuple[int, float]:
        """Hand it over."""

    @staticmethod
    @abstractmethod
    def receiver(connection: Connection, *given: Any) -> Any:
        """What the receiver does with each word; a function of the connection's next message."""

    def close(self) -> None:
        self.here.send_bytes(b"")
        self._process.join(10)
        self.here.close()

    def _answer(self) -> tuple[int, float]:
        seen, spent = self.here.recv()
        return seen, spent


def _serve(way: type[Way], connection: Connection, *given: Any) -> None:
    take = way.receiver(connection, *given)
    connection.send("ready")
    while (word := connection.recv_bytes()) != b"":
        began = time.process_time()
        seen = take(word)
        connection.send((seen, time.process_time() - began))


class OurPool(Way):
    """The pool: allocate, write in place, park; take, look, free. ``given``: its path."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._pool = Pool(path, f"sender-{os.getpid()}", writable=True)

    def send(self, array: np.ndarray) -> tuple[int, float]:
        block = self._pool.allocate(array.nbytes, "benchmark", 1)
        assert block is not None
        carved = block.carve(array.shape, DType.FLOAT32)
        assert carved is not None
        np.copyto(carved[0], array)  # the write itself, which a processor does anyway
        handle = block.handle
        del carved
        block.release()
        self._pool.park(handle)
        word = np.array([handle.slot, handle.offset, handle.length, handle.generation, *array.shape], np.int64)
        self.here.send_bytes(handle.pool.encode() + word.tobytes())
        return self._answer()

    @staticmethod
    def receiver(connection: Connection, *given: Any) -> Any:
        pool = Pool(Path(given[0]), f"receiver-{os.getpid()}", writable=False)

        def take(word: bytes) -> int:
            slot, offset, length, generation, rows, values = np.frombuffer(word[16:], np.int64).tolist()
            block = pool.take(Handle(word[:16].decode(), slot, offset, length, generation))
            seen = look(block.array(ArrayAt(0, 0, DType.FLOAT32, (rows, values))))
            block.release()
            pool.free(block.handle)
            return seen

        return take


class FreshSegment(Way):
    """A new ``multiprocessing.shared_memory`` segment for every array."""

    def send(self, array: np.ndarray) -> tuple[int, float]:
        segment = SharedMemory(create=True, size=array.nbytes)
        np.copyto(np.frombuffer(segment.buf, array.dtype, array.size).reshape(array.shape), array)
        self.here.send_bytes(f"{segment.name} {array.nbytes}".encode())
        answer = self._answer()
        segment.close()
        segment.unlink()
        return answer

    @staticmethod
    def receiver(connection: Connection, *given: Any) -> Any:
        def take(word: bytes) -> int:
            name, size = word.decode().split()
            segment = SharedMemory(name)
            seen = look(np.frombuffer(segment.buf, np.uint8, int(size)))
            segment.close()
            return seen

        return take


class PickledPipe(Way):
    """The array itself through a pipe, pickled."""

    def send(self, array: np.ndarray) -> tuple[int, float]:
        self.here.send_bytes(b"array")
        self.here.send(array)
        return self._answer()

    @staticmethod
    def receiver(connection: Connection, *given: Any) -> Any:
        return lambda word: look(connection.recv())


class RedisBytes(Way):
    """The array's bytes as a value of Redis. ``given``: its URL."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._redis = redis.Redis.from_url(url)

    def send(self, array: np.ndarray) -> tuple[int, float]:
        self._redis.set("benchmark", array.data.cast("B"))
        self.here.send_bytes(b"benchmark")
        return self._answer()

    @staticmethod
    def receiver(connection: Connection, *given: Any) -> Any:
        client = redis.Redis.from_url(given[0])

        def take(word: bytes) -> int:
            value: Any = client.get(word)
            client.delete(word)
            return look(np.frombuffer(value, np.uint8))

        return take
