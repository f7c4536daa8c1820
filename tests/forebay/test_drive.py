"""The flow of a request through a processor, without any I/O."""

import logging

import numpy as np
import pytest
from pydantic import BaseModel

from forebay import (
    Capabilities,
    DType,
    Failed,
    Feature,
    Item,
    Layout,
    Modality,
    ModelSource,
    Output,
    Processed,
    Processor,
    Prompt,
    Rejected,
    Span,
    Work,
)
from forebay.drive import apply_caller_hashes, check_items, drive, prompt_ids, typed_extensions
from forebay.testing import audio, image, run_processor
from tests.support.toys import Toy, ToyExtensions, Words

TOY = Toy(ModelSource("toy"))
RED = image([[[255, 0, 0]] * 2] * 2)
GREEN = image([[[0, 255, 0]] * 2] * 1)
UNNAMED = Item(Modality.IMAGE, Feature.of(np.ones((1, 1), np.float32), DType.FLOAT32), (Span(0, 0),), 1, hash=1000)


def hashes_after(given, items=1):
    return [item.hash for item in apply_caller_hashes((UNNAMED,) * items, given)]


def test_the_usual_flow_makes_one_result_of_prompt_and_items():
    """Ids, spans, features, positions and identities, by hand."""
    output = run_processor(TOY, [RED, GREEN], input_ids=[1, 7, 2, 7])

    assert output.input_ids.tolist() == [1, 7, 7, 2, 7]
    assert [item.spans for item in output.items] == [(Span(1, 2),), (Span(4, 4),)]
    assert [item.feature.array.tolist() for item in output.items] == [[[510, 0, 0]] * 2, [[0, 510, 0]]]
    assert [item.tokens for item in output.items] == [2, 1]
    assert [item.model_specific for item in output.items] == [{"rows": 2}, {"rows": 1}]
    assert output.positions.mrope.tolist() == [[0, 1, 2, 3, 4]] * 3
    assert [(item.hash, item.digest) for item in output.items] == [
        (RED.hash, RED.digest),
        (GREEN.hash, GREEN.digest),
    ]


def test_a_text_is_tokenized_once_and_expanded():
    """The tokenizer's ids are the prompt."""
    output = run_processor(TOY, [GREEN], text="1 7 2", tokenizer=Words())

    assert output.input_ids.tolist() == [1, 7, 2]


def test_extensions_reach_the_processor_typed():
    """Its own model, with its own defaults."""
    output = run_processor(TOY, [GREEN], input_ids=[7], extensions={"multimodal_gain": 2})

    assert output.items[0].feature.array.tolist() == [[0, 1020, 0]]


@pytest.mark.parametrize("wrong", [-1, 1000, 2**62])
def test_an_id_outside_the_vocabulary_is_refused_by_place_and_value(wrong):
    """Before any image work; the processor's own size wins over the tokenizer's."""
    with pytest.raises(Rejected) as caught:
        run_processor(TOY, [], input_ids=[1, wrong, wrong])

    assert caught.value.message == f"input_ids[1] is {wrong}; valid ids are [0, 1000)"
    assert (caught.value.code, caught.value.param) == ("invalid_token_id", "input_ids[1]")


def test_without_a_vocabulary_the_tokenizer_knows_the_size():
    """And with neither, only negative ids are known to be wrong."""
    work = Work("r", Prompt(ids=(999, 1000)))

    with pytest.raises(Rejected, match=r"input_ids\[1\] is 1000; valid ids are \[0, 1000\)"):
        prompt_ids(work.prompt, Words())
    assert prompt_ids(work.prompt, None).tolist() == [999, 1000]
    with pytest.raises(Rejected, match=r"input_ids\[0\] is -1; valid ids are 0 and above"):
        prompt_ids(Prompt(ids=(-1,)), None)


@pytest.mark.parametrize(
    ("prompt", "tokenizer", "code"),
    [
        (Prompt(text=""), Words(), "empty_prompt"),
        (Prompt(text="  "), Words(), "empty_prompt"),
        (Prompt(ids=()), None, "empty_prompt"),
        (Prompt(text="1"), None, "no_tokenizer"),
    ],
)
def test_a_prompt_without_a_token_is_the_callers_mistake(prompt, tokenizer, code):
    """Never an invalid result of the processor's."""
    with pytest.raises(Rejected) as caught:
        prompt_ids(prompt, tokenizer)

    assert caught.value.code == code


