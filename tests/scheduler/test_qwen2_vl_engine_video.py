"""A random Qwen2-VL that looks at a video and a picture, against the same model fed by Hugging Face's processors."""

from pathlib import Path

import pytest
import torch

from forebay import Admission, AdmittedItem, ModelSource
from forebay.plugins import load_processor
from forebay.testing import image, run_processor
from scheduler.engines.qwen2_vl import Qwen2VLEngine
from tests.processors.films import as_video, film
from tests.processors.pictures import noise
from tests.support.tiny_qwen import IMAGE_PAD, make_folder, transformers

pytestmark = pytest.mark.parity

VIDEO_PAD = IMAGE_PAD + 1
TEXT = "<|vision_start|><|video_pad|><|vision_end|>And <|vision_start|><|image_pad|><|vision_end|>what is it?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("qwen2-vl"), seed=7)


def test_logits_about_a_video_are_those_of_hugging_face(folder):
    """Frames, pictures, ids and positions of ours give the very same first logits."""
    frames, picture = film(5, 90, 120), noise(60, 80)
    loaded = load_processor(ModelSource("qwen2-vl", folder))
    output = run_processor(loaded.processor, [as_video(frames), image(picture)], text=TEXT, tokenizer=loaded.tokenizer)
    items = tuple(
        AdmittedItem(
            item.modality, item.feature.array, item.feature.dtype, item.spans, item.hash, dict(item.model_specific)
        )
        for item in output.items
    )
    hf, video = transformers(), loaded.processor.settings.video.geometry
    size = {"shortest_edge": video.min_pixels, "longest_edge": video.max_pixels}
    films = hf.Qwen2VLVideoProcessor(size=size, cap_pixels_per_frame=False)
    stills = hf.Qwen2VLImageProcessor.from_pretrained(folder)
    ids = torch.tensor([output.input_ids.tolist()])
    inputs = {
        **stills([picture], return_tensors="pt"),
        **films([frames], input_data_format="channels_last", return_tensors="pt"),
        "input_ids": ids,
        "mm_token_type_ids": (ids == IMAGE_PAD).int() + 2 * (ids == VIDEO_PAD).int(),
    }
    model = hf.Qwen2VLForConditionalGeneration.from_pretrained(folder).eval()
    with torch.inference_mode():
        expected = model(**inputs, logits_to_keep=1).logits[0, -1]

    engine = Qwen2VLEngine.create(ModelSource("qwen2-vl", folder))
    engine.admit(Admission("rid", output.input_ids, items, output.positions, {}))
    with torch.inference_mode():
        logits = engine.network.forward(engine.network.sequences["rid"])

    assert torch.equal(logits, expected.float())
