"""A thousand requests at once, good and bad: each answer belongs to its own request."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.deployment import Deployment
from tests.support.media import plain_png
from tests.support.tiny_qwen import IMAGE_PAD, PREPROCESSOR
from tests.system.test_main_job import pool_blocks

pytestmark = [pytest.mark.system, pytest.mark.alone]

REQUESTS = 1000
TWIN = plain_png(84, 84, (9, 9, 9))
MEAN, STD = (np.array(PREPROCESSOR[name]) for name in ("image_mean", "image_std"))


def colour_of(number: int) -> tuple[int, int, int]:
    return number % 256, number // 256, 255 - number % 251


def size_of(number: int) -> tuple[int, int]:
    """Two sides, in tokens; they and the colour are no other request's."""
    return 2 + number // 10 % 4, 2 + number // 40 % 3


def picture_of(number: int) -> bytes:
    across, down = size_of(number)
    return plain_png(28 * across, 28 * down, colour_of(number))


def sent(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Asker:
    """Sends request after request, and says of each whether its answer was its own."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, number: int) -> str:
        """Half are text alone, of the others two in five are bad."""
        kinds: list[Callable[[int], Awaitable[str]]] = [
            self.read, self.own_colour, self.answered, self.own_bytes, self.read,
            self.twin, self.answered, self.no_base64, self.read, self.too_many,
        ]  # fmt: skip
        return await kinds[number % len(kinds)](number)

    async def post(self, number: int, path: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        body = {"model": "qwen2-vl", "rid": f"of-{number}", **fields}
        response = await self._http.post(path, json=body)
        return response.status_code, response.json()

    async def described(self, number: int, **fields: Any) -> dict[str, Any]:
        status, answer = await self.post(number, "/v1/preprocess", **fields)
        assert (status, answer["rid"]) == (200, f"of-{number}"), answer
        return answer

    async def read(self, number: int) -> str:
        """A text whose ids are its number."""
        answer = await self.described(number, input_ids=[number, number + 1])
        return outcome(answer["input_ids"] == [number, number + 1] and answer["items"] == [], answer)

    async def answered(self, number: int) -> str:
        """A text that is as long as its number says, and that a model answers."""
        length = 1 + number // 2 % 97
        fields = {"input_ids": [5] * length, "sampling_params": {"max_new_tokens": 1}}
        status, answer = await self.post(number, "/generate", **fields)
        told = answer.get("meta_info", {})
        return outcome((status, told.get("id"), told.get("prompt_tokens")) == (200, f"of-{number}", length), answer)

    async def own_colour(self, number: int) -> str:
        """A picture of a colour and a size of its own, which its features show."""
        ids = [number, IMAGE_PAD, number]
        answer = await self.described(number, input_ids=ids, image_data=sent(picture_of(number)), features="base64")
        [item] = answer["items"]
        across, down = size_of(number)
        rows = np.frombuffer(base64.b64decode(item["feature"]["base64"]), "<f4").reshape(4 * across * down, 3, 2 * 196)
        shown = rows.transpose(0, 2, 1) * STD + MEAN
        is_own = (
            np.allclose(shown * 255, colour_of(number), atol=0.01)
            and answer["input_ids"] == [number, *[IMAGE_PAD] * (across * down), number]
            and item["offsets"] == [[1, across * down]]
        )
        return outcome(is_own, answer["input_ids"])

    async def own_bytes(self, number: int) -> str:
        """A picture whose identity is that of the bytes that were sent."""
        data = picture_of(number)
        answer = await self.described(number, input_ids=[IMAGE_PAD, number], image_data=[sent(data)])
        [item] = answer["items"]
        across, down = size_of(number)
        told = (item["digest"], item["model_specific_data"]["image_grid_thw"], answer["input_ids"][-1])
        return outcome(told == (f"sha256:{digest(data)}", [1, 2 * down, 2 * across], number), answer)

    async def twin(self, number: int) -> str:
        """A picture that many send, each under a prompt of its own."""
        ids = [number] * (1 + number // 10) + [IMAGE_PAD]
        answer = await self.described(number, input_ids=ids, image_data=sent(TWIN))
        [item] = answer["items"]
        told = (item["digest"], answer["input_ids"], item["offsets"])
        return outcome(
            told == (f"sha256:{digest(TWIN)}", ids[:-1] + [IMAGE_PAD] * 9, [[len(ids) - 1, len(ids) + 7]]), answer
        )

    async def no_base64(self, number: int) -> str:
        """Bad where it is read; the message quotes its own beginning."""
        image = {"image_data": f"!{number}!" + sent(TWIN)}
        return refused(number, await self.post(number, "/v1/preprocess", text="x", **image), f"('!{number}!")

    async def too_many(self, number: int) -> str:
        """Bad where it is worked on; the message counts its own placeholders."""
        ids = [IMAGE_PAD] * (2 + number // 10 % 7)
        got = await self.post(number, "/v1/preprocess", input_ids=ids, image_data=sent(TWIN))
        return refused(number, got, f"the prompt has {len(ids)} image placeholders, the request has 1 image")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def outcome(is_own: bool, answer: Any) -> str:
    return "own" if is_own else f"another's: {answer}"[:500]


def refused(number: int, got: tuple[int, dict[str, Any]], said: str) -> str:
    status, answer = got
    error = answer["error"]
    return outcome((status, error["rid"] or f"of-{number}") == (400, f"of-{number}") and said in error["message"], got)


async def test_of_a_thousand_mixed_requests_each_gets_its_own_answer(deployment: Deployment):
    """Whatever the others are: text or pictures, alike or not, good or bad; and nothing of any is left behind."""
    limits = httpx.Limits(max_connections=REQUESTS)
    async with httpx.AsyncClient(base_url=deployment.url, timeout=None, limits=limits) as http:
        asker = Asker(http)
        outcomes = await asyncio.gather(*map(asker.ask, range(REQUESTS)))

    assert outcomes == ["own"] * REQUESTS
    assert await asyncio.to_thread(pool_blocks, deployment.url) == 0
