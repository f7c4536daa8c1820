"""One request through a processor on a terminal: what is drawn is what the model will see."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image as Pillow

from forebay import DType, Feature, Item, Modality, ModelSource, Span, cli, testing
from launch.trying.canvas import canvas_of
from launch.trying.command import try_processor
from processors.qwen_vl import Qwen2VL
from tests.support import media
from tests.support.broken import Sound
from tests.support.tiny_qwen import write_settings

PAD = 151_655


def try_it(*arguments):
    return CliRunner().invoke(try_processor, [str(one) for one in arguments], env={"COLUMNS": "200"})


@pytest.fixture
def photo(tmp_path):
    """A picture: red above, green below on the left, blue below on the right."""
    path = tmp_path / "photo.png"
    Pillow.fromarray(corners()).save(path)
    return path


def corners(side=112):
    pixels = np.zeros((side, side, 3), np.uint8)
    half = side // 2
    pixels[:half] = (255, 0, 0)
    pixels[half:, :half] = (0, 255, 0)
    pixels[half:, half:] = (0, 0, 255)
    return pixels


def item_of(array, dtype=DType.FLOAT32, modality=Modality.IMAGE, tokens=1, **told):
    return Item(modality, Feature.of(array, dtype), (Span(0, tokens - 1),), tokens, model_specific=told)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.UINT8])
def test_patches_are_put_back_where_they_were(dtype):
    """Blocks, rows, colours: of a picture that needs no resizing every pixel is at its place again."""
    picture = testing.image(corners())
    output = testing.run_processor(Qwen2VL(ModelSource("qwen2-vl", None, dtype)), [picture], input_ids=[PAD])

    canvas = canvas_of(output.items[0], picture)

    assert np.array_equal(canvas.pixels, corners())
    assert canvas.rows == canvas.columns == (0, 28, 56, 84)


def test_tiles_lie_side_by_side():
    """Three tiles of 4 x 6 fill three quarters of a canvas of 8 x 12."""
    tiles = np.stack([np.full((3, 4, 6), value, np.float32) for value in (1, 2, 3)])

    canvas = canvas_of(item_of(tiles), testing.image(corners()))

    assert canvas.pixels.shape == (8, 12, 3)
    assert canvas.pixels[[0, 0, 4, 4], [0, 6, 0, 6], 0].tolist() == [85, 170, 255, 0]


def test_low_sounds_are_below():
    """A spectrogram as one is used to it."""
    bands = np.zeros((4, 50), np.float32)
    bands[0] = 1

    canvas = canvas_of(item_of(bands, modality=Modality.AUDIO), testing.audio(np.zeros(100)))

    assert canvas.pixels[:, 0, 0].tolist() == [0] * 9 + [255] * 3


def test_a_feature_that_is_no_picture_shows_what_went_in():
    """With a cell for each token."""
    canvas = canvas_of(item_of(np.zeros((4, 7), np.float32), tokens=4), testing.image(corners()))

    assert np.array_equal(canvas.pixels, corners())
    assert canvas.rows == canvas.columns == (0, 56)


def test_a_recording_without_a_spectrogram_is_drawn_as_waves():
    """The loudest sample reaches the edge."""
    canvas = canvas_of(item_of(np.zeros((9, 1), np.float32), modality=Modality.AUDIO), testing.audio([0.0, 0.5, 0.0]))

    assert (canvas.pixels[0, :, 0] == 40).tolist() == [False, True, False]


def test_a_trial_shows_tokens_numbers_times_and_a_picture(photo, tmp_path):
    """The question is tokenized, its placeholder is found, the option is heeded."""
    (tmp_path / "model").mkdir()
    folder = write_settings(tmp_path / "model")
    question = "<|vision_start|><|image_pad|><|vision_end|>What is this?"

    done = try_it(
        "qwen2-vl", photo, question, "--out", tmp_path / "drawn", "--model-dir", folder,
        "--set", "multimodal_max_pixels=3136",
    )  # fmt: skip

    assert done.exit_code == 0, done.output
    assert "[151652]  [151655] [151655] [151655] [151655]  [151653]" in done.output
    assert "What" in done.output
    assert "float32 [16, 1176]" in done.output
    assert re.search(r"image_grid_thw +\[1, 4, 4\]", done.output)
    assert "NaN or infinite 0" in done.output
    assert re.search(r"decode photo\.png [\d.]+ ms, process [\d.]+ ms", done.output)
    with Pillow.open(tmp_path / "drawn" / "photo.0.png") as drawn:
        assert drawn.size == (448, 448)
        assert drawn.getpixel((20, 20)) == (255, 0, 0)
        assert drawn.getpixel((20, 428)) == (0, 255, 0)


def test_a_text_without_a_placeholder_is_given_one(photo, tmp_path):
    """And it is said, because a caller will have to write it."""
    done = try_it("tests.support.broken:Sound", photo, "What is this?", "--out", tmp_path)

    assert done.exit_code == 0, done.output
    assert "there is no tokenizer (--model-dir?), so token 1 stands for the text" in done.output
    assert "[7] x 112" in done.output
    assert "the input, which the feature is no picture of; 112 tokens" in done.output


def test_a_recording_is_tried(tmp_path):
    """Its spectrogram is drawn."""
    done = try_it("whisper-tiny-en", media.fox_recording(), "--out", tmp_path)

    assert done.exit_code == 0, done.output
    assert "80 bands, 3000 frames" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["quick_brown_fox.0.png"]


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        (["--set", "gain=2"], 2, "multimodal_name=value was expected"),
        (["--set", "multimodal_gain=9"], 1, "refused as invalid_extensions"),
        (["--set", "multimodal_other=1"], 1, "multimodal_other"),
        (["no-such.jpg"], 1, "no-such.jpg: no such file"),
    ],
)
def test_a_mistake_is_one_line(photo, tmp_path, more, status, said):
    """As a caller of the API would be told; nothing is drawn."""
    done = try_it("tests.support.broken:Sound", photo, *more, "--out", tmp_path / "drawn")

    assert done.exit_code == status, done.output
    assert said in done.output
    assert not (tmp_path / "drawn").exists()


def test_what_is_no_picture_is_refused(tmp_path):
    """By the worker's own decoder."""
    (tmp_path / "text.jpg").write_text("no picture")

    done = try_it("tests.support.broken:Sound", tmp_path / "text.jpg", "--out", tmp_path)

    assert done.exit_code == 1
    assert "refused as unsupported_image" in done.output


def test_without_decoders_it_is_said_what_is_missing(photo, monkeypatch):
    """An author's base install has none."""
    point = EntryPoint("try-processor", "launch.trying.command:try_processor", cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda group, name=None: [point])
    for name in [name for name in sys.modules if name.startswith("workers.decode")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "simplejpeg", None)

    done = CliRunner().invoke(cli.main, ["try-processor", "tests.support.broken:Sound", str(photo)])

    assert done.exit_code == 1
    assert "'forebay try-processor' needs simplejpeg: pip install 'forebay[tier]'" in done.output


def test_a_processor_that_raises_is_told_with_its_line(photo):
    """Its author wants neither a traceback nor a bare word."""
    done = CliRunner().invoke(try_processor, ["tests.launch.test_trying:Raises", str(photo)])

    assert done.exit_code == 1
    assert re.search(
        r"Error: the processor raises KeyError: 'grid' \(test_trying.py:\d+ in process_item\)", done.output
    )


class Raises(Sound):
    """What a beginner's processor does."""

    def process_item(self, media, work):
        return {}["grid"]
