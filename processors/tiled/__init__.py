"""Pictures in tiles, with a small copy of the whole beside them: InternVL and LLaVA-NeXT."""

from processors.tiled.family import InternVL, LlavaNext

__all__ = ["InternVL", "LlavaNext"]
