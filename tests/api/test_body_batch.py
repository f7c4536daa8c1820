"""A batch: every prompt is asked for exactly as if it had been sent alone, or the whole call is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.body import read_call
from api.incoming import Call, Incoming
from api.limits import Limits, read_limit_mm
from forebay import Modality, Prompt, Rejected


def read(limits: Limits | None = None, **fields: Any) -> Call:
    return read_call(json.dumps(fields).encode(), limits or Limits())


def refused(limits: Limits | None = None, **fields: Any) -> Rejected:
    """What the whole call is refused with."""
    with pytest.raises(Rejected) as caught:
        read(limits, **fields)
    return caught.value


def items(call: Call, modality: Modality = Modality.IMAGE) -> list[list[str]]:
    return [[one.text for one in slot.sources if one.modality is modality] for slot in call.slots]


# what a batch is


def test_a_list_of_prompts_is_a_batch_and_one_prompt_is_none():
    """Even a list of one; its answer is a list too."""
    assert [slot.prompt for slot in read(text=["a", "b"]).slots] == [Prompt(text="a"), Prompt(text="b")]
    assert [slot.prompt for slot in read(input_ids=[[1, 2], [3]]).slots] == [Prompt(ids=(1, 2)), Prompt(ids=(3,))]
    assert [read(text=["a"]).is_batch, read(input_ids=[[1]]).is_batch] == [True, True]
    assert [read(text="a").is_batch, read(input_ids=[1]).is_batch] == [False, False]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"text": []}, "text cannot be empty"),
        ({"input_ids": [[1], []]}, "input_ids[1]: input_ids cannot be empty for any prompt of a batch"),
        ({"input_ids": [[]]}, "input_ids[0]: input_ids cannot be empty"),
        ({"text": ["a"], "input_ids": [[1]]}, "not both"),
        ({"text": ["a", 5]}, "text[1]: "),
        ({"input_ids": [[1], [True]]}, "input_ids[1][0]: "),
        ({"input_ids": [[1], 2]}, "input_ids[1]: "),
        ({"input_ids": [1, [2]]}, "input_ids[1]: "),
    ],
)
def test_prompts_that_are_none_refuse_the_call(fields, said):
    """By the place of the first that is wrong."""
    assert said in refused(**fields).message


def test_an_empty_text_is_its_own_prompts_mistake():
    """The others are answered."""
    empty, good = read(text=["", "b"]).slots

    assert isinstance(empty, Rejected)
    assert (empty.message, empty.param) == ("text[0] cannot be empty", "text[0]")
    assert good.prompt == Prompt(text="b")


def test_a_batch_has_a_largest_size():
    """Both numbers are told."""
    assert len(read(Limits(prompts=3), text=["a"] * 3).slots) == 3
    assert refused(Limits(prompts=3), text=["a"] * 4).message == "batch size 4 exceeds the maximum of 3"
    assert len(read(text=["a"] * 4096).slots) == 4096


# media


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["A", "B"], [["A"], ["B"]]),
        ([["A"], ["B"]], [["A"], ["B"]]),
        ([["A", "B"], ["C"]], [["A", "B"], ["C"]]),
        ([{"url": "A"}, {"url": "B"}], [["A"], ["B"]]),
        ([["A", None], ["B"]], [["A"], ["B"]]),
        ("A", [["A"], ["A"]]),
        ({"url": "A"}, [["A"], ["A"]]),
        ([], [[], []]),
        (None, [[], []]),
        ([None, None], [[], []]),
        ([[], []], [[], []]),
        (["A", None], [["A"], []]),
        ([["A"], None], [["A"], []]),
        ([["A"], []], [["A"], []]),
        ([None, ["B"]], [[], ["B"]]),
        ([[], ["B"]], [[], ["B"]]),
        ([[None], ["B"]], [[], ["B"]]),
        ([None, "B"], [[], ["B"]]),
    ],
)
@pytest.mark.parametrize("name", ["image", "video", "audio"])
def test_media_go_to_prompts_by_position_or_to_all(name, value, expected):
    """C057: nulls are no items, wherever they stand; nesting is not judged by the first element."""
    assert items(read(text=["a", "b"], **{f"{name}_data": value}), Modality(name)) == expected


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["A"], "image_data: list length 1 does not match batch size 2"),
        (["A", "B", "C"], "image_data: list length 3 does not match batch size 2"),
        ([["A"]], "image_data: list length 1 does not match batch size 2"),
        (["A", ["B"]], "cannot mix bare items with lists of items"),
        ([["A"], "B"], "cannot mix"),
        ([["A"], {"url": "B"}], "cannot mix"),
    ],
)
def test_media_of_another_shape_refuse_the_call(value, said):
    """With the numbers that disagree, and nothing of the payload."""
    error = refused(text=["a", "b"], image_data=value)

    assert said in error.message
    assert error.param == "image_data"


def test_a_batch_of_one_takes_a_list_of_lists():
    """C058's first half: two pictures of one prompt."""
    assert items(read(text=["a"], image_data=[["A", "B"]])) == [["A", "B"]]
    assert refused(text=["a"], image_data=["A", "B"]).message == "image_data: list length 2 does not match batch size 1"


