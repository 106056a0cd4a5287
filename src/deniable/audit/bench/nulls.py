"""Mechanisms that ignore their input. They claim ε = 0, which is true: every violation
reported on them is a false alarm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.audit.bench.case import Array, Case, Generator, laplace, on_grid
from deniable.audit.runs.pairs import Pair
from deniable.loss import Loss, Pure
from deniable.units import Unit


class _Null(Case):
    @property
    def loss(self) -> Loss:
        return Pure(0)

    @property
    def unit(self) -> Unit:
        return Unit.value()

    def pairs(self) -> list[Pair]:
        return [Pair(0, 1, "anything"), Pair(1, 2, "anything else")]


@dataclass(frozen=True)
class NullLaplace(_Null):
    """One Laplace number. True ε: 0, the input is not read."""

    true_epsilon: float = 0.0

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return on_grid(laplace(rng, 1.0, (n, 1)))


@dataclass(frozen=True)
class NullDigits(_Null):
    """A digit. True ε: 0, the input is not read."""

    true_epsilon: float = 0.0

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return rng.integers(0, 10, (n, 1)).astype(np.float64)


@dataclass(frozen=True)
class NullVector(_Null):
    """Four numbers and a flag. True ε: 0, the input is not read."""

    true_epsilon: float = 0.0

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        numbers = on_grid(rng.standard_normal((n, 5)))
        numbers[:, 4] = numbers[:, 4] > 1
        return numbers
