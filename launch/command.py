"""``forebay up``: everything on one machine, with one command."""

from __future__ import annotations

import sys

import click

from forebay import logs
from forebay.cli import configuration_errors
from forebay.settings import load
from launch.settings import UpSettings


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address of the API; 127.0.0.1 by default.")
@click.option("--port", metavar="N", help="Port of the API; 8000 by default, 0 picks one.")
@click.option("--workers", metavar="N", help="Worker children; by default one a core, at most 8.")
@click.option("--cores", metavar="LIST", help="Cores to pin the children to, such as 0-3.")
@click.option("--model", "models", multiple=True, metavar="NAME[=DIR]", help="A model to serve; repeatable.")
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
@click.option("--redis", metavar="URL", help="A Redis to use instead of starting one.")
@click.option("--pool-bytes", metavar="SIZE", help="Size of the feature pool; 1GiB by default.")
@click.option("--cache-bytes", metavar="SIZE", help="What of it keeps features for later requests; 0 for nothing.")
@click.option("--data-dir", metavar="DIR", help="Keep requests and media here over restarts.")
@click.option("--flower/--no-flower", default=None, help="Whether Flower runs too; it does by default.")
def up(
    models: tuple[str, ...],
    dtypes: tuple[str, ...],
    processors: tuple[str, ...],
    flower: bool | None,
    **given: str | None,
) -> None:
    """Start Redis, API, workers, schedulers and Flower, and watch them."""
    from launch.supervisor import EndedError, PartFailedError
    from launch.up import running

    overrides = {
        "FOREBAY_HOST": given["host"],
        "FOREBAY_PORT": given["port"],
        "FOREBAY_WORKERS": given["workers"],
        "FOREBAY_CORES": given["cores"],
        "FOREBAY_MODELS": ",".join(models) or None,
        "FOREBAY_FEATURE_DTYPE": ",".join(dtypes) or None,
        "FOREBAY_PROCESSOR": ",".join(processors) or None,
        "REDIS_URL": given["redis"],
        "FOREBAY_POOL_BYTES": given["pool_bytes"],
        "FOREBAY_CACHE_BYTES": given["cache_bytes"],
        "FOREBAY_DATA_DIR": given["data_dir"],
        "FOREBAY_FLOWER": None if flower is None else str(int(flower)),
    }
    with configuration_errors():
        settings = load(UpSettings, overrides)
        logs.set_up("up", settings.log_level)
        try:
            with running(settings, _say) as (supervisor, urls):
                _say(f"API      {urls.api}  (documentation at {urls.api}/docs)")
                if urls.flower:
                    _say(f"Flower   {urls.flower}")
                _say("ready; Ctrl-C drains, a second one ends")
                supervisor.watch()
                _say("draining")
        except (PartFailedError, EndedError) as error:
            _say(str(error))
            sys.exit(1)
    _say("stopped; nothing is left")


def _say(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()
