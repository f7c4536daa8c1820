"""``forebay new-processor``: a model package to start from, which passes its tests as it is."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from forebay.cli import configuration_errors
from forebay.errors import ConfigurationError
from forebay.kit.package import PackageName, files_of

_MODE = 0o755  # a folder for a time is its maker's alone; the package is not


@click.command("new-processor")
@click.argument("name")
@click.option(
    "--dir", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), metavar="DIR",
    help="Where the package's folder is made; here by default.",
)  # fmt: skip
def new_processor(name: str, folder: Path) -> None:
    """Write a small model package NAME, with its tests, into a folder of that name."""
    with configuration_errors():
        made = write_package(PackageName.parse(name), folder)
    click.echo(f"{made} is ready:\n")
    click.echo(f"  cd {made}\n  pip install -e '.[test]'\n  pytest\n  forebay check-processor {name}\n")
    click.echo(f"Then change src/{PackageName(name).module}/processor.py.")


def write_package(name: PackageName, folder: Path) -> Path:
    """Write the package below ``folder``: whole, or not at all.

    Raises:
        ConfigurationError: it is there already, or cannot be written.
    """
    place = folder / name.model
    if place.exists() or place.is_symlink():
        raise ConfigurationError(f"{place} is there already; nothing was changed")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{name.model}-", dir=folder))
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be written: {error.strerror}") from error
    try:
        for path, text in files_of(name).items():
            file = draft / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        draft.chmod(_MODE)
        draft.rename(place)
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place
