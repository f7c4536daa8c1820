"""A feature that the caller has made of an item, taken for the processor's own once it is held against its plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forebay.drive import drive_item
from forebay.dtypes import DType
from forebay.errors import Failed, Rejected
from forebay.features import Feature, Modality, Planned, Processed
from forebay.media import Image, Media, Video
from forebay.plugins import LoadedProcessor
from forebay.processor import TypedExtensions, Work
from forebay.validation import validate_processed


@dataclass(frozen=True, slots=True, eq=False)
class ReadyMade:
    """One such item.

    Attributes:
        feature: as the caller has sent it: not checked.
        outline: what it was made of, by its size: pixels and samples are a view of nothing.
    """

    feature: Feature
    outline: Media
    digest: str
    hash: int
    param: str

    @property
    def modality(self) -> Modality:
        return self.outline.modality


Item = Media | ReadyMade


def check_takes(loaded: LoadedProcessor, param: str) -> None:
    """Refuse a feature for a processor whose flow nobody but itself knows.

    Raises:
        Rejected: ``precomputed_unsupported``.
    """
    if not loaded.makes_items_alone:
        raise _unsupported(loaded, param, "it does not make items by themselves")


def bytes_of(loaded: LoadedProcessor, item: Item, extensions: TypedExtensions) -> int:
    """Bytes of the pool that an item will ask for; 0 if unknown."""
    if isinstance(item, ReadyMade):
        return item.feature.size_bytes
    return loaded.processor.feature_bytes_with(item, extensions)


def process(loaded: LoadedProcessor, item: Item, work: Work) -> Processed:
    """What becomes of an item by itself: made by the processor, or taken as it came.

    Args:
        loaded: whose item it is; of one that came ready-made, it makes items alone.
        item: what was loaded.
        work: carries its extensions, and memory for the feature.

    Raises:
        Rejected: the caller's mistake: also a ready-made feature that is not what the processor makes of such an item.
        Failed: the processor's mistake, or no room in the pool.
    """
    if isinstance(item, ReadyMade):
        return _take(loaded, item, work)
    return drive_item(loaded.processor, loaded.capabilities, item, work)


def planned_of(loaded: LoadedProcessor, item: Item, extensions: TypedExtensions) -> Planned | None:
    """What will become of an item, without a look at its content; ``None`` when it is not known beforehand.

    Raises:
        Rejected: as ``process`` will, as far as it can be told; a ready-made feature is held against the plan.
    """
    if not isinstance(item, ReadyMade):
        return loaded.processor.plan_with(item, extensions)
    check_takes(loaded, item.param)
    planned = loaded.processor.plan_with(item.outline, extensions)
    if planned is None:
        raise _unsupported(loaded, item.param, "it does not foresee them")
    if loaded.processor.model.feature_dtype is DType.UINT8 and planned.normalisation is None:
        raise _unsupported(loaded, item.param, "its plan does not tell how pixels are normalised")
    _check_against(planned, item)
    return planned


def _take(loaded: LoadedProcessor, item: ReadyMade, work: Work) -> Processed:
    planned = planned_of(loaded, item, work.extensions)
    assert planned is not None  # or it was refused
    array = work.empty(planned.shape, planned.dtype)
    np.copyto(array, item.feature.array)
    feature = Feature(array, planned.dtype, planned.shape, planned.normalisation)
    processed = Processed(feature, planned.tokens, planned.model_specific)
    try:
        validate_processed(processed, item.param, rows_per_token=loaded.capabilities.rows_per_token)
    except Failed as error:
        _, _, found = error.message.partition(": ")  # who returned it is the caller
        raise Rejected("invalid_precomputed", found, param=item.param) from error
    return processed


def _unsupported(loaded: LoadedProcessor, param: str, why: str) -> Rejected:
    message = f"{param}: {loaded.name!r} takes no ready-made features: {why}"
    return Rejected("precomputed_unsupported", message, param=param)


def _check_against(planned: Planned, item: ReadyMade) -> None:
    feature = item.feature
    if (feature.dtype, feature.shape) != (planned.dtype, planned.shape):
        message = (
            f"{item.param}: the feature is {feature.dtype} {list(feature.shape)}; of {_told(item.outline)} "
            f"this model has {planned.dtype} {list(planned.shape)}"
        )
        raise Rejected("invalid_precomputed", message, param=item.param)


def _told(outline: Media) -> str:
    if isinstance(outline, Image):
        return f"a picture {outline.height} high and {outline.width} wide"
    if isinstance(outline, Video):
        return f"{len(outline.indices)} frames, {outline.height} high and {outline.width} wide,"
    return f"a recording of {len(outline.samples)} samples"
