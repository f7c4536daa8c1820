"""The processors of tiled pictures. They differ in how tiles are chosen, and in how a picture is told."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from forebay import (
    Capabilities,
    DType,
    Feature,
    Image,
    Layout,
    Media,
    Modality,
    ModelSource,
    Planned,
    Processed,
    Processor,
    Run,
    Work,
)
from forebay.features import Attribute
from processors.pixels.sides import check_sides
from processors.tiled.folder import (
    Settings,
    context_of,
    internvl_settings,
    internvl_tokens,
    next_settings,
    next_tokens,
)
from processors.tiled.grids import Canvas, canvas_by_shape, canvas_of_pinpoints, tokens_without_padding

MAX_IMAGES = 64
SIZES = "image_sizes"


class Tiled(Processor):
    """A feature is ``float32 [tiles, 3, height, width]``, bit-equal to the item's ``pixel_values``."""

    whole_first: ClassVar[bool]

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        self.settings = self._read()
        # torch comes with the kernel, so only where a processor is built: in a worker's child, after the fork.
        from processors.tiled.kernel import Kernel

        self._kernel = Kernel(self.settings, whole_first=self.whole_first)

    @abstractmethod
    def _read(self) -> Settings:
        """The folder's settings."""

    @abstractmethod
    def _placeholder(self) -> int:
        """The token that stands for a picture."""

    @abstractmethod
    def _canvas(self, height: int, width: int) -> Canvas:
        """The tiles of a picture."""

    @abstractmethod
    def _tokens(self, height: int, width: int, canvas: Canvas) -> int:
        """How many tokens carry a picture."""

    def _told(self, height: int, width: int) -> Mapping[str, Attribute]:
        """What the model reads beside the pixels."""
        return {}

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.IMAGE: MAX_IMAGES},
            placeholders={Modality.IMAGE: self._placeholder()},
            context_tokens=context_of(self.model),
            cacheable=True,
        )

    def config(self) -> Mapping[str, Any]:
        return {"settings": self.settings.as_json(), "resize": self.settings.resample.described}

    def plan_item(self, media: Media) -> Planned | None:
        return self._plan(media)[1] if isinstance(media, Image) else None

    def _plan(self, media: Image) -> tuple[Canvas, Planned]:
        height, width = media.height, media.width
        check_sides(height, width, media.param)
        canvas = self._canvas(height, width)
        shape = (canvas.tiles, 3, *self.settings.tile)
        tokens = self._tokens(height, width, canvas)
        return canvas, Planned(shape, DType.FLOAT32, tokens, self._told(height, width))

    def process_item(self, media: Media, work: Work) -> Processed:
        if not isinstance(media, Image):
            return super().process_item(media, work)
        canvas, planned = self._plan(media)
        array = work.empty(planned.shape, planned.dtype)
        self._kernel.write(media.pixels, canvas, array)
        return Processed(Feature.of(array, planned.dtype), planned.tokens, planned.model_specific)

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        return Layout.repeat(self._placeholder(), processed.tokens)


class InternVL(Tiled):
    """InternVL: as many tiles as the picture's shape asks for, then the whole; told between two marks."""

    whole_first = False

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        self._ids = internvl_tokens(model)

    def _read(self) -> Settings:
        return internvl_settings(self.model)

    def _placeholder(self) -> int:
        return self._ids.context

    def _canvas(self, height: int, width: int) -> Canvas:
        return canvas_by_shape(height, width, self.settings.tile, self.settings.fewest, self.settings.most)

    def _tokens(self, height: int, width: int, canvas: Canvas) -> int:
        return canvas.tiles * self._ids.each

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        ids = self._ids
        return Layout(
            (Run(ids.start, 1, carries=False), Run(ids.context, processed.tokens), Run(ids.end, 1, carries=False))
        )


class LlavaNext(Tiled):
    """LLaVA-NeXT: the whole, then tiles of one of the given sizes; padding has no token, each row one more."""

    whole_first = True

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        self._ids = next_tokens(model, self.settings.tile)

    def _read(self) -> Settings:
        return next_settings(self.model)

    def _placeholder(self) -> int:
        return self._ids.placeholder

    def _canvas(self, height: int, width: int) -> Canvas:
        return canvas_of_pinpoints(height, width, self.settings.tile[0], self.settings.pinpoints)

    def _tokens(self, height: int, width: int, canvas: Canvas) -> int:
        return tokens_without_padding(height, width, canvas, self._ids.side) + self._ids.base

    def _told(self, height: int, width: int) -> Mapping[str, Attribute]:
        return {SIZES: [height, width]}
