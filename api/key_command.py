"""``forebay key``: a new API key for a tenant."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from api.keyring import lines_for, read_keys
from forebay.cli import configuration_errors
from forebay.errors import ConfigurationError
from forebay.settings import read_name

_KEY_BYTES = 32
_MODE = 0o600


@click.command()
@click.argument("tenant")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FOREBAY_API_KEYS",
    help="The file of keys, made if it is not there; FOREBAY_API_KEYS otherwise. Without one the lines are printed.",
)
@click.option("--operator", is_flag=True, help="The key may read /metrics.")
def key(tenant: str, path: Path | None, operator: bool) -> None:
    """Make an API key for TENANT and show it, once.

    The file keeps its hash alone. A running API notices the change within a second; to take a key back, delete its
    lines.
    """
    with configuration_errors():
        lines, made = _make(tenant, operator=operator)
        if path is not None:
            _append(path, lines)
        click.echo(made)
        if path is None:
            click.echo(lines.strip("\n"), err=True)


def _make(tenant: str, *, operator: bool) -> tuple[str, str]:
    try:
        name = read_name(tenant)
    except ValueError as error:
        raise ConfigurationError(f"TENANT {tenant!r}: {error}") from error
    made = f"fb-{secrets.token_urlsafe(_KEY_BYTES)}"
    return lines_for(name, made, operator=operator), made


def _append(path: Path, lines: str) -> None:
    """Add to the file, if it can be read with what is added.

    Raises:
        ConfigurationError: it cannot be read or written.
    """
    try:
        earlier = path.read_text() if path.exists() else ""
        read_keys(earlier + lines)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _MODE)
        with os.fdopen(fd, "w") as file:
            file.write(lines if not earlier or earlier.endswith("\n") else f"\n{lines}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(f"{path}: {reason}") from error
