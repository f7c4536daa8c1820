"""The body of a request: every shape that callers send, and what it is refused for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.body import read_call
from api.incoming import Incoming, Source
from api.limits import Limits
from forebay import Modality, Prompt, Rejected

SURROGATE = "\\ud800"  # as JSON spells one half of a pair


MAX_ITEMS = Limits().items


def read_incoming(raw: bytes) -> Incoming:
    return read_call(raw).only


def read(**fields: Any) -> Incoming:
    return read_incoming(json.dumps(fields).encode())


def refused(raw: bytes | None = None, **fields: Any) -> Rejected:
    """What a body is refused with; it must be a client's error that UTF-8 can carry."""
    with pytest.raises(Rejected) as caught:
        read_incoming(json.dumps(fields).encode() if raw is None else raw)
    assert 400 <= caught.value.status < 500
    caught.value.message.encode()
    return caught.value


def with_text(rest: str) -> bytes:
    """A body that is right but for ``rest``, spelled as JSON."""
    return f'{{"text": "a", {rest}}}'.encode()


def test_the_smallest_body_is_a_text():
    """Everything else has a default."""
    assert read(text="Hi") == Incoming(Prompt(text="Hi"), ())


def test_every_field_finds_its_place():
    """One body with all of it."""
    incoming = read(
        input_ids=[1, 2],
        image_data=["a"],
        video_data="v",
        audio_data={"url": "b"},
        mm_hashes=["ff"],
        sampling_params={"max_new_tokens": 3, "temperature": 0.5},
        stream=True,
        rid="r-1",
        model="toy",
        priority=-100,
        timeout_s=1.5,
        features="none",
        multimodal_x=[1, None],
    )

    assert incoming == Incoming(
        prompt=Prompt(ids=(1, 2)),
        sources=(
            Source(Modality.IMAGE, "a", "image_data[0]"),
            Source(Modality.VIDEO, "v", "video_data"),
            Source(Modality.AUDIO, "b", "audio_data"),
        ),
        caller_hashes=("ff",),
        extensions={"multimodal_x": [1, None]},
        sampling={"max_new_tokens": 3, "temperature": 0.5},
        stream=True,
        rid="r-1",
        model="toy",
        priority=-100,
        timeout_ms=1500,
        features="none",
    )


# Media.


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("a", ["a"]),
        ({"url": "a"}, ["a"]),
        ({"url": "a", "detail": None, "max_pixels": 5}, ["a"]),
        (["a"], ["a"]),
        (["a", {"url": "b"}], ["a", "b"]),
        (["a", None], ["a"]),
        ([None, "b"], ["b"]),
        ([], []),
        ([None], []),
        (None, []),
        ("", [""]),
    ],
)
@pytest.mark.parametrize("name", ["image_data", "video_data", "audio_data"])
def test_one_item_or_a_flat_list_of_them_with_nulls_dropped(name, value, texts):
    """A scalar, an object with a URL, a list; an empty string is an item, and is refused when it is resolved."""
    incoming = read(text="a", **{name: value})

    assert [source.text for source in incoming.sources] == texts


def test_an_item_keeps_the_place_where_the_caller_put_it():
    """A null before it does not shift the number that an error names."""
    incoming = read(text="a", image_data=[None, "b"])

    assert incoming.sources == (Source(Modality.IMAGE, "b", "image_data[1]"),)


@pytest.mark.parametrize(
    ("value", "param", "said"),
    [
        ([["a"]], "image_data[0]", "a nested list is the batch form"),
        ([[]], "image_data[0]", "a nested list"),
        (["a", ["b"]], "image_data[1]", "a nested list"),
        ([[["a"]]], "image_data[0]", "a nested list"),
        (5, "image_data", "not a number"),
        (0, "image_data", "not a number"),
        (1.5, "image_data", "not a number"),
        (True, "image_data", "not a boolean"),
        (False, "image_data", "not a boolean"),
        (["a", 5], "image_data[1]", "not a number"),
        ({}, "image_data", "a non-empty 'url'"),
        ({"url": ""}, "image_data", "a non-empty 'url'"),
        ({"url": None}, "image_data", "a non-empty 'url'"),
        ({"url": 5}, "image_data", "a non-empty 'url'"),
        ({"url": ["a"]}, "image_data", "a non-empty 'url'"),
        ([{"format": "x"}], "image_data[0].format", "a non-empty 'url'"),
    ],
)
def test_another_shape_of_media_is_refused_by_its_place(value, param, said):
    """The message names the item and what it is."""
    error = refused(text="a", image_data=value)

    assert (error.code, error.param) == ("invalid_media", param)
    assert said in error.message
    assert error.message.startswith(param)


