"""The key table and the Celery settings that both sides share."""

from dataclasses import fields
from inspect import signature

import pytest

from forebay.settings import SharedSettings
from handoff import keys as key_table
from handoff.keys import LANES, Keys, queue_name
from handoff.queue import LIMITS, QueueWorker, make_app

KEYS = Keys("blue:")
SETTINGS = SharedSettings(secret=b"0123456789abcdef", deployment="blue")


def every_key():
    """Each name that the table can make, with arguments that can be told apart."""
    for name in dir(Keys):
        if name.startswith("_") or name in {field.name for field in fields(Keys)}:
            continue
        value = getattr(KEYS, name)
        if callable(value):
            value = value(*(f"arg{n}" for n in range(len(signature(value).parameters))))
        yield name, value


def test_every_key_has_the_deployments_prefix_and_its_arguments():
    """Two deployments, two nodes, two requests never meet by accident."""
    table = dict(every_key())

    assert len(set(table.values())) == len(table)
    for name, value in table.items():
        assert value.startswith("blue:"), name
        method = getattr(KEYS, name)
        if callable(method):
            assert all(f"arg{n}" in value for n in range(len(signature(method).parameters))), name


def test_the_table_in_the_docstring_names_every_kind_of_key():
    """It is what an operator reads."""
    for name, value in every_key():
        kind = value.removeprefix("blue:").split("arg")[0].rstrip(":.")
        assert kind in (key_table.__doc__ or ""), name


def test_our_list_is_the_one_that_celery_reads():
    """Celery adds the prefix itself; we add it when we push."""
    app = make_app(SETTINGS, QueueWorker("n1"))

    names = [queue.name for queue in app.conf.task_queues]
    prefix = app.conf.broker_transport_options["global_keyprefix"]

    assert names == [queue_name("n1", lane) for lane in LANES]
    assert [prefix + name for name in names] == [KEYS.queue("n1", lane) for lane in LANES]


def test_a_sender_consumes_no_queue():
    """Only a node's worker does."""
    assert list(make_app(SETTINGS).conf.task_queues or []) == []


def test_a_slow_task_does_not_run_twice():
    """The broker gives a message to another worker only after the hard limit has ended the first."""
    assert LIMITS.soft_s < LIMITS.hard_s < LIMITS.visibility_s


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task_acks_late", True),
        ("task_reject_on_worker_lost", True),
        ("accept_content", ["msgpack"]),
        ("task_serializer", "msgpack"),
        ("task_ignore_result", True),
        ("result_backend", None),
        ("worker_prefetch_multiplier", 1),
    ],
)
def test_the_settings_that_the_guarantees_rest_on(name, value):
    """A message outlives its child, nothing that could run code is read, and results stay out of Celery."""
    assert make_app(SETTINGS).conf[name] == value
