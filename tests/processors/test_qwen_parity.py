"""Bit for bit what Hugging Face transformers 5.24.0 computes on a CPU, over many sizes."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image as Pillow

from forebay import ModelSource, Prompt, Rejected, Span, Work
from processors.pixels.sides import check_sides
from processors.qwen_vl import Qwen2VL, Qwen3VL, Qwen25VL
from processors.qwen_vl.geometry import Grid
from processors.qwen_vl.mrope import Block, positions
from tests.processors.pictures import as_image, landscape, noise
from tests.support.long import LONG

pytestmark = pytest.mark.parity

PAD = 151655
FAMILIES = {"qwen2-vl": Qwen2VL, "qwen2.5-vl": Qwen25VL, "qwen3-vl": Qwen3VL}
SIZES = [  # height, width: edges of every rule, then what people send
    *[(1, 1), (1, 2), (2, 1), (1, 200), (200, 1), (5, 7), (3, 600), (600, 3), (14, 700), (20, 700), (13, 14)],
    *[(26, 28), (27, 332), (30, 305), (28, 28), (42, 42), (70, 70), (56, 56), (56, 84), (61, 53), (97, 131)],
    *[(112, 112), (224, 224), (256, 256), (288, 416), (333, 517), (427, 640), (640, 427), (480, 640), (719, 1279)],
    *[(720, 1280), (1365, 2048), (1080, 1920)],
]
SEEDED = 90 if LONG else 20
SMART_RESIZES = 20_000 if LONG else 4_000
PROMPTS = 300 if LONG else 100


def reference(transformers, processor):
    """Hugging Face's image processor with the settings of ours, and its torchvision backend."""
    geometry, normalisation = processor.settings.geometry, processor.settings.normalisation
    made = transformers.Qwen2VLImageProcessor(
        patch_size=geometry.patch,
        merge_size=geometry.merge,
        temporal_patch_size=geometry.temporal,
        size={"shortest_edge": geometry.min_pixels, "longest_edge": geometry.max_pixels},
        image_mean=list(normalisation.mean),
        image_std=list(normalisation.std),
    )
    assert made.backend == "torchvision"
    return made


def encoded(pixels: np.ndarray, kind: str) -> bytes:
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, kind, quality=90)
    return file.getvalue()


