"""Several answers about several pictures: prepared once, and each answer is about all of them, in their order."""

from __future__ import annotations

import pytest

from forebay.client import Answer, Client, RequestFailedError
from tests.support import media
from tests.support.deployment import Deployment
from tests.system.test_main_job import pool_blocks

pytestmark = pytest.mark.system

MARK = "<|vision_start|><|image_pad|><|vision_end|>"
RED, GREEN = media.plain_png(56, 56, (250, 3, 3)), media.plain_png(56, 84, (3, 250, 3))


def answers(api: Client, pictures: list[bytes], **more: int) -> list[Answer | RequestFailedError]:
    return api.generate_many(
        model="qwen2-vl", text=MARK * len(pictures) + "Which?", images=pictures,
        sampling_params={"max_new_tokens": 8, **more},
    )  # fmt: skip


@pytest.mark.parametrize(("pictures", "spans"), [([RED, GREEN], [4, 6]), ([RED, GREEN, RED], [4, 6, 4])])
def test_every_answer_is_about_all_pictures_in_their_order(
    api: Client, deployment: Deployment, pictures: list[bytes], spans: list[int]
):
    """C058, C054: as one that was asked for alone; a picture may stand there twice, and nothing stays."""
    text = MARK * len(pictures) + "Which?"
    items = api.preprocess(model="qwen2-vl", text=text, images=pictures).items
    [alone] = answers(api, pictures)

    several = answers(api, pictures, n=3)

    assert [last - first + 1 for item in items for first, last in item.spans] == spans
    assert len({item.sha256 for item in items}) == 2
    assert [one.text for one in several] == [alone.text] * 3
    assert {one.prompt_tokens for one in several} == {alone.prompt_tokens}
    assert pool_blocks(deployment.url) == 0
