"""What a package may change of the flow: each hook is called where the document says, and has a default."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from forebay import Image, ModelSource, Output, Rejected, WorkerStart
from forebay.drive import drive, drive_item, drive_prompt, prompt_ids, typed_extensions
from forebay.plugins import load_processor
from forebay.processor import Prompt, Work
from forebay.settings import load
from tests.support.toys import Toy, loaded
from workers.child import load_all
from workers.settings import WorkerSettings

HERE = "tests.forebay.test_hooks"


class Hooked(Toy):
    """Uses every hook."""

    started: ClassVar[list[WorkerStart]] = []
    chosen: str = ""

    @classmethod
    def build(cls, model: ModelSource) -> Hooked:
        built = super().build(model)
        built.chosen = model.name
        return built

    def start_worker(self, start: WorkerStart) -> None:
        self.started.append(start)

    def cpu_threads(self, cores: int) -> int:
        return max(1, cores // 2)

    def load_extensions(self, kind: Any, fields: Any) -> Any:
        if "multimodal_louder" in fields:  # what an earlier release called it
            fields = {"multimodal_gain": fields["multimodal_louder"]}
        if fields.get("multimodal_gain") == 13:
            raise Rejected("invalid_extensions", "13 is not taken", param="multimodal_gain")
        return super().load_extensions(kind, fields)

    def wrap_result(self, output: Output) -> Output:
        items = tuple(replace(item, model_specific={**item.model_specific, "of": 1}) for item in output.items)
        return replace(output, items=items)


class Unfit(Toy):
    """Cannot start in a child."""

    def start_worker(self, start: WorkerStart) -> None:
        raise RuntimeError(f"no room in child {start.child}")


@pytest.fixture
def hooked() -> Hooked:
    found = load_processor(ModelSource("mine", processor=f"{HERE}:Hooked"))
    assert isinstance(found.processor, Hooked)
    return found.processor


def test_a_class_makes_its_own_instance(hooked):
    """And may make another one of what it finds in the folder."""
    assert hooked.chosen == "mine"


def test_a_child_tells_a_processor_that_it_starts(monkeypatch):
    """Once, with its number and its cores; one that cannot start harms nobody else."""
    monkeypatch.setenv("FOREBAY_SECRET", "0123456789abcdef")
    Hooked.started.clear()
    given = {"FOREBAY_MODELS": "one,two", "FOREBAY_PROCESSOR": f"one={HERE}:Hooked,two={HERE}:Unfit"}

    processors, broken = load_all(load(WorkerSettings, given), WorkerStart(3, (4, 5)))

    assert list(processors) == ["one"]
    assert broken == {"two": "model 'two': its processor cannot start in a child: RuntimeError: no room in child 3"}
    assert Hooked.started == [WorkerStart(3, (4, 5))]


def test_a_processor_says_how_many_threads_it_wants(hooked):
    """Of the cores that its child has; one unless it says otherwise."""
    from threadpoolctl import threadpool_limits

    from workers.cores import limit_threads

    before = torch.get_num_threads()
    try:
        with threadpool_limits(before):
            limit_threads(hooked.cpu_threads(4))
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert Toy(ModelSource("toy")).cpu_threads(64) == 1


def test_a_processor_loads_its_own_extensions(hooked):
    """Old names, checks of its own; what its model refuses is told as ever."""
    kind = hooked.capabilities()

    assert typed_extensions(kind, {"multimodal_louder": 3}, load=hooked.load_extensions).multimodal_gain == 3
    with pytest.raises(Rejected, match="13 is not taken"):
        typed_extensions(kind, {"multimodal_gain": 13}, load=hooked.load_extensions)
    with pytest.raises(Rejected, match="multimodal_gain: Input should be a valid integer"):
        typed_extensions(kind, {"multimodal_gain": "3"}, load=hooked.load_extensions)


def test_a_processor_has_the_last_word_on_a_result(hooked):
    """Whether its items are made for the request or come from the cache."""
    media, capabilities = Image(np.zeros((2, 3, 3), np.uint8), "sha256:0", 1, "image_data"), hooked.capabilities()
    extensions = typed_extensions(capabilities, {})
    work = Work("r1", Prompt(ids=(1, 7)), (media,), extensions)

    whole = drive(hooked, capabilities, work, None)
    made = drive_item(hooked, capabilities, media, work)
    apart = drive_prompt(hooked, prompt_ids(work.prompt, None), [media], [made])

    assert [dict(item.model_specific) for item in (*whole.items, *apart.items)] == [{"rows": 2, "of": 1}] * 2
    assert loaded().processor.wrap_result(whole) is whole
