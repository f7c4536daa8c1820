"""A second processor on real requests: who samples, what becomes of a sample, and that no request notices."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import time

import pytest
from billiard.exceptions import SoftTimeLimitExceeded

from forebay import Failed, ModelSource, Prompt, Rejected
from forebay.task import Kind
from forebay.ticket import Ticket
from handoff import shadow
from handoff.scripts import perform
from handoff.shadow import Findings, Wanted
from tests.support.media import plain_png
from tests.support.node import SECRET
from tests.support.toys import Toy, loaded
from tests.support.versions import Blue, Green
from tests.support.ways import MODEL
from workers.item_limits import NO_LIMITS
from workers.loader import Loader
from workers.shadow import offering
from workers.shadow.offering import is_chosen
from workers.shadow.running import Shadow, _Unmarked

pytestmark = pytest.mark.service

PNG, TALL = plain_png(2, 3), plain_png(2, 9)
ALL = Wanted(1.0, 1 << 20)


def second(node, processor, tolerance=0.0, limit_s=30.0) -> Shadow:
    keys, store = node.way.moves.keys, node.store
    loader = Loader(store, _Unmarked(), NO_LIMITS, salvage=False)
    return Shadow(loaded(processor, MODEL), node.way.client, keys, store, SECRET, loader, tolerance, limit_s)


def samples(node) -> list[bytes]:
    found = []
    while (one := shadow.pop(node.way.client, node.way.moves.keys, MODEL)) is not None:
        found.append(one)
    return found


def ask(node, wanted=ALL) -> bool:
    return shadow.ask(node.way.client, node.way.moves.keys, MODEL, wanted)


def sampled(node, *pictures: bytes, **body) -> bytes:
    """One request through a worker, and the one sample of it."""
    ask(node)
    node.driver(Blue()).run(node.task(*map(node.reference, pictures), **body))
    [sample] = samples(node)
    return sample


def found_of(node):
    return shadow.findings(node.way.client, node.way.moves.keys, MODEL)


def stored(node) -> set[str]:
    return {path.name for path in node.store.folder.iterdir()}


def test_nobody_samples_where_nobody_looks(node):
    """As it is as a rule."""
    node.driver(Blue()).run(node.task(node.reference(PNG)))

    assert node.way.state() == "parked"
    assert samples(node) == []


@pytest.mark.parametrize("kind", [Kind.GENERATE, Kind.PREPROCESS])
def test_the_same_processor_makes_the_same(node, kind):
    """Features, spans, ids, positions and what the model reads beside them; extensions are the request's."""
    sample = sampled(node, PNG, kind=kind, extensions={"multimodal_gain": 3})

    second(node, Blue()).take(sample)

    assert (found_of(node).counts, found_of(node).max_abs_error) == ({"compared": 1, "equal": 1}, 0.0)


def test_a_sample_leaves_the_store_when_it_was_looked_at(node):
    """The media stay: they are the request's."""
    node.reference(PNG)
    before = stored(node)
    sample = sampled(node, PNG)
    assert len(stored(node)) == len(before) + 1

    second(node, Blue()).take(sample)

    assert stored(node) == before


def test_what_differs_is_told_and_the_request_is_the_firsts(node):
    """By kind, with both sides, the largest error, and both fingerprints."""
    one = second(node, Green())

    one.take(sampled(node, PNG))

    found = found_of(node)
    assert (found.counts, found.max_abs_error) == ({"compared": 1, "different": 1, "in values": 1}, 0.25)
    [note] = found.notes
    assert (note.rid, note.kinds, note.max_abs_error) == ("r1", ("values",), 0.25)
    assert note.said == ("item 0: values differ by 0.25 at most",)
    assert node.way.state() == "parked"


def test_an_error_within_the_tolerance_is_equal(node):
    """And still told."""
    second(node, Green(), tolerance=0.5).take(sampled(node, PNG))

    assert (found_of(node).counts, found_of(node).max_abs_error) == ({"compared": 1, "equal": 1}, 0.25)


class Does(Toy):
    """On trial for a reason."""

    def __init__(self, deed):
        super().__init__(ModelSource("toy"))
        self.deed = deed

    def process_item(self, media, work):
        self.deed()
        return super().process_item(media, work)


def raises():
    raise ZeroDivisionError("nobody thought of that")


RAISED = "ZeroDivisionError: nobody thought of that (test_shadow.py:{} in raises)"


