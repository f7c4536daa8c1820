"""Pictures of one size, bit for bit as Hugging Face's image processors of both backends make them."""

import json

import numpy as np
import pytest
from PIL import Image as Pillow

from forebay import ConfigurationError, Modality, ModelSource, Rejected, Span, testing
from processors.fixed_size import Llava, PictureEmbedding
from processors.fixed_size.folder import CLASSES
from processors.pixels.modes import Resample
from tests.processors.pictures import landscape, noise
from tests.support.hf_folders import PATCH, SIDE, llava

SIZES = [(1, 1), (1, 7), (60, 90), (224, 224), (300, 200), (97, 131), (20, 700), (333, 517), (480, 640), (719, 1279)]
VARIANTS = {
    "clip": ("CLIPImageProcessor", {}),
    "clip-odd": ("CLIPImageProcessor", {"size": {"shortest_edge": 57}, "crop_size": {"height": 40, "width": 33}}),
    "clip-square": (
        "CLIPImageProcessor",
        {"size": {"height": 56, "width": 56}, "crop_size": {"height": 56, "width": 56}},
    ),
    "siglip": ("SiglipImageProcessor", {}),
    "siglip-bilinear": ("SiglipImageProcessor", {"size": {"height": 70, "width": 42}, "resample": 2}),
    "llava": ("LlavaImageProcessor", {}),
}
MODES = {Resample.TORCHVISION: "", Resample.PIL: "Pil"}


def pictures():
    draw = (noise, landscape)
    return [draw[number % 2](*size, seed=number) for number, size in enumerate(SIZES)]


def saved(transformers, variant, mode, folder):
    """The reference, and its folder with the backend's name, which the reference itself leaves out."""
    name, settings = VARIANTS[variant]
    theirs = getattr(transformers, name + MODES[mode])(**settings)
    theirs.save_pretrained(folder)
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "image_processor_type": name + MODES[mode]}))
    assert theirs.backend == str(mode)
    return theirs


def write(folder, **settings):
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return ModelSource("clip", folder)


@pytest.mark.parity
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_pictures_are_bit_equal(transformers, tmp_path, variant, mode):
    """From the folder that the reference wrote, in both modes, at the edges of every rule."""
    theirs = saved(transformers, variant, mode, tmp_path)
    ours = PictureEmbedding(ModelSource("clip", tmp_path))

    output = testing.run_processor(ours, [testing.image(one) for one in pictures()], input_ids=[1])

    different = []
    for picture, item in zip(pictures(), output.items, strict=True):
        expected = theirs(images=[Pillow.fromarray(picture)], return_tensors="np")["pixel_values"][0]
        if item.feature.shape != expected.shape or item.feature.array.tobytes() != expected.tobytes():
            different.append(picture.shape)
    assert ours.settings.resample is mode
    assert different == []


@pytest.mark.parity
def test_llava_reads_a_picture_with_the_tokens_of_its_reference(transformers, tmp_path):
    """Prompt, spans and pixels of the whole processor, for two pictures without a word between."""
    theirs = llava()
    theirs.save_pretrained(tmp_path)
    image = theirs.image_token_id
    (tmp_path / "config.json").write_text(json.dumps({"image_token_index": image}))
    ours = Llava(ModelSource("llava", tmp_path))
    items = pictures()[2:4]
    text = "<image><image>What is this?"

    expected = theirs(text=[text], images=[Pillow.fromarray(one) for one in items], return_tensors="np")
    output = testing.check_processor(
        ours, [testing.image(one) for one in items], input_ids=theirs.tokenizer(text).input_ids
    )

    each = (SIDE // PATCH) ** 2
    assert output.input_ids.tolist() == expected["input_ids"][0].tolist()
    assert [item.spans for item in output.items] == [(Span(0, each - 1),), (Span(each, 2 * each - 1),)]
    assert np.array_equal(np.stack([item.feature.array for item in output.items]), expected["pixel_values"])


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({"vision_config": {"patch_size": 14}}, 16),
        ({"vision_config": {"patch_size": 14}, "vision_feature_select_strategy": "full"}, 17),
        (
            {"vision_config": {"patch_size": 14, "model_type": "siglip_vision_model"},
             "vision_feature_select_strategy": "full"},
            16,
        ),
    ],
)  # fmt: skip
def test_tokens_of_a_folder_without_a_processor_file_follow_from_its_tower(tmp_path, config, count):
    """CLIP's tower has a class token, which is left out or not; SigLIP's has none."""
    write(tmp_path, image_processor_type="CLIPImageProcessor", size=56, crop_size=56)
    (tmp_path / "config.json").write_text(json.dumps({"image_token_index": 7, **config}))

    planned = Llava(ModelSource("llava", tmp_path)).plan_item(testing.image(noise(10, 10)))

    assert planned.tokens == count


