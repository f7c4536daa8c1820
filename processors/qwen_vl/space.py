"""The work space of one call: memory for one block of tokens, and the stage that each block shape needs."""

from __future__ import annotations

import math

import numpy as np

from processors.qwen_vl.stages import PixelStage


class Space:
    """The memory of one call's blocks, and the views of it that each block shape needs."""

    def __init__(self, kind: type[PixelStage], block: tuple[int, int], token: tuple[int, ...]) -> None:
        self._kind = kind
        self._token = token
        size = math.prod((*block, *token))
        self._memory = [np.empty(size, element.carrier) for element in kind.elements]
        self._stages: dict[tuple[int, int], PixelStage] = {}

    def stage(self, rows: int, columns: int) -> PixelStage:
        """Views for a block of ``rows`` x ``columns`` tokens; made once, for a view costs as much as a small copy."""
        stage = self._stages.get((rows, columns))
        if stage is None:
            stage = self._stages[rows, columns] = self._kind(self._memory, (rows, columns, *self._token))
        return stage
