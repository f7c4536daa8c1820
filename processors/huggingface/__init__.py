"""Any Hugging Face folder whose processor loads offline: what no native family serves yet, slower."""

from processors.huggingface.family import HuggingFace
from processors.huggingface.tensors import named_tensors

__all__ = ["HuggingFace", "named_tensors"]
