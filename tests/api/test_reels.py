"""A list of frames in a body is one item, in SGLang's shape and in OpenAI's."""

import json

import pytest

from api.body import read_call
from api.chat_body import read_chat
from api.limits import Limits
from api.reels import DEFAULT_FPS, MOST_FRAMES
from forebay import Rejected
from forebay.features import Modality


def read(video: object, **more: object):
    return read_call(json.dumps({"text": "Hi", "video_data": video, **more}).encode())


def chat(video: object):
    parts = [{"type": "video_url", "video_url": video}]
    body = json.dumps({"messages": [{"role": "user", "content": parts}]}).encode()
    return read_chat(body, Limits()).call


def test_a_list_of_frames_is_one_source():
    """Each frame has its place, and may be whatever an item may be."""
    [source] = read({"frames": ["QUJD", {"url": "http://example.org/a"}], "fps": 4}).only.sources

    assert (source.modality, source.param, source.fps) == (Modality.VIDEO, "video_data", 4.0)
    assert [(one.text, one.param) for one in source.leaves] == [
        ("QUJD", "video_data.frames[0]"),
        ("http://example.org/a", "video_data.frames[1]"),
    ]


def test_it_stands_among_other_videos_and_in_a_conversation():
    """And without a rate it is one of two frames a second."""
    plain, listed = read(["QUJD", {"frames": ["QQ=="]}]).only.sources
    [told] = chat({"frames": ["QQ=="]}).only.sources

    assert (plain.frames, listed.param, listed.fps) == ((), "video_data[1]", DEFAULT_FPS)
    assert told.leaves[0].param == "messages[0].content[0].video_url.frames[0]"


def test_a_batch_has_one_for_each_prompt_or_for_all():
    """As any item."""
    for video in ([[{"frames": ["QQ=="]}], [{"frames": ["QUJD"]}]], {"frames": ["QQ=="]}):
        call = read(video, text=["a", "b"])

        assert [len(slot.sources) for slot in call.slots] == [1, 1]
        assert all(slot.sources[0].frames for slot in call.slots)


def test_an_image_is_no_list_of_frames():
    """Only a video has frames."""
    with pytest.raises(Rejected, match="image_data: a media object needs a non-empty 'url'"):
        read(None, image_data={"frames": ["QUJD"]})


@pytest.mark.parametrize("ask", [read, chat])
@pytest.mark.parametrize(
    ("video", "code", "said"),
    [
        ({"frames": []}, "invalid_media", ".frames must be a list of pictures, not an empty list"),
        ({"frames": "QUJD"}, "invalid_media", ".frames must be a list of pictures, not a string"),
        ({"frames": ["QUJD", 3]}, "invalid_media", ".frames[1] must be a string or an object with 'url', not a number"),
        ({"frames": [{"url": ""}]}, "invalid_media", ".frames[0] must be a string or an object with 'url'"),
        ({"frames": ["QQ=="], "url": "QQ=="}, "invalid_media", "give either frames or url, not both"),
        ({"frames": ["QQ=="], "fps": 0}, "invalid_media", ".fps must be a number above 0 and at most 1000, got 0"),
        ({"frames": ["QQ=="], "fps": True}, "invalid_media", "got a boolean"),
        ({"frames": ["QQ=="], "fps": 10**400}, "invalid_media", ".fps must be a number"),
        (
            {"frames": ["QQ=="] * (MOST_FRAMES + 1)},
            "video_too_long",
            f"has {MOST_FRAMES + 1} frames; the limit of a list is {MOST_FRAMES}",
        ),
    ],
)
def test_a_list_that_is_none_is_refused(ask, video, code, said):
    """Naming the field, and the numbers."""
    with pytest.raises(Rejected) as caught:
        ask(video).only.sources  # noqa: B018

    assert (caught.value.code, caught.value.status) == (code, 400)
    assert said in caught.value.message


def test_a_list_for_every_prompt_counts_all_its_frames():
    """What is broadcast is bounded."""
    with pytest.raises(Rejected) as caught:
        read_call(
            json.dumps({"text": ["a"] * 3, "video_data": {"frames": ["A" * 40, "B" * 40]}}).encode(),
            Limits(broadcast_bytes=200),
        )

    assert caught.value.code == "broadcast_too_large"
    assert "one item of 80 bytes for 3 prompts makes 240 bytes" in caught.value.message
