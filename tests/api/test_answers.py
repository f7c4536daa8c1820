"""The shapes of answers, and an answer that grows."""

from __future__ import annotations

import pytest

from api.answers import EndedBadly, generations, one_or_all, partial, result_of, status
from api.asking import Growth
from api.replies import Ended, Piece
from forebay import State
from forebay.errors import Problem
from handoff.record import Record
from tests.api.actors import result


def record(**fields: object) -> Record:
    plain = {
        "rid": "r1", "state": State.DONE, "token": "t", "tenant": "", "reply_to": "",
            "attempt": 2, "model": "toy", "kind": "generate", "node": "n1",
        "lane": "text", "owner": "w", "priority": 0, "deadline_ms": 9000, "lapses": 0, "body": b"secret",
        "times_ms": {"accepted": 1000, "end": 2500},
    }  # fmt: skip
    return Record(**{**plain, **fields})


def test_a_finished_answer_has_the_native_shape():
    """SGLang's fields; the engine's own facts only where it has some."""
    assert generations("r1", result("a b"), 0.12345678)[0] == {
        "text": "a b",
        "meta_info": {
            "id": "r1",
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "finish_reason": {"type": "stop"},
            "e2e_latency": 0.123457,
        },
    }
    assert generations("r1", result(meta={"p": 0.5}), 1)[0]["meta_info"]["engine"] == {"p": 0.5}


def test_several_answers_are_a_list_in_their_order():
    """One alone is itself."""
    several = {"prompt_tokens": 10, "outputs": [*result("a")["outputs"], *result("b")["outputs"]]}

    assert [answer["text"] for answer in one_or_all(generations("r1", several, 1))] == ["a", "b"]
    assert one_or_all(generations("r1", result("a"), 1))["text"] == "a"


def test_an_unfinished_answer_holds_all_of_the_text_so_far():
    """As SGLang streams it: no reason yet."""
    assert partial("r1", "a", 1) == {
        "text": "a",
        "meta_info": {"id": "r1", "completion_tokens": 1, "finish_reason": None},
    }


def test_a_bad_end_is_raised_as_its_problem():
    """With the status it had where it was written."""
    problem = Problem("too_wide", "201 to 1", 400, "image_data")

    with pytest.raises(EndedBadly) as caught:
        result_of(Ended(State.REJECTED, problem, None))

    assert caught.value.problem == problem
    assert caught.value.status == 400


def test_an_end_without_result_and_problem_is_our_fault():
    """It cannot be, and still gets an answer."""
    with pytest.raises(EndedBadly) as caught:
        result_of(Ended(State.DONE, None, None))

    assert (caught.value.problem.code, caught.value.problem.status) == ("internal_error", 500)


def test_an_empty_result_is_a_result():
    """Falsy is not absent."""
    assert result_of(Ended(State.DONE, None, {})) == {}


def test_the_status_of_a_request_tells_its_way_and_nothing_of_its_content():
    """States, times, attempts; never the body."""
    told = status(record(state=State.PROCESSING, times_ms={"accepted": 1000}, node="", worker_ms={"decode": 1.5}), "r1")

    assert told == {
        "rid": "r1",
        "state": "processing",
        "position": None,
        "model": "toy",
        "attempt": 2,
        "node": None,
        "deadline_ms": 9000,
        "times_ms": {"accepted": 1000},
        "worker_ms": {"decode": 1.5},
        "error": None,
        "result": None,
    }


def test_the_status_of_a_done_request_holds_the_answer_as_the_caller_would_have_got_it():
    """The latency is the record's."""
    told = status(record(result=result("a b")), "r1")

    assert told["result"]["text"] == "a b"
    assert told["result"]["meta_info"]["e2e_latency"] == 1.5


def test_the_status_of_a_done_preprocessing_holds_its_description():
    """In the shape of its own route."""
    told = status(record(kind="preprocess", result={"input_ids": [1]}), "r1")

    assert told["result"] == {"rid": "r1", "model": "toy", "input_ids": [1]}


def test_the_status_of_a_bad_end_holds_its_error():
    """In the one shape of errors, without the envelope."""
    told = status(record(state=State.REJECTED, problem=Problem("x", "no", 400, "text")), "r1")

    assert told["error"] == {
        "type": "invalid_request_error",
        "code": "x",
        "message": "no",
        "param": "text",
        "rid": "r1",
    }
    assert told["result"] is None


# An answer that grows.


def test_pieces_of_one_claim_add_up():
    """Text and tokens."""
    answer = Growth()

    assert [answer.take(Piece("c1", number, text, 1)) for number, text in enumerate(["a", "", "b"])] == [True] * 3
    assert answer.of(0) == ("ab", 3)


def test_a_piece_that_comes_twice_changes_nothing():
    """redis-py sends a call again after a time-out, and the event comes twice."""
    answer = Growth()
    for number in (0, 1):
        answer.take(Piece("c1", number, "ab"[number], 1))

    assert not answer.take(Piece("c1", 1, "b", 1))
    assert not answer.take(Piece("c1", 0, "a", 1))
    assert answer.of(0) == ("ab", 2)


def test_a_new_claim_begins_the_answer_anew():
    """Another scheduler started from the prompt: what the first said is not part of its answer."""
    answer = Growth()
    for number in (0, 1):
        answer.take(Piece("c1", number, "old", 1))

    assert answer.take(Piece("c2", 0, "new", 1))
    assert answer.of(0) == ("new", 1)
    assert not answer.take(Piece("c2", 0, "new", 1))


def test_several_answers_grow_side_by_side():
    """Each piece says which one it belongs to."""
    growth = Growth()
    for number, (text, sample) in enumerate([("a", 0), ("x", 1), ("b", 0)]):
        growth.take(Piece("c1", number, text, 1, sample))

    assert (growth.of(0), growth.of(1), growth.of(2)) == (("ab", 2), ("x", 1), ("", 0))
