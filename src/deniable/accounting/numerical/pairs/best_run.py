"""The best of a random number of runs, from the curve of one run.

Above: δ′(ε) ≤ E[K]·R·δ(ε − ln R), R the most by which f′ (f the generating function of
       the number of runs K) differs at
the chances of one event on two neighbours. Below: one run taken at random (all scores equal) reveals what a
run does; with Gaussian noise and the *smallest* answer as the best, what lies above an answer is likelier
with the unit, and so is the answer itself.
Proofs: docs/theory/methods.md, "The best of many runs".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from deniable.accounting.numerical.pairs.continuous import Pair, normal_cells
from deniable.accounting.numerical.pairs.dots import connected
from deniable.accounting.numerical.pairs.either import Either
from deniable.accounting.numerical.pairs.finite import Finite, Sided, response
from deniable.accounting.numerical.rounding import Array
from deniable.accounting.runs.selection import mean_runs
from deniable.loss import NegativeBinomialRuns, PoissonRuns

CELLS = 4000
WIDE = 12.0
"""Deviations on both sides that are cut into cells; what lies outside is in the two outermost."""
OFF = 1e-9
"""Relative: what rounding may do to the mass of a cell; sums and products of positive
numbers are right to 1e-12."""
Runs = PoissonRuns | NegativeBinomialRuns
Profile = Callable[[Array], Array]
"""An upper bound on δ of one run at many ε ≥ 0, for both orders of the neighbours."""
POINTS = 160
FINE = 0.01
"""Steps of the chances of an event, in deviations of a normal law."""


def above(profile: Profile, top: float, runs: Runs) -> Finite:
    """A pair that dominates the selection; `top`: an ε beyond which one run's δ is next to nothing."""
    epsilons = np.linspace(0.0, top, POINTS)
    deltas = profile(epsilons)
    log_rise = _rise(epsilons, deltas, runs) * (1 + 1e-9) + 1e-12
    log_scale = math.log(mean_runs(runs)) + log_rise
    heights = np.minimum(
        1.0, np.exp(np.minimum(log_scale + np.log(np.maximum(deltas, 1e-300)), 0.0)) * (1 + 1e-9)
    )
    return connected(np.append(0.0, log_rise + epsilons), np.append(1.0, heights))


def _rise(epsilons: Array, deltas: Array, runs: Runs) -> float:
    """ln R: the most of ln f′(U) − ln f′(V) over the chances (U, V) of one event on two
    neighbours, U ≤ T(V)."""
    if isinstance(runs, PoissonRuns):
        return float(runs.mean) * float(deltas[0])
    t = np.arange(-10.0, 10.0, FINE)
    v, rest = ndtr(-t), ndtr(t)
    x = np.exp(epsilons)
    # T(V) = inf over x of H(x) + x·V, with H(1/x) = 1 − 1/x + H(x)/x; 1 − T likewise, so that neither loses
    # its digits.
    lack = np.maximum(
        (1 - deltas[None, :] - np.multiply.outer(v, x)).max(axis=1),
        ((np.multiply.outer(rest, np.ones(len(x))) - deltas[None, :]) / x[None, :]).max(axis=1),
    )
    lack = np.maximum(lack, 0.0)
    gamma = float(runs.gamma)
    # Between two steps 1 − V is at most that of the one and 1 − T at least that of the other; the ends go on
    # to 0 and 1.
    ratio = (gamma + (1 - gamma) * np.append(rest, 1.0)) / (gamma + (1 - gamma) * np.append(0.0, lack))
    return (1 + float(runs.eta)) * max(0.0, float(np.log(ratio.max())))


def one_run(pair: Pair, runs: Runs) -> Pair:
    """One of the runs, taken at random; none at all is an outcome that says nothing."""
    if isinstance(runs, NegativeBinomialRuns):
        return pair
    none = math.exp(-float(runs.mean))
    if none > 0:
        return Either(((1 - none, pair), (none, response(0.0))))
    return pair


@lru_cache(maxsize=32)
def smallest(sigma: float, runs: Runs) -> Finite:
    """The least answer of Gaussian runs, seen through cells: P with answers around 1, Q around 0."""
    edges = np.concatenate([[-np.inf], np.linspace(-WIDE * sigma, 1 + WIDE * sigma, CELLS), [np.inf]])
    p, q = (_least(edges, shift, sigma, runs) for shift in (1.0, 0.0))
    none = 0.0
    if isinstance(runs, PoissonRuns):
        none = math.exp(-float(runs.mean))
    p, q = np.append(p, none), np.append(q, none)
    mask = (p > 1e-250) & (q > 1e-250)
    p, q = p[mask], q[mask]
    losses = np.log(p / q)
    order = np.argsort(losses, kind="stable")
    return Sided.of(losses[order], p[order], q[order], 0.0, -OFF)


def _least(edges: Array, shift: float, sigma: float, runs: Runs) -> Array:
    """P(the best lies in a cell) = f(U + m) − f(U): m the cell's mass for one run, U that of all above it, f
    the generating function of the number of runs, written without cancellation."""
    t = (edges - shift) / sigma
    mass, below = normal_cells(t), ndtr(t[1:])
    if isinstance(runs, PoissonRuns):
        mean = float(runs.mean)
        return np.asarray(
            np.exp(-mean * below) * -np.expm1(-mean * np.minimum(mass, 1.0)) * np.exp(mean * mass)
        )
    eta, gamma = float(runs.eta), float(runs.gamma)
    # 1 − (1−γ)U = γ + (1−γ)(1−U), and the step of its logarithm over the cell.
    rest = gamma + (1 - gamma) * below
    step = -np.log1p(-(1 - gamma) * mass / rest)
    if eta == 0:
        return np.asarray(step / -math.log(gamma))
    return np.asarray(rest**-eta * np.expm1(eta * step) / math.expm1(-eta * math.log(gamma)))
