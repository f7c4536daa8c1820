"""Media bytes to media values. Whatever a decoder raises becomes a 400 that names the item."""

from workers.decode.audio import decode_audio
from workers.decode.image import decode_image

__all__ = ["decode_audio", "decode_image"]