@pytest.mark.parametrize(
    ("modalities", "message"),
    [
        ([Modality.VIDEO], "this model takes no video"),
        ([Modality.IMAGE] * 5, "5 items of image_data; this model takes at most 4"),
        ([Modality.IMAGE, Modality.AUDIO, Modality.AUDIO], "2 items of audio_data; this model takes at most 1"),
    ],
)
def test_items_are_held_to_what_the_model_takes(modalities, message):
    """By modality and by number."""
    with pytest.raises(Rejected) as caught:
        check_items(TOY.capabilities(), modalities)

    assert caught.value.message == message


def test_the_most_items_are_taken():
    """The limit itself is allowed."""
    check_items(TOY.capabilities(), [Modality.IMAGE] * 4 + [Modality.AUDIO])


def test_a_limit_of_zero_is_a_refusal_of_the_modality():
    """An operator's 'none' reads like the model's."""
    with pytest.raises(Rejected, match="this model takes no image"):
        check_items(Capabilities({Modality.IMAGE: 0}), [Modality.IMAGE])


@pytest.mark.parametrize(
    "extensions", [{"multimodal_b": 1, "multimodal_a": []}, {"multimodal_a": [None], "multimodal_b": 0}]
)
def test_a_processor_without_extensions_refuses_a_map_that_is_not_empty(extensions):
    """Each key is named, whatever its value."""
    with pytest.raises(Rejected) as caught:
        typed_extensions(Capabilities({}), extensions)

    named = "multimodal_a, multimodal_b"
    assert caught.value.message == f"unsupported generate extensions for this processor: {named}"
    assert (caught.value.code, caught.value.param) == ("unsupported_extensions", "multimodal_a")


def test_no_extensions_are_fine_for_every_processor():
    """None declared, none needed; those that declare a model get its defaults."""
    assert typed_extensions(Capabilities({}), {}) is None
    assert typed_extensions(TOY.capabilities(), {}) == ToyExtensions(multimodal_gain=1)


def test_to_a_text_alone_what_says_nothing_does_no_harm():
    """Also where a model is declared that does not own the field; what says something is refused as ever."""
    assert typed_extensions(TOY.capabilities(), {"multimodal_x": []}, has_media=False) == ToyExtensions()

    for extensions, has_media in (({"multimodal_x": []}, True), ({"multimodal_x": 1}, False)):
        with pytest.raises(Rejected):
            typed_extensions(TOY.capabilities(), extensions, has_media=has_media)


class Crop(BaseModel):
    left: int


class Nested(BaseModel):
    multimodal_crops: list[Crop]


@pytest.mark.parametrize(
    ("model", "extensions", "param"),
    [
        (ToyExtensions, {"multimodal_gain": "2"}, "multimodal_gain"),
        (ToyExtensions, {"multimodal_other": 2}, "multimodal_other"),
        (Nested, {"multimodal_crops": [{"left": 1}, {"left": "x"}]}, "multimodal_crops.1.left"),
    ],
)
def test_a_processors_refusal_names_the_path(model, extensions, param):
    """A key nobody owns is refused like a value of the wrong type; the input itself is not quoted."""
    with pytest.raises(Rejected) as caught:
        typed_extensions(Capabilities({}, extensions=model), extensions)

    assert caught.value.message.startswith(f"invalid processor extensions: {param}: ")
    assert (caught.value.code, caught.value.param) == ("invalid_extensions", param)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("ff", 255),
        ("DEADBEEF", 0xDEADBEEF),
        ("0x10", 16),
        ("0", 0),
        ("1" + "0" * 16, 0),
        ("a" * 48 + "0123456789abcdef", 0x0123456789ABCDEF),
        ("0x" + "a" * 48 + "0123456789abcdef", 0x0123456789ABCDEF),
        ("f" * 16, 2**64 - 1),
    ],
)
def test_a_caller_hash_is_hex_of_any_width_and_its_low_64_bits_count(given, expected):
    """Also a whole SHA-256, with or without 0x."""
    assert hashes_after([given]) == [expected]


@pytest.mark.parametrize("given", ["xyz", "", "0x", "0X10", "1_0", "+10", " 10 ", "10\n", "-1", "٣", "\ud800"])
def test_a_malformed_caller_hash_keeps_that_items_own(given, caplog):
    """The others count; the log says that something was ignored, without quoting it."""
    with caplog.at_level(logging.WARNING):
        assert hashes_after(["1", given, "2"], items=3) == [1, 1000, 2]

    assert [record.message for record in caplog.records] == ["malformed caller hash ignored"]


@pytest.mark.parametrize("given", [["1"], ["1", "2", "3"]])
def test_a_list_of_another_length_is_ignored_as_a_whole(given, caplog):
    """Shifting identities to the wrong image is worse than having none."""
    with caplog.at_level(logging.WARNING):
        assert hashes_after(given, items=2) == [1000, 1000]

    assert [record.message for record in caplog.records] == ["caller hashes ignored"]