def test_words_stand_behind_the_pictures(tmp_path):
    """An embedding model reads no picture among its words."""
    ours = PictureEmbedding(write(tmp_path, image_processor_type="SiglipImageProcessor"))
    items = [testing.image(noise(30, 40)), testing.image(noise(40, 30))]

    output = testing.check_processor(ours, items, input_ids=[5, 6])

    assert output.input_ids.tolist() == [0, 0, 5, 6]
    assert [item.spans for item in output.items] == [(Span(0, 0),), (Span(1, 1),)]
    assert testing.run_processor(ours, items, text="").input_ids.tolist() == [0, 0]
    with pytest.raises(Rejected) as caught:
        testing.run_processor(ours, [], text="")
    assert caught.value.code == "empty_prompt"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"image_processor_type": "PixtralImageProcessor"}, "image_processor_type"),
        ({}, "image_processor_type"),
        ({"do_normalize": False}, "do_normalize"),
        ({"resample": 1}, "resample"),
        ({"image_std": [0, 1, 1]}, "image_std"),
        ({"image_mean": [0.5, 0.5]}, "image_mean"),
        ({"do_pad": True}, "do_pad"),
        ({"size": {"shortest_edge": 100}, "crop_size": {"height": 224, "width": 224}}, "size"),
        ({"do_center_crop": False, "size": {"shortest_edge": 224}}, "size"),
        ({"crop_size": {"height": 0, "width": 224}}, "crop_size"),
        ({"rescale_factor": -1}, "rescale_factor"),
        ({"tile": 3}, "tile"),
    ],
)
def test_a_setting_that_is_not_done_is_refused_by_its_key(tmp_path, settings, named):
    given = settings if named == "image_processor_type" else {"image_processor_type": "CLIPImageProcessor", **settings}

    with pytest.raises(ConfigurationError, match=named):
        PictureEmbedding(write(tmp_path, **given))


def test_a_picture_too_thin_is_refused_before_it_is_enlarged(tmp_path):
    ours = PictureEmbedding(write(tmp_path, image_processor_type="CLIPImageProcessor"))

    with pytest.raises(Rejected) as caught:
        testing.run_processor(ours, [testing.image(noise(1, 201))], text="")

    assert (caught.value.code, caught.value.param) == ("aspect_ratio", "image_data[0]")


def test_modes_have_fingerprints_of_their_own(tmp_path):
    configs = []
    for suffix in MODES.values():
        folder = tmp_path / (suffix or "plain")
        folder.mkdir()
        configs.append(PictureEmbedding(write(folder, image_processor_type=f"CLIPImageProcessor{suffix}")).config())

    assert json.dumps(configs[0]) != json.dumps(configs[1])


def test_every_class_of_the_table_is_served_without_a_word_more(tmp_path):
    for name in CLASSES:
        ours = PictureEmbedding(write(tmp_path, image_processor_type=name))
        assert ours.capabilities().modalities == {Modality.IMAGE: 64}
        assert ours.plan_item(testing.image(noise(3, 4))).shape == (3, 224, 224)
