"""A list of frames on its way as one item: the files of its pictures, in order, and how many are shown a second.

The API joins what a caller has sent one by one, and a worker takes it apart. It has one digest, over all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgpack

_MAGIC = b"\x89FBREEL1"  # no media file begins so
MOST_FRAMES = 768  # what the families look at most; each may be a transfer of its own
HIGHEST_FPS = 1000.0


@dataclass(frozen=True, slots=True)
class Reel:
    """Frames as the files that they came in, ``fps`` of them a second."""

    frames: tuple[bytes, ...]
    fps: float

    def pack(self) -> bytes:
        return _MAGIC + bytes(msgpack.packb([float(self.fps), list(self.frames)]))

    @classmethod
    def unpack(cls, data: bytes) -> Reel:
        """Read what ``pack`` wrote.

        Raises:
            ValueError: somebody else wrote it.
        """
        try:
            fps, frames = msgpack.unpackb(memoryview(data)[len(_MAGIC) :], max_array_len=MOST_FRAMES)
        except TypeError as error:
            raise ValueError("not a pair") from error
        is_rate = isinstance(fps, float) and 0 < fps <= HIGHEST_FPS
        if not is_rate or not isinstance(frames, list) or not all(isinstance(one, bytes) for one in frames):
            raise ValueError("not a rate and files")
        return cls(tuple(frames), fps)


def is_reel(data: bytes) -> bool:
    """Whether it begins as ``pack`` begins."""
    return data[: len(_MAGIC)] == _MAGIC
