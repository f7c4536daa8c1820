"""A list of frames that is one video, as callers write it: ``{"frames": […], "fps": 2}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.incoming import Source
from api.schema import json_type
from forebay.errors import Rejected
from forebay.features import Modality
from handoff.ready_made import is_ready_made
from handoff.reel import HIGHEST_FPS, MOST_FRAMES
from handoff.reel import is_reel as begins_as_reel

DEFAULT_FPS = 2.0  # at which the families look at videos, and so at every frame of such a list


def check_not_ours(data: bytes, param: str) -> None:
    """Refuse bytes that only we write: lists of frames and ready-made features are sent as such, within their limits.

    Raises:
        Rejected: they begin as ours do.
    """
    if begins_as_reel(data) or is_ready_made(data):
        raise _bad(f"{param} is no media file", param)


def is_reel(value: Any, modality: Modality) -> bool:
    """Whether an item is a list of frames; only a video can be."""
    return modality is Modality.VIDEO and isinstance(value, dict) and value.get("frames") is not None


def read_reel(value: Mapping[str, Any], param: str) -> Source:
    """The one item that a list of frames is.

    Raises:
        Rejected: naming the field or the frame, and the numbers that disagree.
    """
    frames = value["frames"]
    if value.get("url") is not None:
        raise _bad(f"{param}: give either frames or url, not both", param)
    if not isinstance(frames, list) or not frames:
        shown = "an empty list" if frames == [] else json_type(frames)
        raise _bad(f"{param}.frames must be a list of pictures, not {shown}", f"{param}.frames")
    if len(frames) > MOST_FRAMES:
        message = f"{param} has {len(frames)} frames; the limit of a list is {MOST_FRAMES}"
        raise Rejected("video_too_long", message, param=param)
    sources = tuple(_frame(one, f"{param}.frames[{number}]") for number, one in enumerate(frames))
    return Source(Modality.VIDEO, "", param, sources, _fps(value.get("fps"), f"{param}.fps"))


def _frame(value: Any, param: str) -> Source:
    text = value.get("url") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise _bad(f"{param} must be a string or an object with 'url', not {json_type(value)}", param)
    return Source(Modality.VIDEO, text, param)


def _fps(value: Any, param: str) -> float:
    if value is None:
        return DEFAULT_FPS
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= HIGHEST_FPS:
        shown = value if is_number and abs(value) < 1 << 53 else json_type(value)  # nothing of any length
        raise _bad(f"{param} must be a number above 0 and at most {HIGHEST_FPS:.0f}, got {shown}", param)
    return float(value)


def _bad(message: str, param: str) -> Rejected:
    return Rejected("invalid_media", message, param=param)
