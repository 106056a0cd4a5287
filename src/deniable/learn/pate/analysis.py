"""What the votes themselves say about the cost of their labels: for the owner's eyes.

Where teachers agree, a label hardly depends on any one of them, and its Rényi divergence is far below that of
the noise (Papernot et al. 2018, Theorem 6). But the bound is a function of the votes, hence as private as
they are: it changes nothing in a ledger and must not be printed for others. `publish.DependentBound` releases
a noisy upper bound of it, and pays.

The theorem bounds one direction, D(M(x) ‖ M(x′)) for the data x at hand. The other can be larger (6.9 times
in our tests). Applied at the neighbour it bounds that one too, and one changed vote narrows a gap by at most
2: so the bounds here take all gaps less 2 (`sides=2`), which covers both. `sides=1` is what the papers print.
Proofs: docs/theory/pate.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.accounting.renyi.convert import to_epsilon
from deniable.errors import InvalidParameter
from deniable.loss import Number

Floats = NDArray[np.float64]
Checked = tuple[Any, int, Number]

ORDERS = (*np.arange(1.25, 10, 0.25), *np.arange(10, 40, 1.0), *np.arange(40, 200, 5.0))
_TINY = 1e-300
"""Added to every tail: what doubles cannot hold lies below it."""
_SLACK = 1e-9
"""Relative margin for rounding, added to every bound."""


@dataclass(frozen=True)
class VotingCost:
    """Rényi divergence `rdp` at `order`, and the ε it gives at `delta`. Private data: for the owner alone."""

    order: float
    rdp: float
    epsilon: float
    delta: float


def cost(
    votes: Any,
    sigma: Number,
    delta: float,
    *,
    sides: int = 2,
    orders: Sequence[float] = ORDERS,
    checked: Checked | None = None,
) -> VotingCost:
    """The least ε at `delta` over `orders` of the labels sold by `GNMax` for these votes (examples, classes).

    `checked`, for `ConfidentGNMax`: (largest counts of all questions, threshold, sigma_check).
    """
    checks.number("delta", delta, above=0, below=1)
    curve = np.array([_total(votes, sigma, order, sides, checked) for order in orders])
    epsilons = np.maximum(to_epsilon(np.asarray(orders, np.float64), curve, delta), 0)
    best = int(np.argmin(epsilons))
    return VotingCost(float(orders[best]), float(curve[best]), float(epsilons[best]), delta)


def _total(votes: Any, sigma: Number, order: float, sides: int, check: Checked | None) -> float:
    labels = float(gnmax_rdp(votes, sigma, order, sides=sides).sum())
    if check is None:
        return labels
    top, threshold, sigma_check = check
    return labels + float(check_rdp(top, threshold, sigma_check, order, sides=sides).sum())


def gnmax_rdp(votes: Any, sigma: Number, order: float, *, sides: int = 2) -> Floats:
    """The Rényi divergence of each label that `GNMax` sells for these votes."""
    return rdp(log_failure(votes, sigma, distance=_distance(sides)), 1 / float(sigma) ** 2, order)


def check_rdp(top: Any, threshold: int, sigma: Number, order: float, *, sides: int = 2) -> Floats:
    """The Rényi divergence of each check "is the largest count, with noise, at least `threshold`?"."""
    counts = np.atleast_1d(np.asarray(top, np.int64))
    far = np.maximum(
        np.where(counts >= threshold, counts - threshold + 1, threshold - counts) - _distance(sides), 0
    )
    return rdp(np.log(tail(sigma, int(far.max(initial=0)))[far]), 1 / (2 * float(sigma) ** 2), order)


def log_failure(votes: Any, sigma: Number, *, distance: int = 0) -> Floats:
    """ln of a bound on the chance that the winner of `GNMax` is another than the plurality of `votes`.

    With `distance=1` it holds for all votes that differ in one teacher, too. A sum over the other classes of
    the chance that two integer noises bridge the gap (Proposition 7), ties counted in full.
    """
    counts = -np.sort(-np.asarray(votes, np.int64), axis=-1)
    gaps = np.maximum(counts[..., :1] - counts[..., 1:] - 2 * distance, 0)
    chance = difference_tail(sigma, int(gaps.max(initial=0)))[gaps].sum(axis=-1)
    return np.asarray(np.log(np.minimum(chance * (1 + _SLACK), 1.0)))


def difference_tail(sigma: Number, most: int) -> Floats:
    """P(Y − X ≥ g) for g = 0, …, most, rounded up; X and Y integer Gaussians of `sigma`.

    With x² + (x + d)² = 2(x + d/2)² + d²/2 the chance of a difference d is exp(−d²/4σ²)·θ(d), where θ(d) = Σ
    exp(−(x + d/2)²/σ²) depends on the parity of d only.
    """
    s = float(sigma)
    d = np.arange(max(most, math.ceil(53 * s)) + 2)
    x = np.arange(-math.ceil(28 * s) - 2, math.ceil(28 * s) + 3)
    parity = np.array([np.exp(-((x / s) ** 2)).sum(), np.exp(-(((x + 0.5) / s) ** 2)).sum()])
    weight = np.exp(-((d / (2 * s)) ** 2)) * parity[d % 2]
    return _sum_tail(weight / np.exp(-((x / s) ** 2) / 2).sum() ** 2, most)


def tail(sigma: Number, most: int) -> Floats:
    """P(X ≥ g) for g = 0, …, most, rounded up; X an integer Gaussian of `sigma`."""
    s = float(sigma)
    x = np.arange(max(most, math.ceil(38 * s)) + 2)
    weight = np.exp(-((x / s) ** 2) / 2)
    return _sum_tail(weight / (2 * weight.sum() - 1), most)


def _sum_tail(chances: Floats, limit: int) -> Floats:
    sums = np.cumsum(chances[::-1])[::-1][: limit + 1]
    return np.asarray(np.minimum(sums * (1 + _SLACK) + _TINY, 1.0))


def rdp(log_q: Any, rho: float, order: float) -> Floats:
    """Rényi divergence at `order` of a ρ-zCDP mechanism whose likely outcome fails with
    probability at most q.

    Theorem 6 of Papernot et al. 2018 with μ₂ = √(ln(1/q)/ρ) and μ₁ = μ₂ + 1 (Proposition 10), where its
    conditions hold, and never more than ρ·order. Both directions if q holds on both sides.
    """
    if not order > 1:
        raise InvalidParameter(f"Expected order={order} in (1, ∞).")
    baseline = rho * order
    with np.errstate(all="ignore"):
        bound, valid = _theorem(np.asarray(log_q, np.float64), rho, order)
        best = np.where(valid, np.minimum(np.maximum(bound, 0) * (1 + _SLACK) + 1e-12, baseline), baseline)
    return np.asarray(best * (1 + _SLACK))


def _theorem(log_q: Floats, rho: float, order: float) -> tuple[Floats, NDArray[np.bool_]]:
    """ln((1 − q)·A^(λ−1) + q·B^(λ−1))/(λ − 1), and where the proof's conditions hold
    (docs/theory/pate.md)."""
    second = np.sqrt(-log_q / rho)
    first = second + 1
    exponent = 1 - 1 / second
    log_neighbour = (
        log_q + rho * second
    ) * exponent  # ln of (q·e^ε₂)^((μ₂ − 1)/μ₂), what may fail on the neighbour
    log_stay = _log1mexp(log_q)
    log_a = log_stay - _log1mexp(log_neighbour)
    log_b = rho * first - log_q / (first - 1)
    # s·q^(s−1)·e^(s·ε₂) ≥ μ₁/(μ₁ − 1), s = (μ₂ − 1)/μ₂: up to this q the bound grows, if also A ≤ B.
    slope = np.log(exponent) - log_q / second + exponent * rho * second
    grows = slope >= np.log1p(1 / (first - 1)) + 1e-9
    valid = (second > 1) & (order <= first) & (log_q + rho * second < -1e-9) & grows & (log_a <= log_b)
    power = order - 1
    return np.logaddexp(log_stay + power * log_a, log_q + power * log_b) / power, valid


def _log1mexp(x: Floats) -> Floats:
    """ln(1 − e^x) for x < 0, without cancellation."""
    return np.where(x > -0.693, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


def _distance(sides: int) -> int:
    if sides not in (1, 2):
        raise InvalidParameter(
            f"Expected sides={sides!r} to be 1 (as printed in the papers) or 2 (both directions)."
        )
    return sides - 1
