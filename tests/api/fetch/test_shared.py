"""What several prompts of a call wait for is transferred once, and goes on as long as one of them waits."""

import asyncio

import pytest

from api.fetch.shared import Shared
from forebay import Rejected

NAME = ("http://example.org/a", "image_data")


class Source:
    """Counts how often it was asked, and answers when it is let."""

    def __init__(self) -> None:
        self.asked = self.given_up = 0
        self.may = asyncio.Event()

    async def read(self) -> bytes:
        self.asked += 1
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return b"a picture"


async def waiting(shared: Shared, source: Source, count: int) -> list[asyncio.Task[bytes]]:
    tasks = [asyncio.create_task(shared.get(NAME, source.read)) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_the_first_who_asks_transfers_for_all():
    """Those who come later get what is there."""
    shared, source = Shared([NAME]), Source()
    tasks = await waiting(shared, source, 3)
    source.may.set()

    assert await asyncio.gather(*tasks) == [b"a picture"] * 3
    assert await shared.get(NAME, source.read) == b"a picture"
    assert source.asked == 1


async def test_it_goes_on_when_the_first_leaves():
    """Whoever cancels one prompt cancels no other."""
    shared, source = Shared([NAME]), Source()
    first, second = await waiting(shared, source, 2)
    first.cancel()
    await asyncio.wait([first])
    source.may.set()

    assert await second == b"a picture"
    assert (source.asked, source.given_up) == (1, 0)


async def test_it_ends_with_the_last_who_waits():
    """And begins anew for who comes then."""
    shared, source = Shared([NAME]), Source()
    tasks = await waiting(shared, source, 2)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

    assert source.given_up == 1
    source.may.set()
    assert await shared.get(NAME, source.read) == b"a picture"


async def test_a_failure_is_everybodys():
    """Nobody asks again for what is not there."""
    asked = []

    async def gone() -> bytes:
        asked.append(1)
        raise Rejected("media_unavailable", "image_data: gone")

    shared = Shared([NAME])
    ends = await asyncio.gather(*(shared.get(NAME, gone) for _ in range(3)), return_exceptions=True)

    assert [end.code for end in ends] == ["media_unavailable"] * 3
    with pytest.raises(Rejected):
        await shared.get(NAME, gone)
    assert len(asked) == 1
