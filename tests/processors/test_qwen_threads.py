"""One processor and one tokenizer in many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay import FileTokenizer, ModelSource
from forebay.testing import run_processor
from processors.qwen_vl import Qwen2VL
from tests.processors.pictures import as_image, noise, sha256
from tests.support.tiny_qwen import tokenizer_file

MARK = "<|vision_start|><|image_pad|><|vision_end|>"
CALLS, KINDS, THREADS = 1000, 10, 16


@pytest.fixture(scope="module")
def ask():
    """A call by its kind: short and long prompts, with one picture, two or none."""
    processor, tokenizer = Qwen2VL(ModelSource("qwen2-vl")), FileTokenizer.load(tokenizer_file())

    def ask(kind: int) -> tuple[list[int], list[str]]:
        pictures = [as_image(noise(28 + 9 * kind, 40, seed)) for seed in range(kind % 3)]
        text = f"{MARK * len(pictures)} prompt {kind} " + "of many words " * (60 * (kind % 2))
        output = run_processor(processor, pictures, text=text, tokenizer=tokenizer)
        return output.input_ids.tolist(), [sha256(item.feature.array) for item in output.items]

    return ask


def test_threads_that_share_a_processor_get_what_one_alone_gets(ask):
    """C109: no error, no waiting for one another, no result of another's."""
    alone = [ask(kind) for kind in range(KINDS)]

    with ThreadPoolExecutor(THREADS) as threads:
        together = list(threads.map(lambda number: ask(number % KINDS), range(CALLS)))

    assert together == alone * (CALLS // KINDS)