@pytest.mark.parametrize(
    ("value", "said", "param"),
    [
        (5, "image_data[1] must be a string or an object with 'url', not a number", "image_data[1]"),
        ({}, "image_data[1]: a media object needs a non-empty 'url'", "image_data[1]"),
    ],
)
def test_a_bad_item_is_its_own_prompts_mistake(value, said, param):
    """Named by its place in the whole body."""
    good, bad = read(text=["a", "b"], image_data=["A", value]).slots

    assert isinstance(good, Incoming)
    assert isinstance(bad, Rejected)
    assert (bad.message, bad.param) == (said, param)


def test_an_item_keeps_its_place_in_the_body():
    """Whichever prompt it goes to."""
    call = read(text=["a", "b"], image_data=[["A", None, "B"], ["C"]])

    assert [[one.param for one in slot.sources] for slot in call.slots] == [
        ["image_data[0][0]", "image_data[0][2]"],
        ["image_data[1][0]"],
    ]


def test_one_item_for_all_must_not_become_too_much():
    """A small body would ask for gigabytes."""
    limits = Limits(broadcast_bytes=10)

    assert items(read(limits, text=["a", "b"], image_data="12345")) == [["12345"]] * 2
    error = refused(limits, text=["a", "b"], image_data={"url": "123456"})
    assert "6 bytes for 2 prompts makes 12 bytes; the limit is 10" in error.message
    assert error.status == 413


def test_too_many_items_are_one_prompts_mistake():
    """In all, or of one modality; an image limit says nothing of videos."""
    limits = Limits(items=3, by_modality={Modality.IMAGE: 1, Modality.VIDEO: 0})
    two, video, four = read(
        limits, text=["a", "b", "c"], image_data=[["A", "B"], [], []], video_data=[None, "V", None],
        audio_data=[[], [], ["A"] * 4],
    ).slots  # fmt: skip

    assert two.message == "2 items of image_data; the limit is 1 a request"
    assert video.message == "1 items of video_data; the limit is 0 a request"
    assert four.message == "the request has 4 media items; the limit is 3"


def test_limits_by_modality_are_read_from_text():
    """And what is none is refused with what was expected."""
    assert read_limit_mm("image=8, video=0") == {Modality.IMAGE: 8, Modality.VIDEO: 0}
    assert read_limit_mm("") == {}
    for wrong in ("image", "pictures=1", "image=x", "image=-1"):
        with pytest.raises(ValueError, match="MODALITY=NUMBER was expected"):
            read_limit_mm(wrong)


# ids, sampling, hashes


def test_ids_are_numbered_or_given():
    """C059: one for all is numbered, a list goes by position."""
    rids = lambda rid: [slot.rid for slot in read(text=["a", "b", "c"], rid=rid).slots]  # noqa: E731

    assert rids("x") == ["x_0", "x_1", "x_2"]
    assert rids(["p", "q", "r"]) == ["p", "q", "r"]
    assert rids(None) == rids("") == [None] * 3


@pytest.mark.parametrize(
    ("rid", "said"),
    [
        (["a", "b"], "rid: list length 2 does not match batch size 3"),
        (["a", "b", "a"], "rid: 'a' stand there twice"),
        (["a", "b c", "d"], "rid[1] must be 1 to 128 printable"),
        ("x" * 127, "got 129 characters"),
    ],
)
def test_ids_that_cannot_be_refuse_the_call(rid, said):
    """C059: wrong number, one twice, one that is none."""
    assert said in refused(text=["a", "b", "c"], rid=rid).message


