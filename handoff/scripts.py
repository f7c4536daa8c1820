"""Running the Lua moves: a ``Move`` is data, performed by a blocking or an asyncio client alike."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Generic, TypeVar

from redis.exceptions import NoScriptError

from handoff.connection import AsyncClient, Client, redis_failures

T = TypeVar("T")
Argument = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Move(Generic[T]):
    """One atomic step: the script's name, its first key, its arguments, and how to read the reply."""

    script: str
    key: str
    args: tuple[Argument, ...]
    read: Callable[[Any], T]


_NEW_WORK = frozenset({"accept", "enqueue"})
_ALSO_WHEN_FULL = "#!lua flags=allow-oom\n"


@cache
def source(name: str) -> str:
    """The script with the shared prelude before it.

    A Redis that is full takes no new work, and lets what is in it go on to its end, which is what makes room again.
    """
    folder = files("handoff") / "lua"
    first = "" if name in _NEW_WORK else _ALSO_WHEN_FULL
    return first + (folder / "prelude.lua").read_text() + (folder / f"{name}.lua").read_text()


@cache
def sha(name: str) -> str:
    """The name under which Redis remembers a script."""
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()


def perform(client: Client, move: Move[T]) -> T:
    """Run a move.

    Raises:
        Failed: Redis cannot be reached or refuses the script.
    """
    with redis_failures():
        try:
            reply = client.evalsha(sha(move.script), 1, move.key, *move.args)
        except NoScriptError:
            reply = client.eval(source(move.script), 1, move.key, *move.args)
    return move.read(reply)


def perform_all(client: Client, moves: Sequence[Move[T]]) -> list[T]:
    """Run independent moves in one round trip; each is atomic by itself."""
    if not moves:
        return []
    with redis_failures():
        try:
            replies = _pipeline(client, moves).execute()
        except NoScriptError:
            for name in {move.script for move in moves}:
                client.script_load(source(name))
            replies = _pipeline(client, moves).execute()
    return [move.read(reply) for move, reply in zip(moves, replies, strict=True)]


def _pipeline(client: Client, moves: Sequence[Move[Any]]) -> Any:
    pipe = client.pipeline(transaction=False)
    for move in moves:
        pipe.evalsha(sha(move.script), 1, move.key, *move.args)
    return pipe


async def perform_async(client: AsyncClient, move: Move[T]) -> T:
    """Run a move from an event loop. Errors as ``perform``."""
    with redis_failures():
        try:
            reply = await client.evalsha(sha(move.script), 1, move.key, *move.args)
        except NoScriptError:
            reply = await client.eval(source(move.script), 1, move.key, *move.args)
    return move.read(reply)
