"""Recordings as log-mel spectrograms: Whisper and Qwen2-Audio."""

from processors.log_mel.family import Qwen2Audio, Whisper

__all__ = ["Qwen2Audio", "Whisper"]
