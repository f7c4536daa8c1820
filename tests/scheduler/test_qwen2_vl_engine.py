"""A random Qwen2-VL, fed from our hand-off, against the same model fed by Hugging Face's own processor."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from forebay import ConfigurationError, DType, ModelSource, Prompt, Work
from forebay.drive import drive
from forebay.engine import Admission
from forebay.media import Image
from forebay.plugins import LoadedProcessor, engine_class, load_processor
from handoff.pool import Pool
from scheduler.engines.qwen2_vl import Qwen2VLEngine
from scheduler.engines.tensors import view
from scheduler.intake import Taken, admission_of
from tests.support import media
from tests.support.tiny_qwen import IMAGE_PAD, make_folder, transformers
from workers.decode import decode_image
from workers.reservation import Reservation
from workers.results import make_ticket

pytestmark = pytest.mark.parity

QUESTION = "<|vision_start|><|image_pad|><|vision_end|>What is in this picture?"
PAIR = QUESTION + "<|vision_start|><|image_pad|><|vision_end|>And here?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("qwen2-vl"), seed=7)


@pytest.fixture(scope="module")
def loaded(folder: Path) -> LoadedProcessor:
    return load_processor(ModelSource("qwen2-vl", folder))


@pytest.fixture(scope="module")
def engine(folder: Path) -> Qwen2VLEngine:
    return Qwen2VLEngine.create(ModelSource("qwen2-vl", folder))


@pytest.fixture
def pool(shm: Path) -> Path:
    Pool.create(shm / "pool", 64 << 20)
    return shm / "pool"


def hand_over(pool: Path, loaded: LoadedProcessor, text: str, pictures: list[Path], **sampling: int) -> Taken:
    """Worker's side and scheduler's side of one request, through the pool, with a ticket between them."""
    worker = Pool(pool, "worker", writable=True)
    images = tuple(Image(decode_image(path.read_bytes(), "image"), "sha256:x", 1) for path in pictures)
    reservation = Reservation(worker, "rid", 1, 0)
    reservation.reserve(sum(loaded.processor.feature_bytes(image) for image in images))
    work = Work("rid", Prompt(text=text), images, None, reservation.empty)
    output = drive(loaded.processor, loaded.capabilities, work, loaded.tokenizer)
    ticket = make_ticket(output, reservation, "rid", 1, "qwen2-vl", sampling)
    assert reservation.copied_bytes == 0  # the features were written in place
    reservation.park()
    scheduler = Pool(pool, "scheduler", writable=False)
    blocks = tuple(scheduler.take(handle) for handle in ticket.blocks)
    return Taken("claim", ticket, admission_of(ticket, blocks), blocks)


def reference_inputs(folder: Path, text: str, pictures: list[Path]) -> dict[str, torch.Tensor]:
    """What Hugging Face's image processor and the placeholder rule make of the same request."""
    hf = transformers()
    images = [Pillow.open(path).convert("RGB") for path in pictures]
    inputs = dict(hf.Qwen2VLImageProcessor.from_pretrained(folder)(images, return_tensors="pt"))
    parts = text.split("<|image_pad|>")
    pads = [int(grid.prod()) // 4 for grid in inputs["image_grid_thw"]]
    expanded = parts[0] + "".join("<|image_pad|>" * n + part for n, part in zip(pads, parts[1:], strict=True))
    from tokenizers import Tokenizer

    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(expanded, add_special_tokens=False).ids
    inputs["input_ids"] = torch.tensor([ids])
    inputs["mm_token_type_ids"] = (inputs["input_ids"] == IMAGE_PAD).int()
    return inputs


def run_to_end(engine: Qwen2VLEngine, admission: Admission) -> tuple[str, int, str]:
    engine.admit(admission)
    text, tokens = "", 0
    while True:
        (emission,) = engine.step()
        text, tokens = text + emission.text, tokens + emission.tokens
        if emission.finish_reason:
            return text, tokens, emission.finish_reason


def first_logits(engine: Qwen2VLEngine, admission: Admission) -> torch.Tensor:
    engine.admit(admission)
    with torch.inference_mode():
        logits = engine.network.forward(engine.network.sequences["rid"])
    engine.abort("rid")
    return logits


@pytest.mark.parametrize(
    ("text", "pictures"),
    [(QUESTION, [media.rocket()]), (QUESTION, [media.coffee()]), (PAIR, [media.cat(), media.rocket()])],
    ids=["jpeg", "png", "two"],
)
def test_logits_are_those_of_hugging_face(engine, folder, loaded, pool, text, pictures):
    """Features, expanded prompt and positions from our hand-off give the very same first logits."""
    model = transformers().Qwen2VLForConditionalGeneration.from_pretrained(folder).eval()
    with torch.inference_mode():
        expected = model(**reference_inputs(folder, text, pictures), logits_to_keep=1).logits[0, -1]
    taken = hand_over(pool, loaded, text, pictures)

    assert torch.equal(first_logits(engine, taken.admission), expected.float())


def with_rounded_features(admission: Admission) -> Admission:
    """Every float32 feature cast to bfloat16 and back."""

    def rounded(array: np.ndarray) -> np.ndarray:
        return view(array).to(torch.bfloat16).to(torch.float32).numpy()

    return replace(admission, items=tuple(replace(one, array=rounded(one.array)) for one in admission.items))


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.BFLOAT16])
@pytest.mark.parametrize(
    ("text", "pictures"), [(QUESTION, [media.rocket()]), (PAIR, [media.cat(), media.rocket()])], ids=["one", "two"]
)
def test_small_features_give_the_same_answer(engine, folder, loaded, pool, dtype, text, pictures):
    """From pixels bit for bit; from bfloat16 as from float32 that was rounded once."""
    small = load_processor(ModelSource("qwen2-vl", folder, dtype))

    taken = hand_over(pool, small, text, pictures, max_new_tokens=4)
    full = hand_over(pool, loaded, text, pictures, max_new_tokens=4)
    if dtype is DType.BFLOAT16:
        full = replace(full, admission=with_rounded_features(full.admission))

    assert [one.dtype for one in taken.admission.items] == [dtype] * len(pictures)
    assert torch.equal(first_logits(engine, taken.admission), first_logits(engine, full.admission))
    assert run_to_end(engine, taken.admission) == run_to_end(engine, full.admission)


