"""``/v1/media``: bytes that are sent once, and belong to whoever sent them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from forebay.media import digest_of
from handoff.media import CHUNK_BYTES, TTL_S, RedisStore, Spool, open_store
from tests.api.actors import Staff, announce
from tests.api.process import started, talking_to

pytestmark = pytest.mark.service

PICTURE = b"a picture, which nobody looks at here"
DIGEST = digest_of(PICTURE)
MINE = {"text": "Hi", "rid": "r1", "image_data": DIGEST}


@pytest.fixture
async def http(settings, client, keys) -> AsyncIterator[httpx.AsyncClient]:
    announce(client, keys)
    async with started(replace(settings, max_item_bytes=1000)) as app, talking_to(app) as http:
        yield http


async def test_an_upload_is_named_by_its_digest(http):
    """201, with what it is, and until when it stays."""
    response = await http.post("/v1/media", content=PICTURE, headers={"Content-Type": "image/jpeg"})

    assert response.status_code == 201
    body = response.json()
    assert (body["id"], body["bytes"]) == (DIGEST, len(PICTURE))
    assert response.headers["Location"] == f"/v1/media/{DIGEST}"
    shown = (await http.get(f"/v1/media/{DIGEST}")).json()
    assert shown["id"] == DIGEST
    assert abs(shown["expires_ms"] - body["expires_ms"]) < 5_000


async def test_a_form_with_one_file_is_an_upload_too(http):
    """As browsers and curl -F send it; other fields are ignored."""
    response = await http.post("/v1/media", files={"file": ("p.jpg", PICTURE)}, data={"note": "x"})

    assert (response.status_code, response.json()["id"]) == (201, DIGEST)


@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        ({"content": b""}, 400, "empty_media"),
        ({"files": {"file": ("p", b"")}}, 400, "empty_media"),
        ({"files": [("a", ("p", b"x")), ("b", ("q", b"y"))]}, 400, "invalid_form"),
        ({"data": {"note": "x"}, "headers": {"Content-Type": "multipart/form-data; boundary=b"}}, 400, "invalid_form"),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, 400, "invalid_form"),
        ({"content": b"x" * 1001}, 413, "media_too_large"),
        ({"files": {"file": ("p", b"x" * 1001)}}, 413, "media_too_large"),
        ({"files": {"file": ("p", b"x" * 100_000)}}, 413, "media_too_large"),
    ],
)
async def test_what_is_no_upload_is_refused_and_nothing_stays(http, settings, call, status, code):
    """Empty, too large, two at once, a form that is none."""
    response = await http.post("/v1/media", **call)

    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert not list(open_store(settings.media, None, None).folder.iterdir())


async def test_a_request_refers_to_an_upload(http, staff: Staff, settings):
    """The worker finds the bytes under the digest; nothing is sent twice."""
    await http.post("/v1/media", content=PICTURE)

    assert (await http.post("/v1/requests", json=MINE)).status_code == 202

    _, body = staff.next_task("interactive")
    [ref] = body.media
    assert (ref.digest, ref.size_bytes, ref.param) == (DIGEST, len(PICTURE), "image_data")
    assert open_store(settings.media, None, None).get(DIGEST) == PICTURE


async def test_a_request_renews_what_it_refers_to(http, client, keys):
    """An upload that is used does not go from under the request."""
    await http.post("/v1/media", content=PICTURE)
    client.expire(keys.upload("", DIGEST), 5)

    await http.post("/v1/requests", json=MINE)

    assert client.ttl(keys.upload("", DIGEST)) > TTL_S - 60


@pytest.mark.parametrize("lost", ["never sent", "deleted", "bytes swept"])
async def test_a_digest_without_an_upload_is_refused(http, way, settings, lost):
    """404, naming the field; no record is left. Knowing a digest is not having the bytes."""
    if lost != "never sent":
        await http.post("/v1/media", content=PICTURE)
    if lost == "deleted":
        assert (await http.delete(f"/v1/media/{DIGEST}")).status_code == 204
    if lost == "bytes swept":
        (open_store(settings.media, None, None).folder / DIGEST.removeprefix("sha256:")).unlink()

    response = await http.post("/generate", json={**MINE, "image_data": [DIGEST]})

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (404, "media_not_found", "image_data[0]")
    assert way.live() == []


async def test_bytes_that_came_with_a_request_are_no_upload(http):
    """They are in the store, and nobody may refer to them."""
    inline = "YSBwaWN0dXJlLCB3aGljaCBub2JvZHkgbG9va3MgYXQgaGVyZQ=="
    await http.post("/v1/requests", json={"text": "Hi", "image_data": inline})

    assert (await http.head(f"/v1/media/{DIGEST}")).status_code == 404


@pytest.mark.parametrize("digest", ["sha256:", "sha256:" + "0" * 63, "sha256:" + "0" * 64, "x", "..%2F..%2Fetc"])
async def test_what_was_never_uploaded_is_not_there(http, digest):
    """Whatever stands in the path."""
    for method in ("GET", "HEAD", "DELETE"):
        assert (await http.request(method, f"/v1/media/{digest}")).status_code == 404


async def test_the_bytes_of_a_request_together_have_a_limit(settings, client, keys, way):
    """Image, video, audio, in that order: the item that goes beyond it is named, with the numbers."""
    announce(client, keys)
    async with started(replace(settings, max_request_bytes=5)) as app, talking_to(app) as http:
        body = {"text": "Hi", "audio_data": "AAAA", "image_data": ["AAAA"]}  # three bytes each
        response = await http.post("/generate", json=body)

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (413, "request_too_large", "audio_data")
    assert "3 bytes after 3 of other items; the limit of a request is 5" in error["message"]
    assert way.live() == []


@pytest.mark.parametrize("size", [1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_either_store_renews_what_it_has(client, keys, tmp_path, size):
    """All of it, and says so when it has not."""
    data = bytes(size)
    digest = digest_of(data)
    for store in (Spool(tmp_path), RedisStore(client, keys)):
        assert not store.renew(digest, size)
        store.put(digest, data)
        assert store.renew(digest, size)
    client.expire(f"{keys.media(digest)}:0", 5)
    assert RedisStore(client, keys).renew(digest, size)
    assert client.ttl(f"{keys.media(digest)}:0") > TTL_S
    client.delete(f"{keys.media(digest)}:0")
    assert not RedisStore(client, keys).renew(digest, size)
