"""A second processor on real requests: who samples, what becomes of a sample, and that no request notices."""

from __future__ import annotations

import pytest

from forebay import Failed, ModelSource, Prompt
from forebay.task import Kind
from handoff import shadow
from handoff.scripts import perform
from handoff.shadow import Wanted
from tests.support.media import plain_png
from tests.support.node import SECRET
from tests.support.toys import Toy, loaded
from tests.support.versions import Blue, Green
from tests.support.ways import MODEL
from workers.item_limits import NO_LIMITS
from workers.loader import Loader
from workers.shadow.offering import is_chosen
from workers.shadow.running import Shadow, _Unmarked

pytestmark = pytest.mark.service

PNG, TALL = plain_png(2, 3), plain_png(2, 9)
ALL = Wanted(1.0, 1 << 20)


def second(node, processor, tolerance=0.0) -> Shadow:
    keys, store = node.way.moves.keys, node.store
    loader = Loader(store, _Unmarked(), NO_LIMITS, salvage=False)
    return Shadow(loaded(processor, MODEL), node.way.client, keys, store, SECRET, loader, tolerance)


def samples(node) -> list[bytes]:
    found = []
    while (one := shadow.pop(node.way.client, node.way.moves.keys, MODEL, 0.01)) is not None:
        found.append(one)
    return found


def sampled(node, *pictures: bytes, **body) -> bytes:
    """One request through a worker, and the one sample of it."""
    shadow.ask(node.way.client, node.way.moves.keys, MODEL, ALL)
    node.driver(Blue()).run(node.task(*map(node.reference, pictures), **body))
    [sample] = samples(node)
    return sample


def found_of(node):
    return shadow.findings(node.way.client, node.way.moves.keys, MODEL)


def test_nobody_samples_where_nobody_looks(node):
    """As it is as a rule."""
    node.driver(Blue()).run(node.task(node.reference(PNG)))

    assert node.way.state() == "parked"
    assert samples(node) == []


@pytest.mark.parametrize("kind", [Kind.GENERATE, Kind.PREPROCESS])
def test_the_same_processor_makes_the_same(node, kind):
    """Features, spans, ids, positions and what the model reads beside them; extensions are the request's."""
    sample = sampled(node, PNG, kind=kind, extensions={"multimodal_gain": 3})

    one = second(node, Blue())
    note = one.judge(sample)

    assert note is not None
    assert (note.rid, note.kinds, note.max_abs_error) == ("r1", (), 0.0)
    one.tell(note)
    assert found_of(node).counts == {"compared": 1, "equal": 1}
    assert found_of(node).notes == ()


def test_what_differs_is_told_and_the_request_is_the_firsts(node):
    """By kind, with both sides, the largest error, and both fingerprints."""
    sample = sampled(node, PNG)
    one = second(node, Green())

    note = one.judge(sample)

    assert note is not None
    assert (note.kinds, note.max_abs_error) == (("values",), 0.25)
    assert note.said == ("item 0: values differ by 0.25 at most",)
    one.tell(note)
    found = found_of(node)
    assert (found.counts, found.max_abs_error) == ({"compared": 1, "different": 1, "in values": 1}, 0.25)
    assert found.notes == (note,)
    assert node.way.state() == "parked"


def test_an_error_within_the_tolerance_is_equal(node):
    """And still told."""
    one = second(node, Green(), tolerance=0.5)
    note = one.judge(sampled(node, PNG))

    assert note is not None
    one.tell(note)
    assert (found_of(node).counts, found_of(node).max_abs_error) == ({"compared": 1, "equal": 1}, 0.25)


class Raises(Toy):
    """On trial for a reason."""

    def process_item(self, media, work):
        raise ZeroDivisionError("nobody thought of that")


@pytest.mark.parametrize(
    ("picture", "processor", "kind", "said"),
    [
        (TALL, Green(), "refused", "image_too_large: image_data has 9 rows; this release takes 8"),
        (PNG, Raises(ModelSource("toy")), "failed", "ZeroDivisionError: nobody thought of that"),
    ],
    ids=["refused", "failed"],
)
def test_one_that_does_not_get_to_an_output_is_told(node, picture, processor, kind, said):
    """What it says is what one wants to know; it goes on."""
    note = second(node, processor).judge(sampled(node, picture))

    assert note is not None
    assert (note.kinds, note.said) == ((kind,), (said,))


