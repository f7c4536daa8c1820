"""The three processors. They differ in settings, in how frames are chosen and fitted, and in how a video is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from forebay import (
    Capabilities,
    Clip,
    DType,
    Expansion,
    Failed,
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
    Rejected,
    Run,
    Span,
    Tokenizer,
    Video,
    Work,
)
from forebay.features import Attribute
from forebay.processor import TypedExtensions
from processors.pixels.modes import Resample
from processors.qwen_vl import mrope
from processors.qwen_vl import tokenizer as tokenizers
from processors.qwen_vl.clips import grid_of_clip, grid_of_frames
from processors.qwen_vl.folder import read_settings
from processors.qwen_vl.geometry import Geometry, Grid
from processors.qwen_vl.sampling import Sampling, VideoOptions, evenly_from_first, evenly_to_last
from processors.qwen_vl.settings import QWEN2, QWEN3, QWEN25, Settings

if TYPE_CHECKING:
    from processors.qwen_vl.kernel import Kernel

MAX_IMAGES, MAX_VIDEOS = 64, 8
GRID, VIDEO_GRID, SECONDS, STAMPS = "image_grid_thw", "video_grid_thw", "second_per_grid_ts", "timestamps"
_EVEN_S = 0.002  # times that a container has rounded to milliseconds are those of a constant rate


class QwenVL(Processor):
    """Images and videos of the Qwen-VL family.

    A feature is ``[patches, channels * temporal * patch * patch]`` of float32 or bfloat16, or, with a normalisation
    beside it, ``uint8 [patches, channels, patch * patch]``; of a video with ``temporal`` times as many values.
    """

    feature_dtypes = (DType.FLOAT32, DType.BFLOAT16, DType.UINT8)
    defaults: ClassVar[Settings]
    model_types: ClassVar[tuple[str, ...]]

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        self.settings = read_settings(model, self.model_types) if model.folder else self.defaults
        # torch comes with the kernel, so only where a processor is built: in a worker's child, after the fork.
        from processors.qwen_vl.kernel import Kernel

        still, video = self.settings, self.settings.video
        self._kernel = Kernel(still.geometry, still.normalisation, model.feature_dtype, resample=still.resample)
        self._video_kernel = Kernel(video.geometry, video.normalisation, model.feature_dtype, moves=True)

    def capabilities(self) -> Capabilities:
        special = self.settings.special
        return Capabilities(
            modalities={Modality.IMAGE: MAX_IMAGES, Modality.VIDEO: MAX_VIDEOS},
            placeholders={Modality.IMAGE: special.image_pad, Modality.VIDEO: special.video_pad},
            extensions=VideoOptions,
            rows_per_token=self.settings.geometry.merge**2,
            vocabulary=self.settings.vocabulary,
            context_tokens=self.settings.context_tokens,
            cacheable=True,
        )

    def config(self) -> Mapping[str, Any]:
        return {
            "settings": self.settings.as_json(),
            "resize": {"images": self.settings.resample.described, "videos": Resample.TORCHVISION.described},
        }

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

    def extensions_of(
        self, extensions: TypedExtensions, modalities: Sequence[Modality], number: int
    ) -> TypedExtensions:
        return _options(extensions).of_item(modalities, number)

    def sample_frames(self, clip: Clip, extensions: TypedExtensions) -> Sequence[int]:
        return self._choose(clip, _options(extensions).over(self.settings.video.sampling))

    def _choose(self, clip: Clip, sampling: Sampling) -> list[int]:
        return evenly_from_first(clip, sampling, self.settings.video.geometry.temporal)

    def plan_item(self, media: Media) -> Planned | None:
        return self.plan_with(media, None)

    def plan_with(self, media: Media, extensions: TypedExtensions) -> Planned | None:
        return self._plan(media, _options(extensions))[2] if isinstance(media, Image | Video) else None

    def _plan(self, media: Image | Video, options: VideoOptions) -> tuple[Kernel, Grid, Planned]:
        """What writes an item's feature, on which grid, and what it will be."""
        if isinstance(media, Image):
            kernel, geometry = self._kernel, options.limited(self.settings.geometry)
            grid = geometry.grid(media.height, media.width, media.param)
            told: Mapping[str, Attribute] = {GRID: grid.as_list()}
        else:
            kernel, geometry = self._video_kernel, options.limited_video(self.settings.video.geometry)
            grid = self._grid(media, geometry)
            told = {VIDEO_GRID: grid.as_list(), **self._times(media)}
        dtype, tokens = self.model.feature_dtype, geometry.tokens(grid)
        return kernel, grid, Planned(kernel.shape(grid), dtype, tokens, told, kernel.normalisation)

    def _grid(self, video: Video, geometry: Geometry) -> Grid:
        return grid_of_frames(geometry, len(video.frames), video.height, video.width, video.param)

    def _times(self, video: Video) -> Mapping[str, Attribute]:
        """What the model is told of a video's time: the seconds from one group of frames to the next, on average."""
        return {SECONDS: self.settings.video.geometry.temporal / video.sampled_fps}

    def process_item(self, media: Media, work: Work) -> Processed:
        if not isinstance(media, Image | Video):
            return super().process_item(media, work)
        kernel, grid, planned = self._plan(media, _options(work.extensions))
        array = work.empty(planned.shape, planned.dtype)
        if isinstance(media, Image):
            kernel.write(media.pixels, grid, array)
        else:
            kernel.write_frames(media.frames, grid, array)
        feature = Feature.of(array, planned.dtype, kernel.normalisation)
        return Processed(feature, planned.tokens, planned.model_specific)

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        special = self.settings.special
        pad = special.image_pad if modality is Modality.IMAGE else special.video_pad
        return Layout.repeat(pad, processed.tokens)

    def positions(self, expansion: Expansion, items: Sequence[Processed]) -> Positions | None:
        if not items:
            return None  # text alone counts in step on all three axes
        placed = zip(items, expansion.spans, strict=True)
        blocks = [block for item, spans in placed for block in self._blocks(item, spans)]
        return mrope.positions(len(expansion.input_ids), sorted(blocks, key=lambda block: block.span.first))

    def _blocks(self, item: Processed, spans: Sequence[Span]) -> Iterator[mrope.Block]:
        """Where an item's tokens lie in space and time."""
        yield mrope.Block(spans[0], self._token_grid(item), self._step(item))

    def _token_grid(self, item: Processed) -> Grid:
        told = item.model_specific
        t, h, w = cast("list[int]", told[GRID] if GRID in told else told[VIDEO_GRID])
        return Grid(t, h, w).merged(self.settings.geometry.merge)

    def _step(self, item: Processed) -> float:
        """Of a still image, and where time is counted in steps, 1."""
        if self.settings.tokens_per_second is None or GRID in item.model_specific:
            return 1.0
        seconds = item.model_specific.get(SECONDS)
        if not isinstance(seconds, float):
            raise Failed("invalid_result", f"a video of this model needs its {SECONDS}, got {seconds!r}")
        return mrope.step_of(seconds, self.settings.tokens_per_second)