def crashes():
    faulthandler.disable()  # pytest's would tell the child's end as its own
    os.kill(os.getpid(), signal.SIGSEGV)


def raises_value():
    raise ValueError("a value")


@pytest.mark.parametrize(
    ("picture", "processor", "kind", "said"),
    [
        (TALL, Green(), "refused", "image_too_large: image_data has 9 rows; this release takes 8"),
        (PNG, Does(raises), "failed", RAISED),
        (PNG, Does(raises_value), "failed", "internal_error: ValueError: a value (test_shadow.py:{} in raises_value)"),
        (PNG, Does(lambda: sys.exit(3)), "failed", "its process ends with status 3"),
        (PNG, Does(crashes), "failed", "its process ends with SIGSEGV"),
        (PNG, Does(lambda: time.sleep(60)), "failed", "it takes longer than 0.5 s"),
    ],
    ids=["refused", "raises", "value", "exits", "crashes", "hangs"],
)
def test_one_that_does_not_get_to_an_output_is_told(node, picture, processor, kind, said):
    """What it says, or how it ended, is what one wants to know; the shadow goes on."""
    one = second(node, processor, limit_s=0.5)

    one.take(sampled(node, picture))

    [note] = found_of(node).notes
    assert (note.kinds, re.sub(r"py:\d+", "py:{}", note.said[0])) == ((kind,), said)


def test_a_shadow_that_is_stopped_waits_for_no_sample(node):
    """However long its processor takes."""
    one = second(node, Does(lambda: time.sleep(60)))

    one.take(sampled(node, PNG), lambda: True)

    assert found_of(node).counts == {"passed over: stopped": 1}


def test_a_text_is_sampled_too(node):
    """Its ids and positions are compared."""
    second(node, Blue()).take(sampled(node, prompt=Prompt(text="1 2 3")))

    assert found_of(node).counts == {"compared": 1, "equal": 1}


def test_media_that_have_left_are_no_difference(node):
    """They live as long as requests do, and a shadow may be behind."""
    sample = sampled(node, PNG)
    for path in node.store.folder.iterdir():
        path.unlink()

    second(node, Green()).take(sample)

    assert found_of(node).counts == {"passed over: gone": 1}


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (Failed("redis_unavailable", "the request store cannot be reached", status=503), "unreachable"),
        (Rejected("media_too_slow", "image_data takes more than 30 s to decode"), "too slow"),
    ],
)
def test_what_is_not_the_processors_fault_is_no_difference(node, monkeypatch, error, why):
    """The store, or a machine on which a shadow is nice to others."""

    def fails(*_):
        raise error

    sample = sampled(node, PNG)
    monkeypatch.setattr(Loader, "load_all", fails)

    second(node, Blue()).take(sample)

    assert found_of(node).counts == {f"passed over: {why}": 1}


def test_what_is_not_signed_by_us_is_not_worked_on(node):
    """As a task is not."""
    second(node, Does(raises)).take(sampled(node, PNG)[:-1] + b"x")

    assert found_of(node).counts == {"passed over: unreadable": 1}


def test_too_large_and_too_many_are_passed_over_and_counted(node):
    """A shadow that is slow costs the tier no memory."""
    driver = node.driver(Blue())
    ask(node, Wanted(1.0, 10))
    driver.run(node.task(node.reference(PNG)))
    assert found_of(node).counts == {"passed over: too large": 1}

    ask(node)
    for number in range(shadow.MOST_WAITING):
        shadow.push(node.way.client, node.way.moves.keys, MODEL, str(number).encode())
    node.driver(Blue()).run(node.task(node.reference(PNG), rid="r2", token="t2"))

    assert found_of(node).counts["passed over: too many wait"] == 1
    assert samples(node) == [str(number).encode() for number in range(shadow.MOST_WAITING)]


@pytest.mark.parametrize(
    "error", [Failed("media_store_full", "no space"), SoftTimeLimitExceeded(), MemoryError(), PermissionError()]
)
def test_whatever_goes_wrong_with_a_sample_its_request_goes_on(node, monkeypatch, caplog, error):
    """It is parked, its features are there, and the log says what was not done."""

    def fails(*_):
        raise error

    reference = node.reference(PNG)
    ask(node)
    for target, name in ((type(node.store), "put"), (offering, "pack_output")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, fails)
            rid = f"r-{name}"
            node.driver(Blue()).run(node.task(reference, rid=rid, token=rid))
        assert node.way.state(rid) == "parked"
        [claimed] = node.way.claim(rid)
        ticket = Ticket.unpack(claimed.ticket)
        assert node.pool.take(ticket.blocks[0]).array(ticket.items[0].feature).tolist() == [[20, 40, 60]] * 3
    assert caplog.text.count("no sample for the shadow") == 2
    assert samples(node) == []


