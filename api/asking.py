"""One request from its acceptance to its end, as the routes ask for it: whole, or growing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, TypeVar

from api.answers import generations, partial, result_of
from api.context import Context
from api.incoming import Incoming
from api.replies import Ended, Piece, Watch
from forebay.errors import Failed
from forebay.task import Kind

T = TypeVar("T")

_GRACE_S = 10.0  # after the deadline, for the reconciler to write the end


async def answers(context: Context, incoming: Incoming, began: float) -> list[dict[str, Any]]:
    """The answers of one request, as many as it wants.

    Raises:
        Rejected, Failed: the request was refused, or ended badly.
    """
    async with context.submission.watched(incoming, Kind.GENERATE) as (submitted, watch):
        ended = await wait_for_end(context, watch, incoming)
        elapsed_s = count_answer(context, "generate", submitted.model, ended, began)
        return generations(submitted.rid, result_of(ended), elapsed_s)


async def growing(
    context: Context, incoming: Incoming, began: float
) -> AsyncGenerator[tuple[int, dict[str, Any]] | None, None]:
    """The answers of one request as they grow, each with its number.

    First comes ``None``, as soon as anything is there: until then an error is an ordinary error.

    Raises:
        Rejected, Failed: the request was refused, or ended badly.
    """
    async with context.submission.watched(incoming, Kind.GENERATE) as (submitted, watch):
        event = await _within(watch.events.get(), context, incoming)
        if isinstance(event, Ended) and event.result is None:
            count_answer(context, "generate", submitted.model, event, began)
            result_of(event)
        yield None
        growth = Growth()
        while isinstance(event, Piece):
            if growth.take(event):
                text, tokens = growth.of(event.sample)
                yield event.sample, partial(submitted.rid, text, tokens)
            event = await watch.events.get()
        elapsed_s = count_answer(context, "generate", submitted.model, event, began)
        for number, answer in enumerate(generations(submitted.rid, result_of(event), elapsed_s)):
            yield number, answer


def count_answer(context: Context, route: str, model: str, ended: Ended, began: float) -> float:
    """Put an end into the metrics; the seconds it took."""
    elapsed_s = time.perf_counter() - began
    context.metrics.answered(route, model, ended.state, ended.problem.code if ended.problem else "ok", elapsed_s)
    return elapsed_s


async def wait_for_end(context: Context, watch: Watch, incoming: Incoming) -> Ended:
    """The end of a request.

    Raises:
        Failed: ``no_end``, when not even the deadline brought one.
    """
    return await _within(watch.end(), context, incoming)


async def _within(event: Awaitable[T], context: Context, incoming: Incoming) -> T:
    try:
        return await asyncio.wait_for(event, _patience_s(context, incoming))
    except TimeoutError as error:
        raise Failed("no_end", "the deadline passed and no end was recorded", status=504) from error


def _patience_s(context: Context, incoming: Incoming) -> float:
    return (incoming.timeout_ms or context.settings.timeout_ms) / 1000 + _GRACE_S


class Growth:
    """The texts so far. A new claim begins them anew, a piece seen before changes nothing."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[str, int]] = {}
        self._claim, self._next = "", 0

    def of(self, sample: int) -> tuple[str, int]:
        """Text and tokens of one answer."""
        return self._texts.get(sample, ("", 0))

    def take(self, piece: Piece) -> bool:
        """Add a piece; whether it was new."""
        if piece.claim != self._claim:
            self._texts = {}
            self._claim, self._next = piece.claim, 0
        if piece.sequence < self._next:
            return False
        self._next = piece.sequence + 1
        text, tokens = self.of(piece.sample)
        self._texts[piece.sample] = (text + piece.text, tokens + piece.tokens)
        return True