def test_no_caller_hashes_and_none_without_items_say_nothing_of_items():
    """An empty list asks for nothing, and a list without items finds nobody."""
    assert hashes_after([], items=2) == [1000, 1000]
    assert hashes_after(["1"], items=0) == []


def test_caller_hashes_are_applied_after_validation_and_reach_the_result():
    """They name the caller's view of an item; the digest stays."""
    output = run_processor(TOY, [RED, GREEN], input_ids=[7, 7], caller_hashes=["a", "b"])

    assert [item.hash for item in output.items] == [10, 11]
    assert [item.digest for item in output.items] == [RED.digest, GREEN.digest]


class Whole(Processor):
    """A package that takes over the whole flow, and answers with what the test put into it."""

    def __init__(self, answer):
        super().__init__(ModelSource("whole"))
        self.answer = answer

    def capabilities(self):
        return Capabilities({Modality.IMAGE: 2})

    def process(self, work, tokenizer):
        return self.answer


def test_a_processor_that_takes_over_is_validated_all_the_same():
    """A guest's mistake is a 500 with its numbers, and never parked."""
    wrong = Output(np.arange(2), (Item(Modality.IMAGE, UNNAMED.feature, (Span(1, 2),), 2),))

    with pytest.raises(Failed, match=r"outside the expanded prompt: \[1, 2\] of 2 tokens"):
        run_processor(Whole(wrong), [GREEN], text="1")


def test_identities_are_filled_in_only_where_items_and_media_correspond():
    """A package may make two items of one image; then nobody can say whose hash they have."""
    item = Item(Modality.IMAGE, UNNAMED.feature, (Span(0, 0),), 1)
    named = Item(Modality.IMAGE, UNNAMED.feature, (Span(1, 1),), 1, hash=5, digest="own")

    one = run_processor(Whole(Output(np.arange(2), (item,))), [GREEN], text="1")
    two = run_processor(Whole(Output(np.arange(2), (item, named))), [GREEN], text="1")

    assert [(i.hash, i.digest) for i in one.items] == [(GREEN.hash, GREEN.digest)]
    assert [(i.hash, i.digest) for i in two.items] == [(0, None), (5, "own")]


def test_a_hash_of_zero_is_a_hash():
    """What the processor names is kept, even when it looks like nothing."""
    item = Item(Modality.IMAGE, UNNAMED.feature, (Span(0, 0),), 1, hash=0)

    output = run_processor(Whole(Output(np.arange(1), (item,))), [GREEN], text="1")

    assert output.items[0].hash == 0


def test_a_processor_that_describes_nothing_takes_nothing():
    """The contract's defaults refuse by modality rather than crash."""

    class Silent(Processor):
        def capabilities(self):
            return Capabilities({Modality.IMAGE: 1}, placeholders={Modality.IMAGE: 7})

    with pytest.raises(Rejected, match="this processor takes no image"):
        run_processor(Silent(ModelSource("silent")), [GREEN], input_ids=[7])
    assert run_processor(Silent(ModelSource("silent")), [], input_ids=[1]).input_ids.tolist() == [1]


def test_outside_a_worker_an_output_array_is_ordinary_memory():
    """Authors test without a pool."""
    array = Work("r", Prompt(text="a")).empty((2, 3), DType.BFLOAT16)

    assert (array.shape, array.dtype, array.flags.c_contiguous) == ((2, 3), np.uint16, True)


def test_audio_flows_as_images_do():
    """Another modality, another placeholder, the same law."""
    output = run_processor(TOY, [audio([0.5, 0.25, 0])], input_ids=[1, 8])

    assert output.input_ids.tolist() == [1, 8, 8]
    assert output.items[0].feature.array.tolist() == [[0.5] * 3, [0.25] * 3]


def test_the_driver_hands_the_work_over_unchanged():
    """What a worker's driver calls is what the helper for authors calls."""
    work = Work("r", Prompt(ids=(7,)), (GREEN,), ToyExtensions())

    output = drive(TOY, TOY.capabilities(), work, None)

    assert output.items[0].feature.array.tolist() == [[0, 510, 0]]


def test_a_layout_that_disagrees_with_the_item_is_found():
    """Tokens are counted once by the item and once by the layout; they must agree."""

    class Miscounting(Toy):
        def layout(self, processed: Processed, modality: Modality) -> Layout:
            return Layout.repeat(7, processed.tokens + 1)

    with pytest.raises(Failed, match="spans cover 3 tokens, the item has 2"):
        run_processor(Miscounting(ModelSource("toy")), [RED], input_ids=[7])
