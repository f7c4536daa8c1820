"""Queuing again from what the record keeps."""

import base64
import json

import msgpack
import pytest

from forebay import Prompt
from forebay.task import BadTaskError, Kind, Task, TaskBody, seal
from handoff.requeue import requeue
from tests.support.ways import NODE

pytestmark = pytest.mark.service

SECRET = b"0123456789abcdef"
BODY = TaskBody(Kind.GENERATE, Prompt(ids=(1, 2, 3)), sampling={"max_new_tokens": 1})


def test_a_request_is_queued_again_from_its_record_alone(way):
    """A new head over the same body, signed anew, for the attempt that was decided."""
    way.accept(priority=4)
    way.enqueue(body=seal(BODY.pack(), SECRET), lane="bulk")
    way.begin()

    moved = way.do(requeue(way.moves, way.record(), 2, NODE, SECRET))

    assert moved.ok
    newest = json.loads(way.messages(lane="bulk")[0])
    [[message], _, _] = msgpack.unpackb(base64.b64decode(newest["body"]))
    deadline = way.record().deadline_ms
    assert Task.unpack(message, SECRET) == Task("r1", "t1", 2, "toy", deadline, 4, BODY.pack())
    assert way.record().attempt == 2


@pytest.mark.parametrize(
    "body", [BODY.pack(), seal(BODY.pack(), b"another secret of 16"), b"", seal(BODY.pack(), SECRET)[1:]]
)
def test_a_body_that_is_not_ours_is_not_signed_anew(way, body):
    """Whoever can write to Redis must not get our signature for what they wrote."""
    way.accept()
    way.enqueue(body=body)

    with pytest.raises(BadTaskError, match="whose signature is not ours"):
        requeue(way.moves, way.record(), 2, NODE, SECRET)
