"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: images to patches, tokens and positions."""

from processors.qwen_vl.family import Qwen2VL, Qwen3VL, Qwen25VL

__all__ = ["Qwen2VL", "Qwen3VL", "Qwen25VL"]
