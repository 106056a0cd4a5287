"""Training points of a small network read off its weights (Haim et al. 2022).

A network that is homogeneous in its weights θ and separates its training points, trained on by gradient descent, turns to a
direction where

    θ = Σ_i λ_i·y_i·∇_θ Φ(θ; x_i),   λ ≥ 0,   λ_i > 0 only for points of the smallest margin

(Lyu, Li 2020; Ji, Telgarsky 2020: stationarity of the maximum-margin problem). Whoever holds θ looks for x and λ that solve this
equation, and the x that come out are training points: those on the margin, which in a small set are nearly all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, nnls

from deniable.attack.learnt import Floats, Learnt, percent

ATTACK = "stationary"


@dataclass(frozen=True)
class Net:
    """Φ(x) = Σ_j second_j·max(0, first_j·(x, 1))²: homogeneous of degree three in its weights.

    Rectified units are squared so that Φ has a gradient everywhere: at the kinks of plain ones, where training likes to end, the
    equation holds with subgradients only, which are unknowns more.
    """

    first: Floats
    second: Floats

    def __call__(self, x: Floats) -> Floats:
        return np.asarray(np.maximum(_ones(x) @ self.first.T, 0) ** 2 @ self.second)

    @property
    def size(self) -> float:
        """‖θ‖."""
        return float(np.sqrt((self.first**2).sum() + (self.second**2).sum()))

    def gradients(self, x: Floats) -> Floats:
        """∇_θ Φ(θ; x) of each point as a row."""
        points = _ones(x)
        after = np.maximum(points @ self.first.T, 0)
        inner = (2 * after * self.second)[:, :, None] * points[:, None, :]
        return np.hstack([inner.reshape(len(x), -1), after**2])


def random(features: int, hidden: int, *, seed: int, scale: float = 0.1) -> Net:
    """Small weights in the first layer, so that training has to find the features itself (Haim et al. 2022, appendix)."""
    g = np.random.default_rng(seed)
    first = scale * g.normal(size=(hidden, features + 1)) / np.sqrt(features + 1)
    return Net(first, scale * g.normal(size=hidden) / np.sqrt(hidden))


def train(net: Net, x: Floats, y: Floats, *, steps: Iterable[int] = range(30_000), rate: float = 0.02) -> Net:
    """Gradient descent on Σ exp(−y·Φ), with a step that grows as the loss falls.

    The gradient of ln Σ exp(−y·Φ) over its own squared length changes the margins by about `rate` at each step, so that they grow
    in proportion to the steps and not to their logarithm; no step moves θ by more than 1 %.
    """
    first, second, points = net.first.copy(), net.second.copy(), _ones(x)
    for _ in steps:
        after = np.maximum(points @ first.T, 0)
        margins = y * (after**2 @ second)
        weights = np.exp(margins.min() - margins)
        weights *= y / weights.sum()
        inner, outer = (2 * after * weights[:, None] * second).T @ points, (after**2).T @ weights
        slope = float((inner**2).sum() + (outer**2).sum())
        size = float((first**2).sum() + (second**2).sum())
        step = min(rate / slope, 0.01 * math.sqrt(size / slope))
        first, second = first + step * inner, second + step * outer
    return Net(first, second)


def residual(net: Net, x: Floats, y: Floats) -> float:
    """How far the net is from stationary on these points: min over λ ≥ 0 of ‖θ − Σ λ_i·y_i·∇Φ(x_i)‖ / ‖θ‖."""
    theta = np.concatenate([net.first.ravel(), net.second])
    return float(nnls((y[:, None] * net.gradients(x)).T, theta)[1] / net.size)


def reconstruct(
    net: Net, candidates: int, *, seed: int = 0, spread: float = 0.3, rounds: int = 3000
) -> tuple[Floats, Floats]:
    """Points x and weights λ·y, half of each sign, that make `net` stationary: what the weights alone say of the training points.

    `spread` is the size of a feature, which an attacker knows roughly. L-BFGS on ‖θ − Σ λ_i·y_i·∇Φ(θ; x_i)‖² with λ = l².
    """
    g = np.random.default_rng(seed)
    features = net.first.shape[1] - 1
    signs = np.where(np.arange(candidates) % 2 == 0, 1.0, -1.0)
    start = np.concatenate([spread * g.normal(size=candidates * features), np.full(candidates, candidates**-0.5)])
    unit = Net(net.first / net.size, net.second / net.size)
    options = {"maxiter": rounds, "maxfun": 2 * rounds, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-10}
    found = minimize(_distance, start, args=(unit, signs), jac=True, method="L-BFGS-B", options=options).x
    return found[: candidates * features].reshape(candidates, features), signs * found[candidates * features :] ** 2


def _distance(unknown: Floats, net: Net, signs: Floats) -> tuple[float, Floats]:
    """½‖θ − Σ λ_i·y_i·∇Φ(θ; x_i)‖² and its gradient in (x, l), λ = l²."""
    n = len(signs)
    points, roots = _ones(unknown[:-n].reshape(n, -1)), unknown[-n:]
    weights = signs * roots**2
    before = points @ net.first.T
    after = np.maximum(before, 0)
    outer = 2 * after * net.second
    left_first = net.first - (weights[:, None] * outer).T @ points
    left_second = net.second - (after**2).T @ weights
    along = points @ left_first.T
    pull = (outer * along).sum(1) + after**2 @ left_second
    slope = 2 * (before > 0) * net.second * along + 2 * after * left_second
    by_points = -weights[:, None] * (outer @ left_first + slope @ net.first)
    value = 0.5 * float((left_first**2).sum() + (left_second**2).sum())
    return value, np.concatenate([by_points[:, :-1].ravel(), -2 * signs * roots * pull])


def _ones(x: Floats) -> Floats:
    return np.hstack([x, np.ones((len(x), 1))])
