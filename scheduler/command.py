"""``forebay scheduler``: the process that feeds one model's engine."""

from __future__ import annotations

import sys

import click

from forebay import logs
from forebay.cli import configuration_errors
from forebay.settings import load
from scheduler.settings import SchedulerSettings


@click.command()
@click.option("--model", metavar="NAME[=DIR]", help="The model to run.")
@click.option("--redis", metavar="URL", help="Redis; REDIS_URL otherwise.")
def scheduler(model: str | None, redis: str | None) -> None:
    """Run one model's scheduler on this node."""
    from scheduler.boot import run_scheduler

    with configuration_errors():
        settings = load(SchedulerSettings, {"FOREBAY_MODEL": model, "REDIS_URL": redis})
        logs.set_up(f"scheduler:{settings.model.name}", settings.log_level)
        sys.exit(run_scheduler(settings))