def test_a_text_is_sampled_too(node):
    """Its ids and positions are compared."""
    note = second(node, Blue()).judge(sampled(node, prompt=Prompt(text="1 2 3")))

    assert note is not None
    assert note.kinds == ()


def test_media_that_have_left_are_no_difference(node, client, keys):
    """They live as long as requests do, and a shadow may be behind."""
    sample = sampled(node, PNG)
    for path in node.store.folder.iterdir():
        path.unlink()

    assert second(node, Green()).judge(sample) is None
    assert found_of(node).counts == {"passed over: gone": 1}


def test_what_is_not_signed_by_us_is_not_worked_on(node):
    """As a task is not."""
    sample = sampled(node, PNG)

    assert second(node, Raises(ModelSource("toy"))).judge(sample[:-1] + b"x") is None
    assert found_of(node).counts == {"passed over: unreadable": 1}


def test_too_large_and_too_many_are_passed_over_and_counted(node, client, keys):
    """A shadow that is slow costs the tier no memory."""
    driver = node.driver(Blue())
    shadow.ask(client, keys, MODEL, Wanted(1.0, 10))
    driver.run(node.task(node.reference(PNG)))
    assert found_of(node).counts == {"passed over: too large": 1}

    shadow.ask(client, keys, MODEL, ALL)
    for number in range(shadow.MOST_WAITING):
        shadow.push(client, keys, MODEL, str(number).encode())
    node.driver(Blue()).run(node.task(node.reference(PNG), rid="r2", token="t2"))

    assert found_of(node).counts["passed over: too many wait"] == 1
    assert samples(node) == [str(number).encode() for number in range(shadow.MOST_WAITING)]


def test_a_store_that_takes_no_sample_harms_no_request(node, client, keys, monkeypatch, caplog):
    """It is said in the log."""

    def full(*_):
        raise Failed("media_store_full", "the media store cannot take 200 bytes: no space left on device")

    reference = node.reference(PNG)
    monkeypatch.setattr(type(node.store), "put", full)
    shadow.ask(client, keys, MODEL, ALL)

    node.driver(Blue()).run(node.task(reference))

    assert node.way.state() == "parked"
    assert "no sample for the shadow" in caplog.text
    assert samples(node) == []


def test_a_request_that_is_refused_is_no_sample(node, client, keys):
    """There is nothing to compare."""
    shadow.ask(client, keys, MODEL, ALL)
    node.driver(Green()).run(node.task(node.reference(TALL)))

    assert node.way.state() == "rejected"
    assert samples(node) == []


def test_a_share_is_of_requests_and_always_the_same_ones():
    """By their ids."""
    chosen = [f"r{number}" for number in range(10_000) if is_chosen(f"r{number}", 0.05)]

    assert 400 < len(chosen) < 600
    assert all(is_chosen(rid, 0.06) for rid in chosen)
    assert all(is_chosen(f"r{number}", 1.0) for number in range(100))


def test_the_last_hundred_notes_are_kept(node, client, keys):
    """And everything of a shadow has an end."""
    one = second(node, Green())
    note = one.judge(sampled(node, PNG))
    assert note is not None
    for _ in range(shadow.MOST_NOTES + 5):
        perform(client, shadow.note(keys, MODEL, note))

    found = found_of(node)
    assert (len(found.notes), found.counts["compared"]) == (shadow.MOST_NOTES, shadow.MOST_NOTES + 5)
    names = [name.decode() for name in client.scan_iter(f"{keys.prefix}shadow*")]
    assert len(names) == 3
    assert all(client.ttl(name) > 0 for name in names)
    shadow.stop_asking(client, keys, MODEL)
    shadow.forget(client, keys, MODEL)
    assert list(client.scan_iter(f"{keys.prefix}shadow*")) == []
