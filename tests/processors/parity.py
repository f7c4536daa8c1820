"""Writes ``docs/parity.md``: families beside Hugging Face's own processors. ``python -m tests.processors.parity``."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from forebay import ModelSource, Prompt, Work, testing
from processors.fixed_size import PictureEmbedding
from processors.log_mel import Qwen2Audio, Whisper
from processors.pixels.modes import Resample
from tests.processors import test_fixed_size, test_log_mel, test_qwen_parity, test_qwen_video_parity, test_tiled
from tests.processors.hf_cases import compare_folder
from tests.processors.pictures import as_image, landscape, noise, with_pillow
from tests.support import hf_folders
from tests.support.tiny_qwen import transformers as library

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "docs" / "parity.md"
SUFFIX = {Resample.TORCHVISION: "", Resample.PIL: "Pil"}


@dataclass(frozen=True, slots=True)
class Row:
    """What was compared of one family: ``largest`` is the largest difference of two values, of all cases."""

    family: str
    modality: str
    mode: str
    compared: int
    equal: int
    largest: float

    @classmethod
    def of(cls, family: str, modality: str, mode: str, differences: list[float]) -> Row:
        equal = sum(difference == 0 for difference in differences)
        return cls(family, modality, mode, len(differences), equal, max(differences))

    def line(self) -> str:
        largest = "0" if self.largest == 0 else f"{self.largest:.1e}"
        return f"| {self.family} | {self.modality} | {self.mode} | {self.compared} | {self.equal} | {largest} |"


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest of two arrays; infinite where they are not of one shape and type."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if ours.tobytes() == theirs.tobytes():
        return 0.0
    return max(float(np.abs(ours - theirs).max()), sys.float_info.min)  # a zero of another sign is no equal


def qwen_images() -> Iterator[Row]:
    """Pictures of every size that the tests name, grid and pixels."""
    for family, cls in test_qwen_parity.FAMILIES.items():
        for mode, suffix in SUFFIX.items():
            ours = (with_pillow(cls) if mode is Resample.PIL else cls)(ModelSource("any"))
            geometry, normalisation = ours.settings.geometry, ours.settings.normalisation
            theirs = getattr(library(), f"Qwen2VLImageProcessor{suffix}")(
                patch_size=geometry.patch,
                merge_size=geometry.merge,
                size={"shortest_edge": geometry.min_pixels, "longest_edge": geometry.max_pixels},
                image_mean=list(normalisation.mean),
                image_std=list(normalisation.std),
            )
            found = []
            for number, size in enumerate(test_qwen_parity.SIZES):
                pixels = (noise, landscape)[number % 2](*size, seed=number)
                expected = theirs(images=[Pillow.fromarray(pixels)], return_tensors="np")
                item = as_image(pixels)
                made = ours.process_item(item, Work("r", Prompt(ids=()), (item,)))
                same = made.model_specific["image_grid_thw"] == expected["image_grid_thw"][0].tolist()
                found.append(difference(made.feature.array, expected["pixel_values"]) if same else float("inf"))
            yield Row.of(family, "image", mode, found)


def qwen_videos() -> Iterator[Row]:
    """Films of several lengths and sizes: chosen frames, grid and pixels."""
    for family, cls in test_qwen_video_parity.FAMILIES.items():
        ours = cls(ModelSource("any"))
        theirs = test_qwen_video_parity.video_reference(library(), ours)
        found = []
        for number, size in enumerate(test_qwen_video_parity.FILMS):
            frames = test_qwen_video_parity.film(*size, seed=number)
            item = test_qwen_video_parity.sampled(ours, frames, 30.0)
            given = [test_qwen_video_parity.metadata(frames, 30.0)]
            expected = theirs(
                videos=[frames], video_metadata=given, input_data_format="channels_last", return_tensors="np"
            )
            made = ours.process_item(item, Work("r", Prompt(ids=()), (item,)))
            same = made.model_specific["video_grid_thw"] == expected["video_grid_thw"][0].tolist()
            values = np.asarray(expected["pixel_values_videos"])
            found.append(difference(made.feature.array, values) if same else float("inf"))
        yield Row.of(family, "video", Resample.TORCHVISION, found)


def fixed_size(root: Path) -> Iterator[Row]:
    """The variants of the tests: sizes, crops, filters."""
    for variant in test_fixed_size.VARIANTS:
        for mode in SUFFIX:
            folder = root / f"{variant}-{mode}"
            theirs = test_fixed_size.saved(library(), variant, mode, folder)
            ours = PictureEmbedding(ModelSource("clip", folder))
            pixels = test_fixed_size.pictures()
            output = testing.run_processor(ours, [testing.image(one) for one in pixels], input_ids=[1])
            found = []
            for one, item in zip(pixels, output.items, strict=True):
                expected = theirs(images=[Pillow.fromarray(one)], return_tensors="np")["pixel_values"][0]
                found.append(difference(item.feature.array, expected))
            yield Row.of(variant, "image", mode, found)


def tiled(root: Path) -> Iterator[Row]:
    """Pictures alone: tiles, tokens and pixels."""
    for family in test_tiled.FAMILIES:
        for mode in SUFFIX:
            ours, theirs, token = test_tiled.made(library(), family, mode, root / f"{family}-{mode}")
            found = []
            for one in test_tiled.pictures():
                expected = theirs(text=[token], images=[Pillow.fromarray(one)], return_tensors="np")
                ids = theirs.tokenizer(token).input_ids
                output = testing.run_processor(ours, [testing.image(one)], input_ids=ids)
                pixels = np.asarray(expected["pixel_values"])
                pixels = pixels.reshape(-1, *pixels.shape[-3:])
                same = output.input_ids.tolist() == expected["input_ids"][0].tolist()
                found.append(difference(output.items[0].feature.array, pixels) if same else float("inf"))
            yield Row.of(family, "image", mode, found)


def log_mel(root: Path) -> Iterator[Row]:
    """Recordings of several lengths: noise, a tone, a quiet band beside a loud one, silence."""
    for family, cls, make in (
        ("whisper", Whisper, hf_folders.whisper),
        ("qwen2-audio", Qwen2Audio, hf_folders.qwen2_audio),
    ):
        theirs = make()
        token = getattr(theirs, "audio_token_id", 1)
        folder = test_log_mel.folder_of(theirs, root / f"native-{family}", audio_token_index=token)
        ours: Any = cls(ModelSource(family, folder))
        found = []
        for kind in test_log_mel.KINDS:
            for number, seconds in enumerate(test_log_mel.SECONDS):
                samples = test_log_mel.recording(kind, seconds, number)
                extractor = theirs.feature_extractor
                expected = extractor(samples, sampling_rate=16_000, return_tensors="np")["input_features"][0]
                output = testing.run_processor(ours, [testing.audio(samples)], input_ids=[token])
                found.append(difference(output.items[0].feature.array, expected))
        yield Row.of(family, "audio", "torch", found)


def any_folder(root: Path) -> Iterator[Row]:
    """Whole prompts through the processor of any folder; without torchvision in a process of its own."""
    folders = {family: hf_folders.make_folder(family, root / f"any-{family}") for family in hf_folders.FAMILIES}
    for family, folder in folders.items():
        compared = compare_folder(folder)
        wrong = [max(one.largest, sys.float_info.min) if one.differences else 0.0 for one in compared]
        yield Row.of(f"{family} (`transformers`)", _modality(family), compared[0].backend, wrong)
    pictures = [str(folder) for family, folder in folders.items() if _modality(family) == "image"]
    program = [sys.executable, "-m", "tests.processors.hf_cases", *pictures]
    done = subprocess.run(program, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True)
    for folder, cases in json.loads(done.stdout).items():
        wrong = [max(largest, sys.float_info.min) if differs else 0.0 for _, _, differs, largest in cases]
        yield Row.of(f"{Path(folder).name.removeprefix('any-')} (`transformers`)", "image", "pil", wrong)


def _modality(family: str) -> str:
    return "audio" if family in ("whisper", "qwen2-audio") else "image"


def report(rows: list[Row]) -> str:
    """The document, with the versions that it was made with."""
    packages = ("transformers", "torch", "torchvision", "pillow", "numpy", "tokenizers")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    cases, equal = sum(row.compared for row in rows), sum(row.equal for row in rows)
    return f"""# Parity

Made by `make parity`; do not edit. Each case is one item, or for `transformers` one prompt with its items, through a
family of ours and through Hugging Face's own processor, on a CPU. A case is equal when every bit of the features is,
and grids, ids, tokens and spans where the family has them. What each family serves: [processors.md](processors.md).

With Python {platform.python_version()}, {versions}.

**{cases} cases compared, {equal} bit-equal.**

| family | modality | mode | cases | bit-equal | largest difference |
|---|---|---|---|---|---|
{chr(10).join(row.line() for row in rows)}
"""


def main() -> None:
    library()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        makers = (qwen_images(), qwen_videos(), fixed_size(root), tiled(root), log_mel(root), any_folder(root))
        rows = []
        for maker in makers:
            for row in maker:
                print(row.line(), flush=True)
                rows.append(row)
    REPORT.write_text(report(rows))
    if any(row.largest > test_log_mel.TOLERANCE for row in rows):
        raise SystemExit("not all is as near as it should be")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