def test_the_length_of_an_id_is_the_deployments_to_say():
    """C059: 128 by default."""
    assert read(text="a", rid="x" * 200, limits=Limits(rid_length=200)).slots[0].rid == "x" * 200
    assert "must be 1 to 3 printable" in refused(text="a", rid="abcd", limits=Limits(rid_length=3)).message


def test_sampling_is_for_all_or_for_each():
    """By position; a number of its own of answers for each."""
    call = read(text=["a", "b"], sampling_params=[{"max_new_tokens": 1, "n": 2}, {}])

    assert [(slot.sampling, slot.samples) for slot in call.slots] == [({"max_new_tokens": 1}, 2), ({}, 1)]
    assert [slot.sampling for slot in read(text=["a", "b"], sampling_params={"x": 1}).slots] == [{"x": 1}] * 2
    said = "sampling_params: list length 1 does not match batch size 2"
    assert refused(text=["a", "b"], sampling_params=[{}]).message == said


def test_bad_sampling_is_its_own_prompts_mistake():
    """Named by its place."""
    _, bad = read(text=["a", "b"], sampling_params=[{}, {"n": 0}]).slots

    assert isinstance(bad, Rejected)
    assert bad.param == "sampling_params[1].n"


def test_hashes_of_a_batch_are_a_list_for_each_prompt():
    """C056: a flat list does not say whose they are."""
    call = read(text=["a", "b"], image_data=[["A", "B"], ["C"]], mm_hashes=[["1", "2"], None])

    assert [slot.caller_hashes for slot in call.slots] == [("1", "2"), ()]
    assert [slot.caller_hashes for slot in read(text=["a", "b"], mm_hashes=[]).slots] == [(), ()]
    assert "a list of lists, one for each of the 2 prompts" in refused(text=["a", "b"], mm_hashes=["1", "2"]).message
    assert "list length 1 does not match batch size 2" in refused(text=["a", "b"], mm_hashes=[["1"]]).message


# extension fields


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], [{"multimodal_x": 1}, {"multimodal_x": 2}]),
        ([[1], {"a": None}], [{"multimodal_x": [1]}, {"multimodal_x": {"a": None}}]),
        ([], [{"multimodal_x": []}] * 2),
        (5, [{"multimodal_x": 5}] * 2),
        (False, [{"multimodal_x": False}] * 2),
        ("", [{"multimodal_x": ""}] * 2),
        ({}, [{"multimodal_x": {}}] * 2),
        ({"a": [1, 2, 3]}, [{"multimodal_x": {"a": [1, 2, 3]}}] * 2),
        (None, [{}, {}]),
        ([None, 1], [{}, {"multimodal_x": 1}]),
    ],
)
def test_extension_fields_are_split_or_given_to_all(value, expected):
    """A list by position, an empty one and anything else to every prompt; a null is as good as nothing."""
    assert [slot.extensions for slot in read(text=["a", "b"], multimodal_x=value).slots] == expected


def test_an_extension_list_of_another_length_refuses_the_call():
    """Both lengths are told."""
    error = refused(text=["a", "b"], multimodal_x=[1, 2, 3])

    assert (error.message, error.param) == (
        "multimodal_x: list length 3 does not match batch size 2",
        "multimodal_x",
    )


def test_strict_extensions_must_be_lists():
    """As the original has it."""
    strict = Limits(strict_extensions=True)

    assert read(strict, text=["a", "b"], multimodal_x=[1, 2]).slots[1].extensions == {"multimodal_x": 2}
    assert read(strict, text="a", multimodal_x=5).only.extensions == {"multimodal_x": 5}
    assert "must be a list for batch processing, not a number" in refused(strict, text=["a"], multimodal_x=5).message


def test_the_limits_of_the_map_are_settings():
    """Bytes and depth."""
    small = Limits(extension_bytes=20, extension_depth=2)

    assert refused(small, text="a", multimodal_x="y" * 20).code == "extensions_too_large"
    assert refused(small, text="a", multimodal_x=[[[1]]]).code == "extension_too_deep"


# the law


