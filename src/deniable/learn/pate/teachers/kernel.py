"""Teachers in closed form: kernel ridge regression on one-hot labels, all of them in one batched solve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deniable import checks
from deniable.learn.pate.teachers.stacked import Block
from deniable.learn.pate.teachers.voting import (
    Labels,
    Scores,
    TeacherRows,
    check_examples,
    largest,
    positive,
    require,
)


@dataclass(frozen=True)
class KernelRidge:
    """Each teacher solves (K + ridge·I)·w = y on its part, K = exp(−‖a − b‖²/width), y = ±1 for each class.

    Guarantee: a teacher depends on its part alone: the shapes are public and the batched factorisation takes
               each matrix for itself. One that cannot be factorised does not vote.
    Assumes:   `width`, `ridge` and `capacity`, the most rows of a teacher that count, are public.

    With teachers drawn uniformly a part of n/teachers rows on average exceeds it by six
    times its root about once in 10⁸.
    """

    width: float
    capacity: int
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        positive("width", self.width)
        positive("ridge", self.ridge)
        checks.whole("capacity", self.capacity, at_least=1)

    def fit(self, parts: Sequence[TeacherRows], classes: int) -> FittedKernels:
        require(
            parts[0].x.ndim == 2, f"Expected flat features, got examples of shape {parts[0].x.shape[1:]}."
        )
        block = Block.from_parts(parts, self.capacity)
        targets = (2 * torch.nn.functional.one_hot(block.y, classes) - 1) * block.mask[:, :, None]
        groups = [slice(t, t + 50) for t in range(0, len(parts), 50)]
        weights = torch.cat([self._solve(block.x[t], block.mask[t], targets[t]) for t in groups])
        weights[block.empty] = torch.nan
        return FittedKernels(self.width, block.x, weights)

    def _solve(self, x: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        """Rows that fill up have a zero kernel and zero targets: their weights are exactly 0."""
        gram = similarity(x, x, self.width) * mask[:, :, None] * mask[:, None, :]
        gram.diagonal(dim1=1, dim2=2).add_(self.ridge)
        factor, faults = torch.linalg.cholesky_ex(gram)
        weights = torch.cholesky_solve(targets.to(torch.float32), factor)
        weights[faults != 0] = torch.nan
        return weights


@dataclass(frozen=True)
class FittedKernels:
    """`weights` (teachers, capacity, classes) on the rows `x` (teachers, capacity, features)."""

    width: float
    x: Tensor
    weights: Tensor

    def check(self, question: Any) -> NDArray[Any]:
        return check_examples(question, tuple(self.x.shape[2:]))

    def scores(self, question: NDArray[Any]) -> Scores:
        examples = torch.from_numpy(np.ascontiguousarray(question))
        each = [similarity(examples, x, self.width) @ w for x, w in zip(self.x, self.weights, strict=True)]
        return torch.stack(each, dim=1).numpy()

    def labels(self, question: NDArray[Any]) -> Labels:
        return largest(self.scores(question))


def similarity(a: Tensor, b: Tensor, width: float) -> Tensor:
    """exp(−‖a − b‖²/width), for each pair of rows."""
    squares = torch.cdist(a, b).square_()
    return squares.mul_(-1 / width).exp_()
