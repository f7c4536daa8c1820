"""Logs are events: a name, fields, one line."""

import logging
import re

import pytest

from forebay.logs import EventFormatter, set_up


def line_of(message="segment sealed", part="worker", exc_info=None, **extra):
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "process": 7, "exc_info": exc_info, **extra})
    return EventFormatter(part).format(record)


def test_an_event_without_fields_is_its_name():
    """Time, level, part and process come first."""
    assert re.fullmatch(r"[\d-]+ [\d:,]+ INFO    worker\[7\]  segment sealed", line_of())


def test_fields_follow_the_name():
    """As name=value, in the order given."""
    assert line_of(rid="r1", size_bytes=3, share=0.5, none=None).endswith(
        "segment sealed  rid=r1 size_bytes=3 share=0.5 none=None"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a b", '"a b"'), ("", '""'), ('say "x"', r'"say \"x\""'), ("a=b", '"a=b"'), ("a\nb", r'"a\nb"')],
)
def test_a_value_that_would_break_the_line_is_quoted(value, shown):
    """One event stays one line, and a field cannot pretend to be two."""
    assert line_of(rid=value).endswith(f"  rid={shown}")


def test_fields_stand_before_the_traceback():
    """The first line of an error tells whose it is."""
    try:
        raise ValueError("inside")
    except ValueError as error:
        text = line_of(rid="r1", exc_info=(type(error), error, error.__traceback__))

    head, *rest = text.split("\n")
    assert head.endswith("segment sealed  rid=r1")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "ValueError: inside"


def test_what_others_hang_on_a_record_is_no_field():
    """Celery puts its objects there."""
    assert line_of(data={"x": 1}, color_message="m").endswith("segment sealed")


@pytest.fixture
def logging_as_it_was():
    root = logging.getLogger()
    before = (root.level, root.handlers[:])
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]


@pytest.mark.usefixtures("logging_as_it_was")
def test_every_logger_speaks_in_events_on_standard_error(capsys):
    """Standard output belongs to the command; chatty libraries are heard only when something is wrong."""
    set_up("api", "INFO")

    logging.getLogger("some.library").info("heard", extra={"rid": "r1"})
    logging.getLogger("some.library").debug("not heard")
    logging.getLogger("httpx").info("not heard either")

    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.endswith("heard  rid=r1\n")
