"""One task from its message to its end: whatever happens, one end, and a pool in which only tickets own blocks."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from billiard.exceptions import SoftTimeLimitExceeded

from forebay import DType, Failed, Modality, ModelSource, Prompt, Rejected
from forebay.task import Kind
from forebay.ticket import Ticket
from handoff.connection import connect
from handoff.pool.table import HoldState
from handoff.queue import LIMITS
from tests.support.media import encoded, plain_png
from tests.support.toys import Cinema, Toy, loaded
from tests.support.ways import WORKER, problem_of
from workers.decode.identity import hash_of

pytestmark = pytest.mark.service

PNG = plain_png(2, 3, (10, 20, 30))  # two wide, three high


class Harmful(Toy):
    """A toy that does something of the test's choice in the middle of its work."""

    def __init__(self, deed):
        super().__init__(ModelSource("toy"))
        self.deed = deed

    def process_item(self, media, work):
        done = super().process_item(media, work)
        self.deed(done.feature.array)
        return done


def ended(node, rid="r1"):
    """State and problem of a request whose blocks are all given back."""
    assert node.pool.blocks() == []
    record = node.way.record(rid)
    return str(record.state), record.problem


# done


def test_a_request_is_parked_with_its_features_in_the_pool(node):
    """What a scheduler claims leads to what the processor wrote, beside ids and positions, in one block."""
    message = node.task(node.reference(PNG), sampling={"max_new_tokens": 3}, caller_hashes=())
    driver = node.driver()

    driver.run(message)

    assert node.way.state() == "parked"
    [claimed] = node.way.claim()
    ticket = Ticket.unpack(claimed.ticket)
    assert (ticket.rid, ticket.attempt, ticket.model, ticket.sampling) == ("r1", 1, "toy", {"max_new_tokens": 3})
    [item] = ticket.items
    block = node.pool.take(ticket.blocks[0])
    assert block.array(item.feature).tolist() == [[20, 40, 60]] * 3
    assert block.array(ticket.ids).tolist() == [1, 7, 7, 7]
    assert block.array(ticket.mrope).tolist() == [[0, 1, 2, 3]] * 3
    assert [(span.first, span.last) for span in item.spans] == [(1, 3)]
    assert (item.hash, item.digest, item.model_specific) == (hash_of(PNG), node.reference(PNG).digest, {"rows": 3})
    [info] = node.pool.blocks()
    assert (info.owner, info.rid, info.attempt) == (driver.owner, "r1", 1)
    assert {"fetch", "decode", "reserve", "process", "write"} <= node.way.record().worker_ms.keys()


def test_several_items_share_one_block(node):
    """One reservation for all that is foreseen."""
    message = node.task(node.reference(PNG), node.reference(plain_png(2, 1)), node.reference(PNG))

    node.driver().run(message)

    ticket = Ticket.unpack(node.way.claim()[0].ticket)
    assert len(ticket.blocks) == 1
    assert [item.tokens for item in ticket.items] == [3, 1, 3]


def test_a_text_passes_without_a_block(node):
    """Its ids travel in the ticket."""
    message = node.task(prompt=Prompt(text="1 2 3"))

    node.driver(TextOnly()).run(message)

    ticket = Ticket.unpack(node.way.claim()[0].ticket)
    assert (ticket.blocks, ticket.prompt_tokens) == ((), 3)
    assert np.frombuffer(ticket.ids, "<i8").tolist() == [1, 2, 3]
    assert node.pool.blocks() == []


class TextOnly(Toy):
    """Without positions, a text needs no memory at all."""

    def __init__(self):
        super().__init__(ModelSource("toy"))

    def positions(self, expansion, items):
        return None


def test_a_body_that_was_too_large_for_the_message_comes_with_the_claim(node):
    """It waits in the record."""
    message = node.task(node.reference(PNG), carried=False, extensions={"multimodal_gain": 2})

    node.driver().run(message)

    ticket = Ticket.unpack(node.way.claim()[0].ticket)
    assert node.pool.take(ticket.blocks[0]).array(ticket.items[0].feature).tolist() == [[40, 80, 120]] * 3


def test_a_body_in_the_record_that_is_not_ours_is_not_worked_on(node):
    """The message is signed, and what it leaves in the record is as well."""
    message = node.task(node.reference(PNG), carried=False)
    node.way.client.hset(node.way.moves.keys.record("r1"), "body", b"somebody else's")

    node.driver(Harmful(lambda _: pytest.fail("worked"))).run(message)

    state, problem = ended(node)
    assert (state, problem.code) == ("failed", "internal_error")


