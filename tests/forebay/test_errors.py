"""Errors as they travel: whose fault, which code, and nothing of the inside."""

import json

import pytest

from forebay import ConfigurationError, Failed, ForebayError, Rejected, State
from forebay.errors import MOST_MESSAGE, MOST_PARAM, Problem
from forebay.states import ENDS, WAY


def test_a_rejection_keeps_what_the_caller_can_act_on():
    """Code, sentence, field and status."""
    problem = Problem.of(Rejected("media_too_large", "image 2 is 41 MiB", param="image_data[1]", status=413))

    assert problem == Problem("media_too_large", "image 2 is 41 MiB", 413, "image_data[1]")
    assert problem.body("r1") == {
        "error": {
            "type": "invalid_request_error",
            "code": "media_too_large",
            "message": "image 2 is 41 MiB",
            "param": "image_data[1]",
            "rid": "r1",
        }
    }


def test_a_failure_says_when_to_come_back():
    """And that it is ours."""
    problem = Problem.of(Failed("pool_full", "no room", status=503, retry_after_s=5))

    assert (problem.type, problem.status, problem.retry_after_s) == ("server_error", 503, 5)


@pytest.mark.parametrize("error", [RuntimeError("password=hunter2"), KeyError("x"), ConfigurationError("/etc/key")])
def test_what_nobody_foresaw_tells_the_caller_nothing_of_its_inside(error):
    """The log has it, under the request's id."""
    problem = Problem.of(error)

    assert (problem.code, problem.status, problem.type) == ("internal_error", 500, "server_error")
    assert str(error) not in problem.message


@pytest.mark.parametrize("problem", [Problem("a", "b", 400, "c"), Problem("a", "b", 503, retry_after_s=5)])
def test_a_problem_survives_the_record(problem):
    """What the record keeps is what the caller reads."""
    assert Problem.from_map(problem.as_map()) == problem


def test_a_caller_reads_little_of_what_he_sent():
    """The numbers at either end of the sentence stay."""
    problem = Problem.of(Rejected("a", f"multimodal_{'k' * 10**6} has 3 entries for 2 prompts", param="p" * 10**6))

    assert len(problem.message) <= MOST_MESSAGE
    assert problem.message.startswith("multimodal_kkk")
    assert problem.message.endswith("kkk has 3 entries for 2 prompts")
    assert len(problem.param) <= MOST_PARAM


def test_half_a_character_of_a_callers_name_does_not_stop_the_answer():
    """JSON is UTF-8, which has no surrogates."""
    problem = Problem.of(Rejected("a", "multimodal_\ud800 is bad", param="multimodal_\ud800"))

    assert json.dumps(problem.body(None), ensure_ascii=False).encode()
    assert (problem.message, problem.param) == ("multimodal_? is bad", "multimodal_?")


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (499, "invalid_request_error"), (500, "server_error")]
)
def test_fault_follows_the_status(status, kind):
    """Below 500 the caller can mend it."""
    assert Problem("a", "b", status).type == kind


def test_every_error_of_ours_has_one_root():
    """One except clause catches what we raise on purpose, and nothing else."""
    assert all(issubclass(kind, ForebayError) for kind in (ConfigurationError, Failed, Rejected))
    assert str(Rejected("a", "the message")) == "the message"


def test_the_way_has_one_good_end():
    """Five ends, of which the way reaches one."""
    assert {state for state in State if state.is_end} == ENDS
    assert [state for state in WAY if state.is_end] == [State.DONE]
    assert len(ENDS) == 5
