"""``/v1/plan`` on a worker: what a request would become is what it becomes, and nothing is decoded for it."""

import io
import zlib

import numpy as np
import pytest
import soundfile
from PIL import Image

from forebay import DType, Modality, ModelSource, Planned, Prompt, Rejected
from forebay.task import Kind
from handoff.pool.owners import marks_of
from tests.support.media import coffee, encoded, fox_recording, plain_png, rocket
from tests.support.toys import Cinema, Toy
from tests.support.videos import encoded as encoded_video
from tests.support.videos import shades
from workers.decode import decode_audio, decode_image
from workers.decode.audio import audio_length
from workers.decode.header import image_size
from workers.pace import ASSUMED_S_A_BYTE, Pace

PNG = plain_png(2, 3)


class Foreseeing(Toy):
    """A toy that says beforehand what it will make."""

    def plan_item(self, media):
        rows = self._rows(media)
        return Planned((rows, 3), DType.FLOAT32, rows, {"rows": rows})


def turned(orientation: int, kind: str = "JPEG") -> bytes:
    """A picture of 8x5 pixels, stored lying in one of the eight ways."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(np.zeros((5, 8, 3), np.uint8), kind, exif=exif)


def sixteen_bit() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((4, 9), np.uint16)).save(buffer, "PNG")
    return buffer.getvalue()


def tone(frames: int, rate: int) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(frames, np.float32), rate, "PCM_16", format="WAV")
    return buffer.getvalue()


PICTURES = {
    "jpeg": lambda: rocket().read_bytes(),
    "png": lambda: coffee().read_bytes(),
    "one pixel": lambda: plain_png(1, 1),
    "grey 16 bit": sixteen_bit,
    "webp": lambda: encoded(np.zeros((7, 5, 3), np.uint8), "WEBP"),
    "gif": lambda: encoded(np.zeros((7, 5, 3), np.uint8), "GIF"),
    **{f"orientation {n}": lambda n=n: turned(n) for n in range(1, 9)},
    **{f"{kind.lower()}, turned": lambda kind=kind: turned(6, kind) for kind in ("PNG", "WEBP", "AVIF", "TIFF")},
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_header_tells_the_size_of_the_decoded_picture(name):
    """Whatever the format, and however it lies."""
    data = PICTURES[name]()

    assert image_size(data, "image_data") == decode_image(data, "image_data").shape[:2]


@pytest.mark.parametrize(
    ("frames", "rate"), [(1, 16_000), (16_001, 16_000), (44_100, 44_100), (12_345, 8_000), (3, 48_000)]
)
def test_the_header_tells_the_length_of_the_decoded_recording(frames, rate):
    """To one or two samples: what resampling adds at the end is the resampler's business."""
    data = tone(frames, rate)

    assert abs(audio_length(data, 16_000, "audio_data") - len(decode_audio(data, 16_000, "audio_data"))) <= 2


def test_a_recording_from_a_package_has_its_length():
    """As it is at the rate that the model takes."""
    data = fox_recording().read_bytes()

    assert audio_length(data, 16_000, "audio_data") == len(decode_audio(data, 16_000, "audio_data"))


@pytest.mark.parametrize("data", [b"", b"no picture", PNG[:20]])
def test_what_has_no_header_is_refused_as_the_decoder_refuses_it(data):
    """With the same code."""
    codes = []
    for read in (image_size, decode_image):
        with pytest.raises(Rejected) as caught:
            read(data, "image_data[2]")
        codes.append(caught.value.code)
        assert caught.value.param == "image_data[2]"

    assert codes[0] == codes[1]


def test_a_bomb_is_refused_by_its_header():
    """C010: before a pixel is made."""
    head = b"IHDR" + (20_000).to_bytes(4, "big") * 2 + bytes((8, 2, 0, 0, 0))
    bomb = PNG[:12] + head + zlib.crc32(head).to_bytes(4, "big") + PNG[33:]

    with pytest.raises(Rejected, match="400000000 pixels"):
        image_size(bomb, "image_data")


