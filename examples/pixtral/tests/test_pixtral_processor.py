"""The processor beside the library that it asks, and held to the contract."""

from __future__ import annotations

import io
from types import SimpleNamespace

import cv2
import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest
from forebay_pixtral.processor import PixtralProcessor
from mistral_common.protocol.instruct.messages import AssistantMessage, UserMessage
from mistral_common.protocol.instruct.request import ChatCompletionRequest

from forebay import DType, Image, Rejected, Span, WorkerStart
from forebay.testing import audio, check_processor, image, run_processor
from workers.decode import decode_image

IMG, IMG_BREAK, IMG_END = 10, 12, 13
SIZES = {
    "a photo's": (640, 427),
    "one pixel": (1, 1),
    "one token": (16, 16),
    "one pixel more than a token": (17, 16),
    "tall": (40, 2000),
    "a line": (1, 3000),
    "broad": (2000, 90),
    "the largest that is not shrunk": (1024, 1024),
    "larger": (1025, 1300),
}


def as_item(picture):
    return image(np.asarray(picture))


def test_the_processor_is_found_by_the_models_name(loaded):
    """The entry point is all that connects the package to Forebay."""
    assert isinstance(loaded.processor, PixtralProcessor)
    assert loaded.makes_items_alone
    assert loaded.tokenizer.size == 131_072


def test_it_keeps_the_contract(processor, noise):
    """What a request can tell; forebay check-processor pixtral tells all."""
    check_processor(processor, [as_item(noise(100, 50))], text="<s>[INST][IMG]Describe.[/INST]")


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_picture_and_a_text_become_what_mistral_makes_of_them(processor, asked, noise, size):
    """The same ids, and the same pixels to the bit."""
    picture = noise(*size)
    expected = asked(picture, "Describe.")

    output = run_processor(processor, [as_item(picture)], text="<s>[INST][IMG]Describe.[/INST]")

    assert output.input_ids.tolist() == expected.tokens
    np.testing.assert_array_equal(output.items[0].feature.array, expected.images[0])
    assert expected.images[0].dtype == np.float32


@pytest.mark.parametrize("count", [2, 3, 8])
def test_several_pictures_stand_where_mistral_puts_them(processor, asked, noise, count):
    """Of different sizes, and with words between them."""
    pictures = [noise(30 + 40 * number, 90 - 10 * number) for number in range(count)]
    parts = [part for number, picture in enumerate(pictures) for part in (picture, f"Picture {number}, déjà vu. ")]
    expected = asked(*parts)
    text = "".join(part if isinstance(part, str) else "[IMG]" for part in parts)

    output = run_processor(processor, [as_item(picture) for picture in pictures], text=f"<s>[INST]{text}[/INST]")

    assert output.input_ids.tolist() == expected.tokens
    assert len(output.items) == len(expected.images) == count
    for item, pixels in zip(output.items, expected.images, strict=True):
        np.testing.assert_array_equal(item.feature.array, pixels)


def test_rows_carry_features_and_what_ends_them_does_not(processor, noise):
    """40 by 20 pixels are two rows of three tokens, each row a span of its own."""
    output = run_processor(processor, [as_item(noise(40, 20))], input_ids=[1, IMG, 5])

    (item,) = output.items
    assert output.input_ids.tolist() == [1, IMG, IMG, IMG, IMG_BREAK, IMG, IMG, IMG, IMG_END, 5]
    assert item.spans == (Span(1, 3), Span(5, 7))
    assert item.tokens == 6
    assert (item.feature.shape, item.feature.dtype) == ((3, 32, 48), DType.FLOAT32)
    assert item.model_specific == {"image_sizes": [32, 48]}


def test_a_photo_that_lies_on_its_side_is_turned_before(processor, asked, noise):
    """The library does not look at EXIF; Forebay's decoder does, so it is the upright picture that is compared."""
    lying = noise(90, 40)
    exif = lying.getexif()
    exif[0x0112] = 6
    file = io.BytesIO()
    lying.save(file, "PNG", exif=exif)
    upright = PIL.ImageOps.exif_transpose(PIL.Image.open(file))

    item = Image(decode_image(file.getvalue(), "image_data"), "sha256:0", 0)
    output = run_processor(processor, [item], text="<s>[INST][IMG]Describe.[/INST]")

    expected = asked(upright, "Describe.")
    assert output.items[0].feature.shape == (3, 96, 48)
    assert output.input_ids.tolist() == expected.tokens
    np.testing.assert_array_equal(output.items[0].feature.array, expected.images[0])
    assert asked(PIL.Image.open(file), "Describe.").images[0].shape == (3, 48, 96)


def test_what_becomes_of_a_picture_is_known_from_its_size(processor, mistral):
    """For every size the number of tokens is the library's."""
    counted = mistral.instruct_tokenizer.image_encoder._image_to_num_tokens
    random = np.random.default_rng(1)
    sides = [1, 2, 15, 16, 17, 1008, 1009, 1023, 1024, 1025, 1040, 2047, 2048, 2049, 12_000]
    sizes = [(width, height) for width in sides for height in sides]
    sizes += [tuple(map(int, random.integers(1, 12_000, 2))) for _ in range(5000)]

    for width, height in sizes:
        view = np.broadcast_to(np.uint8(0), (height, width, 3))  # a view of nothing, as the planner has
        planned = processor.plan_item(Image(view, "", 0))

        columns, rows = counted(SimpleNamespace(size=(width, height)))
        assert (planned.shape, planned.tokens) == ((3, rows * 16, columns * 16), rows * columns), (width, height)


def test_a_conversation_written_out_has_the_ids_of_the_conversation(processor, mistral):
    """Special tokens are found where they are spelled; the library itself takes none from a text."""
    said = [UserMessage(content="Hello  world\n\n"), AssistantMessage(content="Yes."), UserMessage(content="你好 🙂?")]
    expected = mistral.encode_chat_completion(ChatCompletionRequest(messages=said)).tokens

    ids = processor.tokenizer().encode("<s>[INST]Hello  world\n\n[/INST]Yes.</s>[INST]你好 🙂?[/INST]")

    assert ids == expected
    assert processor.tokenizer().decode(ids) == "Hello  world\n\nYes.你好 🙂?"


def test_what_is_no_special_token_is_text(processor, mistral):
    """However near it comes."""
    text = "[IMG [/INST <s > [img]"

    ids = processor.tokenizer().encode(text)

    assert ids == mistral.instruct_tokenizer.tokenizer.encode(text, bos=False, eos=False)
    assert processor.tokenizer().decode(ids) == text


def test_a_child_computes_with_one_thread(processor):
    """OpenCV would take every core."""
    before = cv2.getNumThreads()
    try:
        processor.start_worker(WorkerStart(0, ()))
        assert cv2.getNumThreads() == 1
    finally:
        cv2.setNumThreads(before)


@pytest.mark.parametrize(
    ("media", "code"),
    [
        ([image(np.zeros((8, 8, 3)))] * 9, "too_many_items"),
        ([audio(np.zeros(160))], "unsupported_modality"),
    ],
)
def test_nine_pictures_or_a_recording_are_refused(processor, media, code):
    """The declared capabilities are what the flow enforces."""
    with pytest.raises(Rejected) as refusal:
        run_processor(processor, media, input_ids=[IMG] * len(media))

    assert refusal.value.code == code


def test_a_picture_without_a_place_is_refused(processor, noise):
    """Both counts are in the message."""
    with pytest.raises(Rejected, match="the prompt has 0 image placeholders, the request has 1 image"):
        run_processor(processor, [as_item(noise(20, 20))], text="<s>[INST]Describe.[/INST]")
