"""The task message: it says the same after the way, and only ours is read."""

import hashlib
import hmac

import msgpack
import pytest

from forebay import Modality, Prompt
from forebay.task import MAX_MESSAGE_BYTES, BadTaskError, Kind, MediaRef, Task, TaskBody, seal, unseal

SECRET = b"0123456789abcdef"
BODY = TaskBody(
    kind=Kind.GENERATE,
    prompt=Prompt(text="look: é"),
    media=(
        MediaRef(Modality.IMAGE, "sha256:" + "a" * 64, 12, "image_data[1]"),
        MediaRef(Modality.AUDIO, "sha256:" + "b" * 64, 34, "audio_data"),
    ),
    caller_hashes=("ff", "0x10"),
    extensions={"multimodal_x": {"n": 2**64 - 1, "crop": [1, None, 0.5], "on": False}},
    sampling={"max_new_tokens": 3},
    features="none",
)


def task(body=b"body"):
    return Task("rid-1", "token", 2, "toy", 1_700_000_000_123, -5, body)


def signed(packed, secret=SECRET):
    return hmac.digest(secret, packed, hashlib.sha256) + packed


@pytest.mark.parametrize("body", [BODY, TaskBody(Kind.PREPROCESS, Prompt(ids=(1, 2**62)))])
def test_a_body_comes_back_as_it_was(body):
    """Prompt, references, hashes, extensions and sampling, to the last type."""
    assert TaskBody.unpack(body.pack()) == body


def test_a_task_comes_back_as_it_was():
    """Head and body, under the secret that both sides know."""
    sent = task(BODY.pack())

    assert Task.unpack(sent.pack(SECRET), SECRET) == sent


@pytest.mark.parametrize("place", [0, 31, 32, 40, -1])
def test_a_changed_byte_is_refused(place):
    """In the signature or behind it."""
    message = bytearray(task().pack(SECRET))
    message[place] ^= 1

    with pytest.raises(BadTaskError, match="signature is not ours"):
        Task.unpack(bytes(message), SECRET)


def test_another_secret_is_refused():
    """Whoever can write to Redis is not yet trusted."""
    with pytest.raises(BadTaskError, match="signature is not ours"):
        Task.unpack(task().pack(b"another secret of 16"), SECRET)


@pytest.mark.parametrize(
    "message", [b"", b"x", b"\0" * 32, b"\0" * 33, b"not a task at all, but long enough to be one"]
)
def test_garbage_is_refused(message):
    """Before anything of it is parsed."""
    with pytest.raises(BadTaskError, match="signature is not ours"):
        Task.unpack(message, SECRET)


def test_a_body_that_fits_travels_and_one_that_does_not_stays_in_the_record():
    """The limit holds for the whole message, at the byte."""
    overhead = len(task(b"a" * 10_000).pack(SECRET)) - 10_000
    fits = b"a" * (MAX_MESSAGE_BYTES - overhead)

    largest, beyond = task(fits).pack(SECRET), task(fits + b"a").pack(SECRET)

    assert len(largest) == MAX_MESSAGE_BYTES
    assert Task.unpack(largest, SECRET).body == fits
    assert len(beyond) < 200
    assert Task.unpack(beyond, SECRET) == task(None)


def test_an_oversized_message_is_refused_with_both_numbers():
    """Even a signed one: a worker does not parse what no API of this release sends."""
    message = signed(b"a" * MAX_MESSAGE_BYTES)

    with pytest.raises(BadTaskError, match=f"of {MAX_MESSAGE_BYTES + 32} bytes; the limit is {MAX_MESSAGE_BYTES}"):
        Task.unpack(message, SECRET)


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\xc1",
        msgpack.packb(5),
        msgpack.packb([1, [], b""]),
        msgpack.packb([1, ["r", "t", 1, "m", 2, 3]]),
        msgpack.packb([1, ["r", "t", 1, "m", 2, 3], b""]) + b"\0",
    ],
)
def test_a_signed_message_of_another_shape_is_refused(packed):
    """A mistake of ours in another release is an error in the log, never a crash."""
    with pytest.raises(BadTaskError, match="unreadable task message"):
        Task.unpack(signed(packed), SECRET)


def test_another_version_is_refused_by_number():
    """Two releases on one Redis do not guess at each other's messages."""
    packed = msgpack.packb([2, ["r", "t", 1, "m", 2, 3], b""])

    with pytest.raises(BadTaskError, match="version 2; this release reads 1"):
        Task.unpack(signed(packed), SECRET)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", msgpack.packb([]), msgpack.packb(["dance", [None, [1]], [], [], {}, {}, ""])]
)
def test_a_body_of_another_shape_is_refused(data):
    """Also one that names a kind nobody knows."""
    with pytest.raises(BadTaskError, match="unreadable task body"):
        TaskBody.unpack(data)


def test_a_sealed_body_is_opened_with_the_secret_alone():
    """The record keeps it between two messages, and the record is nobody's friend."""
    sealed = seal(BODY.pack(), SECRET)

    assert TaskBody.unpack(unseal(sealed, SECRET)) == BODY
    for wrong in (sealed[:-1], sealed[1:], sealed + b"x", BODY.pack(), b"", bytes(40)):
        with pytest.raises(BadTaskError, match="whose signature is not ours"):
            unseal(wrong, SECRET)
    with pytest.raises(BadTaskError, match="FOREBAY_SECRET"):
        unseal(sealed, b"another secret of 16")
