"""The media store: bytes under their SHA-256, with a time to live. Two kinds, one contract, never base64.

The spool directory serves API and workers that see one file system; Redis serves those that do not.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path
from typing import Any, Protocol

from redis.exceptions import OutOfMemoryError

from forebay.errors import ConfigurationError, Failed
from forebay.media import digest_of
from handoff.connection import Client, redis_failures
from handoff.keys import Keys

TTL_S = 900  # above the longest deadline, so that a request's media outlive it
CHUNK_BYTES = 1 << 20  # Redis serves nobody else while it moves one value
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class MediaStore(Protocol):
    """Where media wait for a worker. ``put`` of bytes that are there already only renews their time."""

    def put(self, digest: str, data: bytes) -> None: ...

    def renew(self, digest: str, size_bytes: int) -> bool:
        """Begin the time of bytes anew; ``False`` when they are not there."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes.

        Raises:
            Failed: ``media_missing``: they have expired or were never here.
        """
        ...

    def discard(self, digest: str) -> None:
        """Forget bytes that nobody else can have stored: they hold an id of their own."""
        ...


def check_digest(digest: str) -> str:
    """The digest itself, when it is one.

    Raises:
        ValueError: it is not; it must never become part of a path.
    """
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"not a media digest: {digest[:80]!r}")
    return digest


def _missing(digest: str) -> Failed:
    return Failed("media_missing", f"the media {digest[:19]}… are no longer in the store", status=503)


def _full(size: int, reason: str | None) -> Failed:
    message = f"the media store cannot take {size} bytes: {reason}"
    return Failed("media_store_full", message, status=503, retry_after_s=5)


class Spool:
    """Media as files of one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _path(self, digest: str) -> Path:
        return self.folder / check_digest(digest).removeprefix("sha256:")

    def put(self, digest: str, data: bytes) -> None:
        """Store ``data``.

        Raises:
            Failed: ``media_store_full``, when the disk is.
        """
        path = self._path(digest)
        try:
            os.utime(path)
        except FileNotFoundError:
            self._write(path, data)

    def _write(self, path: Path, data: bytes) -> None:
        draft = path.with_name(f".{path.name[:16]}.{secrets.token_hex(4)}")
        try:
            draft.write_bytes(data)
            draft.rename(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise _full(len(data), error.strerror) from error

    def renew(self, digest: str, size_bytes: int) -> bool:
        """Begin the time of bytes anew; ``False`` when they are not there."""
        try:
            os.utime(self._path(digest))
        except FileNotFoundError:
            return False
        return True

    def get(self, digest: str) -> bytes:
        try:
            return self._path(digest).read_bytes()
        except FileNotFoundError:
            raise _missing(digest) from None

    def discard(self, digest: str) -> None:
        """Forget bytes that nobody else can have stored."""
        self._path(digest).unlink(missing_ok=True)

    def sweep(self) -> int:
        """Remove what has outlived its time; how many files went."""
        limit = time.time() - TTL_S
        old = [path for path in self.folder.iterdir() if _changed_at(path) < limit]
        return sum(self._forget(path, limit) for path in old)

    def _forget(self, path: Path, limit: float) -> bool:
        """Remove a file, unless somebody has renewed it since it was looked at.

        It gets a name first by which nobody can renew it; where that came too late, it gets its own back.
        """
        aside = path.with_name(f".{path.name[:16]}.{secrets.token_hex(4)}")
        try:
            path.rename(aside)
            if _changed_at(aside) >= limit:
                aside.rename(path)
                return False
            aside.unlink()
        except FileNotFoundError:  # another sweep was faster
            return False
        return True


def _changed_at(path: Path) -> float:
    try:
        return path.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:  # a draft that just got its name, or another sweep was faster
        return float("inf")


class RedisStore:
    """Media as chunks in Redis, which forgets them by itself."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def put(self, digest: str, data: bytes) -> None:
        """Store ``data``; its size is written last, so that whoever finds the size finds every chunk.

        Raises:
            Failed: ``media_store_full``, when Redis is.
        """
        name = self._keys.media(check_digest(digest))
        with redis_failures():
            pipe = self._client.pipeline(transaction=False)
            for number, start in enumerate(range(0, len(data), CHUNK_BYTES)):
                pipe.set(f"{name}:{number}", data[start : start + CHUNK_BYTES], ex=TTL_S + 60)
            pipe.set(name, len(data), ex=TTL_S)
            try:
                pipe.execute()
            except OutOfMemoryError as error:
                raise _full(len(data), "Redis may have no more memory") from error

    def renew(self, digest: str, size_bytes: int) -> bool:
        """Begin the time of bytes anew; ``False`` when they are not there, or not all of them."""
        name = self._keys.media(check_digest(digest))
        with redis_failures():
            pipe = self._client.pipeline(transaction=False)
            for number in range(-(-size_bytes // CHUNK_BYTES)):
                pipe.expire(f"{name}:{number}", TTL_S + 60)
            pipe.expire(name, TTL_S)
            return all(pipe.execute())

    def get(self, digest: str) -> bytes:
        name = self._keys.media(check_digest(digest))
        with redis_failures():
            size: Any = self._client.get(name)
            if size is None:
                raise _missing(digest)
            count = -(-int(size) // CHUNK_BYTES)
            chunks: Any = self._client.mget([f"{name}:{number}" for number in range(count)]) if count else []
        data = b"".join(chunk or b"" for chunk in chunks)
        if len(data) != int(size) or digest_of(data) != digest:
            raise _missing(digest)
        return data

    def discard(self, digest: str) -> None:
        """Forget bytes that nobody else can have stored."""
        name = self._keys.media(check_digest(digest))
        with redis_failures():
            size: Any = self._client.get(name)
            chunks = range(-(-int(size or 0) // CHUNK_BYTES))
            self._client.delete(name, *(f"{name}:{number}" for number in chunks))


def open_store(spec: str, client: Client, keys: Keys) -> Spool | RedisStore:
    """The store that a setting names.

    Raises:
        ConfigurationError: neither ``redis`` nor ``spool:DIR``.
    """
    kind, _, folder = spec.partition(":")
    if kind == "redis" and not folder:
        return RedisStore(client, keys)
    if kind == "spool" and folder:
        return Spool(Path(folder))
    raise ConfigurationError(f"FOREBAY_MEDIA={spec!r}: 'redis' or 'spool:DIR' was expected")