def test_features_are_written_in_place(node):
    """The array that the processor wrote is the one that the ticket names: it is found at its address."""
    addresses = []
    driver = node.driver(Harmful(lambda array: addresses.append(array.__array_interface__["data"][0])))

    driver.run(node.task(node.reference(PNG)))

    ticket = Ticket.unpack(node.way.claim()[0].ticket)
    block = driver.pool.take(ticket.blocks[0])
    assert addresses == [block.address + ticket.items[0].feature.start]


def test_preprocessing_alone_ends_with_a_description(node):
    """No ticket, no block; digest and shape of each feature, and which processor made it."""
    message = node.task(node.reference(PNG), kind=Kind.PREPROCESS)

    node.driver().run(message)

    state, problem = ended(node)
    result = node.way.record().result
    assert (state, problem) == ("done", None)
    assert result["input_ids"] == [1, 7, 7, 7]
    [item] = result["items"]
    assert item["offsets"] == [[1, 3]]
    assert (item["feature"]["dtype"], item["feature"]["shape"]) == ("float32", [3, 3])
    assert item["hash"] == f"{hash_of(PNG):016x}"
    assert result["mrope"] == {"positions": [[0, 1, 2, 3]] * 3, "delta": 0}
    assert result["processor"] == {"name": "toy", "fingerprint": "0123456789abcdef"}
    assert result["node"] == "n1"
    assert {"decode", "process", "describe"} <= result["timings_ms"].keys()


# refused and failed


@pytest.mark.parametrize(
    ("media", "body", "code", "param"),
    [
        (b"<html>", {}, "unsupported_image", "image_data"),
        (PNG, {"prompt": Prompt(ids=(1,))}, "placeholder_mismatch", "image_data"),
        (PNG, {"prompt": Prompt(ids=(7, 5000))}, "invalid_token_id", "input_ids[1]"),
        (PNG, {"extensions": {"multimodal_other": 1}}, "invalid_extensions", "multimodal_other"),
    ],
)
def test_the_callers_mistake_is_rejected_and_leaves_nothing(node, media, body, code, param):
    """The caller is told which field, once."""
    message = node.task(node.reference(media), **body)

    node.driver().run(message)

    state, problem = ended(node)
    assert (state, problem.code, problem.param, problem.status) == ("rejected", code, param, 400)
    assert [problem_of(event) for event in node.way.events()] == [code]


def test_a_guests_exception_is_ours_and_tells_nothing_of_its_inside(node, caplog):
    """The caller learns the id; the log has the traceback under it."""

    def deed(_):
        raise RuntimeError("secret path /etc/key")

    with caplog.at_level(logging.ERROR):
        node.driver(Harmful(deed)).run(node.task(node.reference(PNG)))
        failures = [record for record in caplog.records if record.message == "request failed"]
        assert [record.rid for record in failures] == ["r1"]
        assert failures[0].exc_info[1].args == ("secret path /etc/key",)

    state, problem = ended(node)
    assert (state, problem.code, problem.status) == ("failed", "internal_error", 500)
    assert "secret" not in problem.message


def test_work_that_takes_too_long_is_a_504_that_names_the_limit(node):
    """Celery interrupts it; the request ends at once, and is not tried again."""

    def deed(_):
        raise SoftTimeLimitExceeded

    node.driver(Harmful(deed)).run(node.task(node.reference(PNG)))

    state, problem = ended(node)
    assert (state, problem.code, problem.status) == ("failed", "time_limit", 504)
    assert problem.message == f"preprocessing took longer than {LIMITS.soft_s} s"


def test_an_invalid_result_is_never_parked(node):
    """NaN from a processor is a 500 that names the item, and no scheduler sees it."""
    node.driver(Harmful(lambda array: array.fill(np.nan))).run(node.task(node.reference(PNG)))

    state, problem = ended(node)
    assert (state, problem.code) == ("failed", "invalid_result")
    assert "multimodal item 0: the feature holds NaN" in problem.message
    assert node.way.waiting() == []


@pytest.mark.parametrize(
    "error", [Rejected("odd_size", "image 0 is odd", param="image_data"), Failed("no_gpu", "none")]
)
def test_what_a_guest_raises_on_purpose_reaches_the_caller_as_it_is(node, error):
    """Code and sentence are its own."""

    def deed(_):
        raise error

    node.driver(Harmful(deed)).run(node.task(node.reference(PNG)))

    state, problem = ended(node)
    assert (problem.code, problem.message) == (error.code, error.message)
    assert state == ("rejected" if isinstance(error, Rejected) else "failed")


def test_media_that_have_expired_are_a_503(node):
    """The caller may send them again."""
    reference = node.reference(PNG)
    message = node.task(reference)
    for path in node.store.folder.iterdir():
        path.unlink()

    node.driver().run(message)

    state, problem = ended(node)
    assert (state, problem.code, problem.status) == ("failed", "media_missing", 503)