def test_items_are_counted_over_all_modalities_before_any_is_looked_at():
    """The limit and the number; nulls do not count."""
    assert len(read(text="a", image_data=["x"] * MAX_ITEMS + [None]).sources) == MAX_ITEMS

    error = refused(text="a", image_data=["x"] * MAX_ITEMS, audio_data="y")

    assert error.code == "too_many_items"
    assert "65 media items; the limit is 64" in error.message


# The prompt.


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({}, "text", "either text or input_ids must be given"),
        ({"text": None}, "text", "either text or input_ids must be given"),
        ({"text": "a", "input_ids": [1]}, "input_ids", "not both"),
        ({"text": "a", "input_ids": []}, "input_ids", "not both"),
        ({"text": ""}, "text", "text cannot be empty"),
        ({"input_ids": []}, "input_ids", "input_ids cannot be empty"),
    ],
)
def test_a_prompt_is_a_text_or_ids_and_never_both_or_nothing(fields, param, said):
    """C066: the text does not win silently."""
    error = refused(**fields)

    assert (error.code, error.param) == ("invalid_prompt", param)
    assert said in error.message


@pytest.mark.parametrize("ids", [[1.5], [1.0], [True], [-1], [2**63], ["1"], [None], [{}]])
def test_an_id_is_a_whole_number_that_fits_an_int64(ids):
    """C066: nothing is rounded, parsed or wrapped; the position is named."""
    error = refused(input_ids=ids)

    assert (error.code, error.param) == ("invalid_request", "input_ids[0]")


def test_the_largest_id_passes():
    """Whether the vocabulary has it is the worker's question."""
    assert read(input_ids=[0, 2**63 - 1]).prompt.ids == (0, 2**63 - 1)


@pytest.mark.parametrize(("field", "value"), [("input_ids", "1,2"), ("input_ids", 5), ("text", 5), ("text", {})])
def test_a_prompt_of_another_type_is_refused(field, value):
    """By the field's name."""
    error = refused(**{field: value})

    assert (error.code, error.param) == ("invalid_request", field)


# Known fields of a wrong type, unknown fields, null.


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stream", "yes"),
        ("stream", 1),
        ("rid", 5),
        ("rid", [5]),
        ("model", 5),
        ("priority", 1.0),
        ("priority", "1"),
        ("priority", True),
        ("timeout_s", "1"),
        ("timeout_s", True),
        ("sampling_params", [1]),
        ("sampling_params", "x"),
        ("mm_hashes", "ff"),
        ("mm_hashes", [255]),
        ("mm_hashes", {}),
        ("features", "all"),
        ("features", 1),
    ],
)
def test_a_known_field_of_a_wrong_type_is_refused_by_its_path(field, value):
    """Nothing is coerced: a caller that sends another type means another thing."""
    error = refused(text="a", **{field: value})

    assert error.code == "invalid_request"
    assert (error.param or "").startswith(field)
    assert error.message.startswith(error.param or "?")


def test_unknown_fields_are_ignored_whatever_they_hold():
    """Clients of other servers send theirs; only ``multimodal_`` means something to us."""
    rest = f'"return_logprob": 5, "MULTIMODAL_X": 1, "__class__": 2, "model_config": [], "{SURROGATE}": "{SURROGATE}"'

    assert read_incoming(with_text(rest)) == read(text="a")


def test_an_unknown_number_beyond_what_we_could_carry_is_ignored_too():
    """It is never carried."""
    assert read_incoming(with_text('"x": 18446744073709551616, "y": 1e999')) == read(text="a")


def test_null_is_absent_for_every_field():
    """Client libraries send all of their fields."""
    names = ["input_ids", "image_data", "mm_hashes", "sampling_params", "stream", "rid", "model", "priority"]
    names += ["timeout_s", "features", "multimodal_x", "audio_data", "video_data"]

    assert read(text="a", **dict.fromkeys(names)) == read(text="a")


def test_of_a_key_given_twice_the_last_one_wins():
    """As JSON parsers do."""
    assert read_incoming(b'{"text": "a", "text": "b"}').prompt.text == "b"


