"""The feature cache as requests see it: made once, found by everybody it belongs to, and by nobody else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pydantic import BaseModel

from forebay import Capabilities, DType, Failed, Feature, Image, ModelSource, Processed, Prompt, Rejected
from forebay.media import digest_of
from forebay.task import Kind
from handoff.pool import FeatureCache
from tests.support.caching import GREEN, RED, Counting, entries, features, places, run
from tests.support.media import plain_png
from tests.support.toys import Toy, loaded
from tests.support.ways import MODEL
from workers.entries import key_of

pytestmark = pytest.mark.service


@pytest.fixture
def node(node):
    FeatureCache(node.pool).set_budget(1 << 19)
    return node


@pytest.fixture
def toy():
    return Counting()


# found and not found


def test_two_prompts_about_one_picture_share_its_features(node, toy):
    """Decoded and processed once; the same bytes serve both at once, each with its own ids."""
    driver = node.driver(toy, cached=True)

    first = run(node, driver, RED, rid="r1", prompt=Prompt(ids=(1, 7)))
    second = run(node, driver, RED, rid="r2", prompt=Prompt(ids=(5, 5, 7, 6)))

    assert toy.made == [digest_of(RED)]
    assert places(node, first) == places(node, second)
    assert first.blocks[0] != second.blocks[0]  # a hold of its own on the same block
    assert features(node, first) == features(node, second) == [[[400, 0, 0]] * 3]
    assert [item.spans[0].first for ticket in (first, second) for item in ticket.items] == [1, 2]
    assert second.items == tuple(
        replace(item, spans=second.items[0].spans, feature=second.items[0].feature) for item in first.items
    )


def test_a_hit_needs_no_media(node, toy):
    """They may have left the store meanwhile."""
    driver = node.driver(toy, cached=True)
    run(node, driver, RED, rid="r1")
    message = node.task(node.reference(RED), rid="r2", token="t2")
    for path in node.store.folder.iterdir():
        path.unlink()

    driver.run(message)

    assert node.way.state("r2") == "parked"


def test_the_same_picture_twice_in_one_request_is_made_once(node, toy):
    """Three spans, two features, equal bytes under the first and the third; released exactly once."""
    ticket = run(node, node.driver(toy, cached=True), RED, GREEN, RED, rid="r1")

    assert toy.made == [digest_of(RED), digest_of(GREEN)]
    red, green, again = features(node, ticket)
    assert (red, green) == ([[400, 0, 0]] * 3, [[0, 400, 0]] * 2)
    assert again == red
    assert places(node, ticket)[0] == places(node, ticket)[2]
    assert [(span.first, span.last) for item in ticket.items for span in item.spans] == [(1, 3), (4, 5), (6, 8)]
    assert len({handle.slot for handle in ticket.blocks}) == len(ticket.blocks) == 3  # two pictures, and the ids
    assert [node.pool.free(handle) for handle in ticket.blocks] == [True] * 3
    assert node.pool.stats().used_bytes == 0


def test_what_the_cache_gives_is_what_is_computed_without_it(node):
    """Bit for bit, for several items, in any order."""
    plain = run(node, node.driver(), GREEN, RED, rid="r1")
    cold = run(node, node.driver(cached=True), GREEN, RED, rid="r2")
    warm = run(node, node.driver(cached=True), RED, GREEN, rid="r3")

    assert features(node, plain) == features(node, cold) == features(node, warm)[::-1]
    assert plain.items[0].hash == cold.items[0].hash == warm.items[1].hash


def test_another_process_finds_it_after_the_first_has_ended(node, toy):
    """The entries live in shared memory, not in a worker."""
    first = node.driver(toy, cached=True)
    run(node, first, RED, rid="r1")
    first.life.close()
    second = Counting()

    run(node, node.driver(second, cached=True), RED, rid="r2")

    assert second.made == []


@pytest.mark.parametrize("name", ["tenant", "fingerprint", "picture", "extension"])
def test_whatever_changes_the_feature_or_its_owner_is_another_entry(node, name):
    """A hit is never somebody else's, nor another setting's."""
    one = loaded(Toy(ModelSource(MODEL)))
    ref = node.reference(RED)
    extensions = one.capabilities.extensions
    given = {"ref": ref, "loaded": one, "extensions": extensions(), "tenant": "a"}
    other = {
        "tenant": given | {"tenant": "b"},
        "fingerprint": given | {"loaded": replace(one, fingerprint="f" * 16)},
        "picture": given | {"ref": node.reference(GREEN)},
        "extension": given | {"extensions": extensions(multimodal_gain=2)},
    }[name]

    assert key_of(**given) == key_of(**given)
    assert key_of(**other) != key_of(**given)


def test_parts_of_a_key_do_not_run_into_one_another(node):
    """A tenant that ends where a modality begins is another tenant: the parts carry their lengths."""
    one, ref = loaded(), node.reference(RED)

    assert key_of(ref, one, None, "aimage") != key_of(replace(ref, modality="aimage"), one, None, "")


def test_a_default_that_is_spelled_out_is_the_same_entry(node, toy):
    """The typed map counts, not its spelling."""
    driver = node.driver(toy, cached=True)

    run(node, driver, RED, rid="r1")
    run(node, driver, RED, rid="r2", extensions={"multimodal_gain": 1})
    run(node, driver, RED, rid="r3", extensions={"multimodal_gain": 2})

    assert len(toy.made) == 2


def test_only_the_fields_that_an_item_reads_count(node):
    """Where a processor says which those are."""

    class Fields(BaseModel):
        multimodal_gain: int = 1
        multimodal_note: str = ""

    class Selective(Counting):
        def capabilities(self):
            declared = super().capabilities()
            return replace(declared, extensions=Fields, item_fields=("multimodal_gain",))

    toy = Selective()
    driver = node.driver(toy, cached=True)
    run(node, driver, RED, rid="r1", extensions={"multimodal_note": "x"})
    run(node, driver, RED, rid="r2", extensions={"multimodal_note": "y"})
    run(node, driver, RED, rid="r3", extensions={"multimodal_gain": 3})

    assert len(toy.made) == 2


def test_caller_hashes_are_the_requests_own(node, toy):
    """They name the item for this caller, and never choose what is served."""
    driver = node.driver(toy, cached=True)

    first = run(node, driver, RED, rid="r1", caller_hashes=("ab",))
    second = run(node, driver, GREEN, rid="r2", caller_hashes=("ab",))
    third = run(node, driver, RED, rid="r3")

    assert (first.items[0].hash, second.items[0].hash) == (0xAB, 0xAB)
    assert third.items[0].hash not in (0xAB, 0)
    assert len(toy.made) == 2


def test_preprocess_says_what_was_found(node, toy):
    """And nothing of it stays taken."""
    driver = node.driver(toy, cached=True)
    run_preprocess = {"kind": Kind.PREPROCESS}
    driver.run(node.task(node.reference(RED), rid="r1", **run_preprocess))
    driver.run(node.task(node.reference(GREEN), node.reference(RED), rid="r2", token="t2", **run_preprocess))

    assert [item["cached"] for item in node.way.record("r1").result["items"]] == [False]
    assert [item["cached"] for item in node.way.record("r2").result["items"]] == [False, True]
    assert node.pool.blocks() == []
    assert len(entries(node)) == 2


# what is never an entry


@pytest.mark.parametrize(
    "error", [Rejected("too_odd", "no"), Failed("broken", "oops"), ValueError("guest"), MemoryError()]
)
def test_a_failure_is_not_remembered(node, error):
    """The next request tries for itself, and nothing is left of the first."""

    def fail(media):
        raise error

    driver = node.driver(Counting(fail), cached=True)
    driver.run(node.task(node.reference(RED), rid="r1"))
    assert node.way.record("r1").state.is_end
    assert (node.pool.blocks(), entries(node), FeatureCache(node.pool).flights()) == ([], [], [])

    run(node, node.driver(cached=True), RED, rid="r2")


def test_a_result_that_fails_its_check_is_never_committed(node):
    """Not even for a moment."""

    class Wrong(Toy):
        def process_item(self, media, work):
            done = super().process_item(media, work)
            done.feature.array[0, 0] = np.nan
            return done

    node.driver(Wrong(ModelSource(MODEL)), cached=True).run(node.task(node.reference(RED)))

    assert node.way.record("r1").problem.code == "invalid_result"
    assert entries(node) == []


def test_an_item_is_kept_though_its_request_is_refused_afterwards(node, toy):
    """The picture was good; the prompt had no place for it."""
    driver = node.driver(toy, cached=True)
    driver.run(node.task(node.reference(RED), rid="r1", prompt=Prompt(ids=(1,))))

    assert node.way.record("r1").problem.code == "placeholder_mismatch"
    assert (len(entries(node)), node.pool.blocks()) == (1, [])


def test_a_processor_that_does_not_declare_itself_cacheable_is_not(node, toy):
    """Its items may depend on the prompt."""

    class Shy(Counting):
        def capabilities(self):
            return replace(super().capabilities(), cacheable=False)

    shy = Shy()
    driver = node.driver(shy, cached=True)
    run(node, driver, RED, rid="r1")
    run(node, driver, RED, rid="r2")

    assert len(shy.made) == 2
    assert entries(node) == []


def test_a_processor_that_takes_over_the_flow_is_not(node):
    """Nobody knows what of it belongs to an item."""

    class Whole(Counting):
        def process(self, work, tokenizer):
            return super().process(work, tokenizer)

    whole = Whole()
    driver = node.driver(whole, cached=True)
    run(node, driver, RED, rid="r1")
    run(node, driver, RED, rid="r2")

    assert len(whole.made) == 2


def test_an_item_is_made_without_the_prompt_and_the_other_media(node):
    """So that what it reads beside the item cannot become part of what others get."""
    seen = []

    class Nosy(Counting):
        def process_item(self, media, work):
            seen.append((work.prompt, len(work.media)))
            return super().process_item(media, work)

    run(node, node.driver(Nosy(), cached=True), RED, GREEN, rid="r1")

    assert seen == [(Prompt(ids=()), 1)] * 2


def test_an_ordinary_array_is_copied_once_and_found_again(node):
    """The copy is counted; the entry is the copy in the pool."""

    class Ordinary(Counting):
        def process_item(self, media, work):
            self.made.append(media.digest)
            array = np.full((media.height, 3), 5.0, np.float32)
            return Processed(Feature.of(array, DType.FLOAT32), media.height, {})

    toy = Ordinary()
    driver = node.driver(toy, cached=True)
    run(node, driver, RED, rid="r1")
    ticket = run(node, driver, RED, rid="r2")

    assert features(node, ticket) == [[[5.0] * 3] * 3]
    assert len(toy.made) == 1
    assert node.pool.stats().counters["copied_bytes"] == 36


def test_a_cached_feature_cannot_be_written_by_whoever_found_it(node):
    """Others read it at the same time."""
    caught = []

    class Writing(Toy):
        def positions(self, expansion, items):
            try:
                items[0].feature.array[:] = 0
            except ValueError as error:
                caught.append(str(error))
            return super().positions(expansion, items)

    driver = node.driver(Writing(ModelSource(MODEL)), cached=True)
    run(node, driver, RED, rid="r1")
    ticket = run(node, driver, RED, rid="r2")

    assert caught[-1:] == ["assignment destination is read-only"]
    assert features(node, ticket)[0][0] in ([400, 0, 0], [0, 0, 0])


def test_every_request_gets_its_own_picture(node):
    """Many colours over few entries, found and evicted as it comes: nobody gets another's."""
    FeatureCache(node.pool).set_budget(3 * 70_000)
    driver = node.driver(cached=True)
    rng = np.random.default_rng(1)

    for number, colour in enumerate(rng.integers(0, 6, 60).tolist()):
        ticket = run(node, driver, plain_png(1, 1, (colour, colour, colour)), rid=f"r{number}")
        assert features(node, ticket) == [[[colour] * 3]]
        for handle in ticket.blocks:
            assert node.pool.free(handle)

    counters = node.pool.stats().counters
    assert counters["hits"] > 0
    assert counters["evictions"] > 0
    assert node.pool.stats().used_bytes == 0


def test_an_entry_without_room_for_its_note_serves_its_request_alone(node, monkeypatch):
    """The feature is right; it is only not kept."""
    monkeypatch.setattr("handoff.pool.blocks.Block.write", lambda self, data: None)

    ticket = run(node, node.driver(cached=True), RED, rid="r1")

    assert features(node, ticket) == [[[400, 0, 0]] * 3]
    assert (entries(node), FeatureCache(node.pool).flights()) == ([], [])


def test_capabilities_are_not_cacheable_unless_they_say_so():
    """A guest's item may depend on anything."""
    assert Capabilities(modalities={}).cacheable is False
    assert Image(np.zeros((1, 1, 3), np.uint8), "", 0).param == "image_data"