def test_a_model_without_a_processor_here_is_a_503(node):
    """The register was wrong about this node."""
    driver = node.driver()
    driver.maker = replace(driver.maker, processors={})

    driver.run(node.task(node.reference(PNG)))

    state, problem = ended(node)
    assert (state, problem.code, problem.status) == ("failed", "no_processor", 503)
    assert problem.message == "node n1 has no processor for 'toy'"


def test_more_items_than_the_model_takes_are_refused_before_any_is_fetched(node):
    """They are not even in the store any more."""
    message = node.task(*[node.reference(PNG)] * 5)
    for path in node.store.folder.iterdir():
        path.unlink()

    node.driver().run(message)

    state, problem = ended(node)
    assert (state, problem.code) == ("rejected", "too_many_items")


def test_features_larger_than_the_pool_are_refused_with_both_numbers(node):
    """At once; waiting would not help."""

    class Greedy(Toy):
        def feature_bytes(self, media):
            return 2 << 20

    node.driver(Greedy(ModelSource("toy"))).run(node.task(node.reference(PNG)))

    state, problem = ended(node)
    assert (state, problem.code, problem.status) == ("rejected", "features_too_large", 413)


def test_bytes_that_are_no_video_are_refused_by_their_place(node):
    """A picture where a video is meant is told so, before the processor is asked."""
    node.driver(Cinema(ModelSource("toy"))).run(node.task(node.reference(PNG, Modality.VIDEO, "video_data[0]")))

    state, problem = ended(node)
    assert (state, problem.code, problem.param) == ("rejected", "unsupported_video", "video_data[0]")


# what is not to be done


def test_a_message_that_is_not_ours_touches_no_request(node, caplog):
    """Nor does it crash the worker; what becomes of it is in test_set_aside."""
    node.task(node.reference(PNG))

    with caplog.at_level(logging.ERROR):
        node.driver().run(b"garbage")

    assert [record.message for record in caplog.records] == ["task set aside"]
    assert node.way.state() == "queued"


def test_a_cancelled_request_is_not_worked_on(node, caplog):
    """No fetch, no decode; one line in the log."""
    message = node.task(node.reference(PNG))
    node.way.cancel()

    with caplog.at_level(logging.INFO):
        node.driver(Harmful(lambda _: pytest.fail("worked"))).run(message)

    assert "task not taken" in [record.message for record in caplog.records]
    assert ended(node)[0] == "cancelled"


def test_a_message_that_comes_twice_is_done_once(node):
    """Celery delivers at least once."""
    message = node.task(node.reference(PNG))
    driver = node.driver()

    driver.run(message)
    driver.run(message)

    assert node.way.state() == "parked"
    assert len(node.pool.blocks()) == 1


def test_a_request_that_another_living_worker_has_is_left_alone(node):
    """It is asked whether it lives, not how long it takes."""
    message = node.task(node.reference(PNG))
    other = node.driver()
    node.way.begin(owner=other.owner)

    node.driver().run(message)

    assert (node.way.state(), node.way.record().owner) == ("processing", other.owner)
    assert node.pool.blocks() == []


def test_a_dead_workers_request_is_taken_over_under_the_next_attempt(node):
    """Whoever gets the message again does the work, and the ticket says which attempt it is of."""
    message = node.task(node.reference(PNG))
    node.way.begin(owner=WORKER)  # nobody on this node bears that name
    driver = node.driver()

    driver.run(message)

    assert node.way.state() == "parked"
    assert (node.way.record().attempt, node.way.record().owner) == (2, driver.owner)
    assert Ticket.unpack(node.way.claim()[0].ticket).attempt == 2


def test_a_request_that_has_killed_three_workers_is_abandoned(node):
    """A final 5xx, and the queue goes on."""
    message = node.task(node.reference(PNG))
    node.way.begin(owner="dead-1")
    node.way.begin(owner="dead-2", dead="dead-1")
    node.way.begin(owner="dead-3", dead="dead-2")

    node.driver(Harmful(lambda _: pytest.fail("worked"))).run(message)

    state, problem = ended(node)
    assert (state, problem.code, problem.status) == ("failed", "abandoned", 500)
    assert problem.message == "abandoned after 3 attempts: each lost its worker or its scheduler"


def test_a_request_past_its_deadline_ends_as_expired(node):
    """Nobody wants the answer any more."""
    message = node.task(node.reference(PNG))
    node.way.pass_deadline()

    node.driver(Harmful(lambda _: pytest.fail("worked"))).run(message)

    state, problem = ended(node)
    assert (state, problem.code, problem.status) == ("expired", "deadline_exceeded", 504)


