"""The body of a conversation: every kind of part, and what each mistake is called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.chat_body import read_chat
from api.incoming import Incoming, Source
from api.limits import Limits
from forebay import Modality, Rejected

IMAGE = {"type": "image_url", "image_url": {"url": "I"}}


def read(*, limits: Limits | None = None, **fields: Any) -> Incoming:
    return read_chat(json.dumps(fields).encode(), limits or Limits()).call.only


def of(*parts: Any, **fields: Any) -> Incoming:
    """A conversation of one message with these parts."""
    return read(messages=[{"role": "user", "content": list(parts)}], **fields)


def refused(**fields: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        read(**fields)
    assert caught.value.status == 400 or caught.value.status == 413
    return caught.value


def test_the_smallest_conversation_is_one_message():
    """Everything else has a default."""
    incoming = read(messages=[{"role": "user", "content": "Hi"}])

    assert incoming.prompt.chat.messages == [{"role": "user", "content": "Hi"}]
    assert (incoming.sources, incoming.sampling, incoming.samples, incoming.stream) == ((), {}, 1, False)


@pytest.mark.parametrize(
    ("part", "modality", "text", "param"),
    [
        ({"type": "image_url", "image_url": {"url": "I"}}, "image", "I", "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "I", "detail": None}}, "image", "I", "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "I", "detail": "low"}}, "image", "I", "image_url.url"),
        ({"type": "image_url", "image_url": "I"}, "image", "I", "image_url"),
        ({"type": "video_url", "video_url": {"url": "V"}}, "video", "V", "video_url.url"),
        ({"type": "audio_url", "audio_url": {"url": "A"}}, "audio", "A", "audio_url.url"),
        ({"type": "input_audio", "input_audio": {"data": "A", "format": "wav"}}, "audio", "A", "input_audio.data"),
    ],
)
def test_every_kind_of_media_part_is_taken(part, modality, text, param):
    """C065: as clients send it; the template gets the part, the tier the item with its place."""
    incoming = of({"type": "text", "text": "What?"}, part)

    assert incoming.sources == (Source(Modality(modality), text, f"messages[0].content[1].{param}"),)
    assert incoming.prompt.chat.messages[0]["content"] == [{"type": "text", "text": "What?"}, {"type": modality}]


def test_items_keep_their_order_over_all_messages():
    """C041: by modality, as their parts stand."""
    sound = {"type": "input_audio", "input_audio": {"data": "A"}}
    other = {"type": "image_url", "image_url": "J"}
    incoming = read(messages=[{"role": "user", "content": [sound, IMAGE]}, {"role": "user", "content": [other]}])

    assert [source.text for source in incoming.sources] == ["I", "J", "A"]


@pytest.mark.parametrize(
    ("content", "param", "said"),
    [
        (None, "messages[0].content", "not null"),
        (5, "messages[0].content", "not a number"),
        ({}, "messages[0].content", "not an object"),
        ([], "messages[0].content", "has no part"),
        (["text"], "messages[0].content[0]", "not a string"),
        ([{}], "messages[0].content[0].type", "must be text or one of image_url"),
        ([{"type": "image"}], "messages[0].content[0].type", "must be text or one of image_url"),
        ([{"type": []}], "messages[0].content[0].type", "must be text"),
        ([{"type": "text"}], "messages[0].content[0].text", "not null"),
        ([{"type": "text", "text": 5}], "messages[0].content[0].text", "not a number"),
        ([{"type": "image_url"}], "messages[0].content[0].image_url", "not null"),
        ([{"type": "image_url", "image_url": {}}], "messages[0].content[0].image_url.url", "not null"),
        ([{"type": "image_url", "image_url": ""}], "messages[0].content[0].image_url", "not empty"),
        ([{"type": "image_url", "image_url": {"url": 5}}], "messages[0].content[0].image_url.url", "not a number"),
        ([{"type": "input_audio"}], "messages[0].content[0].input_audio.data", "base64"),
        ([{"type": "input_audio", "input_audio": {"data": ""}}], "messages[0].content[0].input_audio.data", "base64"),
    ],
)
def test_a_bad_part_is_named_by_its_place(content, param, said):
    """C065: 400, never 500."""
    error = refused(messages=[{"role": "user", "content": content}])

    assert (error.code, error.param) == ("invalid_request", param)
    assert said in error.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "wizard", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "Hi"}], "n": 0}, "n"),
        ({"messages": [{"role": "user", "content": "Hi"}], "n": 1.5}, "n"),
        ({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "Hi"}], "temperature": 3}, "temperature"),
        ({"messages": [{"role": "user", "content": "Hi"}], "stop": 5}, "stop"),
        ({"messages": [{"role": "user", "content": "Hi"}], "stream_options": 5}, "stream_options"),
    ],
)
def test_a_field_of_a_wrong_kind_is_refused_by_its_name(fields, param):
    """Nothing is coerced."""
    assert (refused(**fields).param or "").startswith(param)


def test_an_assistant_that_only_called_tools_may_have_no_content():
    """And its calls, and the tool's answer, reach the template as they came."""
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    answer = {"role": "tool", "content": "5", "tool_call_id": "c1"}
    incoming = read(messages=[{"role": "user", "content": "Hi"}, call, answer], tools=[{"type": "function"}])

    assert incoming.prompt.chat.messages[1:] == [call, answer]
    assert incoming.prompt.chat.tools == [{"type": "function"}]


