"""How much sound a recording may hold: checked by its header before it is decoded, and counted while it is."""

from __future__ import annotations

from forebay.errors import Rejected

MAX_DURATION_S = 600.0  # what vLLM allows; a small Opus file can hold hours
MAX_SAMPLES = 600 * 96_000 * 2  # over all channels, 461 MB decoded; a small FLAC file can hold 30 times that


def check_size(frames: int, rate_hz: int, channels: int, param: str, *, at_least: bool = False) -> None:
    """Refuse what the header promises, before any of it is decoded; or what has been decoded of it.

    Args:
        frames: samples a channel.
        rate_hz: of which so many are a second.
        channels: how many there are.
        param: where the caller put it, for messages.
        at_least: whether more may follow.

    Raises:
        Rejected: ``audio_too_long`` or ``audio_too_large``, with both numbers.
    """
    seconds, samples = frames / rate_hz, frames * channels
    if seconds > MAX_DURATION_S:
        lasts = f"at least {seconds:.2f}" if at_least else f"{seconds:.1f}"
        message = f"{param} lasts {lasts} s; the limit is {MAX_DURATION_S:.0f} s"
        raise Rejected("audio_too_long", message, param=param)
    if samples > MAX_SAMPLES:
        message = f"{param} has {samples} samples in {channels} channels; the limit is {MAX_SAMPLES}"
        raise Rejected("audio_too_large", message, param=param, status=413)


def most_frames(rate_hz: int, channels: int) -> int:
    """How many samples a channel may have, whatever the header says."""
    return min(int(MAX_DURATION_S * rate_hz), MAX_SAMPLES // channels)


def damaged(decoded: int, announced: int, param: str, *, is_cut: bool = False) -> Rejected:
    """The refusal of a recording that holds less than it should, with both numbers where it tells one."""
    of = f"{decoded} of {announced}" if announced > decoded else str(decoded)
    end = ", and the file ends too early" if is_cut else ""
    message = f"{param}: the recording is damaged: {of} samples could be decoded{end}"
    return Rejected("damaged_audio", message, param=param)