@pytest.mark.parametrize(
    "told", [b"junk", b"[]", b"{}", b'{"share": "much", "max_bytes": 1}', b'{"share": 1, "max_bytes": null}']
)
def test_what_no_shadow_of_this_release_has_written_is_as_good_as_nothing(node, told):
    """A later release may say it otherwise, and must not end requests of this one."""
    node.way.client.set(node.way.moves.keys.shadow(MODEL), told)

    node.driver(Blue()).run(node.task(node.reference(PNG)))

    assert node.way.state() == "parked"
    assert samples(node) == []


def test_a_later_release_may_say_more(node):
    """What is known of it is done."""
    told = b'{"share": 1.0, "max_bytes": 99999, "who": "x", "colour": "blue"}'
    node.way.client.set(node.way.moves.keys.shadow(MODEL), told)

    node.driver(Blue()).run(node.task(node.reference(PNG)))

    assert len(samples(node)) == 1


def test_a_model_has_one_shadow(node):
    """The second is told; the first goes on, and may say again what it wants."""
    first, second_one = Wanted(1.0, 10, "first"), Wanted(0.5, 10, "second")

    assert ask(node, first)
    assert not ask(node, second_one)
    assert ask(node, first)
    assert shadow.wanted_of(node.way.client, node.way.moves.keys, MODEL) == first


def test_another_version_begins_anew(node):
    """What its predecessor has shown says nothing of it; the same one goes on."""
    client, keys = node.way.client, node.way.moves.keys
    assert not shadow.begin(client, keys, MODEL, "green")
    second(node, Green()).take(sampled(node, PNG))

    assert not shadow.begin(client, keys, MODEL, "green")
    found = found_of(node)
    assert (found.fingerprint, found.counts["compared"], len(found.notes)) == ("green", 1, 1)
    assert found.is_running
    assert shadow.begin(client, keys, MODEL, "teal")
    assert found_of(node) == Findings({}, 0.0, (), "teal", is_running=True)


def test_a_request_that_is_refused_is_no_sample(node):
    """There is nothing to compare."""
    ask(node)
    node.driver(Green()).run(node.task(node.reference(TALL)))

    assert node.way.state() == "rejected"
    assert samples(node) == []


def test_a_share_is_of_requests_and_always_the_same_ones():
    """By their ids."""
    chosen = [f"r{number}" for number in range(10_000) if is_chosen(f"r{number}", 0.05)]

    assert 400 < len(chosen) < 600
    assert all(is_chosen(rid, 0.06) for rid in chosen)
    assert all(is_chosen(f"r{number}", 1.0) for number in range(100))


def test_a_call_that_is_repeated_counts_once(node):
    """A client sends again what it had no answer to."""
    move = shadow.passed_over(node.way.moves.keys, MODEL, "too large")

    perform(node.way.client, move)
    perform(node.way.client, move)

    assert found_of(node).counts == {"passed over: too large": 1}


def test_the_last_hundred_notes_are_kept_and_everything_has_an_end(node):
    """Of a shadow that stops, nothing is left but what it has found."""
    client, keys, one = node.way.client, node.way.moves.keys, second(node, Green())
    one.take(sampled(node, PNG))
    [note] = found_of(node).notes
    for _ in range(shadow.MOST_NOTES + 5):
        perform(client, shadow.note(keys, MODEL, note))
    found = found_of(node)
    assert (len(found.notes), found.counts["compared"]) == (shadow.MOST_NOTES, shadow.MOST_NOTES + 6)
    before = stored(node)
    node.driver(Blue()).run(node.task(node.reference(PNG), rid="r2", token="t2"))
    assert all(client.ttl(name) > 0 for name in client.scan_iter(f"{keys.prefix}shadow*"))

    one.leave()
    shadow.forget(client, keys, MODEL)

    assert stored(node) == before
    left = [name.decode() for name in client.scan_iter(f"{keys.prefix}shadow*")]
    assert [name for name in left if "shadow-mark:" not in name] == []
