"""Strong composition: the ε of k steps grows like √k (Dwork, Rothblum, Vadhan 2010), and
the optimal form of it.

>>> from deniable.loss import LaplaceNoise
>>> round(advanced(LaplaceNoise(10) * 1000, 1e-6), 1), round(optimal(LaplaceNoise(10) * 1000, 1e-6), 3)
(27.1, 19.345)

`advanced` is the theorem as it is usually stated, for comparison. `optimal` is the least ε that holds for
*all* mechanisms with the given (ε, δ) per step: exactly, by the binomial law of randomized response (Kairouz,
Oh, Viswanath 2015, Theorem 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from deniable.accounting.methods.gaussian import textbook_epsilon
from deniable.accounting.methods.pure import share
from deniable.accounting.methods.steps import PrivateStep, Steps, best_split, flatten, own_pairs
from deniable.accounting.refusals import guard
from deniable.accounting.rounding import ULP, ceil_float, floor_float, round_up
from deniable.loss import Loss, Number

Array = NDArray[np.float64]

_ATOMS = 2_000_000
"""Most outcomes that `optimal` lists; beyond it a closed form is used."""
_ROUGH = 5000
"""Most outcomes listed while the split of δ is searched for."""
_LARGE = 1e4
"""A step of more ε than this is only added."""


@guard
def advanced(loss: Loss, delta: Number) -> float:
    """√(2·ln(1/δ′)·Σεᵢ²) + Σεᵢ(e^εᵢ − 1) at δ′ + Σδᵢ, with textbook parts: Gaussian
    noise by the classical formula.

    Reference: Dwork, Rothblum, Vadhan 2010, Theorem III.3; unequal steps by the same
               proof (Azuma's inequality).
    """
    return best_split(loss, floor_float(share(delta)), _advanced_total, textbook_epsilon)


@guard
def optimal(loss: Loss, delta: Number) -> float:
    """The least ε that the steps' (ε, δ) imply; never above basic composition.

    Exact while the outcomes of randomized response with these ε's can be listed (a few distinct ε's), else
    the closed form Σεᵢ·tanh(εᵢ/2) + √(2·ln(1/δ′)·Σεᵢ²) (Kairouz, Oh, Viswanath 2015, Theorem 3.5).
    """
    return best_split(
        loss, floor_float(share(delta)), _optimal, first_guess=partial(_optimal, max_atoms=_ROUGH)
    )


def outcomes(loss: Loss) -> int:
    """How many outcomes of randomized response `optimal` would list; more than it ever
    does where a step has no ε of its own."""
    if not own_pairs(loss):
        return _ATOMS + 1
    return math.prod(step.times + 1 for step in flatten(loss, 0.0) if step.epsilon > 0)


@guard
def optimal_delta(loss: Loss, epsilon: float) -> float:
    """The least δ at `epsilon` that the steps' own (ε, δ) imply, from the listed
    outcomes; 1 where they are too many."""
    if outcomes(loss) > _ATOMS:
        return 1.0
    steps = flatten(loss, 0.0)
    failure = min(sum((step.times * step.delta for step in steps), Fraction(0)), Fraction(1))
    steps = [step for step in steps if step.epsilon > 0]
    if any(step.epsilon > _LARGE for step in steps):
        return 1.0
    loss_of, log_p, slack = _outcomes(steps)
    at = (
        floor_float(Fraction(epsilon)) if math.isfinite(epsilon) else epsilon
    )  # δ falls in ε, so a smaller one is safe
    above = loss_of > at
    gain = -np.expm1(np.minimum(at - loss_of[above], 0.0)) * np.exp(log_p[above])
    # Losses are right to a few ulp of the largest, which moves e^(ε − loss) as much; masses to `slack`.
    edge = 8 * ULP * (1 + float(np.abs(loss_of).max(initial=0.0)))
    excess = float(gain.sum()) * (1 + slack) + edge * float(np.exp(log_p[above]).sum()) * (1 + slack)
    return min(1.0, round_up(ceil_float(failure) + excess))


def _advanced_total(steps: Steps, left: float) -> float:
    if all(step.epsilon == 0 for step in steps):
        return 0.0
    drift = _total(steps, lambda e: e * math.expm1(e) if e < 700 else math.inf)
    return round_up(drift + _spread(steps, left))


def _optimal(steps: Steps, left: float, max_atoms: int = _ATOMS) -> float:
    steps = [step for step in steps if step.epsilon > 0]
    basic = 0.0
    if steps:
        basic = round_up(_total(steps, lambda e: e))
    if left <= 0 or not steps or max(step.epsilon for step in steps) > _LARGE:
        return basic
    if math.prod(step.times + 1 for step in steps) <= max_atoms:
        return min(basic, _epsilon_by_atoms(steps, left))
    return min(basic, round_up(_total(steps, lambda e: e * math.tanh(e / 2)) + _spread(steps, left)))


def _total(steps: Steps, function: Callable[[float], float]) -> float:
    return math.fsum(step.times * function(step.epsilon) for step in steps)


def _spread(steps: Steps, left: float) -> float:
    if left > 0:
        return math.sqrt(2 * -math.log(left) * _total(steps, lambda e: e * e))
    return math.inf


def _epsilon_by_atoms(steps: Steps, left: float) -> float:
    """The least ε with P(S) − e^ε·Q(S) ≤ `left` for every set S of outcomes, of which
    those of largest loss are worst.

    So e^ε ≥ (P(S) − left)/Q(S) for each set of the j largest losses, and the largest of these is exact.
    """
    loss, log_p, slack = _outcomes(steps)
    order = np.argsort(-loss, kind="stable")
    loss, log_p = loss[order], log_p[order]
    # P is rounded up and Q down, so that their quotient bounds e^ε from above.
    p = np.cumsum(np.exp(log_p)) * (1 + slack)
    log_q = np.logaddexp.accumulate(log_p - loss) - slack * (1 + 1e-3) - 4 * ULP * abs(float(loss[0]))
    above = p > left
    if not np.any(above):
        return 0.0
    return round_up(max(0.0, float(np.max(np.log(p[above] - left) - log_q[above]))))


def _outcomes(steps: Steps) -> tuple[Array, Array, float]:
    """All losses, the logarithms of their masses, and the relative error of sums of these."""
    loss, log_p, slack = np.zeros(1), np.zeros(1), 0.0
    for step in steps:
        each, mass, error = _binomial(step)
        loss = np.add.outer(loss, each).ravel()
        log_p = np.add.outer(log_p, mass).ravel()
        slack += error
    # Sums of n positive terms in order err by n ulp at most.
    return loss, log_p, slack + 4 * ULP * len(loss) + 1e-12


def _binomial(step: PrivateStep) -> tuple[Array, Array, float]:
    """Losses (k − 2l)ε of k randomized responses, the logarithms of their masses, and the error of these."""
    k, epsilon = step.times, step.epsilon
    lies = np.arange(k + 1, dtype=np.float64)
    choose: Array = gammaln(k + 1) - gammaln(lies + 1) - gammaln(k - lies + 1)
    truth, lie = -math.log1p(math.exp(-epsilon)), -np.logaddexp(0.0, epsilon)
    error = 16 * ULP * (8 + 3 * float(gammaln(k + 1)) + k * (1 + epsilon))
    return (k - 2 * lies) * epsilon, choose + (k - lies) * truth + lies * lie, error
