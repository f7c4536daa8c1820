"""``forebay quarantine``: an operator sees what was set aside and why, and nothing of it reaches the terminal raw."""

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from handoff.keys import Keys
from handoff.quarantine import Entry, entries, set_aside
from handoff.scripts import perform
from launch.pool.command import pool
from launch.quarantine import quarantine

pytestmark = pytest.mark.service

KEYS = Keys("blue:")
BAD = Entry.of_message(b"\x1b[2Jhello\xff", "not_json", "Expecting [red]value\x1b[2J", "n1")
MEDIA = Entry.of_media("sha256:" + "a" * 64, "abandoned", "abandoned after 3 attempts", "n1", "r7")


@pytest.fixture
def run(client, redis_url, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments, url=redis_url):
        return CliRunner().invoke(quarantine, ["--redis", url, "--deployment", "blue", *arguments])

    return run


@pytest.fixture
def filled(client):
    for entry in (BAD, MEDIA):
        perform(client, set_aside(KEYS, entry))


def test_an_empty_quarantine_says_so(run):
    """Silence could mean another deployment."""
    assert run("list").output == "nothing is in quarantine\n"


@pytest.mark.usefixtures("filled")
def test_the_list_has_a_line_an_entry_and_no_character_that_acts(run):
    """Whoever wrote the message must not write on the terminal."""
    listed = run("list")

    assert listed.exit_code == 0, listed.output
    for text in (BAD.id, "not_json", "Expecting [red]value\\x1b[2J", MEDIA.id, "abandoned", "r7"):
        assert text in listed.output
    assert "\x1b" not in listed.output


@pytest.mark.usefixtures("filled")
def test_for_a_program_each_entry_is_one_line_with_its_columns(run):
    """Of whatever width; nothing is cut off."""
    first, second = run("list").output.splitlines()

    assert [line.split("\t")[0] for line in (first, second)] == [MEDIA.id, BAD.id]
    assert {len(line.split("\t")) for line in (first, second)} == {8}


@pytest.mark.usefixtures("filled")
def test_one_entry_is_shown_with_its_beginning(run):
    """As bytes and as plain text, with all that is known."""
    shown = run("show", BAD.id)

    assert shown.exit_code == 0
    assert "000000  1b 5b 32 4a 68 65 6c 6c 6f ff" in shown.output
    assert ".[2Jhello." in shown.output
    assert BAD.digest in shown.output
    assert "\x1b" not in shown.output


@pytest.mark.usefixtures("filled")
def test_media_are_shown_by_their_digest(run):
    """And by the request that they killed workers with."""
    shown = run("show", MEDIA.id).output

    assert MEDIA.digest in shown
    assert "r7" in shown


@pytest.mark.usefixtures("filled")
def test_an_entry_that_is_not_there_is_named(run):
    """It may have gone since it was listed."""
    shown = run("show", "nobody")

    assert shown.exit_code == 2
    assert "'nobody': there is no such entry" in shown.output


@pytest.mark.usefixtures("filled")
def test_clearing_says_how_many_went(run, client):
    """And leaves none."""
    assert run("clear").output == "2 entries forgotten\n"
    assert entries(client, KEYS) == []


def test_a_redis_that_is_not_there_is_one_line(run):
    """Not a traceback."""
    listed = run("list", url="redis://127.0.0.1:1/0")

    assert listed.exit_code == 2
    assert "no Redis answers at redis://127.0.0.1:1/0" in listed.output


def test_the_command_is_installed():
    """Beside the others."""
    metadata = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())

    assert metadata["project"]["entry-points"]["forebay.commands"]["quarantine"] == "launch.quarantine:quarantine"


@pytest.mark.parametrize(
    ("group", "name"), [(quarantine, "list"), (quarantine, "clear"), (pool, "check"), (pool, "pin")]
)
def test_help_needs_neither_redis_nor_a_pool(group, name):
    """Whoever asks for it may have none yet."""
    env = {"REDIS_URL": "redis://127.0.0.1:1/0", "FOREBAY_RUN_DIR": "/nowhere"}

    done = CliRunner().invoke(group, [name, "--help"], env=env)

    assert done.exit_code == 0, done.output
    assert f"Usage: {group.name} {name} " in done.output
