"""Pairs made of several shifts of one noise: a replaced record, a group of records, under Poisson sampling.

Proofs of domination: docs/theory/numerical.md, "Poisson sampling, one record replaced" and "Groups".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from deniable.accounting.numerical.pairs import Atoms, Lattice, Shape, normal_cells
from deniable.accounting.numerical.rounding import Array, Masses


@dataclass(frozen=True)
class GaussianReplace(Shape):
    """P = (1−q)N(0) + qN(1), Q = (1−q)N(0) + qN(−1), all of variance σ²; attained by records at +clip and −clip."""

    sigma: float
    rate: float

    def place(self, losses: Array) -> Array:
        """The outcome x with this loss: a quadratic in e^(x/σ²), odd in the loss."""
        if self.rate == 1:
            return np.asarray(0.5 * self.sigma**2 * losses)
        k = self.rate * math.exp(-0.5 / self.sigma**2)
        return np.asarray(self.sigma**2 * (0.5 * losses + np.arcsinh((1 - self.rate) / k * np.sinh(0.5 * losses))))

    def loss(self, x: Array) -> Array:
        a = math.log1p(-self.rate) if self.rate < 1 else -np.inf
        b = math.log(self.rate) - 0.5 / self.sigma**2
        return np.asarray(np.logaddexp(a, b + x / self.sigma**2) - np.logaddexp(a, b - x / self.sigma**2))

    def cells(self, losses: Array) -> Masses:
        t = self.place(losses) / self.sigma
        still = (1 - self.rate) * normal_cells(t)
        step = 1 / self.sigma
        return still + self.rate * normal_cells(t - step), still + self.rate * normal_cells(t + step)

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        high = float(self.loss(np.array([1 - self.sigma * float(ndtri(min(0.5, tail / 2)))]))[0])
        return -high, high

    def grid(self, tail: float) -> Array:
        z = -self.sigma * float(ndtri(min(0.5, tail / 2)))
        return self.loss(np.linspace(-1 - z, 1 + z, 701))


@dataclass(frozen=True)
class LaplaceReplace(Shape):
    """P = (1−q)Lap(0) + qLap(1), Q = (1−q)Lap(0) + qLap(−1), all of scale b: atoms where |x| ≥ 1, density between."""

    b: float
    rate: float

    @property
    def top(self) -> float:
        a = math.exp(-1 / self.b)
        return math.log1p(self.rate * (1 / a - a) / ((1 - self.rate) + self.rate * a))

    @property
    def lattice(self) -> Lattice:
        return -self.top, 2 * self.top

    @property
    def atoms(self) -> Atoms:
        a = math.exp(-1 / self.b)
        large = 0.5 * ((1 - self.rate) * a + self.rate)
        small = 0.5 * a * ((1 - self.rate) + self.rate * a)
        return np.array([-self.top, self.top]), np.array([small, large]), np.array([large, small])

    def place(self, losses: Array) -> Array:
        """For 0 ≤ x ≤ 1 the ratio is (1−q + q·e^((2x−1)/b))/(1−q + q·e^(−1/b)); odd in x."""
        a = math.exp(-1 / self.b)
        rise = 1 + (1 - self.rate + self.rate * a) / (self.rate * a) * np.expm1(np.minimum(np.abs(losses), self.top))
        return np.asarray(np.sign(losses) * np.minimum(0.5 * self.b * np.log(rise), 1))

    def cells(self, losses: Array) -> Masses:
        x = self.place(losses)
        return self._masses(x), self._masses(-x[::-1])[::-1]

    def _masses(self, x: Array) -> Array:
        """P between successive x in [−1, 1]; the part around 0 is cut at 0, where Lap(0) has its kink."""
        lower, upper = np.minimum(x, 0), np.maximum(x, 0)
        below, above = np.diff(lower) / self.b, np.diff(upper) / self.b
        left = np.exp(lower[:-1] / self.b) * np.expm1(below)
        right = -np.exp(-upper[:-1] / self.b) * np.expm1(-above)
        moved = np.exp((x[:-1] - 1) / self.b) * np.expm1(np.diff(x) / self.b)
        return np.asarray(0.5 * ((1 - self.rate) * (left + right) + self.rate * moved))

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        return -self.top, self.top


@dataclass(frozen=True)
class GaussianGroup(Shape):
    """P = Σᵢ wᵢ N(i, σ²) against Q = N(0, σ²): how many of a group's records the Poisson sample caught (Ganesh 2024)."""

    sigma: float
    weights: tuple[float, ...]

    @property
    def sided(self) -> bool:
        return True

    @property
    def edge(self) -> float | None:
        return math.log(self.weights[0])

    def _terms(self, x: Array) -> Array:
        i = np.arange(len(self.weights))
        return np.asarray(np.log(self.weights) + (np.multiply.outer(x, i) - 0.5 * i * i) / self.sigma**2)

    def loss(self, x: Array) -> Array:
        terms = self._terms(x)
        top = terms.max(axis=-1, keepdims=True)
        return np.asarray(top[..., 0] + np.log(np.exp(terms - top).sum(axis=-1)))

    def slope(self, x: Array) -> Array:
        terms = self._terms(x)
        share = np.exp(terms - terms.max(axis=-1, keepdims=True))
        return np.asarray(share @ np.arange(len(self.weights)) / share.sum(axis=-1) / self.sigma**2)

    def place(self, losses: Array) -> Array:
        """Newton from the right: the loss is convex and increasing in x, so the iterates fall to the root."""
        edge = math.log(self.weights[0])
        # Each single term bounds the loss from below, so its own root lies right of the true one; the least is closest.
        i = np.arange(1, len(self.weights))
        roots = (np.subtract.outer(losses, np.log(self.weights[1:])) * self.sigma**2 + 0.5 * i * i) / i
        x = roots.min(axis=-1)
        live = (losses > edge) & np.isfinite(losses)
        for _ in range(80):
            step = np.where(
                live, (self.loss(np.where(live, x, 0.0)) - losses) / self.slope(np.where(live, x, 0.0)), 0.0
            )
            x = x - np.maximum(step, 0)
            if not (step > 1e-15 * (np.abs(x) + 1)).any():
                break
        return np.where(live, x, np.where(losses > edge, np.inf, -np.inf))

    def cells(self, losses: Array) -> Masses:
        t = self.place(losses) / self.sigma
        parts = [w * normal_cells(t - i / self.sigma) for i, w in enumerate(self.weights)]
        return np.sum(parts, axis=0), normal_cells(t)

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        z = -self.sigma * float(ndtri(min(0.5, tail / 2)))
        if tail <= 0:
            return math.log(self.weights[0]), math.inf
        share = tail / (2 * weight * len(self.weights))
        reach = [i - self.sigma * float(ndtri(min(0.5, share / w))) for i, w in enumerate(self.weights)]
        ends = self.loss(np.array([-z, max(z, *reach)]))
        return float(ends[0]), float(ends[1])

    def grid(self, tail: float) -> Array:
        z = -self.sigma * float(ndtri(min(0.5, tail / 2)))
        losses = self.loss(np.linspace(-z, len(self.weights) - 1 + z, 701))
        return np.unique(losses)
