"""Media files, known by their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from forebay.client.errors import FileError
from forebay.features import Modality

_IMAGES = {
    ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp", ".avif": "image/avif",
    ".gif": "image/gif", ".bmp": "image/bmp", ".tif": "image/tiff", ".tiff": "image/tiff",
}  # fmt: skip
_RECORDINGS = {
    ".wav": "audio/wav", ".flac": "audio/flac", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".opus": "audio/ogg",
    ".mp3": "audio/mpeg",
}  # fmt: skip
_VIDEOS = {
    ".mp4": "video/mp4", ".m4v": "video/mp4", ".mov": "video/quicktime", ".mkv": "video/x-matroska",
    ".webm": "video/webm", ".avi": "video/x-msvideo",
}  # fmt: skip
KINDS = {
    suffix: (modality, kind)
    for modality, table in ((Modality.IMAGE, _IMAGES), (Modality.AUDIO, _RECORDINGS), (Modality.VIDEO, _VIDEOS))
    for suffix, kind in table.items()
}
"""Modality and content type by suffix."""


@dataclass(frozen=True, slots=True)
class MediaFile:
    """One file that is to be sent."""

    path: Path
    modality: Modality
    content_type: str

    @classmethod
    def at(cls, path: Path) -> MediaFile:
        """The kind that its suffix tells.

        Raises:
            FileError: it tells none.
        """
        if path.suffix.lower() not in KINDS:
            raise FileError(f"{path}: its name tells no kind of media; known are {', '.join(KINDS)}")
        return cls(path, *KINDS[path.suffix.lower()])

    def read(self) -> bytes:
        """All of it.

        Raises:
            FileError: it is not there, or not to be read.
        """
        return whole(self.path)


def whole(path: Path) -> bytes:
    """A file's bytes.

    Raises:
        FileError: it is not there, or not to be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error


def media_files(source: str | Path | Iterable[str | Path], *, recursive: bool = False) -> list[Path]:
    """The files of a folder that are media by their names, sorted; of an iterable, each path as it comes.

    Raises:
        FileError: a folder that is none.
    """
    if not isinstance(source, str | Path):
        return [Path(one) for one in source]
    folder = Path(source)
    if not folder.is_dir():
        raise FileError(f"{folder}: no such folder")
    found = folder.rglob("*") if recursive else folder.iterdir()
    return sorted(path for path in found if path.suffix.lower() in KINDS and path.is_file())
