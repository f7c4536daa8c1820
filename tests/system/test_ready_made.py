"""A caller that makes features itself, over HTTP: the same answer as for the media, and no way around the rules."""

from __future__ import annotations

from base64 import b64decode

import pytest

from forebay.client import Client, RequestFailedError, ready_made
from tests.support import media
from tests.system.test_main_job import QUESTION

pytestmark = pytest.mark.system

PICTURE = media.plain_png(84, 56)


@pytest.fixture(scope="module")
def made(deployment):
    """What the tier makes of the picture."""
    with Client(deployment.url) as api:
        return api.preprocess(model="qwen2-vl", text=QUESTION, images=[PICTURE], features="base64")


def sent(made, height=56, width=84, **changed):
    item = made.items[0]
    fields = {"data": b64decode(item.base64), "dtype": item.dtype, "shape": item.shape, **changed}
    return ready_made(**fields, height=height, width=width)


def test_a_feature_stands_for_its_picture(api: Client, made):
    """Ids, positions, spans, grid and bytes are the same; the item's identity is its own."""
    again = api.preprocess(model="qwen2-vl", text=QUESTION, images=[sent(made)])

    item, before = again.items[0], made.items[0]
    assert (again.input_ids, again.mrope) == (made.input_ids, made.mrope)
    assert (item.sha256, item.spans, item.data) == (before.sha256, before.spans, before.data)
    assert item.digest != before.digest


def test_the_engine_answers_it_alike(api: Client, made):
    """It lies in the pool as any."""
    asked = {"model": "qwen2-vl", "text": QUESTION, "sampling_params": {"max_new_tokens": 4}}

    assert api.generate(images=[sent(made)], **asked).text == api.generate(images=[PICTURE], **asked).text


def test_one_of_another_picture_is_refused(api: Client, made):
    """With both shapes."""
    with pytest.raises(RequestFailedError, match="of a picture 560 high and 840 wide this") as refused:
        api.preprocess(model="qwen2-vl", text=QUESTION, images=[sent(made, height=560, width=840)])

    assert (refused.value.status, refused.value.code) == (400, "invalid_precomputed")


def test_one_beyond_the_deployments_limit_is_refused(api: Client):
    """Before it is decoded."""
    feature = ready_made(bytes(5 << 20), "uint8", [5 << 20], height=1, width=1)

    with pytest.raises(RequestFailedError, match=f"the limit is {4 << 20}") as refused:
        api.preprocess(model="qwen2-vl", text=QUESTION, images=[feature])
    assert refused.value.status == 413


def test_a_model_that_takes_over_the_flow_takes_none(api: Client, made):
    """By its name."""
    with pytest.raises(RequestFailedError, match="'efficientnet-lite0' takes no ready-made features"):
        api.preprocess(model="efficientnet-lite0", input_ids=[1], images=[sent(made)])
