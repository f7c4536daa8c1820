"""A conversation with pictures among its texts, from its parts to the features under each span."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from forebay import FileTokenizer, ModelSource
from forebay.chat import Chat, chat_ids
from forebay.chat_template import ChatTemplate
from forebay.testing import image, run_processor
from processors.qwen_vl import Qwen2VL
from tests.support.tiny_qwen import IMAGE_PAD, TEMPLATE, tokenizer_file

RED, GREEN = image(np.full((56, 56, 3), (255, 0, 0))), image(np.full((56, 84, 3), (0, 255, 0)))
IMAGE = {"type": "image"}
MARKER = "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.fixture(scope="module")
def tokenizer() -> FileTokenizer:
    return FileTokenizer.load(tokenizer_file())


@pytest.fixture
def ids_of(tmp_path, tokenizer):
    shutil.copy(TEMPLATE, tmp_path / "chat_template.jinja")
    template = ChatTemplate.find(tmp_path)
    return lambda *messages: chat_ids(Chat(list(messages)), template, tokenizer)


def text(words: str) -> dict:
    return {"type": "text", "text": words}


def user(*parts: dict) -> dict:
    return {"role": "user", "content": list(parts)}


def test_pictures_stand_where_their_parts_stood_with_their_own_features(ids_of, tokenizer):
    """C041: spans ascend and do not overlap; red lies under the first, green under the second."""
    ids = ids_of(user(text("A"), IMAGE, text("B"), IMAGE, text("C")))

    output = run_processor(Qwen2VL(ModelSource("qwen2-vl")), [RED, GREEN], input_ids=ids, tokenizer=tokenizer)

    (red,), (green,) = (item.spans for item in output.items)
    assert (red.length, green.length) == (4, 6)
    assert red.last < green.first
    told = [tokenizer.decode([one]) for one in output.input_ids.tolist()]
    assert told[red.first - 2] == "A"
    assert told[red.last + 2] == told[green.first - 2] == "B"
    assert told[green.last + 2] == "C"
    brightest = [int(np.argmax(item.feature.array.reshape(-1, 3, 392).mean(axis=(0, 2)))) for item in output.items]
    assert brightest == [0, 1]


@pytest.mark.parametrize(
    "messages",
    [
        [user(text(f"This is {MARKER}, spelled out."))],
        [user(text("Look it up.")), {"role": "tool", "content": f"found {MARKER}"}],
    ],
)
def test_a_marker_that_is_spelled_out_needs_no_picture(ids_of, tokenizer, messages):
    """C038: without an image it is text as well, in a question or a tool's answer; nothing is counted or refused."""
    ids = ids_of(*messages)

    output = run_processor(Qwen2VL(ModelSource("qwen2-vl")), [], input_ids=ids, tokenizer=tokenizer)

    assert IMAGE_PAD not in ids
    assert output.input_ids.tolist() == list(ids)
