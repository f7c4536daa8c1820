"""How few packets of a video must be decoded for the frames that are wanted of it, and their decoding.

All packets are read, which costs next to nothing; those between are not given to the decoder. So nothing depends on how
well a container can be searched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import av

from workers.decode.container import open_video


class AstrayError(Exception):
    """Something else came out than was to be expected; only decoding everything will tell."""


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The packets of a video.

    Attributes:
        ranks: the number of each frame, in the order in which they are shown, by its presentation time.
        positions: for each frame, which packet is its own.
        entries: packets with which a decoder may begin, ascending; the first of all is one.
        times: their presentation times.
    """

    ranks: dict[int, int]
    positions: tuple[int, ...]
    entries: tuple[int, ...]
    times: tuple[int, ...]

    @classmethod
    def of(cls, shown: Sequence[tuple[int, int]], entries: Sequence[tuple[int, int]]) -> Route | None:
        """From the packets that are shown and those to begin with, each with its time; ``None`` without a choice."""
        if len(entries) < 2 or entries[0][0] != 0 or len({time for _, time in shown}) < len(shown):
            return None
        in_order = sorted(shown, key=lambda one: one[1])
        ranks = {time: rank for rank, (_, time) in enumerate(in_order)}
        positions = tuple(position for position, _ in in_order)
        return cls(ranks, positions, tuple(one for one, _ in entries), tuple(time for _, time in entries))

    def entry_for(self, frame: int, time: int) -> int:
        """The last packet to begin with for a frame. A frame that is shown before that packet may need earlier ones."""
        number = bisect_right(self.entries, self.positions[frame]) - 1
        while number and self.times[number] > time:
            number -= 1
        return self.entries[number]

    def skips(self, frames: Sequence[int]) -> bool:
        """Whether anything at all need not be decoded for these frames, ascending."""
        times = list(self.ranks)
        before = -1
        for frame in frames:
            if self.entry_for(frame, times[frame]) > before + 1:
                return True
            before = max(before, self.positions[frame])
        return False


def routed_frames(data: bytes, route: Route, frames: Sequence[int], param: str) -> Iterator[tuple[int, av.VideoFrame]]:
    """Each of the frames, which ascend, with its number; decoded from the last place before it to begin at.

    Raises:
        AstrayError: the decoder does not give what the packets promise.
    """
    times, aims = list(route.ranks), iter(frames)
    aim = next(aims)
    entry, position, last, has_skipped = route.entry_for(aim, times[aim]), -1, -1, False
    with open_video(data, param) as (container, stream):
        for packet in container.demux(stream):
            position += bool(packet.size)  # the last one, without content, stands for the end
            if packet.size and position < entry:
                has_skipped = True
                continue
            if has_skipped:
                stream.codec_context.flush_buffers()
                has_skipped = False
            for frame in packet.decode():
                rank = route.ranks.get(-1 if frame.pts is None else frame.pts, -1)
                if rank <= last or rank > aim:
                    raise AstrayError
                last = rank
                if rank == aim:
                    yield rank, frame
                    following = next(aims, None)
                    if following is None:
                        return
                    aim, entry = following, route.entry_for(following, times[following])
    raise AstrayError
