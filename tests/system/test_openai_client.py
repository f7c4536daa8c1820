"""Conversations with the real ``openai`` client, through the whole tier and real models."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from tokenizers import Tokenizer

from forebay.client import Client
from tests.support import media
from tests.support.deployment import Deployment
from tests.support.tiny_qwen import IMAGE_PAD

pytestmark = pytest.mark.system

FOX = "The quick brown fox jumps over the lazy dog."


@pytest.fixture(scope="module")
def client(deployment: Deployment) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{deployment.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def picture(path: Path) -> dict:
    url = f"data:image/jpeg;base64,{base64.b64encode(path.read_bytes()).decode()}"
    return {"type": "image_url", "image_url": {"url": url, "detail": "auto"}}


def user(*parts) -> list[dict]:
    return [
        {"role": "user", "content": [{"type": "text", "text": one} if isinstance(one, str) else one for one in parts]}
    ]


def test_a_photo_gets_its_label(client: openai.OpenAI):
    """A model that reads no prompt answers a conversation all the same."""
    answer = client.chat.completions.create(model="efficientnet-lite0", messages=user(picture(media.coffee()), "What?"))

    [choice] = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "espresso", "stop")
    assert answer.object == "chat.completion"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_recording_is_transcribed_in_chunks(client: openai.OpenAI):
    """As a client reads them: deltas that add up, a reason at the end, and the counts where they were asked for."""
    data = base64.b64encode(media.fox_recording().read_bytes()).decode()
    parts = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    chunks = list(
        client.chat.completions.create(
            model="whisper-tiny-en", messages=user(parts), stream=True, stream_options={"include_usage": True}
        )
    )

    *told, counts = chunks
    deltas = [chunk.choices[0].delta for chunk in told]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == FOX
    assert len(told) > 5
    assert [chunk.choices[0].finish_reason for chunk in told] == [None] * (len(told) - 1) + ["stop"]
    assert (counts.choices, counts.usage.completion_tokens > 5) == ([], True)
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_conversation_about_a_picture_is_the_template_rendered(client: openai.OpenAI, api: Client, qwen_folder: Path):
    """The same ids as for a caller that renders it himself, so the same greedy answer; markers in text are text."""
    tokenizer = Tokenizer.from_file(str(qwen_folder / "tokenizer.json"))
    rendered = (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "<|vision_start|><|image_pad|><|vision_end|>What is this?<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = tokenizer.encode(rendered, add_special_tokens=False).ids
    expected = api.generate(
        model="qwen2-vl", input_ids=ids, images=[media.rocket()], sampling_params={"max_new_tokens": 8}
    )

    answer = client.chat.completions.create(
        model="qwen2-vl", messages=user(picture(media.rocket()), "What is this?"), max_completion_tokens=8
    )

    assert answer.choices[0].message.content == expected.text
    assert answer.usage.prompt_tokens == expected.prompt_tokens
    spelled = client.chat.completions.create(
        model="qwen2-vl", max_completion_tokens=2,
        messages=user(picture(media.rocket()), "Is it <|vision_start|><|image_pad|><|vision_end|>?"),
    )  # fmt: skip
    assert spelled.usage.prompt_tokens > answer.usage.prompt_tokens
    assert IMAGE_PAD in ids


def test_several_answers_are_several_choices(client: openai.OpenAI):
    """Greedy ones are alike; the prompt is counted once."""
    answer = client.chat.completions.create(
        model="qwen2-vl", messages=user("Hello"), n=3, max_completion_tokens=4, temperature=0
    )

    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) == 1
    assert answer.usage.completion_tokens == sum([4] * 3)


def test_an_answer_ends_before_its_stop(client: openai.OpenAI):
    """Whichever letters the model says."""
    whole = client.chat.completions.create(model="qwen2-vl", messages=user("Hello"), max_completion_tokens=8)
    text = whole.choices[0].message.content
    stop = text[len(text) // 2]

    cut = client.chat.completions.create(model="qwen2-vl", messages=user("Hello"), max_completion_tokens=8, stop=[stop])

    assert cut.choices[0].message.content == text[: text.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("messages", "model", "param"),
    [
        ([{"role": "user", "content": None}], "qwen2-vl", "messages[0].content"),
        (user({"type": "image"}), "qwen2-vl", "messages[0].content[0].type"),
        (
            user({"type": "image_url", "image_url": {"url": "data:image/png,x"}}),
            "qwen2-vl",
            "messages[0].content[0].image_url.url",
        ),
        (user("Hi"), "qwen3-vl", None),
    ],
)
def test_mistakes_are_errors_of_the_clients_own_kind(client: openai.OpenAI, messages, model, param):
    """With the place in the body."""
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model=model, messages=messages)

    assert 400 <= caught.value.status_code < 500
    assert caught.value.param == param or param is None


def test_models_are_listed(client: openai.OpenAI):
    """As the client reads them."""
    assert {"efficientnet-lite0", "qwen2-vl"} <= {model.id for model in client.models.list()}
