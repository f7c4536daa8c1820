"""The requests of one call side by side: every slot gets its answer, and what is wrong with one harms no other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from api.answers import EndedBadly
from api.asking import answers, growing
from api.context import Context
from api.incoming import Call, Incoming, Slot
from api.tasks import end
from forebay.errors import Failed, Problem, Rejected

log = logging.getLogger(__name__)

_WINDOW = 256  # requests of one batch that are under way at once; its others would only fill the queue

Answer = dict[str, Any]


async def answer_all(context: Context, call: Call) -> list[Answer]:
    """The answers of a batch, or one error object for a request that has none.

    Prompts keep their order; with several answers each, all first answers come before all second ones, as SGLang
    orders them.
    """
    began = time.perf_counter()
    each = await in_parallel(call.slots, lambda one: answers(context, one, began))
    return _by_rounds(each)


def _by_rounds(each: Sequence[Sequence[Answer]]) -> list[Answer]:
    rounds = max(map(len, each), default=0)
    return [own[number] for number in range(rounds) for own in each if number < len(own)]


async def in_parallel(slots: Sequence[Slot], ask: Callable[[Incoming], Awaitable[list[Answer]]]) -> list[list[Answer]]:
    """Ask for every slot, some at a time. When the caller goes, all of them are left."""
    window = asyncio.Semaphore(_WINDOW)

    async def one(slot: Slot) -> list[Answer]:
        async with window:
            try:
                return await ask(_checked(slot))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this slot's
                return [error_object(error, slot)]

    tasks = [asyncio.ensure_future(one(slot)) for slot in slots]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await end(*tasks)


def _checked(slot: Slot) -> Incoming:
    if isinstance(slot, Rejected):
        raise slot
    return slot


def error_object(error: Exception, slot: Slot) -> Answer:
    """What stands in a batch in place of an answer."""
    problem = error.problem if isinstance(error, EndedBadly) else Problem.of(error)
    rid = slot.rid if isinstance(slot, Incoming) else None
    if not isinstance(error, Rejected | Failed):
        log.error("unforeseen error", extra={"rid": rid}, exc_info=error)
    return problem.body(rid)


async def grow_all(context: Context, call: Call) -> AsyncGenerator[Answer, None]:
    """The answers of a batch as they grow, each with its ``index`` in the list that ``answer_all`` would give."""
    events: asyncio.Queue[Answer | None] = asyncio.Queue()
    window, began = asyncio.Semaphore(_WINDOW), time.perf_counter()
    index = _indices(call.slots)

    async def one(number: int, slot: Slot) -> None:
        async with window:
            try:
                async for event in growing(context, _checked(slot), began):
                    if event is not None:
                        sample, answer = event
                        events.put_nowait({**answer, "index": index[number, sample]})
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this slot's
                events.put_nowait({**error_object(error, slot), "index": index[number, 0]})
        events.put_nowait(None)

    tasks = [asyncio.ensure_future(one(number, slot)) for number, slot in enumerate(call.slots)]
    try:
        left = len(tasks)
        while left:
            event = await events.get()
            if event is None:
                left -= 1
            else:
                yield event
    finally:
        await end(*tasks)


def _indices(slots: Sequence[Slot]) -> dict[tuple[int, int], int]:
    """Where the answer of a prompt and a sample stands."""
    wanted = [slot.samples if isinstance(slot, Incoming) else 1 for slot in slots]
    places = [
        (number, sample) for sample in range(max(wanted)) for number, count in enumerate(wanted) if sample < count
    ]
    return {place: index for index, place in enumerate(places)}
