"""Hugging Face folders of ten families, small enough for a test: real classes, a tokenizer trained on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.tiny_qwen import transformers as library

SIDE, PATCH = 56, 14
PINPOINTS = [[56, 112], [112, 56], [112, 112], [168, 56], [56, 168]]
_ROWS_AND_COLUMNS = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
_WORDS = "What is this? Describe the picture, and what is said in the recording.\n\n\n\n"


def tokenizer(*added: str, **named: str) -> Any:
    """A byte-level tokenizer of 400 words; ``named`` are special tokens that a family asks for by name."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    specials = ["<s>", "</s>", "<pad>", *added, *named.values()]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([_WORDS] * 20, trainer)
    return library().PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        **({"extra_special_tokens": named} if named else {}),
    )


def _square() -> dict[str, int]:
    return {"height": SIDE, "width": SIDE}


def _cropped() -> dict[str, Any]:
    return {"size": {"shortest_edge": SIDE}, "crop_size": _square()}


def llava() -> Any:
    return library().LlavaProcessor(
        library().CLIPImageProcessor(**_cropped()),
        tokenizer("<image>"),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def llava_next() -> Any:
    return library().LlavaNextProcessor(
        library().LlavaNextImageProcessor(**_cropped(), image_grid_pinpoints=PINPOINTS),
        tokenizer("<image>"),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def llava_onevision() -> Any:
    return library().LlavaOnevisionProcessor(
        library().LlavaOnevisionImageProcessor(size=_square(), image_grid_pinpoints=PINPOINTS),
        tokenizer("<image>", "<video>"),
        library().LlavaOnevisionVideoProcessor(size=_square()),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
    )


def internvl() -> Any:
    return library().InternVLProcessor(
        library().GotOcr2ImageProcessor(size=_square(), crop_to_patches=True, min_patches=1, max_patches=6),
        tokenizer(
            start_image_token="<img>",
            end_image_token="</img>",
            context_image_token="<IMG_CONTEXT>",
            video_token="<video>",
        ),
        library().InternVLVideoProcessor(size=_square()),
        image_seq_length=4,
    )


def idefics3() -> Any:
    return library().Idefics3Processor(
        library().Idefics3ImageProcessor(size={"longest_edge": 4 * SIDE}, max_image_size={"longest_edge": SIDE}),
        tokenizer("<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *_ROWS_AND_COLUMNS),
        image_seq_len=4,
    )


def gemma3() -> Any:
    return library().Gemma3Processor(
        library().Gemma3ImageProcessor(size=_square(), do_pan_and_scan=False),
        tokenizer(boi_token="<start_of_image>", eoi_token="<end_of_image>", image_token="<image_soft_token>"),
        image_seq_length=4,
    )


def paligemma() -> Any:
    pictures = library().SiglipImageProcessor(size=_square())
    pictures.image_seq_length = 16
    return library().PaliGemmaProcessor(pictures, tokenizer())


def qwen2_audio() -> Any:
    return library().Qwen2AudioProcessor(
        library().WhisperFeatureExtractor(feature_size=128), tokenizer("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")
    )


def whisper() -> Any:
    specials = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
    return library().WhisperProcessor(library().WhisperFeatureExtractor(), tokenizer(*specials))


def clip() -> Any:
    return library().CLIPProcessor(library().CLIPImageProcessor(**_cropped()), tokenizer())


FAMILIES: dict[str, Callable[[], Any]] = {
    "llava": llava,
    "llava-next": llava_next,
    "llava-onevision": llava_onevision,
    "internvl": internvl,
    "idefics3": idefics3,
    "gemma3": gemma3,
    "paligemma": paligemma,
    "clip": clip,
    "qwen2-audio": qwen2_audio,
    "whisper": whisper,
}


def make_folder(family: str, folder: Path) -> Path:
    """Write a family's folder, without a model."""
    FAMILIES[family]().save_pretrained(folder)
    return folder