# pace


def test_an_estimate_begins_as_an_assumption_and_becomes_a_measure():
    """A running mean: one slow request does not make all of them slow."""
    pace = Pace()
    assert not pace.is_measured("m")
    assert pace.estimate_s("m", 10**9) == pytest.approx(10**9 * ASSUMED_S_A_BYTE)

    for _ in range(3):
        pace.note("m", 1000, 2.0)
    pace.note("m", 1000, 22.0)
    pace.note("m", 0, 99.0)

    assert pace.is_measured("m")
    assert pace.estimate_s("m", 1000) == pytest.approx(4.0)


# plans


def planned(node, driver, *media, rid="r1", **body):
    """The plan of a request."""
    driver.run(node.task(*media, rid=rid, token=f"t-{rid}", **{"kind": Kind.PLAN, **body}))
    record = node.way.record(rid)
    assert node.pool.blocks() == []
    assert record.problem is None, record.problem
    return record.result


@pytest.mark.service
def test_a_plan_is_what_becomes_of_the_request(node):
    """Tokens, shapes, bytes: the same numbers as of the real thing."""
    references = [node.reference(PNG), node.reference(plain_png(4, 1), param="image_data[1]")]
    driver = node.driver(Foreseeing(ModelSource("toy")))

    plan = planned(node, driver, *references)
    driver.run(node.task(*references, rid="r2", token="t2", kind=Kind.PREPROCESS))
    real = node.way.record("r2").result

    assert plan["prompt_tokens"] == len(real["input_ids"]) == 5
    for foreseen, made in zip(plan["items"], real["items"], strict=True):
        assert foreseen["feature"]["shape"] == made["feature"]["shape"]
        assert foreseen["model_specific_data"] == made["model_specific_data"]
        assert foreseen["tokens"] == sum(last - first + 1 for first, last in made["offsets"])
    assert plan["feature_bytes"] == 4 * 12
    assert (plan["pool_bytes"], plan["fits_pool"]) == (node.pool.data_bytes, True)
    assert plan["limits"]["items"] == {"image": 4, "audio": 1}


class Several(Foreseeing):
    """A toy whose items have another feature beside the one that is planned."""

    def feature_bytes_with(self, media, extensions):
        return 10 * super().feature_bytes_with(media, extensions)


@pytest.mark.service
def test_a_plan_counts_the_bytes_that_will_be_reserved(node):
    """Of items with several features, all of them."""
    plan = planned(node, node.driver(Several(ModelSource("toy"))), node.reference(PNG))

    assert plan["feature_bytes"] == 10 * 3 * 12


@pytest.mark.service
def test_even_a_header_is_read_under_limits_and_with_a_mark(node, monkeypatch):
    """A codec may die, or never end, over a header; what looks at it first must count."""
    driver, marks = node.driver(Foreseeing(ModelSource("toy"))), []

    def look(_data, param):
        marks.append(marks_of(node.folder, driver.owner))
        raise Rejected("media_too_slow", "too slow", param=param)

    monkeypatch.setattr("workers.planning.image_size", look)
    reference = node.reference(PNG)
    driver.run(node.task(reference, rid="r1", token="t-r1", kind=Kind.PLAN))

    assert node.way.record("r1").problem.code == "media_too_slow"
    assert marks == [{driver.owner: reference.digest}]
    assert marks_of(node.folder, driver.owner) == {}


@pytest.mark.service
def test_a_plan_decodes_nothing_and_makes_nothing(node):
    """Headers alone: also a picture whose pixels are cut off has a plan."""
    cut = encoded(np.zeros((64, 64, 3), np.uint8), "PNG")[:60]

    [item] = planned(node, node.driver(Foreseeing(ModelSource("toy"))), node.reference(cut))["items"]

    assert item["tokens"] == 64


