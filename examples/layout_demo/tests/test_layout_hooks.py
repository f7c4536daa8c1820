"""Each hook of the contract, seen to act: what the model would miss without it."""

from __future__ import annotations

import logging
from importlib import import_module

import numpy as np
import pytest
from forebay_layout_demo.processor import LayoutDemo2D, LayoutDemoProcessor

from forebay import Clip, ConfigurationError, ModelSource, Processor, Prompt, Rejected, Work, WorkerStart
from forebay.drive import drive, typed_extensions
from forebay.plugins import load_processor
from forebay.testing import image, run_processor, video

PAGE = 256


def page(height=40, width=60):
    return image(np.random.default_rng(1).integers(0, 256, (height, width, 3)))


def typed(processor, **extensions):
    return typed_extensions(processor.capabilities(), extensions, load=processor.load_extensions)


def test_every_method_of_the_contract_is_used_but_three():
    """A tokenizer is the folder's, and two know no boxes. A hook that is new is missing here."""
    methods = {name for name, one in vars(Processor).items() if callable(getattr(Processor, name)) and name[0] != "_"}

    unused = methods - set(vars(LayoutDemoProcessor)) - set(vars(LayoutDemo2D))

    assert unused == {"tokenizer", "plan_item", "feature_bytes"}


def test_build_takes_the_class_that_the_folder_asks_for(changed):
    """One name, one entry point, two kinds of model."""
    ordinary = load_processor(changed(page_positions="ordinary")).processor
    two_d = load_processor(changed(page_positions="2d")).processor

    assert (type(ordinary), type(two_d)) == (LayoutDemoProcessor, LayoutDemo2D)


@pytest.mark.parametrize(("key", "value"), [("page_positions", "3d"), ("max_boxes", "many")])
def test_build_refuses_a_folder_that_will_not_do(changed, key, value):
    """When the worker starts, by file, key and value."""
    with pytest.raises(ConfigurationError, match=rf"config\.json: key '{key}'.*'{value}'"):
        load_processor(changed(**{key: value}))


def test_a_model_without_a_folder_is_told_what_is_missing():
    """Nothing is guessed."""
    with pytest.raises(ConfigurationError, match=r"was given no folder; config\.json is needed"):
        load_processor(ModelSource("layout-demo"))


def test_positions_follow_rows_and_columns_where_the_model_has_them(changed):
    """Three times a token's number, but for patches; an ordinary model has none."""
    request = {"media": [page(20, 40)], "input_ids": [7, PAGE, 9]}

    ordinary = run_processor(LayoutDemoProcessor.build(changed(page_positions="ordinary")), **request)
    two_d = run_processor(LayoutDemoProcessor.build(changed(page_positions="2d")), **request)

    assert ordinary.positions is None
    number, row, column = two_d.positions.mrope.tolist()  # a word, the thumbnail, four rows of eight and a mark, a word
    assert number == list(range(39))
    assert row == [0, 1, *[0] * 8, 10, *[1] * 8, 19, *[2] * 8, 28, *[3] * 8, 37, 38]
    assert column[:12] == [0, 1, *range(8), 10, 0]
    assert two_d.positions.delta == 0


def test_config_makes_another_fingerprint_of_another_setting(changed):
    """What is made with another setting is never found in the cache of this one."""
    one = load_processor(changed()).fingerprint

    assert load_processor(changed(max_boxes=7)).fingerprint != one
    assert load_processor(changed()).fingerprint == one


def test_start_worker_warms_up_and_says_so(processor, caplog):
    """With the child's number and cores, which an operator looks for."""
    with caplog.at_level(logging.INFO):
        processor.start_worker(WorkerStart(child=3, cores=(1, 5)))

    [record] = caplog.records
    assert (record.message, record.child, record.cores) == ("page reader is warm", 3, "1,5")


def test_start_worker_fails_where_no_page_can_be_made(model, monkeypatch):
    """So that a worker does not offer what it cannot do: the page is really made."""
    processor = LayoutDemoProcessor.build(model)
    monkeypatch.setattr(import_module("forebay_layout_demo.picture"), "_WRITERS", {})

    with pytest.raises(KeyError):
        processor.start_worker(WorkerStart(child=0, cores=()))


def test_cpu_threads_are_one_a_colour(processor):
    """And never more than there are cores."""
    assert [processor.cpu_threads(cores) for cores in (1, 2, 3, 64)] == [1, 2, 3, 3]


def test_load_extensions_holds_to_the_folders_number_of_boxes(changed):
    """Which the extension model by itself does not know."""
    boxes = [[0, 0, 5, 5]] * 3

    typed(LayoutDemoProcessor.build(changed(max_boxes=3)), multimodal_boxes=boxes)
    with pytest.raises(Rejected, match="page 0 has 3 boxes; this model reads at most 2") as refusal:
        typed(LayoutDemoProcessor.build(changed(max_boxes=2)), multimodal_boxes=boxes)

    assert (refusal.value.code, refusal.value.param) == ("invalid_extensions", "multimodal_boxes")


def test_extensions_of_gives_each_page_its_own_boxes(processor):
    """And no hint: nothing of a page may depend on it."""
    media = [page(), page()]
    extensions = typed(processor, multimodal_boxes=[[[0, 0, 5, 5]], [[1, 1, 2, 2], [3, 3, 4, 4]]], multimodal_hint="x")

    own = [processor.extensions_of(extensions, [one.modality for one in media], number) for number in range(2)]

    assert [one.multimodal_boxes for one in own] == [(((0, 0, 5, 5),),), (((1, 1, 2, 2), (3, 3, 4, 4)),)]
    assert [one.multimodal_hint for one in own] == [None, None]


