"""The checkpoint's variables as tensors, found by the paths that CTranslate2 gives them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from forebay_whisper_tiny_en.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Weights:
    """The variables below a path, to be had as ``float32`` tensors on one device."""

    checkpoint: Checkpoint
    device: torch.device
    path: str = ""

    def below(self, name: str) -> Weights:
        return replace(self, path=f"{self.path}{name}/")

    def tensor(self, name: str) -> Tensor:
        """A variable.

        Raises:
            ConfigurationError: naming the variable that the file lacks.
        """
        array = self.checkpoint.array(self.path + name)
        return torch.from_numpy(array.astype(np.float32)).to(self.device)
