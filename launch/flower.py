"""``forebay flower``: Flower, which watches the workers' task events. It sees no payload, because tasks carry none."""

from __future__ import annotations

import ipaddress
import os

import click

from forebay.cli import configuration_errors
from forebay.errors import ConfigurationError
from forebay.settings import SharedSettings, load

_PASSWORD = "FLOWER_BASIC_AUTH"  # noqa: S105 - the name of Flower's own variable


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", default=5555, show_default=True, metavar="N", help="Port to listen on.")
@click.option("--redis", metavar="URL", help="Redis; REDIS_URL otherwise.")
def flower(host: str, port: int, redis: str | None) -> None:
    """Run Flower over the deployment's workers."""
    with configuration_errors():
        settings = load(SharedSettings, {"REDIS_URL": redis})
        _check_address(host)
        _run(settings, host, port)


def _check_address(host: str) -> None:
    """Flower's pages and metrics answer anybody; beyond loopback it needs a password.

    Raises:
        ConfigurationError: it has none.
    """
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback and not os.environ.get(_PASSWORD):
        raise ConfigurationError(f"--host {host}: beyond loopback Flower needs {_PASSWORD}=user:password")


def _run(settings: SharedSettings, host: str, port: int) -> None:
    from handoff.queue import make_app

    make_app(settings).start(
        [
            "flower",
            f"--address={host}",
            f"--port={port}",
            "--max_tasks=5000",  # the default keeps 100,000
            "--purge_offline_workers=300",
            "--task_runtime_metric_buckets=0.005,0.01,0.02,0.05,0.1,0.2,0.5,1,2,5",
            "--logging=error",  # it warns of every worker that is still starting
        ]
    )