def sizes(count: int, largest: int, seed: int) -> list[tuple[int, int]]:
    """Sides spread evenly over the orders of magnitude, none too thin."""
    rng = np.random.default_rng(seed)
    found: list[tuple[int, int]] = []
    while len(found) < count:
        height, width = np.exp(rng.uniform(0, np.log(largest), 2)).astype(int).tolist()
        if max(height, width) <= 200 * min(height, width):
            found.append((height, width))
    return found


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    """Alternating PNG and JPEG, grain and landscapes."""
    made = []
    for number, (height, width) in enumerate([*SIZES, *sizes(SEEDED, 700, seed=1)]):
        draw = (noise, landscape)[number // 2 % 2]
        made.append(encoded(draw(height, width, seed=number), ("PNG", "JPEG")[number % 2]))
    return made


@pytest.mark.parametrize("cls", FAMILIES.values(), ids=FAMILIES)
def test_features_and_grids_are_bit_equal(transformers, record_property, files, cls):
    """From one decoded picture, both give the same grid and the same float32 bits."""
    processor = cls(ModelSource("any"))
    theirs = reference(transformers, processor)
    different, compared = [], 0

    for data in files:
        picture = Pillow.open(io.BytesIO(data)).convert("RGB")
        expected = theirs(images=[picture], return_tensors="np")
        ours = as_image(np.array(picture))
        processed = processor.process_item(ours, Work("r", Prompt(ids=(PAD,)), (ours,)))
        compared += 1
        same_grid = processed.model_specific["image_grid_thw"] == expected["image_grid_thw"][0].tolist()
        if not same_grid or processed.feature.array.tobytes() != expected["pixel_values"].tobytes():
            different.append(picture.size)

    record_property("pictures compared", compared)
    record_property("pictures bit-equal", compared - len(different))
    print(f"{cls.__name__}: {compared} pictures compared, {compared - len(different)} bit-equal")
    assert different == []
    assert compared == len(SIZES) + SEEDED


@pytest.mark.parametrize("cls", FAMILIES.values(), ids=FAMILIES)
def test_limits_that_bite_are_bit_equal_too(transformers, cls):
    """A picture that must shrink, under limits of an operator's own."""
    processor = cls(ModelSource("any"))
    geometry = processor.settings.geometry
    theirs = reference(transformers, processor)
    for largest in (50_000, 200_704):
        tight = type(geometry)(geometry.patch, geometry.merge, geometry.temporal, 40_000, largest)
        kernel = processor._kernel
        for size in ((1365, 2048), (900, 700), (77, 2000), (100, 100)):
            pixels = landscape(*size)
            expected = theirs(
                images=[Pillow.fromarray(pixels)],
                size={"shortest_edge": 40_000, "longest_edge": largest},
                return_tensors="np",
            )
            grid = tight.grid(*size)
            feature = np.empty((grid.patches, geometry.patch_values), np.float32)
            kernel.write(pixels, grid, feature)

            assert grid.as_list() == expected["image_grid_thw"][0].tolist()
            assert feature.tobytes() == expected["pixel_values"].tobytes()


def test_several_pictures_at_once_are_bit_equal(transformers):
    """C020: Hugging Face groups by size and puts the groups back; we never took them apart."""
    processor = Qwen2VL(ModelSource("any"))
    pictures = [noise(28, 28), landscape(225, 300), noise(42, 42), noise(28, 28, seed=5), landscape(300, 225)]

    expected = reference(transformers, processor)(
        images=[Pillow.fromarray(one) for one in pictures], return_tensors="np"
    )

    items = [as_image(one) for one in pictures]
    work = Work("r", Prompt(ids=(PAD,) * len(items)), tuple(items))
    ours = [processor.process_item(one, work) for one in items]
    assert [one.model_specific["image_grid_thw"] for one in ours] == expected["image_grid_thw"].tolist()
    assert b"".join(one.feature.array.tobytes() for one in ours) == expected["pixel_values"].tobytes()


@pytest.mark.parametrize("cls", [Qwen2VL, Qwen3VL], ids=["factor 28", "factor 32"])
def test_sizes_are_fitted_alike(transformers, record_property, cls):
    """The rule by itself, over many more sizes than can be computed."""
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    geometry = cls(ModelSource("any")).settings.geometry
    tried = [*SIZES, *sizes(SMART_RESIZES, 20_000, seed=2)]

    different = [
        size
        for size in tried
        if geometry.fit(*size) != smart_resize(*size, geometry.factor, geometry.min_pixels, geometry.max_pixels)
    ]

    record_property("sizes compared", len(tried))
    print(f"{cls.__name__}: {len(tried)} sizes compared, {len(tried) - len(different)} equal")
    assert different == []


def test_both_refuse_the_same_shapes(transformers):
    """Strictly more than 200, and nothing less."""
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    def refuses(call, *size):
        try:
            call(*size)
        except (Rejected, ValueError):
            return True
        return False

    thin = [(5, 1000), (5, 1001), (1, 200), (1, 201), (201, 1), (10, 2000), (10, 2001), (3, 599), (3, 601)]

    assert [refuses(check_sides, *size) for size in thin] == [refuses(smart_resize, *size) for size in thin]


def prompt(rng: np.random.Generator, merge: int) -> tuple[list[int], list[Grid], list[Span]]:
    """A random prompt: images with text between them, maybe before and behind."""
    ids: list[int] = [1] * int(rng.integers(0, 5))
    grids, spans = [], []
    for _ in range(rng.integers(1, 6)):
        h, w = (rng.integers(1, 12, 2) * merge).tolist()
        grids.append(Grid(1, h, w))
        count = grids[-1].merged(merge).patches
        spans.append(Span(len(ids), len(ids) + count - 1))
        ids += [PAD] * count + [1] * int(rng.integers(1, 6))
    return ids[: len(ids) - int(rng.integers(0, 2))], grids, spans


@pytest.mark.parametrize("name", ["qwen2_vl.Qwen2VL", "qwen2_5_vl.Qwen2_5_VL", "qwen3_vl.Qwen3VL"])
def test_positions_are_those_of_the_model(transformers, record_property, name):
    """get_rope_index of each model, with its own configuration, on prompts of one to five images."""
    import torch

    module, _, stem = name.partition(".")
    models = getattr(transformers.models, module)
    model_class = getattr(getattr(models, f"modeling_{module}"), f"{stem}Model")
    config = getattr(transformers, f"{stem}Config")()
    model = SimpleNamespace(
        config=config, get_vision_position_ids=lambda *a, **k: model_class.get_vision_position_ids(None, *a, **k)
    )
    merge = config.vision_config.spatial_merge_size
    rng = np.random.default_rng(3)

    for _ in range(PROMPTS):
        ids, grids, spans = prompt(rng, merge)
        tokens = torch.tensor([ids])
        expected, delta = model_class.get_rope_index(
            model, tokens, (tokens == PAD).int(), torch.tensor([grid.as_list() for grid in grids])
        )

        ours = positions(len(ids), [Block(span, grid.merged(merge)) for span, grid in zip(spans, grids, strict=True)])

        assert np.array_equal(ours.mrope, expected[:, 0].numpy())
        assert ours.delta == delta.item()
    record_property("prompts compared", PROMPTS)
    print(f"{stem}: {PROMPTS} prompts compared, all equal")


def test_a_folder_that_hugging_face_saved_is_read_as_it_was_meant(transformers, tmp_path):
    """Configuration and image settings as version 5.24.0 writes them, for each model."""
    for cls, stem in ((Qwen2VL, "Qwen2VL"), (Qwen25VL, "Qwen2_5_VL"), (Qwen3VL, "Qwen3VL")):
        defaults = cls.defaults
        folder = tmp_path / stem
        reference(transformers, SimpleNamespace(settings=defaults)).save_pretrained(folder)
        config = getattr(transformers, f"{stem}Config")()
        config.save_pretrained(folder)

        settings = cls(ModelSource("any", folder)).settings

        assert settings.geometry == defaults.geometry
        assert settings.normalisation == defaults.normalisation
        assert settings.special == defaults.special
        assert settings.vocabulary == config.text_config.vocab_size