MOST = 5
ITEM = st.one_of(st.just("A"), st.just("B"), st.just({"url": "C"}), st.none())
ROW = st.lists(ITEM, max_size=3)
VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=4,
)
HASHES = st.lists(st.sampled_from(["00", "ff"]), max_size=3)
MEDIA, EXTENSIONS = ("image_data", "video_data", "audio_data"), ("multimodal_a", "multimodal_b")


@st.composite
def batches(draw):
    """A batch in any shape, and the names of its columns that are of another length."""
    prompts = draw(st.integers(1, MOST))
    wrong = draw(st.sets(st.sampled_from([*MEDIA, *EXTENSIONS, "sampling_params", "rid", "mm_hashes"]), max_size=1))

    def column(name, inner):
        length = draw(st.integers(1, MOST + 1).filter(lambda one: one != prompts)) if name in wrong else prompts
        return st.lists(inner, min_size=length, max_size=length)

    def of(name, inner, *others):
        return draw(column(name, inner) if name in wrong else st.one_of(column(name, inner), *map(st.just, others)))

    batch = {"text": draw(st.lists(st.sampled_from(["a", "b"]), min_size=prompts, max_size=prompts))}
    for name in MEDIA:
        rows = draw(st.sampled_from([ITEM, st.one_of(st.none(), ROW)]))
        batch[name] = of(name, rows, None, [], "S", {"url": "S"})
    for name in EXTENSIONS:
        broadcast = draw(VALUE.filter(lambda one: not isinstance(one, list) or not one))
        batch[name] = of(name, VALUE, broadcast)
    batch["sampling_params"] = of(
        "sampling_params", st.sampled_from([{"n": 1}, {}, {"max_new_tokens": 4}]), None, {"n": 2, "x": 1}
    )
    batch["mm_hashes"] = of("mm_hashes", HASHES, None)
    batch["rid"] = "r" if draw(st.booleans()) else None
    if "rid" in wrong or draw(st.booleans()):
        batch["rid"] = [f"x{number}" for number in range(prompts + ("rid" in wrong))]
    return batch, wrong


def alone(batch: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The reference: what a caller would send for one prompt of a batch."""
    single: dict[str, Any] = {"text": batch["text"][number]}
    for name in (*MEDIA, *EXTENSIONS):
        value = batch[name]
        single[name] = value[number] if isinstance(value, list) and value else value
    sampling, rid, hashes = batch["sampling_params"], batch["rid"], batch["mm_hashes"]
    single["sampling_params"] = sampling[number] if isinstance(sampling, list) else sampling
    single["mm_hashes"] = hashes[number] if hashes else None
    single["rid"] = rid[number] if isinstance(rid, list) else (f"{rid}_{number}" if rid else None)
    return single


def split(batch: Mapping[str, Any], number: int) -> Incoming:
    """The reference's request, by its own arithmetic for what is plainest: items, hashes, extensions, answers, id."""
    single = alone(batch, number)
    made = read(**single).only
    items = {name: single[name] if isinstance(single[name], list) else [single[name]] for name in MEDIA}
    texts = [one["url"] if isinstance(one, dict) else one for name in MEDIA for one in items[name] if one is not None]
    assert [source.text for source in made.sources] == texts
    assert made.caller_hashes == tuple(single["mm_hashes"] or ())
    assert made.extensions == {name: single[name] for name in EXTENSIONS if single[name] is not None}
    assert (made.samples, made.rid) == ((single["sampling_params"] or {}).get("n", 1), single["rid"])
    return made


def plain(incoming: Incoming) -> Incoming:
    """Without the places of items, which differ."""
    return replace(incoming, sources=tuple(replace(one, param="") for one in incoming.sources))


@given(generated=batches())
def test_a_prompt_of_a_batch_is_asked_for_as_if_it_had_been_sent_alone(generated):
    """Whatever the shapes, and for every column; one that is too short or too long is named, with both lengths."""
    batch, wrong = generated
    prompts = len(batch["text"])
    if wrong:
        [name] = wrong
        message = refused(**batch).message
        assert message == f"{name}: list length {len(batch[name])} does not match batch size {prompts}"
        return

    slots = read(**batch).slots

    assert [plain(slot) for slot in slots] == [plain(split(batch, number)) for number in range(prompts)]
