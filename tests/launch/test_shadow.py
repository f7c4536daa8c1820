"""What ``forebay shadow show`` makes of what was found."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from handoff import shadow as store
from handoff.keys import Keys
from handoff.scripts import perform
from handoff.shadow import Note
from launch.shadow import shadow

pytestmark = pytest.mark.service

KEYS = Keys("test:")


def note(*kinds: str, said: tuple[str, ...] = ()) -> Note:
    return Note("r1", kinds, said, 0.0, (1.5, 2.0), ("old", "new"))


@pytest.fixture
def show(redis_url, client):
    def run(model: str, *arguments: str):
        env = {"FOREBAY_DEPLOYMENT": "test", "COLUMNS": "200"}
        return CliRunner().invoke(shadow, ["show", model, "--redis", redis_url, *arguments], env=env)

    return run


def test_equal_different_and_nothing_have_statuses_of_their_own(show, client):
    """For whoever rolls out by a script."""
    assert show("m").exit_code == 3
    perform(client, store.passed_over(KEYS, "m", "gone"))
    assert show("m").exit_code == 3
    perform(client, store.note(KEYS, "m", note()))
    assert show("m").exit_code == 0
    perform(client, store.note(KEYS, "m", note("ids", said=("input_ids: token 3 is 2, then 3",))))
    assert show("m").exit_code == 1


def test_a_strangers_words_are_shown_as_they_are(show, client):
    """Prompts have brackets, which a terminal's library would act upon."""
    said = "failed: KeyError: '[/INST]' [red]x"
    perform(client, store.note(KEYS, "m[/x]", note("failed", said=(said,))))

    done = show("m[/x]")

    assert done.exit_code == 1, done.output
    assert said in done.output
    assert "Prepared twice: m[/x]" in done.output


def test_it_can_be_forgotten(show, client):
    """After it was shown."""
    perform(client, store.note(KEYS, "m", note()))

    assert show("m", "--forget").exit_code == 0
    assert show("m").exit_code == 3
