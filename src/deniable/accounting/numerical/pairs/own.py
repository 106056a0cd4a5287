"""Pairs of mechanisms stated by their own probabilities, and the product of unlike
noises that share one sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from deniable.accounting.numerical.lattice.discretise import LossLaw, discretise, infinite_mass
from deniable.accounting.numerical.lattice.steer import lattice_step
from deniable.accounting.numerical.pairs.continuous import Pair
from deniable.accounting.numerical.pairs.finite import Sided
from deniable.accounting.numerical.pairs.shifted import GaussianMixture
from deniable.accounting.numerical.rounding import Array, U, relative
from deniable.loss import FiniteOutcomes, MixedGaussianNoise, Number, exact

PRODUCT_TAIL = 1e-22
"""Mass above the last node of each factor, charged as revealed."""
PRODUCT_NODES = 6000
MOST_NODES = 40_000


def finite(node: FiniteOutcomes) -> Pair:
    """The pair itself, its outcomes in the order of their loss."""
    p, q = (np.array([float(x) for x in side]) for side in (node.present, node.absent))
    mask = p + q > 0
    p, q = p[mask], q[mask]
    with np.errstate(divide="ignore"):
        losses = np.log(p) - np.log(q)
    order = np.argsort(losses, kind="stable")
    # Probabilities that were typed need not sum to 1: what is missing on either side is charged as revealed.
    missing = _missing(node.present) + _missing(node.absent)
    return Sided.of(losses[order], p[order], q[order], missing, 16 * U)


def mixture(node: MixedGaussianNoise) -> Pair | None:
    """Shifts in units of 1, equal ones together; None if nothing ever moves."""
    totals: dict[Fraction, Fraction] = {}
    for shift, weight in zip(node.shifts, node.weights, strict=True):
        totals[exact(shift)] = totals.get(exact(shift), Fraction(0)) + exact(weight)
    atoms = sorted((shift, weight) for shift, weight in totals.items() if weight)
    if atoms[-1][0] == 0:
        return None
    shifts, weights = (tuple(float(x) for x in column) for column in zip(*atoms, strict=True))
    return GaussianMixture(float(exact(node.sigma)), shifts, weights, _missing(node.weights))


def _missing(probabilities: Sequence[Number]) -> float:
    return float(abs(sum((exact(x) for x in probabilities), Fraction(0)) - 1))


def product(factors: Sequence[tuple[Pair, int]], *, upper: bool) -> Pair | None:
    """Everything seen together, as one pair above the truth or (`upper` False) below it; None if that takes
    too many outcomes, or none can be had below.

    Each factor is put on one lattice (T1, T2), masses are convolved, and what Q then lacks shows itself on
    its side: H is not changed by it, and a sample mixes the same H.
    """
    spans = [(pair.span(PRODUCT_TAIL), times) for pair, times in factors]
    width = sum(times * (high - low) for (low, high), times in spans)
    if not math.isfinite(width) or sum(times for _, times in factors) > 64:
        return None
    dt = lattice_step([pair for pair, _ in factors], width / PRODUCT_NODES, again=False)
    if width / dt > MOST_NODES:
        return None
    laws = [
        (discretise(pair, dt, low, high), times)
        for (pair, times), ((low, high), _) in zip(factors, spans, strict=True)
    ]
    count = sum(times for _, times in factors)
    reach = max(max(abs(low), abs(high)) for (low, high), _ in spans)
    # Roundings of the losses themselves and of the sums, as a factor on every mass.
    off = 2 * count * (relative(reach) + MOST_NODES * U)
    exposure = -math.expm1(
        sum(times * math.log1p(-min(infinite_mass(pair), 1 - U)) for pair, times in factors)
    )
    if upper:
        # Only the upper pair pays for what was cut off; the lower one simply lacks it.
        left = count * PRODUCT_TAIL + sum(times * pair.slack for pair, times in factors)
        return _joined([(above, times) for (above, _), times in laws], exposure, left, off)
    lowers = [(below, times) for (_, below), times in laws if below is not None]
    if len(lowers) < len(laws):
        return None
    return _joined(lowers, exposure, 0.0, -off)


def _joined(laws: Sequence[tuple[LossLaw, int]], revealed: float, left: float, off: float) -> Pair:
    mass, start, offset, dt = np.ones(1), 0, 0.0, laws[0][0].dt
    for law, times in laws:
        dense = _dense(law)
        for _ in range(times):
            mass = np.convolve(mass, dense)
        start, offset = start + times * int(law.index[0]), offset + times * law.offset
    losses = offset + dt * (start + np.arange(len(mass)))
    # By the meaning of a loss, Q = P·e^(−loss); what Q then lacks shows itself at loss −∞.
    q = mass * np.exp(-losses)
    short = max(0.0, 1 - float(q.sum()))
    return Sided.of(
        np.concatenate([[-np.inf], losses, [np.inf]]),
        np.concatenate([[0.0], mass, [revealed]]),
        np.concatenate([[short], q, [0.0]]),
        left,
        off,
        # Below, P may lack mass. That lowers H of this order, and would raise that of the other.
        is_one_way=off < 0,
    )


def _dense(law: LossLaw) -> Array:
    out = np.zeros(int(law.index[-1] - law.index[0]) + 1)
    out[law.index - law.index[0]] = law.mass
    return out
