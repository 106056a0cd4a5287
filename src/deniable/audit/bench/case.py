"""The shape of a case, and the noise that several of them use."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.runs.pairs import Pair
from deniable.loss import Loss, Pure
from deniable.units import Unit

Array = NDArray[np.float64]
Generator = np.random.Generator

GRID = 2.0**20
QUERIES = Unit.ball(math.inf, 1)
"""Answers of which one person may change each by 1."""
COUNTS = Unit.ball(1, 1)
"""Counts of which one person changes one, by 1."""


class Case(ABC):
    """A mechanism with a claim and a known truth. Subclasses are frozen dataclasses."""

    coupled = True
    """Row for row a batch takes the same random numbers whatever the data: noise is
    drawn in arrays of a fixed shape."""
    true_epsilon: float
    """The least ε that holds at the claim's δ; a case that says so gives a lower or an upper bound of it."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def loss(self) -> Loss:
        """What is claimed."""
        return Pure(0.1)

    @property
    def unit(self) -> Unit:
        return QUERIES

    @property
    def is_broken(self) -> bool:
        """Whether the claim is false."""
        claim = getattr(self.loss, "epsilon", 0.0)
        return bool(self.true_epsilon > claim + 1e-9)

    @abstractmethod
    def pairs(self) -> list[Pair]:
        """Neighbours to search."""

    @abstractmethod
    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        """n independent outputs."""


def laplace(rng: Generator, scale: float, shape: tuple[int, ...]) -> Array:
    """Laplace noise as the difference of two exponentials."""
    noise = rng.standard_exponential(shape)
    noise -= rng.standard_exponential(shape)
    noise *= scale
    return noise


def on_grid(values: Array) -> Array:
    """Rounded to multiples of 2⁻²⁰, in place: integers shift the result exactly, and no
    low bit of the noise is left."""
    values *= GRID
    np.rint(values, out=values)
    values /= GRID
    return values
