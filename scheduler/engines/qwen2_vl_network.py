"""The transformers model behind the Qwen2-VL engine, fed with our features and positions, not its own processor's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from tokenizers import Tokenizer

from forebay.engine import Admission, Emission, Room
from forebay.errors import ConfigurationError
from forebay.features import Modality
from forebay.model import ModelSource
from scheduler.engines.detokenizer import Detokenizer
from scheduler.engines.tensors import model_tensor, view

_MOST_REQUESTS = 8
_INPUTS = {
    Modality.IMAGE: ("pixel_values", "image_grid_thw"),
    Modality.VIDEO: ("pixel_values_videos", "video_grid_thw"),
}


@dataclass(slots=True, eq=False)
class Generation:
    """One admitted request. ``inputs`` hold the features until the first forward has read them."""

    rid: str
    inputs: dict[str, Any]
    length: int
    delta: int
    budget: int
    detokenizer: Detokenizer
    cache: Any
    last_id: int = -1
    made: int = 0

    @property
    def next_position(self) -> int:
        """M-RoPE position, on all three axes, of the token fed next."""
        return self.length + self.made - 1 + self.delta


@dataclass(slots=True, eq=False)
class Network:
    """The model and the sequences it works on; one sequence a forward."""

    model: Any
    tokenizer: Tokenizer
    stop_ids: frozenset[int]
    context: int
    sequences: dict[str, Generation] = field(default_factory=dict)

    @classmethod
    def load(cls, model: ModelSource) -> Network:
        """Load a folder's weights and tokenizer.

        Raises:
            ConfigurationError: transformers is not installed, or the folder lacks something.
        """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        network = _load_weights(model).to(device).eval()
        return cls(
            model=network,
            tokenizer=Tokenizer.from_file(str(model.file("tokenizer.json"))),
            stop_ids=_stop_ids(network),
            context=int(network.config.text_config.max_position_embeddings),
        )

    def room(self) -> Room:
        """Free places, and context that no sequence has been promised."""
        used = sum(one.length + one.budget for one in self.sequences.values())
        return Room(_MOST_REQUESTS - len(self.sequences), self.context - used)

    def begin(self, admission: Admission) -> None:
        """Take a request in; nothing is computed yet."""
        from transformers import DynamicCache

        self.sequences[admission.rid] = Generation(
            rid=admission.rid,
            inputs=self._inputs(admission),
            length=len(admission.input_ids),
            delta=admission.positions.delta if admission.positions else 0,
            budget=admission.max_new_tokens,
            detokenizer=Detokenizer(lambda ids: str(self.tokenizer.decode(list(ids)))),
            cache=DynamicCache(config=self.model.config),
        )

    def _inputs(self, admission: Admission) -> dict[str, Any]:
        """What the first forward takes; on the CPU float32 features stay in shared memory."""
        device, dtype = self.model.device, self.model.model.visual.dtype
        inputs: dict[str, Any] = {
            "input_ids": view(admission.input_ids)[None].to(device),
            "position_ids": self._position_ids(admission),
        }
        for modality, (values, grid) in _INPUTS.items():
            items = [item for item in admission.items if item.modality is modality]
            if items:
                # The vision tower casts its input to its own type first, so nothing is lost by giving it that type.
                pixels = [model_tensor(item, dtype=dtype, device=device) for item in items]
                inputs[values] = pixels[0] if len(pixels) == 1 else torch.cat(pixels)
                inputs[grid] = torch.tensor([item.model_specific[grid] for item in items], device=device)
        return inputs

    def _position_ids(self, admission: Admission) -> torch.Tensor:
        if admission.positions is None:
            return torch.arange(len(admission.input_ids), device=self.model.device).expand(3, 1, -1)
        return view(admission.positions.mrope)[:, None].to(self.model.device)

    @torch.inference_mode()
    def advance_all(self) -> list[Emission]:
        """One token for every sequence."""
        return [self._advance(one) for one in list(self.sequences.values())]

    def _advance(self, one: Generation) -> Emission:
        logits = self.forward(one)
        one.last_id = int(logits.argmax())
        one.made += 1
        if one.last_id in self.stop_ids:
            return self._finish(one, one.detokenizer.rest(), "stop")
        text = one.detokenizer.add(one.last_id)
        if one.made >= one.budget:
            return self._finish(one, text + one.detokenizer.rest(), "length")
        return Emission(one.rid, text, 1)

    def _finish(self, one: Generation, text: str, reason: str) -> Emission:
        del self.sequences[one.rid]
        return Emission(one.rid, text, 1, reason)

    def forward(self, one: Generation) -> torch.Tensor:
        """Logits ``float32 [vocabulary]`` of the next token: the whole prompt at first, then token by token."""
        if one.made == 0:
            inputs, one.inputs = one.inputs, {}  # the features are read once, and may go afterwards
        else:
            device = self.model.device
            inputs = {
                "input_ids": torch.tensor([[one.last_id]], device=device),
                "position_ids": torch.full((3, 1, 1), one.next_position, device=device),
            }
        output = self.model(**inputs, cache=one.cache, use_cache=True, logits_to_keep=1)
        logits: torch.Tensor = output.logits[0, -1].float()
        return logits


def _load_weights(model: ModelSource) -> Any:
    try:
        from transformers import Qwen2VLForConditionalGeneration
    except ImportError as error:
        message = f"the engine needs transformers: pip install 'forebay[transformers]' ({error})"
        raise ConfigurationError(message) from error
    try:
        return Qwen2VLForConditionalGeneration.from_pretrained(model.folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{model.folder}: the weights cannot be loaded: {error}") from error


def _stop_ids(network: Any) -> frozenset[int]:
    stop = network.generation_config.eos_token_id
    if stop is None:
        return frozenset()
    return frozenset([stop] if isinstance(stop, int) else stop)
