"""``forebay worker``: the CPU processes of one node."""

from __future__ import annotations

import sys

import click

from forebay import logs
from forebay.cli import configuration_errors
from forebay.settings import load
from workers.settings import WorkerSettings


@click.command()
@click.option("--model", "models", multiple=True, metavar="NAME[=DIR]", help="A model to preprocess for; repeatable.")
@click.option(
    "--feature-dtype",
    "dtypes",
    multiple=True,
    metavar="[MODEL=]DTYPE",
    help="Element type of features: float32 (default), bfloat16 or uint8; of every model, or of one; repeatable.",
)
@click.option(
    "--processor",
    "processors",
    multiple=True,
    metavar="[MODEL=]PROCESSOR",
    help="Who prepares for a model, where it is not the processor of its name: another's name, or module:Class.",
)
@click.option("--workers", metavar="N", help="Children; by default one a core, at most 8.")
@click.option("--cores", metavar="LIST", help="Cores to pin the children to, such as 0-3,8.")
@click.option("--redis", metavar="URL", help="Redis; REDIS_URL otherwise.")
@click.option("--pool-bytes", metavar="SIZE", help="Size of a new feature pool, such as 2GiB.")
@click.option("--cache-bytes", metavar="SIZE", help="What of it keeps features for later requests; 0 for nothing.")
def worker(
    models: tuple[str, ...],
    dtypes: tuple[str, ...],
    processors: tuple[str, ...],
    workers: str | None,
    cores: str | None,
    redis: str | None,
    pool_bytes: str | None,
    cache_bytes: str | None,
) -> None:
    """Run a node's CPU workers."""
    from workers.boot import run_worker  # imports Celery, which the help text does not need

    overrides = {
        "FOREBAY_MODELS": ",".join(models) or None,
        "FOREBAY_FEATURE_DTYPE": ",".join(dtypes) or None,
        "FOREBAY_PROCESSOR": ",".join(processors) or None,
        "FOREBAY_WORKERS": workers,
        "FOREBAY_CORES": cores,
        "REDIS_URL": redis,
        "FOREBAY_POOL_BYTES": pool_bytes,
        "FOREBAY_CACHE_BYTES": cache_bytes,
    }
    with configuration_errors():
        settings = load(WorkerSettings, overrides)
        logs.set_up("worker", settings.log_level)
        sys.exit(run_worker(settings))
