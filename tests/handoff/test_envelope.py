"""What we put on a queue is what Celery itself would have put there, and what a Celery worker reads."""

import base64
import json

import msgpack
import pytest
from kombu import Consumer

from forebay import Modality, Prompt
from forebay.settings import SharedSettings
from forebay.task import Kind, MediaRef, Task, TaskBody
from handoff.envelope import Label, envelope
from handoff.keys import Keys, queue_name
from handoff.queue import TASK, QueueWorker, make_app
from handoff.requeue import queue_entry

pytestmark = pytest.mark.service

SECRET = b"0123456789abcdef"
QUEUE = queue_name("n1", "bulk")
MESSAGE = bytes(range(256))
LABEL = Label.of("r1", 2, "toy", 3, 1025)
# Made anew for every message, or naming the process that sent it.
OWN = {"delivery_tag", "reply_to", "origin"}


@pytest.fixture
def app(redis_url):
    with make_app(
        SharedSettings(secret=SECRET, redis_url=redis_url, deployment="test"), QueueWorker("n1", "worker-1")
    ) as app:
        yield app


def without_own(entry):
    """An entry as fields, without what is each message's own."""
    fields = json.loads(entry)
    fields["headers"] = {name: value for name, value in fields["headers"].items() if name not in OWN}
    fields["properties"] = {name: value for name, value in fields["properties"].items() if name not in OWN}
    return fields


def test_our_entry_equals_celerys_field_by_field(app, client):
    """Headers, properties and body: a worker must not be able to tell."""
    app.send_task(
        TASK,
        args=(MESSAGE,),
        task_id="r1.2",
        queue=QUEUE,
        routing_key=QUEUE,
        exchange="",
        shadow=LABEL.name,
        argsrepr=LABEL.text,
        kwargsrepr="{}",
        ignore_result=True,
        retry=False,
    )

    [theirs] = client.lrange(Keys("test:").queue("n1", "bulk"), 0, -1)
    ours = envelope("r1.2", QUEUE, MESSAGE, LABEL)

    assert without_own(ours) == without_own(theirs)
    assert json.loads(theirs)["headers"].keys() == json.loads(ours)["headers"].keys()
    assert json.loads(theirs)["properties"].keys() == json.loads(ours)["properties"].keys()


def test_a_kombu_consumer_reads_our_entry(app, client):
    """Through the transport that the worker uses, with its prefix, its queues and the one content type it takes."""
    client.lpush(Keys("test:").queue("n1", "bulk"), envelope("r1.2", QUEUE, MESSAGE, LABEL))
    read = []

    def on_message(body, message):
        read.append((body, message.headers, message.content_type))
        message.ack()

    with app.connection_for_read() as connection:
        queues = [queue for queue in app.conf.task_queues if queue.name == QUEUE]
        with Consumer(connection, queues, callbacks=[on_message], accept=app.conf.accept_content):
            connection.drain_events(timeout=5)

    [(body, headers, content_type)] = read
    assert body == [[MESSAGE], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    assert (headers["task"], headers["id"], headers["shadow"]) == (TASK, "r1.2", "preprocess[toy]")
    assert content_type == "application/x-msgpack"


def test_what_an_operator_sees_of_a_task_is_small_and_without_content():
    """Model in the name, numbers in the arguments; never a prompt, a URL or bytes."""
    assert (LABEL.name, LABEL.text) == ("preprocess[toy]", "rid=r1 attempt=2 items=3 media=2KiB")
    assert Label.of("r1", 1, "toy", 0, 0).text == "rid=r1 attempt=1 items=0 media=0KiB"


def test_a_queue_entry_carries_the_signed_task():
    """The same one that a worker authenticates."""
    media = (MediaRef(Modality.IMAGE, "sha256:" + "a" * 64, 2000, "image_data"),)
    body = TaskBody(Kind.GENERATE, Prompt(text="secret text"), media)
    task = Task("r1", "t1", 1, "toy", 99, 0, body.pack())

    entry = json.loads(queue_entry(task, body, "n1", "bulk", SECRET))

    [[message], _, _] = msgpack.unpackb(base64.b64decode(entry["body"]))
    assert Task.unpack(message, SECRET) == task
    assert entry["headers"]["id"] == "r1.1"
    assert entry["headers"]["argsrepr"] == "rid=r1 attempt=1 items=1 media=2KiB"
    assert "secret text" not in json.dumps({**entry, "body": ""})


def test_every_entry_has_a_tag_of_its_own():
    """Celery keeps unacknowledged messages under it; two alike would be one."""
    one, other = (json.loads(envelope("r1.1", QUEUE, b"m", LABEL)) for _ in range(2))

    assert one["properties"]["delivery_tag"] != other["properties"]["delivery_tag"]
