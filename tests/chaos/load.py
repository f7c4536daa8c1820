"""Callers of every kind, who write down what they asked, what they were told, and when."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.gallery import Picture, body_of

KINDS = ["generate"] * 4 + ["preprocess"] * 4 + ["async"] * 4 + ["stream"] * 2 + ["cancelled", "left", "bad"]
TIMEOUT_S = 20.0
_CALLERS = 6
_PAUSE_S = 0.15


@dataclass
class Asked:
    """One request: the history that the law reads.

    Attributes:
        told: ``accepted`` (202), ``answered``, ``refused`` (with a status), or ``lost`` (the connection broke).
        wrong: what was wrong with an answer, if anything.
    """

    rid: str
    kind: str
    picture: int
    told: str = "lost"
    status: int = 0
    code: str = ""
    wrong: str = ""
    at: float = field(default_factory=time.monotonic)
    """When, on the clock of ``time.monotonic()``."""


@dataclass
class Load:
    """Six callers, for as long as the block lasts."""

    url: str
    pictures: Sequence[Picture]
    seed: int
    history: list[Asked] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Load:
        for number in range(_CALLERS):
            thread = threading.Thread(target=self._call, args=(number,))
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self, caller: int) -> None:
        chance = random.Random(f"{self.seed}-{caller}")
        number = 0
        while not self._stop.is_set():
            number += 1
            kind, picture = chance.choice(KINDS), chance.randrange(len(self.pictures))
            asked = Asked(f"{kind}-{self.seed}-{caller}-{number}", kind, picture)
            self.history.append(asked)
            try:
                self._ask(asked, chance)
            except httpx.HTTPError:
                time.sleep(0.3)  # nobody answers: do not fill the history with that
            time.sleep(_PAUSE_S * chance.random() * 2)

    def _ask(self, asked: Asked, chance: random.Random) -> None:
        path, body = body_of(asked.kind, self.pictures[asked.picture].base64)
        patience = chance.uniform(0.005, 0.1) if asked.kind == "left" else TIMEOUT_S + 15
        with httpx.Client(base_url=self.url, timeout=patience) as http:
            with http.stream("POST", path, json={**body, "rid": asked.rid, "timeout_s": TIMEOUT_S}) as response:
                asked.status = response.status_code
                response.read()
            self._judge(asked, response)
            if asked.kind == "cancelled" and asked.told == "accepted":
                time.sleep(chance.random() * 0.2)
                http.delete(f"/v1/requests/{asked.rid}")

    def _judge(self, asked: Asked, response: httpx.Response) -> None:
        if response.is_error:
            asked.told, asked.code = "refused", response.json()["error"]["code"]
            if asked.kind == "bad" and response.status_code < 500 and asked.code != "placeholder_mismatch":
                asked.wrong = f"a bad request was told {asked.code}"
            elif asked.kind != "bad" and response.status_code < 499:
                asked.wrong = f"a good request was told {asked.code}"
            return
        asked.told = "accepted" if response.status_code == 202 else "answered"
        if asked.kind == "bad":
            asked.wrong = "a bad request was answered"
        elif asked.told == "answered":
            asked.wrong = self._look(asked, response)

    def _look(self, asked: Asked, response: httpx.Response) -> str:
        """What is wrong with an answer; empty for nothing."""
        picture = self.pictures[asked.picture]
        if asked.kind == "preprocess":
            sha256 = response.json()["items"][0]["feature"]["sha256"]
            return "" if sha256 == picture.sha256 else "the features are another picture's"
        answer = last_event(response.text) if asked.kind == "stream" else response.json()
        if answer is None:
            asked.told = "lost"
            return ""
        if "error" in answer:
            asked.told, asked.code = "refused", answer["error"]["code"]
            return ""
        return "" if picture.is_label(answer["meta_info"]["engine"]) else "the label is another picture's"


def last_event(text: str) -> Any | None:
    """The last answer of a stream that came to its end."""
    blocks = [block.removeprefix("data: ") for block in text.split("\n\n") if block]
    if not blocks or blocks[-1] != "[DONE]":
        return None
    return json.loads(blocks[-2])
