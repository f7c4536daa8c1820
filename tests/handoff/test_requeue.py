"""Queuing again from what the record keeps."""

import base64
import json

import msgpack
import pytest

from forebay import Prompt
from forebay.task import Kind, Task, TaskBody
from handoff.requeue import requeue
from tests.support.ways import NODE

pytestmark = pytest.mark.service

SECRET = b"0123456789abcdef"
BODY = TaskBody(Kind.GENERATE, Prompt(ids=(1, 2, 3)), sampling={"max_new_tokens": 1})


def test_a_request_is_queued_again_from_its_record_alone(way):
    """A new head over the same body, signed anew, for the attempt that was decided."""
    way.accept(priority=4)
    way.enqueue(body=BODY.pack(), lane="bulk")
    way.begin()

    moved = way.do(requeue(way.moves, way.record(), 2, NODE, SECRET))

    assert moved.ok
    newest = json.loads(way.messages(lane="bulk")[0])
    [[message], _, _] = msgpack.unpackb(base64.b64decode(newest["body"]))
    deadline = way.record().deadline_ms
    assert Task.unpack(message, SECRET) == Task("r1", "t1", 2, "toy", deadline, 4, BODY.pack())
    assert way.record().attempt == 2
