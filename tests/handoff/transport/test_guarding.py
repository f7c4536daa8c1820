"""What is no task of ours is set aside, whatever it is, and the consumer goes on with the next message."""

from __future__ import annotations

import base64
import json
import pickle
import zlib

import msgpack
import pytest

from handoff import quarantine
from handoff.envelope import EMBED
from handoff.quarantine import EXCERPT_BYTES, MOST_ENTRIES, Entry, set_aside
from handoff.scripts import perform
from handoff.transport import fault_of
from tests.support.consuming import KEYS, Hand, consuming, entry, in_hand, push

pytestmark = pytest.mark.service

OTHER_TASK = {"task": "other.task", "args": [], "kwargs": {}, "options": {}, "subtask_type": None}


def changed(*, headers=None, properties=None, without=(), **fields):
    """An intact entry, and what is said of it instead."""
    whole = json.loads(entry(1))
    whole["headers"] |= headers or {}
    whole["properties"] |= properties or {}
    whole |= fields
    for path in without:
        *parents, name = path.split("/")
        place = whole
        for parent in parents:
            place = place[parent]
        del place[name]
    return json.dumps(whole).encode()


def with_body(packed):
    return changed(body=base64.b64encode(packed).decode())


def embedding(**more):
    return with_body(msgpack.packb([[b"message"], {}, EMBED | more]))


BOMB = base64.b64encode(zlib.compress(bytes(1 << 24))).decode()

ROWS = {
    "bytes that are no JSON": (b"\xff\x00\x80 not json", "not_json"),
    "a JSON number": (b"5", "not_an_envelope"),
    "a JSON list": (b"[]", "not_an_envelope"),
    "JSON nested without end": (b"[" * 20_000, "not_json"),
    "an empty entry": (b"", "not_json"),
    "no envelope": (b'{"a": 1}', "not_an_envelope"),
    "no delivery tag": (changed(without=["properties/delivery_tag"]), "not_an_envelope"),
    "no delivery info": (changed(without=["properties/delivery_info"]), "not_an_envelope"),
    "a body that is no text": (changed(body=5), "not_an_envelope"),
    "headers that are no map": (json.dumps(json.loads(entry(1)) | {"headers": [1]}).encode(), "not_an_envelope"),
    "a body that is not base64": (changed(body="!!! not base64 !!!"), "bad_arguments"),
    "no id": (changed(without=["headers/id"]), "no_id"),
    "an id that is a number": (changed(headers={"id": 7}), "no_id"),
    "time limits that are text": (changed(headers={"timelimit": ["x", "y"]}), "time_limit"),
    "time limits of the sender's": (changed(headers={"timelimit": [1, 2]}), "time_limit"),
    "truncated MessagePack": (with_body(msgpack.packb([[b"message"], {}, EMBED])[:-3]), "bad_arguments"),
    "MessagePack nested without end": (with_body(b"\x91" * 2000 + b"\xc0"), "bad_arguments"),
    "pickle": (
        changed(body=base64.b64encode(pickle.dumps([])).decode(), **{"content-type": "application/x-python-serialize"}),
        "foreign_content",
    ),
    "an unknown content type": (changed(**{"content-type": "text/x-nobody"}), "foreign_content"),
    "another body encoding": (changed(properties={"body_encoding": "utf-8"}), "foreign_content"),
    "an unknown task": (changed(headers={"task": "os.system"}), "unknown_task"),
    "a compression bomb": (changed(body=BOMB, headers={"compression": "application/x-gzip"}), "compressed"),
    "an embedded callback": (embedding(callbacks=[OTHER_TASK]), "callback"),
    "an embedded error callback": (embedding(errbacks=[OTHER_TASK]), "callback"),
    "an embedded chain": (embedding(chain=[OTHER_TASK]), "callback"),
    "an embedded chord": (embedding(chord=OTHER_TASK), "callback"),
    "a callback among the headers": (changed(headers={"callbacks": [OTHER_TASK]}), "callback"),
    "a group": (changed(headers={"group": "g"}), "callback"),
    "a time far ahead": (changed(headers={"eta": "2999-01-01T00:00:00+00:00"}), "delayed"),
    "a time that is none": (changed(headers={"eta": 5}), "delayed"),
    "an expiry": (changed(headers={"expires": "2000-01-01T00:00:00+00:00"}), "delayed"),
    "retries": (changed(headers={"retries": 10**9}), "unexpected_header"),
    "stamps": (changed(headers={"stamped_headers": ["x"], "stamps": {"x": 1}}), "unexpected_header"),
    "a header that nobody sends": (changed(headers={"x-more": 1}), "unexpected_header"),
    "a label that is no text": (changed(headers={"shadow": {"a": 1}}), "unexpected_header"),
    "too many arguments": (with_body(msgpack.packb([[b"one", b"two"], {}, EMBED])), "bad_arguments"),
    "an argument of another type": (with_body(msgpack.packb([["text"], {}, EMBED])), "bad_arguments"),
    "arguments by name": (with_body(msgpack.packb([[b"message"], {"x": 1}, EMBED])), "bad_arguments"),
    "protocol 1": (with_body(msgpack.packb({"task": "forebay.preprocess", "args": [b"m"]})), "bad_arguments"),
    "too large": (changed(headers={"argsrepr": "x" * 40_000}), "too_large"),
}


