"""What is left of a damaged video, where a deployment wants it: the frames that decode, and a word about the others."""

from __future__ import annotations

from collections.abc import Mapping

from forebay.media import Video
from forebay.ready_made import Item


def told_of(media: Item) -> Mapping[str, int]:
    """What an item's answer says besides what its model says: nothing of one that is whole."""
    if not isinstance(media, Video) or not media.clip.announced_frames:
        return {}
    return {"salvaged_frames": media.clip.frames, "announced_frames": media.clip.announced_frames}
