"""Qwen2-VL in Hugging Face transformers: the engine's face. torch comes in with ``create``, not with the import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from forebay.engine import Admission, Emission, Engine, Room
from forebay.errors import ConfigurationError
from forebay.model import ModelSource

if TYPE_CHECKING:
    from scheduler.engines.qwen2_vl_network import Network

_MODEL_TYPE = "qwen2_vl"


class Qwen2VLEngine(Engine):
    """Runs ``--model qwen2-vl=DIR``, greedily, on the GPU where there is one."""

    needs_folder: ClassVar[bool] = True

    def __init__(self, network: Network) -> None:
        self.network = network

    @classmethod
    def create(cls, model: ModelSource) -> Qwen2VLEngine:
        config = model.json("config.json")
        kind = config.get("model_type", str)
        if kind != _MODEL_TYPE:
            raise ConfigurationError(f"{config.path}: key 'model_type' is {kind!r}; this engine runs {_MODEL_TYPE!r}")
        from scheduler.engines.qwen2_vl_network import Network

        return cls(Network.load(model))

    def room(self) -> Room:
        return self.network.room()

    def admit(self, admission: Admission) -> None:
        self.network.begin(admission)

    def step(self) -> Sequence[Emission]:
        return self.network.advance_all()

    def abort(self, rid: str) -> None:
        self.network.sequences.pop(rid, None)