@pytest.mark.service
def test_of_a_video_a_plan_decodes_the_first_frame_alone(node):
    """It tells which way up the video stands. That others are damaged is found when they are decoded."""
    frames = [np.random.default_rng(seed).integers(0, 255, (48, 64, 3), np.uint8) for seed in range(60)]
    data = encoded_video(frames, container={"movflags": "faststart"})
    middle = len(data) // 2
    reference = node.reference(data[:middle] + bytes(3000) + data[middle + 3000 :], Modality.VIDEO, "video_data")
    driver = node.driver(Cinema(ModelSource("toy")))

    body = {"prompt": Prompt(ids=(9,)), "extensions": {"multimodal_frames": 60}}

    [item] = planned(node, driver, reference, **body)["items"]
    driver.run(node.task(reference, rid="real", token="t", **body))

    assert item["tokens"] == 60
    assert node.way.record("real").problem.code == "damaged_video"


@pytest.mark.service
def test_a_plan_tells_what_the_cache_has(node):
    """And counts no CPU for it; another tenant's entry is none."""
    driver = node.driver(Foreseeing(ModelSource("toy")), cached=True)
    reference = node.reference(PNG)
    driver.cache.set_budget(1 << 20)
    before = planned(node, driver, reference, rid="before")

    driver.run(node.task(reference, rid="real", token="t"))
    node.way.cancel("real")
    for handle in [info.handle for info in node.pool.blocks()]:
        node.pool.free(handle)
    after = planned(node, driver, reference, rid="after")
    foreign = planned(node, driver, reference, rid="foreign", tenant="other")

    assert [plan["items"][0]["cached"] for plan in (before, after, foreign)] == [False, True, False]
    assert after["cpu_s"] == 0 < foreign["cpu_s"]
    assert (before["cpu_s_is_measured"], after["cpu_s_is_measured"]) == (False, True)


@pytest.mark.service
def test_what_a_processor_does_not_foresee_is_told_as_unknown(node):
    """Not as nothing."""
    plan = planned(node, node.driver(), node.reference(PNG))

    assert plan["prompt_tokens"] is None
    assert (plan["items"][0]["tokens"], plan["items"][0]["feature"]) == (None, None)


@pytest.mark.service
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"prompt": Prompt(ids=(1, 2))}, "placeholder_mismatch"),
        ({"prompt": Prompt(ids=(7, 5000))}, "invalid_token_id"),
        ({"extensions": {"multimodal_nothing": 1}}, "invalid_extensions"),
    ],
)
def test_a_plan_is_refused_for_what_the_request_would_be(node, body, code):
    """So that a caller finds out before it sends the rest."""
    driver = node.driver(Foreseeing(ModelSource("toy")))
    driver.run(node.task(node.reference(PNG), kind=Kind.PLAN, **body))

    assert node.way.record().problem.code == code


@pytest.mark.service
def test_a_plan_of_a_video_is_what_becomes_of_it(node, monkeypatch):
    """From its header and its packets: the frames, and what they become."""
    reference = node.reference(encoded_video(shades(6)), Modality.VIDEO, "video_data")
    driver = node.driver(Cinema(ModelSource("toy")))
    body = {"prompt": Prompt(ids=(1, 9)), "extensions": {"multimodal_frames": 3}}
    driver.run(node.task(reference, rid="real", token="t", kind=Kind.PREPROCESS, **body))
    monkeypatch.setattr("workers.decode.video._take", None)

    plan = planned(node, driver, reference, **body)

    [real], [item] = node.way.record("real").result["items"], plan["items"]
    assert plan["prompt_tokens"] == len(node.way.record("real").result["input_ids"]) == 4
    assert item["feature"]["shape"] == real["feature"]["shape"] == [3, 3]
    assert item["model_specific_data"] == real["model_specific_data"] == {"frames": [0, 1, 2]}


@pytest.mark.service
def test_a_video_that_is_none_is_refused_by_its_place(node):
    """As the request itself."""
    driver = node.driver(Cinema(ModelSource("toy")))
    driver.run(node.task(node.reference(b"x", Modality.VIDEO, "video_data"), kind=Kind.PLAN))

    assert node.way.record().problem.param == "video_data"