def test_a_late_result_is_dropped_and_its_block_freed(node, caplog):
    """Cancelled in the middle of the work: the move that would park it is refused."""
    message = node.task(node.reference(PNG))

    with caplog.at_level(logging.INFO):
        node.driver(Harmful(lambda _: node.way.cancel())).run(message)

    assert ended(node)[0] == "cancelled"
    assert node.way.waiting() == []
    assert "late result dropped" in [record.message for record in caplog.records]


def test_a_late_failure_does_not_overwrite_the_end(node):
    """Exactly one end, and it was the caller's."""

    def deed(_):
        node.way.cancel()
        raise RuntimeError

    node.driver(Harmful(deed)).run(node.task(node.reference(PNG)))

    assert node.way.state() == "cancelled"
    assert len(node.way.events()) == 1


def test_when_redis_goes_in_the_middle_nothing_is_left_in_the_pool(node):
    """The task fails, the record stays as it was, and the janitor or the deadline comes for it."""
    message = node.task(node.reference(PNG))
    driver = node.driver()

    def deed(_):
        driver.redis = connect("redis://127.0.0.1:1", "nobody")

    driver.maker = replace(driver.maker, processors={"toy": node.driver(Harmful(deed)).processors["toy"]})

    with pytest.raises(Failed, match="the request store cannot be reached"):
        driver.run(message)

    assert node.pool.blocks() == []
    assert node.way.state() == "processing"


# against the contract


def test_an_array_that_a_processor_keeps_is_never_overwritten(node, caplog):
    """Its block lingers, out of everybody's way, and is freed with the next task after it was let go."""
    kept = []
    driver = node.driver(Harmful(kept.append))

    driver.run(node.task(node.reference(PNG), kind=Kind.PREPROCESS))
    assert node.way.state() == "done"
    assert len(node.pool.blocks()) == 1
    assert kept[0].tolist() == [[20, 40, 60]] * 3

    with caplog.at_level(logging.ERROR):
        driver.run(node.task(node.reference(PNG), rid="r2", token="t2", kind=Kind.PREPROCESS))
    assert "a processor keeps arrays of requests that have ended" in [record.message for record in caplog.records]
    assert len(node.pool.blocks()) == 2

    kept.clear()
    driver.maker = replace(driver.maker, processors=node.driver().processors)
    driver.run(node.task(node.reference(PNG), rid="r3", token="t3", kind=Kind.PREPROCESS))
    assert node.pool.blocks() == []


def test_a_kept_array_of_a_parked_request_does_not_stop_the_scheduler(node):
    """The block is the ticket's; the worker only cannot let go of its own view."""
    kept = []
    driver = node.driver(Harmful(kept.append))

    driver.run(node.task(node.reference(PNG)))

    assert [info.state for info in node.pool.blocks()] == [HoldState.PARKED]
    ticket = Ticket.unpack(node.way.claim()[0].ticket)
    node.pool.take(ticket.blocks[0])
    assert node.pool.free(ticket.blocks[0])
    assert kept[0].shape == (3, 3)


def test_a_processor_that_brings_its_own_array_is_served(node):
    """It costs a copy, and works."""

    class Own(Toy):
        def process_item(self, media, work):
            from forebay import Feature, Processed

            done = super().process_item(media, work)
            return Processed(Feature.of(done.feature.array.copy(), DType.FLOAT32), done.tokens)

    node.driver(Own(ModelSource("toy"))).run(node.task(node.reference(PNG)))

    ticket = Ticket.unpack(node.way.claim()[0].ticket)
    assert node.pool.take(ticket.blocks[0]).array(ticket.items[0].feature).tolist() == [[20, 40, 60]] * 3


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "BMP"])
def test_media_of_any_kind_flow_through(node, kind):
    """From their bytes in the store to a parked ticket."""
    data = encoded(np.full((4, 4, 3), 200, np.uint8), kind)

    node.driver().run(node.task(node.reference(data)))

    assert node.way.state() == "parked"


def test_what_an_interrupted_step_left_in_the_pool_is_given_up(node):
    """An exception from a signal may come before the pool's answer has arrived: then nobody knows of the block."""
    driver = node.driver()

    def interrupted(_):
        assert driver.pool.allocate(1000, "r1", 1) is not None  # and nobody keeps the answer
        raise SoftTimeLimitExceeded

    driver.maker = replace(driver.maker, processors={"toy": loaded(Harmful(interrupted), "toy")})
    driver.run(node.task(node.reference(PNG)))

    assert ended(node)[1].code == "time_limit"
