"""What (ε, δ) means for a person: how far a belief can move, how well the best attacker
can do, what a group can expect.

All statements compare two neighbouring data sets, P and Q being the distributions of the
answer on each. An attacker may know everything but the one unit that differs, and may
have unlimited computing power. Results are rounded outward.

>>> posterior(0.4, 1)
Posterior(low=0.1969..., high=0.6444..., failure=0.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deniable import checks
from deniable.accounting.refusals import guard
from deniable.errors import InvalidParameter
from deniable.loss import Number

# Far more than the rounding of the few operations of any formula here, each with a relative error of some
# 2⁻⁵² (all are sums and products of positive terms, so nothing cancels).
OUTWARD = 2.0**-47
SMALLEST = 1e-300


@dataclass(frozen=True)
class Posterior:
    """A belief after the answer lies in [`low`, `high`], except with probability `failure` over the noise."""

    low: float
    high: float
    failure: float


@guard
def posterior(prior: float, epsilon: Number, delta: Number = 0, *, slack: Number = 0.1) -> Posterior:
    """Where a belief of `prior` in a fact about one unit can end after an (ε, δ)-private answer.

    δ = 0: the odds change by the likelihood ratio of the answer, which lies in [e^−ε,
    e^ε] (Bayes; Dwork et al. 2006):

        low = p·e^−ε / (1 − p + p·e^−ε),   high = p / (p + (1 − p)·e^−ε).

    δ > 0: single answers may tell everything, so no interval holds for all of them. With ε' = ε + `slack`,
    let S be the answers with ln P/Q > ε'. Then P(S) ≤ e^ε·Q(S) + δ ≤ e^(ε−ε')·P(S) + δ, so P(S) ≤ δ/(1 −
    e^−slack). For the answers R with ln Q/P > ε' likewise Q(R) ≤ δ/(1 − e^−slack), and P(R) ≤ e^−ε'·Q(R). So
    in either world the interval of ε' fails with probability at most δ·(1 + e^−ε')/(1 − e^−slack). Reference:
    Kasiviswanathan, Smith 2014, Lemma 3.3 (there with ε' = 2ε).
    """
    epsilon, delta = _privacy(epsilon, delta)
    prior, slack = float(prior), float(slack)
    if not 0 < prior < 1:
        raise InvalidParameter(f"Expected prior={prior:g} in (0, 1).")
    if not 0 < slack < math.inf:
        raise InvalidParameter(f"Expected slack={slack:g} in (0, ∞).")
    reach = epsilon
    if delta:
        reach = epsilon + slack
    shrink = math.exp(-reach)
    low = prior * shrink / (1 - prior + prior * shrink)
    high = prior / (prior + (1 - prior) * shrink)
    return Posterior(_round_down(low), _round_up(high), _round_up(delta * (1 + shrink) / -math.expm1(-slack)))


@guard
def attacker_power(false_positive_rate: float, epsilon: Number, delta: Number = 0) -> float:
    """The largest true-positive rate of any test for one unit's presence with this false-positive rate.

        TPR ≤ min(e^ε·FPR + δ, 1 − e^−ε·(1 − δ − FPR), 1)

    Both lines are the definition of (ε, δ)-privacy, applied to the rejection region and
    to its complement; the bound is attained.
    Reference: Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015, Theorem 2.1.

    >>> f"{attacker_power(0.01, 1):.4f}"
    '0.0272'
    """
    epsilon, delta = _privacy(epsilon, delta)
    rate = float(false_positive_rate)
    if not 0 <= rate <= 1:
        raise InvalidParameter(f"Expected false_positive_rate={rate:g} in [0, 1].")
    above = math.inf
    if epsilon < 700:
        above = math.exp(epsilon) * rate + delta
    below = -math.expm1(-epsilon) + math.exp(-epsilon) * (delta + rate)
    return _round_up(min(above, below))


@guard
def advantage(epsilon: Number, delta: Number = 0) -> float:
    """The largest TPR − FPR of any test: the total variation distance of P and Q, (e^ε −
    1 + 2δ)/(e^ε + 1) at most.

    It is where the two lines of `attacker_power` cross. A test between two equally likely worlds is right
    with probability (1 + advantage)/2 at most. Reference: Kairouz, Oh, Viswanath 2015.

    >>> f"{advantage(1):.4f}"
    '0.4621'
    """
    epsilon, delta = _privacy(epsilon, delta)
    shrink = math.exp(-epsilon)
    return _round_up((-math.expm1(-epsilon) + 2 * delta * shrink) / (1 + shrink))


@guard
def group_odds(epsilon: Number, size: int) -> float:
    """The factor e^(k·ε) by which the odds of any fact about a group of `size` units can
    change under ε-privacy.

    A path of k single changes leads from one data set to the other, each costs at most
    e^ε (Dwork et al. 2006).

    >>> f"{group_odds(1, 3):.3f}"
    '20.086'
    """
    exponent = float(_privacy(epsilon, 0)[0]) * _size(size)
    return _outward_exp(exponent)


@guard
def group_delta(epsilon: Number, delta: Number, size: int) -> float:
    """The δ that goes with k·ε for a group of `size`: δ·(1 + e^ε + … + e^((k−1)ε)), at most 1.

    By induction over the path: P₀ ≤ e^ε·P₁ + δ ≤ e^ε·(e^((k−1)ε)·P_k + δ_(k−1)) + δ.
    Reference: Vadhan 2017, Lemma 2.2.

    >>> f"{group_delta(1, 1e-6, 3):.3g}"
    '1.11e-05'
    """
    epsilon, delta = _privacy(epsilon, delta)
    size = _size(size)
    if delta == 0:
        return 0.0
    if epsilon == 0:
        return _round_up(delta * size)
    return _round_up(
        delta * _outward_exp((size - 1) * epsilon) * (math.expm1(-size * epsilon) / math.expm1(-epsilon))
    )


def _privacy(epsilon: Number, delta: Number) -> tuple[float, float]:
    if not 0 <= epsilon < math.inf:
        raise InvalidParameter(f"Expected epsilon={epsilon} in [0, ∞).")
    if not 0 <= delta < 1:
        raise InvalidParameter(f"Expected delta={delta} in [0, 1).")
    return float(epsilon), float(delta)


def _size(size: int) -> int:
    return checks.whole("size", size, at_least=1)


def _outward_exp(x: float) -> float:
    """e^x rounded up; the error of x itself, x·2⁻⁵³, becomes a relative one of the result."""
    if x < 700:
        return math.exp(x) * (1 + OUTWARD + x * 2.0**-51)
    return math.inf


def _round_up(probability: float) -> float:
    # The smallest doubles have few digits: there a relative step is none.
    return min(1.0, probability * (1 + OUTWARD) + SMALLEST * (probability > 0))


def _round_down(probability: float) -> float:
    return max(0.0, probability * (1 - OUTWARD) - SMALLEST)