# JSON.


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not JSON"),
        (b"{not json", "not JSON"),
        (b'{"text": "a"', "not JSON"),
        (b"\xff\xfe\xfd", "not JSON"),
        (b"\x1f\x8b\x08", "not JSON"),  # gzip
        (b"[1]", "a JSON object, not a list"),
        (b'"a"', "a JSON object, not a string"),
        (b"5", "a JSON object, not a number"),
        (b"true", "a JSON object, not a boolean"),
        (b"null", "a JSON object, not null"),
        (with_text('"multimodal_x": NaN'), "NaN is not a JSON number"),
        (with_text('"multimodal_x": [Infinity]'), "Infinity is not a JSON number"),
        (with_text('"y": -Infinity'), "-Infinity is not a JSON number"),
        (with_text('"y": ' + "[" * 100_000 + "]" * 100_000), "nested too deeply"),
    ],
)
def test_what_is_no_strict_json_object_is_refused(raw, said):
    """C061: what Python would read and nobody could answer in JSON is refused at the door."""
    error = refused(raw)

    assert error.code == "invalid_json"
    assert said in error.message


# What is carried unread.


@pytest.mark.parametrize("value", [18446744073709551615, -9223372036854775808, 0, False, "", {}, [], [None], 0.1, "é"])
def test_an_extension_is_kept_exactly_as_it_came(value):
    """C063: the host interprets none of it; only null is absent."""
    incoming = read(text="a", multimodal_x=value)

    assert incoming.extensions == {"multimodal_x": value}
    assert type(incoming.extensions["multimodal_x"]) is type(value)


@pytest.mark.parametrize(
    ("spelled", "code", "param"),
    [
        ('"multimodal_x": 18446744073709551616', "invalid_number", "multimodal_x"),
        ('"multimodal_x": -9223372036854775809', "invalid_number", "multimodal_x"),
        ('"multimodal_x": 1e999', "invalid_number", "multimodal_x"),
        ('"multimodal_x": {"a": [1, -1e999]}', "invalid_number", "multimodal_x.a[1]"),
        (f'"multimodal_x": ["{SURROGATE}"]', "invalid_text", "multimodal_x[0]"),
        (f'"multimodal_x": {{"{SURROGATE}": 1}}', "invalid_text", "multimodal_x"),
        (f'"multimodal_{SURROGATE}": 1', "invalid_text", "the name of a field"),
        ('"sampling_params": {"top_p": 18446744073709551616}', "invalid_number", "sampling_params.top_p"),
        ('"sampling_params": {"top_p": 1e999}', "invalid_number", "sampling_params.top_p"),
        ('"sampling_params": {"max_new_tokens": 18446744073709551616}', "invalid_number",
         "sampling_params.max_new_tokens"),
        (f'"sampling_params": {{"stop": "{SURROGATE}"}}', "invalid_text", "sampling_params.stop"),
        (f'"sampling_params": {{"{SURROGATE}": 1}}', "invalid_text", "sampling_params"),
        (f'"mm_hashes": ["ff", "{SURROGATE}"]', "invalid_text", "mm_hashes[1]"),
        (f'"rid": "{SURROGATE}"', "invalid_rid", "rid"),
        (f'"features": "{SURROGATE}"', "invalid_request", "features"),
        ('"timeout_s": 1e999', "invalid_request", "timeout_s"),
        ('"priority": 1e999', "invalid_request", "priority"),
        ('"priority": 18446744073709551616', "invalid_request", "priority"),
    ],
)  # fmt: skip
def test_what_could_not_travel_exactly_is_refused_by_its_path(spelled, code, param):
    """C061, C063: numbers beyond 64 bits or infinite, and text that is no text; in every field that is carried."""
    error = refused(with_text(spelled))

    assert (error.code, error.param) == (code, param)


def test_a_lone_surrogate_in_the_prompt_is_refused():
    """It is no Unicode, and no tokenizer takes it; spelled in JSON or as bytes."""
    for raw in (f'{{"text": "a{SURROGATE}"}}'.encode(), b'{"text": "a\xed\xa0\x80"}'):
        error = refused(raw)
        assert (error.code, error.param) == ("invalid_text", "text")


# Bounds.


@pytest.mark.parametrize("priority", [-100, 0, 100])
def test_a_priority_within_its_bounds_passes(priority):
    """Both ends are inclusive: the index has no room for more."""
    assert read(text="a", priority=priority).priority == priority


@pytest.mark.parametrize("priority", [-101, 101, 10**30])
def test_a_priority_beyond_its_bounds_is_refused(priority):
    """It would be cut silently otherwise."""
    error = refused(text="a", priority=priority)

    assert error.param == "priority"
    assert "100" in error.message


