"""The ``forebay`` command. Each room brings its own sub-command, so that this needs only the base install."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

import click

from forebay.errors import ConfigurationError

GROUP = "forebay.commands"


class Rooms(click.Group):
    """A command group whose members are entry points, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({point.name for point in entry_points(group=GROUP)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for point in entry_points(group=GROUP, name=cmd_name):
            try:
                command: click.Command = point.load()
            except ModuleNotFoundError as error:
                return _lacking(cmd_name, error)
            return command
        return None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:  # commands import their room when they are called
            raise _needs(ctx.invoked_subcommand, error) from error


class HelpFirst(click.Group):
    """A group whose commands tell what they do although what they do it with is not there."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)  # what follows the command's name
        if "--help" in rest:
            name, command, _ = self.resolve_command(ctx, given[len(given) - len(rest) - 1 :])
            if command is not None:
                command.make_context(name, ["--help"], parent=ctx)  # prints it, and exits
        return rest


def _needs(name: str | None, error: ModuleNotFoundError) -> click.ClickException:
    return click.ClickException(f"'forebay {name}' needs {error.name}: pip install 'forebay[tier]'")


def _lacking(name: str, error: ModuleNotFoundError) -> click.Command:
    """Stands for a command whose room is not installed: it is listed, and says what it needs when it is called."""

    def refuse() -> None:
        raise _needs(name, error)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, context_settings=anything, callback=refuse, short_help=f"(needs {error.name})")


@click.command(cls=Rooms)
@click.version_option(package_name="forebay")
def main() -> None:
    """Forebay: the CPU tier in front of a multimodal model."""


@contextmanager
def configuration_errors() -> Iterator[None]:
    """Say what is wrong with the configuration in one line, and exit with 2."""
    try:
        yield
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


def tell_native_crashes() -> None:
    """A guest's native code may end this process without a word: let Python say where it was."""
    if sys.__stderr__ is not None and not faulthandler.is_enabled():
        faulthandler.enable(sys.__stderr__)
