"""The media store, both kinds under one contract: bytes under their digest, for a time, and never a path."""

import os
import resource
import signal
import time

import pytest

from forebay import ConfigurationError, Failed
from forebay.media import digest_of
from handoff import media
from handoff.connection import connect
from handoff.keys import Keys
from handoff.media import CHUNK_BYTES, TTL_S, RedisStore, Spool, check_digest, open_store

pytestmark = pytest.mark.service

DATA = b"picture"
DIGEST = digest_of(DATA)
TRAVERSAL = [
    *("../secret", "/etc/passwd", "sha256:../../etc/passwd", "sha256:" + "/" * 64, DIGEST + "/x", DIGEST + "\n"),
    *("", "sha256:", DIGEST.upper(), DIGEST[:-1], DIGEST.removeprefix("sha256:"), "md5:" + "a" * 64),
]


@pytest.fixture(params=["spool", "redis"])
def store(request, client, keys, tmp_path):
    """Either kind; what holds for one holds for the other."""
    return open_store("redis" if request.param == "redis" else f"spool:{tmp_path / 'media'}", client, keys)


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "media")


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_what_is_put_is_got(store, size):
    """Of any size, around the edges of a chunk too."""
    data = os.urandom(size)

    store.put(digest_of(data), data)

    assert store.get(digest_of(data)) == data


def test_what_was_never_put_is_missing(store):
    """A 503: the media have expired, or their store was emptied; the caller may send them again."""
    with pytest.raises(Failed, match=r"the media sha256:[0-9a-f]{12}… are no longer in the store") as caught:
        store.get(DIGEST)

    assert (caught.value.code, caught.value.status) == ("media_missing", 503)


def test_the_same_bytes_may_be_put_again(store):
    """A second upload, or a retry."""
    store.put(DIGEST, DATA)
    store.put(DIGEST, DATA)

    assert store.get(DIGEST) == DATA


@pytest.mark.parametrize("name", TRAVERSAL)
def test_what_is_no_digest_never_becomes_a_name(store, name, tmp_path):
    """Neither a path outside nor a key of another kind."""
    with pytest.raises(ValueError, match="not a media digest"):
        store.put(name, DATA)
    with pytest.raises(ValueError, match="not a media digest"):
        store.get(name)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_digest_is_its_own_answer():
    """And a long wrong one is shown cut off."""
    assert check_digest(DIGEST) == DIGEST
    with pytest.raises(ValueError, match="not a media digest") as caught:
        check_digest("x" * 1000)
    assert len(str(caught.value)) < 120


# the spool


def test_the_spool_forgets_what_has_outlived_its_time(spool):
    """To the second; and counts what went."""
    spool.put(DIGEST, DATA)
    other = digest_of(b"other")
    spool.put(other, b"other")
    [old] = [path for path in spool.folder.iterdir() if path.read_bytes() == DATA]
    os.utime(old, (time.time() - TTL_S - 1,) * 2)

    assert spool.sweep() == 1
    assert spool.sweep() == 0
    assert spool.get(other) == b"other"
    with pytest.raises(Failed, match="no longer in the store"):
        spool.get(DIGEST)


def test_putting_again_renews_the_time(spool):
    """A request that refers to media must outlive them."""
    spool.put(DIGEST, DATA)
    [path] = spool.folder.iterdir()
    os.utime(path, (1, 1))

    spool.put(DIGEST, DATA)

    assert spool.sweep() == 0
    assert path.stat().st_mtime > time.time() - 60


def test_a_sweep_bears_a_file_that_vanishes_under_it(spool, monkeypatch):
    """A draft that just got its name, or another janitor."""
    spool.put(DIGEST, DATA)
    [path] = spool.folder.iterdir()
    monkeypatch.setattr(type(spool.folder), "iterdir", lambda folder: iter([folder / ".draft.1234", path]))

    assert spool.sweep() == 0


def test_what_is_renewed_while_a_sweep_runs_stays(spool, monkeypatch):
    """A request that has just been promised its upload finds it."""
    spool.put(DIGEST, DATA)
    [path] = spool.folder.iterdir()
    os.utime(path, (1, 1))
    looked_at = []

    def renewed_after(path, look=media._changed_at):
        looked_at.append(path)
        try:
            return look(path)
        finally:
            if len(looked_at) == 1:
                assert spool.renew(DIGEST, len(DATA))

    monkeypatch.setattr(media, "_changed_at", renewed_after)

    assert spool.sweep() == 0
    assert spool.get(DIGEST) == DATA
    assert list(spool.folder.iterdir()) == [path]