@pytest.mark.parametrize(("seconds", "ms"), [(600, 600_000), (0.0001, 1), (1, 1000), (1.5, 1500)])
def test_a_timeout_becomes_whole_milliseconds_and_at_least_one(seconds, ms):
    """600 seconds are the most."""
    assert read(text="a", timeout_s=seconds).timeout_ms == ms


@pytest.mark.parametrize("seconds", [0, -1, 600.1, 601])
def test_a_timeout_beyond_its_bounds_is_refused(seconds):
    """Media are kept only a little longer than the longest deadline."""
    assert refused(text="a", timeout_s=seconds).param == "timeout_s"


@pytest.mark.parametrize("rid", ["a", "x" * 128, "job/1", "!~#?%", "r_0"])
def test_a_request_id_is_printable_ascii_of_up_to_128(rid):
    """It stands in keys, logs and paths."""
    assert read(text="a", rid=rid).rid == rid


def test_an_empty_request_id_is_none():
    """As the original takes it: one is made."""
    assert read(text="a", rid="").rid is None


@pytest.mark.parametrize("rid", ["a b", "\n", "a\n", "é", "x" * 129, "\x7f", " "])
def test_another_request_id_is_refused_with_its_length(rid):
    """The id itself is not repeated: it may be anything."""
    error = refused(text="a", rid=rid)

    assert (error.code, error.param) == ("invalid_rid", "rid")
    assert f"got {len(rid)} characters" in error.message


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"max_new_tokens": 0}, "must be a whole number of at least 1, got 0"),
        ({"max_new_tokens": -3}, "got -3"),
        ({"max_new_tokens": 1.5}, "got 1.5"),
        ({"max_new_tokens": 1.0}, "got 1.0"),
        ({"max_new_tokens": True}, "got a boolean"),
        ({"max_new_tokens": "x" * 500}, "got a string"),
        ({"max_new_tokens": [[1] * 500]}, "got a list"),
        ({"n": 0}, "must be a whole number from 1 to 128, got 0"),
        ({"n": 129}, "got 129"),
        ({"n": True}, "got a boolean"),
        ({"n": "1"}, "got a string"),
    ],
)
def test_sampling_bounds_are_held_with_the_value_that_breaks_them(params, said):
    """How many tokens, and how many answers; what a caller sends of any length is not repeated."""
    (key,) = params
    error = refused(text="a", sampling_params=params)

    assert (error.code, error.param) == ("invalid_request", f"sampling_params.{key}")
    assert said in error.message
    assert len(error.message) < 150


@pytest.mark.parametrize("params", [{}, {"max_new_tokens": 1}, {"stop": ["x"], "x": {"y": None}}])
def test_the_rest_of_sampling_is_the_engines_business(params):
    """Carried untouched."""
    assert read(text="a", sampling_params=params).sampling == params


@pytest.mark.parametrize("stop", [5, {}, ["x", None], [5], True])
def test_stops_are_texts(stop):
    """The scheduler looks for them."""
    assert refused(text="a", sampling_params={"stop": stop}).param == "sampling_params.stop"


def test_null_is_absent_in_sampling_too():
    """An engine takes its default, instead of failing over a null."""
    assert read(text="a", sampling_params={"max_new_tokens": None, "n": None, "x": 0}).sampling == {"x": 0}


def test_several_answers_are_wanted_of_the_tier_and_not_of_the_engine():
    """It sees each of them as a request of its own."""
    incoming = read(text="a", sampling_params={"n": 3, "x": 0})

    assert (incoming.samples, incoming.sampling) == (3, {"x": 0})
    assert read(text="a").samples == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("rid", ["a"]), ("sampling_params", [{}]), ("mm_hashes", [["ff"]]), ("mm_hashes", [None])],
)
def test_what_is_said_for_each_prompt_of_a_batch_is_nothing_for_a_single_request(field, value):
    """A list of one is a list."""
    assert refused(text="a", **{field: value}).param == field


def test_hashes_that_are_no_hexadecimal_pass_the_door():
    """The worker keeps its own for those, and warns; the count is its business too."""
    assert read(text="a", mm_hashes=["zz", "", "0x10"]).caller_hashes == ("zz", "", "0x10")


def test_an_integer_of_thousands_of_digits_is_named_by_its_field():
    """Python would not even read it; the caller still learns where it stands."""
    raw = b'{"text": "x", "multimodal_x": {"y": ' + b"9" * 5000 + b"}}"

    assert refused(raw).message == "multimodal_x.y is an integer beyond 64 bits"
