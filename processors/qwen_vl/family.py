"""The three processors. They differ in their settings and in the model types they serve, in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any, ClassVar, cast

from forebay import (
    Capabilities,
    DType,
    Expansion,
    Feature,
    Image,
    Layout,
    Media,
    Modality,
    ModelSource,
    Planned,
    Positions,
    Processed,
    Processor,
    Tokenizer,
    Work,
)
from processors.qwen_vl import mrope
from processors.qwen_vl import tokenizer as tokenizers
from processors.qwen_vl.folder import read_settings
from processors.qwen_vl.geometry import Grid
from processors.qwen_vl.settings import QWEN2, QWEN3, Settings

MAX_IMAGES = 64
GRID = "image_grid_thw"


class QwenVL(Processor):
    """Images of the Qwen-VL family.

    A feature is ``[patches, channels * temporal * patch * patch]`` of float32 or bfloat16, or, with a normalisation
    beside it, ``uint8 [patches, channels, patch * patch]``.
    """

    feature_dtypes = (DType.FLOAT32, DType.BFLOAT16, DType.UINT8)
    defaults: ClassVar[Settings]
    model_types: ClassVar[tuple[str, ...]]

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        self.settings = read_settings(model, self.model_types) if model.folder else self.defaults
        # torch comes with the kernel, so only where a processor is built: in a worker's child, after the fork.
        from processors.qwen_vl.kernel import Kernel

        self._kernel = Kernel(self.settings.geometry, self.settings.normalisation, model.feature_dtype)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.IMAGE: MAX_IMAGES},
            placeholders={Modality.IMAGE: self.settings.special.image_pad},
            rows_per_token=self.settings.geometry.merge**2,
            vocabulary=self.settings.vocabulary,
            context_tokens=self.settings.context_tokens,
            cacheable=True,
        )

    def config(self) -> Mapping[str, Any]:
        torch = version("torch").partition("+")[0]  # a release resizes alike in all its builds
        return {"settings": self.settings.as_json(), "resize": f"torch {torch}, uint8, bicubic, antialiased"}

    def tokenizer(self) -> Tokenizer | None:
        return self._tokenizer

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        """The package's, where no folder was given; a folder's own is loaded by the host, and only checked here."""
        if self.model.folder is None:
            path = tokenizers.packaged_file()
            return tokenizers.load(path, self.settings.special) if path else None
        path = self.model.folder / tokenizers.TOKENIZER
        if path.is_file():
            tokenizers.check_file(path, self.settings.special)
        return None

    def plan_item(self, media: Media) -> Planned | None:
        if not isinstance(media, Image):
            return None
        grid = self.settings.geometry.grid(media.height, media.width, media.param)
        return self._planned(grid)

    def _planned(self, grid: Grid) -> Planned:
        tokens = self.settings.geometry.tokens(grid)
        return Planned(self._kernel.shape(grid), self.model.feature_dtype, tokens, {GRID: grid.as_list()})

    def process_item(self, media: Media, work: Work) -> Processed:
        if not isinstance(media, Image):
            return super().process_item(media, work)
        grid = self.settings.geometry.grid(media.height, media.width, media.param)
        planned = self._planned(grid)
        array = work.empty(planned.shape, planned.dtype)
        self._kernel.write(media.pixels, grid, array)
        feature = Feature.of(array, planned.dtype, self._kernel.normalisation)
        return Processed(feature, planned.tokens, planned.model_specific)

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        return Layout.repeat(self.settings.special.image_pad, processed.tokens)

    def positions(self, expansion: Expansion, items: Sequence[Processed]) -> Positions | None:
        if not items:
            return None  # text alone counts in step on all three axes
        merge = self.settings.geometry.merge
        grids = (_grid(item).merged(merge) for item in items)
        placed = zip((spans[0] for spans in expansion.spans), grids, strict=True)
        return mrope.positions(len(expansion.input_ids), sorted(placed, key=lambda pair: pair[0].first))


class Qwen2VL(QwenVL):
    """Qwen2-VL."""

    defaults = QWEN2
    model_types = ("qwen2_vl",)


class Qwen25VL(QwenVL):
    """Qwen2.5-VL, which sees a still image exactly as Qwen2-VL does."""

    defaults = QWEN2
    model_types = ("qwen2_5_vl",)


class Qwen3VL(QwenVL):
    """Qwen3-VL, dense and mixture of experts."""

    defaults = QWEN3
    model_types = ("qwen3_vl", "qwen3_vl_moe")


def _grid(item: Processed) -> Grid:
    t, h, w = cast("list[int]", item.model_specific[GRID])
    return Grid(t, h, w)