def test_a_draft_that_a_killed_process_left_goes_too(spool):
    """Nobody will give it a name any more."""
    draft = spool.folder / ".aaaa.1234"
    draft.touch()
    os.utime(draft, (1, 1))

    assert spool.sweep() == 1


def test_others_cannot_look_into_the_spool(spool):
    """It holds what callers sent."""
    assert spool.folder.stat().st_mode & 0o777 == 0o700


def test_a_full_disk_is_a_failure_that_says_so_and_leaves_nothing(spool):
    """The kernel refuses the write, as it does when the disk is full; the next small one works."""
    large = os.urandom(64 * 1024)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        with pytest.raises(Failed, match="the media store cannot take 65536 bytes: File too large") as caught:
            spool.put(digest_of(large), large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)

    assert (caught.value.code, caught.value.status, caught.value.retry_after_s) == ("media_store_full", 503, 5)
    assert list(spool.folder.iterdir()) == []
    spool.put(DIGEST, DATA)
    assert spool.get(DIGEST) == DATA


# Redis


def test_redis_forgets_by_itself(client, keys):
    """Every part has its time, the size before the chunks."""
    data = os.urandom(CHUNK_BYTES + 1)
    RedisStore(client, keys).put(digest_of(data), data)

    times = {name.decode().rpartition(digest_of(data))[2]: client.ttl(name) for name in client.scan_iter("test:m:*")}

    assert times.keys() == {"", ":0", ":1"}
    assert TTL_S - 5 < times[""] <= TTL_S < times[":0"] <= TTL_S + 60


@pytest.mark.parametrize("harm", ["lost", "changed", "short"])
def test_a_harmed_chunk_is_missing_media_not_other_pixels(client, keys, harm):
    """The digest is checked on the way out."""
    store = RedisStore(client, keys)
    data = os.urandom(2 * CHUNK_BYTES)
    store.put(digest_of(data), data)
    name = f"{keys.media(digest_of(data))}:1"
    if harm == "lost":
        client.delete(name)
    elif harm == "changed":
        client.setrange(name, 0, b"X" * 8)
    else:
        client.set(name, client.get(name)[:-1])

    with pytest.raises(Failed, match="no longer in the store"):
        store.get(digest_of(data))


def test_a_redis_that_is_away_is_a_failure_of_its_own():
    """Not missing media: they may be there yet."""
    store = RedisStore(connect("redis://127.0.0.1:1", "nobody"), Keys("test:"))

    for verb in (lambda: store.put(DIGEST, DATA), lambda: store.get(DIGEST)):
        with pytest.raises(Failed) as caught:
            verb()
        assert caught.value.code == "redis_unavailable"


@pytest.mark.parametrize("spec", ["", "disk", "spool:", "spool", "redis:x", "Redis"])
def test_a_store_that_does_not_exist_is_refused(spec, client, keys):
    """As the operator wrote it."""
    with pytest.raises(ConfigurationError, match="'redis' or 'spool:DIR' was expected") as caught:
        open_store(spec, client, keys)

    assert repr(spec) in str(caught.value)


def test_a_redis_without_room_is_a_full_store(client, keys):
    """As a full disk is; the error quotes nothing of what was to be written, and less fits all the same."""
    client.config_set("maxmemory", client.info("memory")["used_memory"] + (3 << 20))
    try:
        with pytest.raises(Failed, match=r"cannot take 8388608 bytes: Redis may have no more memory$") as caught:
            RedisStore(client, keys).put(DIGEST, bytes(8 << 20))
    finally:
        client.config_set("maxmemory", 0)

    assert (caught.value.code, caught.value.status, caught.value.retry_after_s) == ("media_store_full", 503, 5)
    with pytest.raises(Failed, match="no longer in the store"):
        RedisStore(client, keys).get(DIGEST)


@pytest.mark.parametrize("size", [1, 3 * CHUNK_BYTES])
def test_what_is_discarded_is_gone_whole(store, client, keys, size):
    """With its chunks; discarding what is not there does nothing."""
    data = b"x" * size
    store.put(digest_of(data), data)

    store.discard(digest_of(data))
    store.discard(digest_of(data))

    with pytest.raises(Failed, match="no longer in the store"):
        store.get(digest_of(data))
    assert list(client.scan_iter(f"{keys.media('*')}")) == []
