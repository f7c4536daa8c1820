"""Who reads a recording, by its first bytes; most of what libsndfile knows nobody sends, and it is not asked for it."""

from __future__ import annotations

from workers.decode.container import AVI, MATROSKA, MOV, demuxer_of

ADTS, FLAC, MP3 = "aac", "flac", "mp3"
_ID3 = b"ID3"
_NO_LENGTH = (1 << 36) - 1  # of STREAMINFO's 64 bits from the rate on, those that count samples
_XING_WITHIN = 512  # bytes of a first frame, and what may stand before it


def is_sndfile(data: bytes) -> bool:
    """Whether libsndfile reads it: WAV, RF64, W64, AIFF, AU, CAF, FLAC, Ogg, MP3."""
    if data[:4] in (b"RIFF", b"RIFX", b"RF64"):
        return data[8:12] == b"WAVE"
    if data[:4] in (b"fLaC", b"OggS", b"riff", b"caff", b".snd", b"dns."):
        return True
    return (data[:4] == b"FORM" and data[8:12] in (b"AIFF", b"AIFC")) or is_mp3(data)


def is_mp3(data: bytes) -> bool:
    """Whether it begins with a frame of MPEG audio, or with a tag that others put before one."""
    return data[:3] == _ID3 or (data[:1] == b"\xff" and len(data) > 1 and data[1] & 0xE0 == 0xE0 and not _is_adts(data))


def _is_adts(data: bytes) -> bool:
    return data[:1] == b"\xff" and len(data) > 1 and data[1] & 0xF6 == 0xF0


def track_demuxer(data: bytes) -> str | None:
    """FFmpeg's demuxer for a recording that it is to read; ``None`` for all others.

    Those are the containers of videos, AAC as it is streamed, and FLAC and MP3 that do not say how long they are:
    libsndfile guesses then.
    """
    demuxer = demuxer_of(data)
    if demuxer in (MOV, MATROSKA, AVI):
        return demuxer
    if _is_adts(data):
        return ADTS
    if data[:4] == b"fLaC" and not int.from_bytes(data[18:26], "big") & _NO_LENGTH:
        return FLAC
    return MP3 if is_mp3(data) and not tells_length(data) else None


def tells_length(data: bytes) -> bool:
    """Whether an MP3's first frame, behind a tag, counts those that follow."""
    at = 0
    if data[:3] == _ID3:
        at = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(data[6:10], (21, 14, 7, 0), strict=False))
    head = data[at : at + _XING_WITHIN]
    return any(mark in head for mark in (b"Xing", b"Info", b"VBRI"))
