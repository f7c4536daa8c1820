"""The task message: what the API asks a worker to do. MessagePack, authenticated, references instead of bytes.

Wire form: 32 bytes HMAC-SHA256 over the rest, then a MessagePack array ``[version, head, body]``. The body is
packed by itself, with the version before it, and stays in the record, so that a replay signs a new head over the same
body. A body too large for a message stays in the record alone and is fetched with the claim.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgpack

from forebay.chat import Chat
from forebay.errors import ForebayError
from forebay.features import Modality
from forebay.processor import Prompt

VERSION = 1
MAX_MESSAGE_BYTES = 16 * 1024
_MAC_BYTES = 32


class BadTaskError(ForebayError):
    """A message that is not an intact task of ours. ``reason`` is a short code for those who count them."""

    reason = "bad_task"


class ForeignTaskError(BadTaskError):
    """It is not signed with our secret."""

    reason = "bad_signature"


class NewerTaskError(BadTaskError):
    """A task of ours, of a release after this one. It is nobody's fault, and a process of that release will do it."""

    reason = "newer_release"


def seal(body: bytes, secret: bytes) -> bytes:
    """A packed body as the record keeps it: signed like a message, for it becomes one again."""
    return hmac.digest(secret, body, hashlib.sha256) + body


def unseal(sealed: bytes, secret: bytes) -> bytes:
    """The packed body of a record.

    Raises:
        ForeignTaskError: signed with another secret, or not signed at all.
    """
    mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
    if not hmac.compare_digest(mac, hmac.digest(secret, body, hashlib.sha256)):
        raise ForeignTaskError(
            "a request whose signature is not ours: do API, workers and scheduler share FOREBAY_SECRET?"
        )
    return body


class Kind(StrEnum):
    """What the caller wants of the tier."""

    GENERATE = "generate"
    PREPROCESS = "preprocess"
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class MediaRef:
    """One media item by reference: its digest finds the bytes in the media store."""

    modality: Modality
    digest: str
    size_bytes: int
    param: str
    """Where the caller put it, for error messages: ``image_data[1]``."""


@dataclass(frozen=True, slots=True)
class TaskBody:
    """What is to be done, the same for every attempt."""

    kind: Kind
    prompt: Prompt
    media: tuple[MediaRef, ...] = ()
    caller_hashes: tuple[str, ...] = ()
    extensions: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    features: str = "sha256"
    samples: int = 1
    """How many answers are wanted."""
    tenant: str = ""
    """Whose request it is. Tenants share no cache entry."""

    def pack(self) -> bytes:
        ids, chat = self.prompt.ids, self.prompt.chat
        prompt = [self.prompt.text, None if ids is None else list(ids), None if chat is None else chat.as_map()]
        media = [[ref.modality, ref.digest, ref.size_bytes, ref.param] for ref in self.media]
        fields: list[Any] = [VERSION, self.kind, prompt, media, list(self.caller_hashes)]
        fields += [dict(self.extensions), dict(self.sampling), self.features, self.samples, self.tenant]
        return bytes(msgpack.packb(fields))

    @classmethod
    def unpack(cls, data: bytes) -> TaskBody:
        """Read what ``pack`` wrote.

        Raises:
            NewerTaskError: what a later release wrote.
            BadTaskError: anything else.
        """
        try:
            fields = _of_this_release(msgpack.unpackb(data), "task body")
            kind, (text, ids, chat), media, hashes, extensions, sampling, features, samples, tenant = fields
            return cls(
                kind=Kind(kind),
                prompt=_prompt(text, ids, chat),
                media=tuple(MediaRef(Modality(m), digest, size, param) for m, digest, size, param in media),
                caller_hashes=tuple(hashes),
                extensions=extensions,
                sampling=sampling,
                features=features,
                samples=samples,
                tenant=tenant,
            )
        except (ValueError, TypeError, KeyError) as error:
            raise BadTaskError(f"unreadable task body: {error}") from error


def _of_this_release(fields: Any, what: str) -> Any:
    """What follows the version of a message or a body.

    Raises:
        NewerTaskError: the version is beyond ours; how the rest is made, only the other release knows.
        BadTaskError: it is of another version that we do not read.
        ValueError: it has none.
    """
    if not (isinstance(fields, list) and fields and type(fields[0]) is int):
        raise ValueError("it does not begin with a version")
    if fields[0] > VERSION:
        raise NewerTaskError(f"{what} version {fields[0]}; this release reads {VERSION}")
    if fields[0] != VERSION:
        raise BadTaskError(f"{what} version {fields[0]}; this release reads {VERSION}")
    return fields[1:]


def _prompt(text: str | None, ids: list[int] | None, chat: Mapping[str, Any] | None) -> Prompt:
    return Prompt(text, None if ids is None else tuple(ids), None if chat is None else Chat.from_map(chat))


@dataclass(frozen=True, slots=True)
class Task:
    """One request to a worker. A worker that gets it twice, or late, finds out from the record.

    Attributes:
        token: which acceptance of the id it belongs to; an id may be used again after its end.
        attempt: how many times the request had been queued when this was sent.
        deadline_ms: Redis time, in milliseconds, after which nobody wants the answer.
        body: the packed ``TaskBody``, or ``None`` when it must be read from the record.
    """

    rid: str
    token: str
    attempt: int
    model: str
    deadline_ms: int
    priority: int
    body: bytes | None

    def pack(self, secret: bytes) -> bytes:
        """The signed message; a body that does not fit is left out."""
        packed = self._payload(self.body)
        if len(packed) + _MAC_BYTES > MAX_MESSAGE_BYTES:
            packed = self._payload(None)
        return hmac.digest(secret, packed, hashlib.sha256) + packed

    def _payload(self, body: bytes | None) -> bytes:
        head = [self.rid, self.token, self.attempt, self.model, self.deadline_ms, self.priority]
        return bytes(msgpack.packb([VERSION, head, body]))

    @classmethod
    def unpack(cls, message: bytes, secret: bytes) -> Task:
        """Authenticate and read a message.

        Raises:
            ForeignTaskError: not signed with our secret.
            NewerTaskError: of a later release.
            BadTaskError: too large, or not a task.
        """
        if len(message) > MAX_MESSAGE_BYTES:
            raise BadTaskError(f"a task message of {len(message)} bytes; the limit is {MAX_MESSAGE_BYTES}")
        mac, packed = message[:_MAC_BYTES], message[_MAC_BYTES:]
        if not hmac.compare_digest(mac, hmac.digest(secret, packed, hashlib.sha256)):
            raise ForeignTaskError("a task message whose signature is not ours")
        try:
            head, body = _of_this_release(msgpack.unpackb(packed), "task message")
            rid, token, attempt, model, deadline_ms, priority = head
        except (ValueError, TypeError) as error:
            raise BadTaskError(f"unreadable task message: {error}") from error
        return cls(rid, token, attempt, model, deadline_ms, priority, body)
