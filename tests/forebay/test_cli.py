"""The command: each room brings its own, and a wrong configuration is one line."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from forebay import ConfigurationError, __version__, cli
from forebay.cli import configuration_errors, main


@pytest.fixture
def offered(monkeypatch):
    """Sub-commands as installed packages would offer them: one that works, two that lack something."""
    rooms = ModuleType("rooms_of_the_test")

    @click.command()
    def good():
        """Do good."""
        click.echo("done")

    @click.command()
    def late():
        """Need something when it is called."""
        import no_such_library  # noqa: F401

    @click.command()
    def wrong():
        """Be told nonsense."""
        with configuration_errors():
            raise ConfigurationError("FOREBAY_WORKERS='x': a whole number was expected")

    rooms.good, rooms.late, rooms.wrong = good, late, wrong
    monkeypatch.setitem(sys.modules, rooms.__name__, rooms)
    points = [EntryPoint(name, f"{rooms.__name__}:{name}", cli.GROUP) for name in ("good", "late", "wrong")]
    points.append(EntryPoint("lacking", "no_such_room:command", cli.GROUP))
    monkeypatch.setattr(
        cli, "entry_points", lambda group, name=None: [p for p in points if p.group == group and name in (None, p.name)]
    )


def run(*arguments):
    return CliRunner().invoke(main, arguments)


@pytest.mark.usefixtures("offered")
def test_every_room_is_listed_also_one_that_lacks_something():
    """With what it needs in place of what it does."""
    shown = run("--help")

    assert shown.exit_code == 0
    assert "Do good." in shown.output
    assert "(needs no_such_room)" in shown.output


@pytest.mark.usefixtures("offered")
def test_a_room_runs():
    """And it alone is imported."""
    assert (run("good").exit_code, run("good").output) == (0, "done\n")


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(("name", "module"), [("lacking", "no_such_room"), ("late", "no_such_library")])
def test_a_room_that_lacks_something_says_how_to_get_it(name, module):
    """Whether it is missed at the import or at the call; whatever options were given."""
    refused = run(name, "--workers", "2") if name == "lacking" else run(name)

    assert refused.exit_code == 1
    assert refused.output == f"Error: 'forebay {name}' needs {module}: pip install 'forebay[tier]'\n"


@pytest.mark.usefixtures("offered")
def test_a_wrong_configuration_is_told_without_a_traceback():
    """And the exit status is that of a wrong call."""
    refused = run("wrong")

    assert refused.exit_code == 2
    assert "Error: FOREBAY_WORKERS='x': a whole number was expected" in refused.output
    assert "Traceback" not in refused.output


@pytest.mark.usefixtures("offered")
def test_an_unknown_room_is_a_wrong_call():
    """Click tells the rest."""
    assert run("dance").exit_code == 2


def test_the_version_is_the_packages():
    """One number, in two places."""
    assert __version__ in run("--version").output
