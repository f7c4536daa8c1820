"""What a worker makes sure of: every setting that a guarantee rests on, and the kombu that its transport fits."""

from __future__ import annotations

import hashlib
import inspect

import kombu
import pytest
from kombu.transport import redis as kombu_redis

from forebay.errors import ConfigurationError
from forebay.settings import SharedSettings
from handoff.queue import Limits, QueueWorker, celery_settings, make_app
from workers.promises import check_celery

SETTINGS = SharedSettings(secret=b"0123456789abcdef", redis_url="redis://user:hidden@127.0.0.1:1/0")
WORKER = QueueWorker("n1", "parent-1")
EXPECTED = celery_settings(SETTINGS, WORKER)


def check(app, limits=WORKER.limits):
    check_celery(app, EXPECTED, SETTINGS.redis_url, limits)


def test_an_application_as_we_make_it_is_right():
    """The check is not about nothing: it passes."""
    check(make_app(SETTINGS, WORKER))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_setting_that_differs_is_named(name, caplog):
    """One line of the log each, and no start."""
    app = make_app(SETTINGS, WORKER)
    app.conf[name] = "of somebody else's"

    with pytest.raises(ConfigurationError, match=f"Celery's {name} is "):
        check(app)

    assert [record.message for record in caplog.records] == ["the queue is not set as it must be"]


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        ("CELERY_BROKER_URL", ["broker_read_url", "broker_write_url"]),
        ("CELERY_BROKER_READ_URL", ["broker_read_url"]),
        ("CELERY_BROKER_WRITE_URL", ["broker_write_url"]),
        ("CELERY_RESULT_BACKEND", ["result_backend"]),
    ],
)
def test_a_variable_that_celery_reads_by_itself_is_found(monkeypatch, variable, named):
    """It would win over what we set, and nobody would know."""
    monkeypatch.setenv(variable, "redis://elsewhere:1/0")

    with pytest.raises(ConfigurationError) as caught:
        check(make_app(SETTINGS, WORKER))

    assert all(f"Celery's {name} is" in str(caught.value) for name in named)
    assert "hidden" not in str(caught.value)


def test_all_differences_are_named_together():
    """Whoever mends them mends them once."""
    app = make_app(SETTINGS, WORKER)
    app.conf.task_acks_late = False
    app.conf.accept_content = ["pickle"]

    with pytest.raises(ConfigurationError, match=r"task_acks_late is False; True is needed; .*accept_content"):
        check(app)


@pytest.mark.parametrize("limits", [Limits(60, 55), Limits(0, 5), Limits(5, 5)])
def test_limits_that_do_not_rise_are_refused(limits):
    """A task is told before its child is killed, and that before its message could come again."""
    with pytest.raises(ConfigurationError, match="time limits must rise"):
        check(make_app(SETTINGS, WORKER), limits)


def test_another_kombu_is_refused(monkeypatch):
    """Its private methods may do something else."""
    monkeypatch.setattr(kombu, "__version__", "5.8.0")

    with pytest.raises(ConfigurationError, match=r"kombu 5\.8\.0 is installed; this release works with 5\.7\.x"):
        check(make_app(SETTINGS, WORKER))


def test_what_the_transport_overrides_is_as_it_was_read():
    """A patch release that changes one of these is read again before this digest is changed."""
    methods = [
        *(getattr(kombu_redis.Channel, name) for name in ("_brpop_start", "_brpop_read", "close", "_connparams")),
        *(
            getattr(kombu_redis.Channel, name)
            for name in ("_on_connection_disconnect", "_disconnect_pools", "_get_pool")
        ),
        *(getattr(kombu.Connection, name) for name in ("_do_close_self", "_do_close_transport", "collect")),
        kombu_redis.QoS.restore_unacked_once,
        *(getattr(kombu_redis.QoS, name) for name in ("append", "ack", "reject", "restore_by_tag", "restore_unacked")),
        *(
            getattr(kombu_redis.MultiChannelPoller, name)
            for name in ("on_poll_start", "on_readable", "_register_BRPOP")
        ),
    ]
    text = "".join(inspect.getsource(method) for method in methods)

    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "896aed114c586fcf"
