"""Memory for what a pass over a model computes and the next one computes again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

ALIGNED = 64
"""Bytes that processors load at once. PyTorch's own memory begins at multiples of it, and how a product is
rounded may depend on that."""


class Workspace:
    """Memory that one pass after another writes to: pages that are asked of the system for every pass cost
    more than what is computed there.

    What a pass took is overwritten by the pass that begins next. Before the first `begin` all memory is new.
    """

    def __init__(self) -> None:
        self._block, self._taken = torch.empty(0, dtype=torch.uint8), 0

    def begin(self) -> None:
        """From here on nothing that was taken is needed any more."""
        if self._taken > len(self._block):
            self._block = self._block.new_empty(0)  # the old one goes before the new one comes
            self._block = large(self._taken, self._block)
        self._taken = 0

    def take(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Memory for numbers of the kind of `like`, which hold anything."""
        size, start = math.prod(shape) * like.element_size(), self._taken
        self._taken += -(-size // ALIGNED) * ALIGNED
        if like.device.type != "cpu" or self._taken > len(self._block):
            return like.new_empty(shape)
        return self._block[start : start + size].view(like.dtype).view(shape)


def large(size: int, like: Tensor) -> Tensor:
    """So many numbers of the kind of `like` that hold anything. On the CPU numpy asks the system for large
    pages, of which there are few, PyTorch for small ones."""
    if like.device.type != "cpu":
        return like.new_empty(size)
    wide = np.empty(size * like.element_size() + ALIGNED, np.uint8)
    start = -wide.ctypes.data % ALIGNED
    return torch.from_numpy(wide[start : len(wide) - ALIGNED + start]).view(like.dtype)
