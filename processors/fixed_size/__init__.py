"""Pictures of one size, whatever they were: CLIP and SigLIP, and LLaVA, which reads them with so many tokens each."""

from processors.fixed_size.family import Llava, PictureEmbedding

__all__ = ["Llava", "PictureEmbedding"]