def test_greedy_tokens_are_those_of_hugging_face(engine, folder, loaded, pool):
    """Decoding goes on at the right positions."""
    model = transformers().Qwen2VLForConditionalGeneration.from_pretrained(folder).eval()
    inputs = reference_inputs(folder, QUESTION, [media.rocket()])
    with torch.inference_mode():
        ids = model.generate(**inputs, max_new_tokens=12, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    taken = hand_over(pool, loaded, QUESTION, [media.rocket()], max_new_tokens=12)

    text, tokens, reason = run_to_end(engine, taken.admission)

    assert tokens == len(ids)
    assert text == loaded.tokenizer.decode(ids.tolist())
    assert reason == ("stop" if int(ids[-1]) in engine.network.stop_ids else "length")


def test_the_tensor_lies_over_shared_memory(loaded, pool):
    """No copy between the pool and the model: the addresses are the same."""
    taken = hand_over(pool, loaded, QUESTION, [media.cat()])

    (item,) = taken.admission.items
    tensor = view(item.array)

    start = tensor.data_ptr() - taken.blocks[0].address
    assert 0 <= start < taken.blocks[0].handle.length
    assert tensor.data_ptr() % 64 == 0
    assert np.shares_memory(item.array, tensor.numpy())


def test_text_alone_needs_no_block_and_ordinary_positions(engine, loaded, pool):
    """A ticket without blocks carries its ids itself."""
    taken = hand_over(pool, loaded, "Hello there", [], max_new_tokens=2)

    assert taken.blocks == ()
    assert run_to_end(engine, taken.admission)[1] == 2


def test_room_shrinks_with_what_was_promised(engine, loaded, pool):
    """Prompt and budget of an admitted request are taken from the context."""
    before = engine.room()
    taken = hand_over(pool, loaded, "Hello there", [], max_new_tokens=5)

    engine.admit(taken.admission)
    during = engine.room()
    engine.abort("rid")

    assert (during.requests, during.tokens) == (before.requests - 1, before.tokens - 2 - 5)
    assert engine.room() == before


def test_another_model_type_is_refused_by_file_and_key(folder, tmp_path):
    """The operator learns which key of which file is wrong."""
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config))

    with pytest.raises(ConfigurationError, match=r"config\.json: key 'model_type' is 'llama'"):
        Qwen2VLEngine.create(ModelSource("qwen2-vl", tmp_path))


def test_without_a_folder_there_is_no_engine():
    """The released geometry is enough for features, not for answers."""
    assert engine_class(ModelSource("qwen2-vl")) is None