def test_a_developer_speaks_as_the_system():
    """The newer name of the same role, which no template knows."""
    assert read(messages=[{"role": "developer", "content": "x"}]).prompt.chat.messages[0]["role"] == "system"


def test_openais_names_become_the_engines():
    """What an engine has under another name is given under that one; the newer name of a field wins."""
    incoming = of(
        {"type": "text", "text": "Hi"}, max_completion_tokens=5, max_tokens=9, n=2, stop=["x"], seed=7, temperature=0,
        stream=True, user="u", logit_bias={},
    )  # fmt: skip

    assert incoming.sampling == {"max_new_tokens": 5, "stop": ["x"], "seed": 7, "temperature": 0}
    assert (incoming.samples, incoming.stream) == (2, True)


def test_extensions_hashes_and_limits_hold_here_too():
    """One request is one request, however it is spelled."""
    incoming = of(IMAGE, multimodal_x=1, mm_hashes=["ff"], rid="r", priority=3, timeout_s=1.5)

    assert (incoming.extensions, incoming.caller_hashes) == ({"multimodal_x": 1}, ("ff",))
    assert (incoming.rid, incoming.priority, incoming.timeout_ms) == ("r", 3, 1500)
    with pytest.raises(Rejected, match="2 items of image_data; the limit is 1"):
        of(IMAGE, IMAGE, limits=Limits(by_modality={Modality.IMAGE: 1}))


def test_what_cannot_be_carried_is_refused():
    """A lone surrogate, a depth without end, a number beyond 64 bits."""
    for text in ('"\\ud800"', '[{"type": "text", "text": "\\ud800"}]'):
        raw = f'{{"messages": [{{"role": "user", "content": {text}}}]}}'.encode()
        with pytest.raises(Rejected, match="lone surrogate"):
            read_chat(raw, Limits())
    raw = b'{"messages": [{"role": "user", "content": "x", "extra": 99999999999999999999}]}'
    with pytest.raises(Rejected, match="beyond 64 bits"):
        read_chat(raw, Limits())


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("stop", '"\\ud800"', "invalid_text"),
        ("stop", '["a", "\\ud800"]', "invalid_text"),
        ("top_k", "1" + "0" * 30, "invalid_number"),
        ("max_tokens", "1" + "0" * 30, "invalid_number"),
        ("stop", '"' + "x" * (2 << 20) + '"', "field_too_large"),
    ],
)
def test_what_the_engine_is_to_get_must_be_fit_to_be_carried(field, value, code):
    """As in sampling_params of /generate; the field is named."""
    raw = f'{{"messages": [{{"role": "user", "content": "x"}}], "{field}": {value}}}'.encode()

    with pytest.raises(Rejected) as caught:
        read_chat(raw, Limits())

    assert caught.value.code == code
    assert caught.value.param.partition("[")[0] in (field, "max_new_tokens")
