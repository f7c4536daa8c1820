"""Every verb as a talk: what is sent, and what is made of the reply. Both clients have these, and nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from forebay.client.answers import Answer
from forebay.client.bodies import chat_body, is_for_several, request_body
from forebay.client.errors import RequestFailedError, failure_in
from forebay.client.files import whole
from forebay.client.listings import Model, Page, Upload
from forebay.client.preparations import Preparation
from forebay.client.statuses import Status, Submitted
from forebay.client.talk import Reply, Retries, Send, Talk, Work, exchange, look, once, path_of, until_end
from forebay.states import State

_CHAT = "/v1/chat/completions"


def new_rid() -> str:
    """An id that nobody else has."""
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Verbs:
    """The talks of one client."""

    retries: Retries

    def generate(self, request: Mapping[str, Any]) -> Talk[Answer]:
        body = _for_one(request_body(**request))
        return self._do("/generate", body, Answer.of, _answer_of)

    def generate_many(self, request: Mapping[str, Any]) -> Talk[list[Answer | RequestFailedError]]:
        return self._list(Send("POST", "/generate", request_body(**request)))

    def _list(self, send: Send) -> Talk[list[Answer | RequestFailedError]]:
        told = (yield from exchange(send, self.retries)).json()
        each = told if isinstance(told, list) else [told]
        return [failure_in(one["error"]) if "error" in one else Answer.of(one, place) for place, one in enumerate(each)]

    def stream(self, request: Mapping[str, Any]) -> Talk[Reply]:
        body = {**request_body(**request), "stream": True}
        return exchange(Send("POST", "/generate", body, stream=True), self.retries)

    def ask(
        self, prompt: str | None, files: Sequence[str | Path], fields: Mapping[str, Any], rid: str | None = None
    ) -> Talk[Answer]:
        """``rid`` is one that ``new_rid`` made; one of the caller's stands among the fields."""
        return self._do(_CHAT, chat_body(prompt, files, **fields), Answer.of_chat, _answer_of, rid)

    def ask_stream(self, prompt: str | None, files: Sequence[str | Path], fields: Mapping[str, Any]) -> Talk[Reply]:
        counted = {"stream": True, "stream_options": {"include_usage": True}}
        return exchange(
            Send("POST", _CHAT, {**chat_body(prompt, files, **fields), **counted}, stream=True), self.retries
        )

    def preprocess(self, request: Mapping[str, Any]) -> Talk[Preparation]:
        return self._prepare(Send("POST", "/v1/preprocess", _for_one(request_body(**request))))

    def _prepare(self, send: Send) -> Talk[Preparation]:
        return Preparation.of((yield from exchange(send, self.retries)).json())

    def submit(self, request: Mapping[str, Any]) -> Talk[Submitted]:
        return self._do("/v1/requests", _for_one(request_body(**request)), _submitted, _submitted_before)

    def _do(self, path: str, body: dict[str, Any], read: Any, recover: Any, rid: str | None = None) -> Talk[Any]:
        """Work under an id of ours is found again when its connection breaks. A caller's own id may have been
        another request's before, so that one is only sent again when it cannot have arrived.
        """
        if "rid" in body:
            return self._read(Send("POST", path, body), read)
        rid = rid or new_rid()
        return once(Work(Send("POST", path, {**body, "rid": rid}), rid, read, recover), self.retries)

    def _read(self, send: Send, read: Any) -> Talk[Any]:
        return read((yield from exchange(send, self.retries)).json())

    def status(self, rid: str) -> Talk[Status]:
        return look(rid, self.retries)

    def wait(self, rid: str, timeout_s: float | None) -> Talk[Answer]:
        status = yield from until_end(rid, self.retries, timeout_s)
        return status.answer

    def cancel(self, rid: str) -> Talk[State]:
        reply = yield from exchange(Send("DELETE", path_of(rid), is_repeatable=True), self.retries)
        return State(reply.json()["state"])

    def page(self, state: str | None, model: str | None, cursor: str | None) -> Talk[Page]:
        asked = {"state": state, "model": model, "cursor": cursor}
        params = {name: value for name, value in asked.items() if value is not None}
        reply = yield from exchange(Send("GET", "/v1/requests", params=params, is_repeatable=True), self.retries)
        return Page.of(reply.json())

    def upload(self, source: bytes | Path) -> Talk[Upload]:
        data = source if isinstance(source, bytes) else whole(source)
        headers = {"Content-Type": "application/octet-stream"}
        return self._upload(Send("POST", "/v1/media", content=data, headers=headers, is_repeatable=True))

    def _upload(self, send: Send) -> Talk[Upload]:
        return Upload.of((yield from exchange(send, self.retries)).json())

    def has_upload(self, identity: str) -> Talk[bool]:
        try:
            yield from exchange(Send("HEAD", _path_of_upload(identity), is_repeatable=True), self.retries)
        except RequestFailedError as error:
            if error.status == 404:
                return False
            raise
        return True

    def delete_upload(self, identity: str) -> Talk[None]:
        try:
            yield from exchange(Send("DELETE", _path_of_upload(identity), is_repeatable=True), self.retries)
        except RequestFailedError as error:
            if error.code != "media_not_found":  # which it is too when the answer to a first attempt was lost
                raise

    def models(self) -> Talk[list[Model]]:
        reply = yield from exchange(Send("GET", "/v1/models", is_repeatable=True), self.retries)
        return [Model(one["id"], one["engine"]) for one in reply.json()["data"]]


def _path_of_upload(identity: str) -> str:
    return f"/v1/media/{quote(identity, safe=':')}"


def _for_one(body: dict[str, Any]) -> dict[str, Any]:
    """A body that is answered with one answer.

    Raises:
        ValueError: it is answered with a list.
    """
    if is_for_several(body):
        raise ValueError("several prompts, or several answers, are what generate_many is for")
    return body


def _submitted(told: Mapping[str, Any]) -> Submitted:
    return Submitted(told["rid"], told["model"], told["deadline_ms"])


def _submitted_before(status: Status, _retries: Retries) -> Talk[Submitted | None]:
    yield from ()
    return status.submitted


def _answer_of(status: Status, retries: Retries) -> Talk[Answer | None]:
    """The answer of a request whose connection broke, once it is there; ``None`` when it was cancelled for that."""
    ended = yield from until_end(status.rid, retries, known=status)
    return None if ended.state is State.CANCELLED else ended.answer
