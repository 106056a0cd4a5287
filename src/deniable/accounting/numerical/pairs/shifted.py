"""Pairs made of several shifts of one noise: a replaced record, a group of records, under Poisson sampling.

Proofs of domination: docs/theory/numerical.md, "Poisson sampling, one record replaced" and "Groups".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from deniable.accounting.numerical.pairs.continuous import Atoms, Lattice, Shape, normal_cells
from deniable.accounting.numerical.rounding import Array, Masses

BLOCK = 4096
"""Losses of a mixture that are worked on at once, to bound memory."""


@dataclass(frozen=True)
class GaussianReplace(Shape):
    """P = (1−q)N(0) + qN(1), Q = (1−q)N(0) + qN(−1), all of variance σ²; attained by
    records at +clip and −clip."""

    sigma: float
    rate: float

    def place(self, losses: Array) -> Array:
        """The outcome x with this loss: a quadratic in e^(x/σ²), odd in the loss."""
        if self.rate == 1:
            return np.asarray(0.5 * self.sigma**2 * losses)
        k = self.rate * math.exp(-0.5 / self.sigma**2)
        return np.asarray(
            self.sigma**2 * (0.5 * losses + np.arcsinh((1 - self.rate) / k * np.sinh(0.5 * losses)))
        )

    def loss(self, x: Array) -> Array:
        a = -np.inf
        if self.rate < 1:
            a = math.log1p(-self.rate)
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
    """P = (1−q)Lap(0) + qLap(1), Q = (1−q)Lap(0) + qLap(−1), all of scale b: atoms where
    |x| ≥ 1, density between."""

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
        rise = 1 + (1 - self.rate + self.rate * a) / (self.rate * a) * np.expm1(
            np.minimum(np.abs(losses), self.top)
        )
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
        neighbour = np.exp((x[:-1] - 1) / self.b) * np.expm1(np.diff(x) / self.b)
        return np.asarray(0.5 * ((1 - self.rate) * (left + right) + self.rate * neighbour))

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        return -self.top, self.top


@dataclass(frozen=True)
class GaussianMixture(Shape):
    """P = Σᵢ wᵢ N(sᵢ, σ²) against Q = N(0, σ²), shifts ≥ 0 and increasing, weights > 0;
    `left` is revealed outright.

    How many of a group's records a Poisson sample caught (Ganesh 2024) is one of these,
    with shifts 0, 1, 2, …
    """

    sigma: float
    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    left: float = 0.0

    @property
    def sided(self) -> bool:
        return True

    @property
    def slack(self) -> float:
        return self.left

    @property
    def edge(self) -> float | None:
        if self.shifts[0] == 0:
            return math.log(self.weights[0])
        return None

    def loss(self, x: Array) -> Array:
        return self._loss_and_slope(x)[0]

    def _loss_and_slope(self, x: Array) -> Masses:
        """log Σ wᵢ·e^((x·sᵢ − sᵢ²/2)/σ²) and its derivative, a block of x at a time."""
        s, logs = np.array(self.shifts), np.log(self.weights)
        loss, slope = np.empty(len(x)), np.empty(len(x))
        for start in range(0, len(x), BLOCK):
            part = slice(start, start + BLOCK)
            terms = logs + (np.multiply.outer(x[part], s) - 0.5 * s * s) / self.sigma**2
            # The largest term is taken out, so that no exponential overflows.
            top = terms.max(axis=-1, keepdims=True)
            share = np.exp(terms - top)
            total = share.sum(axis=-1)
            loss[part], slope[part] = top[:, 0] + np.log(total), share @ s / total / self.sigma**2
        return loss, slope

    def place(self, losses: Array) -> Array:
        """Newton from the right: the loss is convex and increasing in x, so the iterates fall to the root."""
        edge = -math.inf
        if self.edge is not None:
            edge = self.edge
        # Each single term bounds the loss from below, so its own root lies right of the true one; the least
        # is closest.
        s, w = (np.array(a) for a in (self.shifts, self.weights))
        mask = s > 0
        live = (losses > edge) & np.isfinite(losses)
        ends = losses[live]
        x = ((np.subtract.outer(ends, np.log(w[mask])) * self.sigma**2) / s[mask] + 0.5 * s[mask]).min(
            axis=-1
        )
        for _ in range(80):
            loss, slope = self._loss_and_slope(x)
            step = (loss - ends) / slope
            x = x - np.maximum(step, 0)
            if not (step > 1e-15 * (np.abs(x) + 1)).any():
                break
        out = np.where(losses > edge, np.inf, -np.inf)
        out[live] = x
        return out

    def cells(self, losses: Array) -> Masses:
        t = self.place(losses) / self.sigma
        p = np.zeros(len(losses) - 1)
        for shift, weight in zip(self.shifts, self.weights, strict=True):
            p += weight * normal_cells(t - shift / self.sigma)
        return p, normal_cells(t)

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        z = -self.sigma * float(ndtri(min(0.5, tail / 2)))
        if tail <= 0:
            return (-math.inf if self.edge is None else self.edge), math.inf
        # Each part of P has its share of the tail, in the measure of its own weight.
        share = tail / (2 * weight * len(self.weights))
        pairs = zip(self.shifts, self.weights, strict=True)
        reach = [shift - self.sigma * float(ndtri(min(0.5, share / w))) for shift, w in pairs]
        ends = self.loss(np.array([-z, max(z, *reach)]))
        return float(ends[0]), float(ends[1])

    def grid(self, tail: float) -> Array:
        z = -self.sigma * float(ndtri(min(0.5, tail / 2)))
        losses = self.loss(np.linspace(-z, self.shifts[-1] + z, 701))
        return np.unique(losses)