@pytest.mark.parametrize("pages", [0, 1, 3])
def test_boxes_for_another_number_of_pages_are_refused(processor, pages):
    """Also where there is no page, and so no item that they could be asked for."""
    with pytest.raises(Rejected, match=f"boxes for 2 pages, the request has {pages}") as refusal:
        run_processor(
            processor, [page()] * pages, input_ids=[7] + [PAGE] * pages, extensions={"multimodal_boxes": [[], []]}
        )

    assert (refusal.value.code, refusal.value.param) == ("length_mismatch", "multimodal_boxes")


def test_sample_frames_takes_the_middle_of_a_film(processor):
    """Of one frame, that one."""
    clips = [Clip(frames=frames, fps=24, duration_s=1, width=8, height=8) for frames in (1, 2, 9)]

    assert [processor.sample_frames(clip, typed(processor)) for clip in clips] == [(0,), (1,), (4,)]


@pytest.mark.parametrize("media", [page(), video(np.zeros((1, 33, 21, 3)))])
@pytest.mark.parametrize("boxes", [[], [[0, 0, 5, 5]], [[0, 0, 5, 5]] * 7])
def test_what_is_planned_and_reserved_is_what_is_made(processor, media, boxes):
    """Shape, tokens and numbers of the patches; room for every feature, each from a line of 64 bytes on."""
    asked = []

    def allocate(shape, dtype):
        asked.append(-(-int(np.prod(shape)) * dtype.itemsize // 64) * 64)
        return np.empty(shape, dtype.carrier)

    own = typed(processor, multimodal_boxes=[boxes])
    ids = (processor.capabilities().placeholders[media.modality],)
    output = drive(processor, processor.capabilities(), Work("r", Prompt(ids=ids), (media,), own, allocate), None)
    planned = processor.plan_with(media, own)

    patches = output.items[0]
    assert (planned.shape, planned.dtype, planned.tokens) == (
        patches.feature.shape,
        patches.feature.dtype,
        patches.tokens,
    )
    assert planned.model_specific.items() <= patches.model_specific.items()
    assert processor.feature_bytes_with(media, own) == sum(asked)


def test_a_box_that_leaves_its_page_is_refused_before_anything_is_made(processor):
    """By the plan as by the work; with the box, the page and its size."""
    extensions = {"multimodal_boxes": [[0, 0, 5, 5], [0, 0, 61, 5]]}
    message = r"the box \[0, 0, 61, 5\] leaves image_data(\[0\])?, of 60x40 pixels"

    with pytest.raises(Rejected, match=message):
        processor.plan_with(page(), typed(processor, **extensions))
    with pytest.raises(Rejected, match=message) as refusal:
        run_processor(processor, [page()], input_ids=[PAGE], extensions=extensions)

    assert (refusal.value.code, refusal.value.param) == ("box_outside_page", "multimodal_boxes")
    assert processor.feature_bytes_with(page(), typed(processor, **extensions)) == 0


def test_process_puts_the_hint_before_the_prompt(processor, tokenizer):
    """Both by the host's tokenizer; spans move with it."""
    media, text = [page()], "read <page>!"

    without = run_processor(processor, media, text=text, tokenizer=tokenizer)
    output = run_processor(processor, media, text=text, tokenizer=tokenizer, extensions={"multimodal_hint": "total: "})

    assert output.input_ids.tolist() == [*b"total: ", *without.input_ids.tolist()]
    assert [span.first for span in output.items[0].spans] == [span.first + 7 for span in without.items[0].spans]
    np.testing.assert_array_equal(output.items[0].feature.array, without.items[0].feature.array)


def test_process_refuses_a_hint_that_is_no_text(processor, tokenizer):
    """Spelled out, a placeholder is one: it would ask for a page that nobody sent."""
    with pytest.raises(Rejected, match="spells the model's own token 256") as refusal:
        run_processor(
            processor, [page()], text="<page>", tokenizer=tokenizer, extensions={"multimodal_hint": "a <page>"}
        )

    assert (refusal.value.code, refusal.value.param) == ("invalid_extensions", "multimodal_hint")


@pytest.mark.parametrize(
    ("prompt", "param"),
    [({"text": "a"}, "text"), ({"input_ids": [PAGE], "extensions": {"multimodal_hint": "a"}}, "multimodal_hint")],
)
def test_process_needs_the_hosts_tokenizer_for_text(processor, prompt, param):
    """Ids without a hint need none."""
    with pytest.raises(Rejected, match=f"no tokenizer, which {param} needs") as refusal:
        run_processor(processor, [page()], **prompt)

    assert (refusal.value.code, refusal.value.param) == ("no_tokenizer", param)


def test_wrap_result_tells_of_the_whole_request_with_its_first_item(processor):
    """Its features are those that ``process`` has made."""
    extensions = {"multimodal_boxes": [[[0, 0, 5, 5]], [], [[0, 0, 5, 5], [1, 1, 2, 2]]]}

    output = run_processor(processor, [page()] * 3, input_ids=[PAGE] * 3, extensions=extensions)

    first, *others = output.items
    assert (first.model_specific["pages"], first.model_specific["regions"]) == (3, 3)
    assert not any("pages" in item.model_specific for item in others)
