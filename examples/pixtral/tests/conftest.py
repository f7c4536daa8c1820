"""Mistral's own answer to a request, asked of its library without Forebay in between."""

from __future__ import annotations

from pathlib import Path

import mistral_common
import numpy as np
import PIL.Image
import pytest
from forebay_pixtral.processor import TOKENIZER_FILE
from mistral_common.protocol.instruct.chunk import ImageChunk, TextChunk
from mistral_common.protocol.instruct.messages import UserMessage
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from forebay import ModelSource
from forebay.plugins import load_processor


@pytest.fixture(scope="session")
def loaded():
    """The processor as a worker finds it: by the model's name."""
    return load_processor(ModelSource("pixtral"))


@pytest.fixture(scope="session")
def processor(loaded):
    return loaded.processor


@pytest.fixture(scope="session")
def mistral():
    return MistralTokenizer.from_file(str(Path(mistral_common.__file__).parent / "data" / TOKENIZER_FILE))


@pytest.fixture(scope="session")
def asked(mistral):
    """A user's message through ``encode_chat_completion``: its ids and its pictures."""

    def ask(*parts: str | PIL.Image.Image):
        chunks = [TextChunk(text=part) if isinstance(part, str) else ImageChunk(image=part) for part in parts]
        return mistral.encode_chat_completion(ChatCompletionRequest(messages=[UserMessage(content=chunks)]))

    return ask


@pytest.fixture(scope="session")
def noise():
    """A picture of noise, of ``(width, height)``; always the same one."""

    def make(width: int, height: int) -> PIL.Image.Image:
        random = np.random.default_rng(width * 10_000 + height)
        return PIL.Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))

    return make
