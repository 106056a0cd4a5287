"""Parts of data as one block of a public shape, so that all teachers learn in the same
few tensor operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from deniable.learn.pate.teachers.voting import TeacherRows


@dataclass(frozen=True)
class Block:
    """`x` (teachers, capacity, features …), labels `y` and `mask`, 1 where a row is
    real and 0 where it fills up.

    The shape is public. Were it that of the largest part, one record could change the
    shape of every teacher's products and, through rounding, other teachers' votes. A
    part of more than `capacity` rows keeps its first ones.
    """

    x: Tensor
    y: Tensor
    mask: Tensor

    @classmethod
    def from_parts(cls, parts: Sequence[TeacherRows], capacity: int) -> Block:
        shape = (len(parts), capacity)
        x = np.zeros((*shape, *parts[0].x.shape[1:]), np.float32)
        y, there = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        for t, part in enumerate(parts):
            n = min(capacity, len(part.y))
            x[t, :n], y[t, :n], there[t, :n] = part.x[:n], part.y[:n], 1
        return cls(torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(there))

    @property
    def empty(self) -> Tensor:
        """Teachers without a single row: they do not vote."""
        return self.mask.sum(dim=1) == 0
