"""Where media come from: base64 and ``data:`` URLs as people send them, and what is refused in which words."""

from __future__ import annotations

import base64
import json
import textwrap

import pytest

from api.chat_body import read_chat
from api.limits import Limits
from api.sources import resolve
from forebay import Rejected
from tests.support.media import plain_png

# Its base64 has both letters that the URL-safe alphabet spells otherwise, and one '=' at its end.
DATA = bytes([250, 251, 252, 253, 254, 255, 0, 1])
PLAIN = "+vv8/f7/AAE="
LIMIT = 1 << 20


def refused(source: str, limit: int = LIMIT) -> Rejected:
    with pytest.raises(Rejected) as caught:
        resolve(source, "image_data[1]", limit)
    assert caught.value.param == "image_data[1]"
    assert caught.value.message.startswith("image_data[1]")
    caught.value.message.encode()
    return caught.value


def test_the_example_is_what_it_says():
    """The tables below rest on it."""
    assert base64.b64encode(DATA).decode() == PLAIN


@pytest.mark.parametrize(
    "source",
    [
        f"data:image/png;base64,{PLAIN}",
        f"data:image/png;charset=utf-8;base64,{PLAIN}",
        f"DATA:image/png;base64,{PLAIN}",
        f"data:;base64,{PLAIN}",
        f"data:image/png;BASE64,{PLAIN}",
        f"data:;base64, {PLAIN}\n",
        "data:;base64,%2Bvv8/f7/AAE%3D",
        "data:;base64,-vv8_f7_AAE",
        f"data:text/html;base64,{PLAIN}",
    ],
)
def test_a_data_url_is_read_whatever_its_parameters(source):
    """C070: the last ';' decides, the scheme has no case, the type is not trusted."""
    assert resolve(source, "image_data", LIMIT) == DATA


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("data:image/png,plain", "a data: URL without ';base64'"),
        ("data:,", "a data: URL without ';base64'"),
        ("data:image/png;base64", "a data: URL without a comma"),
        ("data:", "a data: URL without a comma"),
        (f"data:base64,{PLAIN}", "a data: URL without ';base64'"),
    ],
)
def test_a_data_url_that_lacks_something_is_told_what(source, said):
    """C070: the message names what is missing, and repeats nothing of the payload."""
    error = refused(source)

    assert error.code == "invalid_data_url"
    assert error.message == f"image_data[1]: {said}"


def wrapped(data: bytes, newline: str) -> str:
    return newline.join(textwrap.wrap(base64.b64encode(data).decode(), 76))


PNG = plain_png(40, 30)


@pytest.mark.parametrize(
    "source",
    [
        base64.b64encode(PNG).decode(),
        wrapped(PNG, "\n"),
        wrapped(PNG, "\r\n"),
        wrapped(PNG, " "),
        f"  {wrapped(PNG, chr(10))}\n",
        base64.b64encode(PNG).decode().rstrip("="),
        base64.urlsafe_b64encode(PNG).decode(),
        base64.urlsafe_b64encode(PNG).decode().rstrip("="),
        f"data:image/png;base64,{wrapped(PNG, chr(10))}",
    ],
)
def test_base64_is_taken_as_mail_and_scripts_write_it(source):
    """C071: line breaks, blanks, missing padding, the URL-safe alphabet; the same bytes each time."""
    assert resolve(source, "image_data", LIMIT) == PNG


@pytest.mark.parametrize("data", [wrapped(PNG, "\n"), base64.b64encode(PNG).decode().rstrip("=")])
def test_a_part_of_a_conversation_is_read_as_leniently(data):
    """C071: ``input_audio`` has bare base64 too."""
    part = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    body = {"messages": [{"role": "user", "content": [part]}]}

    [source] = read_chat(json.dumps(body).encode(), Limits()).call.only.sources

    assert resolve(source.text, source.param, LIMIT) == PNG


@pytest.mark.parametrize(
    ("source", "data"),
    [("QQ==", b"A"), ("QQ=", b"A"), ("QQ", b"A"), ("QUI=", b"AB"), ("QUI", b"AB"), ("Q U\tJ\fD", b"ABC")],
)
def test_padding_may_lack_one_sign_or_all(source, data):
    """C071: what is meant is clear without it."""
    assert resolve(source, "image_data", LIMIT) == data


@pytest.mark.parametrize(
    "source",
    [
        "+vv8!/f7/AAE=",
        "+vv8/f7/AAE=AAAA",
        "data:image/png;base64,+vv8!/f7/AAE=",
        "Q",
        "QUJDR",
        "=",
        "QQ===",
        "QUI==",
        "QUJD=",
        "+_v8",  # two alphabets in one
        "+vv8\x00",
        "/tmp/cat.png",
        "~/cat",
        "Zürich==",
        "\ud800",
        "QQ\u00a0==",
    ],
)
def test_junk_in_or_after_base64_is_refused(source):
    """C074: nothing is skipped, nothing is guessed to be a path."""
    assert refused(source).code == "invalid_base64"


@pytest.mark.parametrize("source", ["", " \n", "data:image/png;base64,", "data:;base64, "])
def test_nothing_is_empty_rather_than_invalid(source):
    """C074: a caller learns which of the two it was."""
    error = refused(source)

    assert (error.code, error.message) == ("empty_media", "image_data[1] is empty")


@pytest.mark.parametrize(
    ("source", "scheme"),
    [
        ("ftp://example.org/a.png?key=secret", "ftp"),
        ("s3://bucket/a", "s3"),
        ("javascript:alert(1)", "javascript"),
        ("C:/pictures/cat.png", "c"),
    ],
)
def test_another_kind_of_source_is_refused_by_its_scheme(source, scheme):
    """Nothing is opened or fetched; what follows the scheme is not repeated."""
    error = refused(source)

    assert error.code == "unsupported_source"
    assert (
        error.message
        == f"image_data[1]: {scheme!r} sources are not supported; send base64, a URL or the id of an upload"
    )


def test_a_path_in_the_letters_of_base64_is_base64():
    """A string is never guessed to be a path; the bytes it spells are no picture, and a worker says so."""
    assert resolve("/etc/passwd", "image_data", LIMIT) == base64.b64decode("/etc/passwd=")


@pytest.mark.parametrize(
    ("size", "source"),
    [
        (9, base64.b64encode(b"123456789").decode()),
        (9, f"data:;base64,{base64.b64encode(b'123456789').decode()}"),
        (8, PLAIN.rstrip("=")),
    ],
)
def test_one_byte_above_the_limit_is_refused_with_both_numbers(size, source):
    """And the limit itself passes."""
    assert len(resolve(source, "image_data", size)) == size

    error = refused(source, limit=size - 1)

    assert (error.code, error.status) == ("media_too_large", 413)
    assert error.message == f"image_data[1] is {size} bytes; the limit is {size - 1}"


def test_far_above_the_limit_is_refused_before_it_is_decoded():
    """Even what is no base64 at all; the size is then what the characters could stand for."""
    error = refused("!" * 4000, limit=1000)

    assert error.message == "image_data[1] is 3000 bytes; the limit is 1000"


def test_a_message_quotes_at_most_a_short_prefix():
    """Logs and answers must not carry whole pictures, or what a URL keeps secret."""
    error = refused("!" + "A" * 5000)

    assert error.message == "image_data[1]: invalid base64 ('!" + "A" * 23 + "…')"
