"""Which shapes no family can resize."""

from __future__ import annotations

from forebay.errors import Rejected

MAX_ASPECT_RATIO = 200


def check_sides(height: int, width: int, param: str | None = None) -> None:
    """Refuse a picture without pixels, or too long for its breadth: resized, it would have no side left.

    Raises:
        Rejected: with both numbers.
    """
    if min(height, width) < 1:
        raise Rejected("empty_image", f"the image is {width}x{height} pixels", param=param)
    ratio = max(height, width) / min(height, width)
    if ratio > MAX_ASPECT_RATIO:
        raise Rejected("aspect_ratio", f"aspect ratio must be at most {MAX_ASPECT_RATIO}, got {ratio:.8g}", param=param)