class Qwen2VL(QwenVL):
    """Qwen2-VL."""

    defaults = QWEN2
    model_types = ("qwen2_vl",)


class Qwen25VL(QwenVL):
    """Qwen2.5-VL, which sees images and frames exactly as Qwen2-VL does, and counts their time in seconds."""

    defaults = QWEN25
    model_types = ("qwen2_5_vl",)


class Qwen3VL(QwenVL):
    """Qwen3-VL, dense and mixture of experts. A video is told group by group, each behind its time as text."""

    defaults = QWEN3
    model_types = ("qwen3_vl", "qwen3_vl_moe")

    def _choose(self, clip: Clip, sampling: Sampling) -> list[int]:
        return evenly_to_last(clip, sampling)

    def _grid(self, video: Video, geometry: Geometry) -> Grid:
        return grid_of_clip(geometry, len(video.frames), video.height, video.width, video.param)

    def _times(self, video: Video) -> Mapping[str, Attribute]:
        """The time of each group, in seconds: the mean of its first frame's and its last one's."""
        temporal = self.settings.video.geometry.temporal
        times = _shown(video)
        times += [times[-1]] * (-len(times) % temporal)
        return {STAMPS: [(times[at] + times[at + temporal - 1]) / 2 for at in range(0, len(times), temporal)]}

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        if modality is not Modality.VIDEO:
            return super().layout(processed, modality)
        special, stamps = self.settings.special, cast("list[float]", processed.model_specific[STAMPS])
        runs: list[Run] = []
        for stamp in stamps:
            runs += [Run(token, 1, carries=False) for token in self._encode(f"<{stamp:.1f} seconds>")]
            runs.append(Run(special.vision_start, 1, carries=False))
            runs.append(Run(special.video_pad, processed.tokens // len(stamps)))
            runs.append(Run(special.vision_end, 1, carries=False))
        return Layout(tuple(runs))

    def _encode(self, text: str) -> list[int]:
        if self._words is None:
            raise Rejected("no_tokenizer", "this model tells times as text, and has no tokenizer", param="video_data")
        return self._words.encode(text)

    @cached_property
    def _words(self) -> Tokenizer | None:
        if self.model.folder is None:
            return self._tokenizer
        path = self.model.folder / tokenizers.TOKENIZER
        return tokenizers.load(path, self.settings.special) if path.is_file() else None

    def _blocks(self, item: Processed, spans: Sequence[Span]) -> Iterator[mrope.Block]:
        grid = self._token_grid(item)
        for span in spans:
            yield mrope.Block(span, Grid(1, grid.h, grid.w))


def _options(extensions: TypedExtensions) -> VideoOptions:
    return extensions if isinstance(extensions, VideoOptions) else VideoOptions()


def _shown(video: Video) -> list[float]:
    """When each frame is shown: at a constant rate by its number, as the reference has it; else as the file says."""
    even = [index / video.clip.fps for index in video.indices]
    is_even = all(abs(time - true) <= _EVEN_S for time, true in zip(even, video.times_s, strict=True))
    return even if is_even else list(video.times_s)