@pytest.mark.parametrize(("message", "reason"), ROWS.values(), ids=[name.replace(" ", "-") for name in ROWS])
def test_a_message_that_is_no_task_of_ours_is_set_aside_and_the_next_one_is_taken(redis_url, client, message, reason):
    """Out of the worker's hand, into quarantine, and counted, in one step; Celery never sees it."""
    push(client, message, entry(2))

    with consuming(redis_url) as hand:
        came = hand.take()
        held = in_hand(client)

    [found] = quarantine.entries(client, KEYS)
    assert came == ["r2"]
    assert [len(lane) for lane in held.values()] == [1]
    assert (found.kind, found.reason, found.node, found.size_bytes) == ("message", reason, "n1", len(message))
    assert found.beginning == message[:EXCERPT_BYTES]
    assert client.hget(KEYS.quarantined, reason) == b"1"


def test_an_entry_of_ours_passes_also_when_it_was_put_back_by_an_earlier_release():
    """kombu marks what it restores."""
    restored = json.loads(entry(1))
    restored["headers"]["redelivered"] = True
    restored["properties"]["delivery_info"]["redelivered"] = True

    assert fault_of(entry(1)) is None
    assert fault_of(json.dumps(restored).encode()) is None


def test_what_celery_cannot_take_is_set_aside_too(redis_url, client, monkeypatch):
    """The guard's last resort: an error that nobody foresaw ends no worker."""
    push(client, entry(1), entry(2))

    def fail_over_the_first(self, message):
        if message.headers["id"] == "r1.1":
            raise KeyError("unforeseen")
        self.messages.append(message)

    monkeypatch.setattr(Hand, "on_message", fail_over_the_first)
    with consuming(redis_url, credit=1) as hand:
        came = hand.take()

    [found] = quarantine.entries(client, KEYS)
    assert (came, found.reason) == (["r2"], "undeliverable")


def test_the_quarantine_is_capped_by_count_and_the_oldest_go(client):
    """Whoever floods a queue fills no Redis."""
    for number in range(MOST_ENTRIES + 5):
        perform(client, set_aside(KEYS, Entry.of_message(b"x", "not_json", str(number), "n1")))

    found = quarantine.entries(client, KEYS)

    assert (len(found), found[0].detail, found[-1].detail) == (MOST_ENTRIES, "1004", "5")
    assert client.hget(KEYS.quarantined, "not_json") == b"1005"
    assert int(client.hget(KEYS.quarantined, "#bytes")) == sum(len(one.pack()) for one in found)


def test_the_quarantine_is_capped_by_bytes(client, monkeypatch):
    """A few large entries count like many small ones."""
    monkeypatch.setattr(quarantine, "MOST_BYTES", 20_000)

    for number in range(10):
        perform(client, set_aside(KEYS, Entry.of_message(bytes(10_000), "too_large", str(number), "n1")))

    found = quarantine.entries(client, KEYS)
    assert [one.detail for one in found] == ["9", "8", "7"]
    assert sum(len(one.pack()) for one in found) <= 20_000


def test_an_entry_that_is_set_aside_again_is_one(client):
    """redis-py sends a call again after a time-out."""
    move = set_aside(KEYS, Entry.of_message(b"x", "not_json", "", "n1"))

    assert [perform(client, move), perform(client, move)] == [1, 0]
    assert (len(quarantine.entries(client, KEYS)), client.hget(KEYS.quarantined, "not_json")) == (1, b"1")


def test_clearing_forgets_the_entries_and_not_the_counts(client):
    """A counter never falls."""
    perform(client, set_aside(KEYS, Entry.of_message(b"x", "not_json", "", "n1")))

    assert quarantine.clear(client, KEYS) == 1
    assert quarantine.entries(client, KEYS) == []
    assert client.hgetall(KEYS.quarantined) == {b"not_json": b"1"}
