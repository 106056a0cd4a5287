"""What counts prove: certified lower bounds on ε from guesses, from two rates, and from a single run.

The setting of `from_guesses`: n times a fair coin b picks one of two neighbours, the target runs once on it,
and a fixed rule answers "first", "second" or abstains. Every bound here holds for *every* target that has the
claimed privacy: a claim that is true is contradicted with probability at most alpha. Rules must be fixed
before the counts are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import binom, norm

from deniable.accounting.proportion import lower, upper
from deniable.errors import InvalidParameter

Array = NDArray[np.float64]

RIGHT = 0.3
"""The part of alpha that `from_guesses` has for the rate of right guesses where there is
a δ: the rarer wrong ones need more."""
SPARE = 0.1
"""The part of alpha that `from_pairs` keeps for pairs that speak against the rule;
good couplings have next to none."""


# ------------------------------------------------------------------------------------------------ guesses


def from_guesses(
    right: int, misses: int, trials: int, *, delta: float, alpha: float, sides: int = 2
) -> float:
    """The least ε that (ε, δ)-privacy allows after `right` and `misses` guesses in
    `trials`, but for a chance of alpha.

    Let S₁ be the outputs guessed "first" and S₀ those guessed "second"; `sides` says how
    many of them are not empty. With P, Q the output's laws, right has rate R = (P(S₁) +
    Q(S₀))/2 and wrong W = (Q(S₁) + P(S₀))/2, so (ε, δ)-privacy says

        R ≤ e^ε·W + δ·sides/2.

    δ = 0: given that a guess was made it is right with probability R/(R + W) ≤ e^ε/(1 + e^ε), independently,
    so one exact binomial bound on right/(right + wrong) suffices and no α is shared between two rates. δ > 0:
    exact bounds on R and W at RIGHT·α and (1 − RIGHT)·α. Both sides may be used at once since each inequality
    is the definition, applied to S₁ and to S₀.
    """
    _check(alpha, delta)
    if min(right, misses) < 0 or right + misses > trials:
        raise InvalidParameter(f"Expected right={right} and wrong={misses} guesses among trials={trials}.")
    if delta == 0:
        share = float(lower(right, right + misses, alpha)) if right + misses else 0.0
        return max(0.0, _logit(share))
    certain = float(lower(right, trials, RIGHT * alpha)) - delta * sides / 2
    most = float(upper(misses, trials, (1 - RIGHT) * alpha))
    return max(0.0, math.log(certain) - math.log(most)) if certain > 0 else 0.0


def from_pairs(only_right: int, only_misses: int, agreements: int, *, alpha: float) -> float:
    """The least ε that ε-privacy allows after *pairs* of runs, one on each neighbour
    with the same random numbers.

    S is one set of outputs, fixed before. Of the pairs that meet it at all, `only_right` met it on the
    neighbour guessed from it, `only_misses` on the other, `agreements` on both. Pairs are independent of one
    another, so given their number the three are multinomial with shares a, b and 1 − a − b, whatever the
    dependence inside a pair, and

        P(S)/Q(S) = (1 − b)/(1 − a).

    Exact bounds a ≥ l at (1 − SPARE)·alpha and b ≤ u at SPARE·alpha hold together but for a chance of alpha
    (union bound) and give ε ≥ ln((1 − u)/(1 − l)). Where the same noise moves both outputs the same way, b =
    0 and a = 1 − e^−ε, so the width is that of one small share: √((e^ε − 1)/n) instead of about 2/√n for n
    outputs in S from independent runs.
    """
    _check(alpha, 0.0)
    if min(only_right, only_misses, agreements) < 0:
        raise InvalidParameter(
            f"Expected counts of at least 0, got {only_right}, {only_misses} and {agreements}."
        )
    hits = only_right + only_misses + agreements
    if hits == 0 or only_misses == hits:
        return 0.0
    sure = float(lower(only_right, hits, (1 - SPARE) * alpha))
    most = float(upper(only_misses, hits, SPARE * alpha))
    return max(0.0, math.log1p(-most) - math.log1p(-sure))


def from_rates(
    hits: int, trials: int, alarms: int, other_trials: int, *, delta: float, alpha: float
) -> float:
    """The same from two samples of fixed size: `hits` of `trials` on one neighbour,
    `alarms` of `other_trials` on the other.

    ε ≥ ln((P(S) − δ)/Q(S)), both rates bounded exactly at α/2 (Jagielski, Ullman, Oprea 2020).
    """
    _check(alpha, delta)
    certain = float(lower(hits, trials, alpha / 2)) - delta
    return (
        max(0.0, math.log(certain) - math.log(float(upper(alarms, other_trials, alpha / 2))))
        if certain > 0
        else 0.0
    )


def gaussian_from_rates(hits: int, trials: int, alarms: int, other_trials: int, *, alpha: float) -> float:
    """The least μ that μ-GDP allows: TPR ≤ Φ(Φ⁻¹(FPR) + μ) (Dong, Roth, Su 2022; Nasr et al. 2023)."""
    true_rate, false_rate = (
        float(lower(hits, trials, alpha / 2)),
        float(upper(alarms, other_trials, alpha / 2)),
    )
    if true_rate <= 0 or false_rate >= 1:
        return 0.0
    return max(0.0, float(norm.ppf(true_rate) - norm.ppf(false_rate)))


# ------------------------------------------------------------------------------------------------ power


def detectable(
    trials: int, *, epsilon: float, delta: float, alpha: float, power: float = 0.95, coupled: bool = False
) -> float:
    """The smallest true ε that could have been told from the claimed one, with
    probability `power`, by a perfect guesser.

    The easiest target of a given ε: with probability δ it gives the secret away, else it
    is randomized response, so that all guesses count. No target of that ε is easier to
    catch; most are harder. `coupled` runs see it by `from_pairs`: P(S) is at most
    e^ε/(1 + e^ε) for a set of ratio e^ε, and no pair need speak against it.
    """
    if trials < 1:
        return math.inf

    def margin(true: float) -> float:
        if coupled:
            return _coupled_response(trials // 2, true, alpha, power) - epsilon
        wrong = (1 - delta) / (1 + math.exp(true))
        count = int(binom.ppf(power, trials, wrong))
        return from_guesses(trials - count, count, trials, delta=delta, alpha=alpha) - epsilon

    all_right = from_guesses(trials, 0, trials, delta=delta, alpha=alpha)
    ceiling = from_pairs(trials // 2, 0, 0, alpha=alpha) if coupled else all_right
    if ceiling <= epsilon:
        return math.inf
    top = epsilon + 1.0
    while margin(top) <= 0:
        top += 1 + top
        if top > 700:
            return math.inf
    below, above = epsilon, top
    while above - below > 1e-4 * max(1.0, above):
        middle = (below + above) / 2
        below, above = (below, middle) if margin(middle) > 0 else (middle, above)
    return above


def _coupled_response(pairs: int, true: float, alpha: float, power: float) -> float:
    """What coupled runs of randomized response certify with probability `power`: each
    count may fall short by half the rest."""
    hits = int(binom.ppf((1 - power) / 2, pairs, 1 / (1 + math.exp(-true))))
    only = int(binom.ppf((1 - power) / 2, hits, -math.expm1(-true)))
    return from_pairs(only, 0, hits - only, alpha=alpha)


# ------------------------------------------------------------------------------------------------ one run


def one_run_p_value(canaries: int, guesses: int, right: int, *, epsilon: float, delta: float) -> float:
    """How likely `right` or more of `guesses` are for any (ε, δ)-private run with
    `canaries` independently included.

    Holds whatever the dependence between canaries inside the run. Steinke, Nasr, Jagielski 2023, Theorem 5.2:

        P(right ≥ v) ≤ P(B ≥ v) + 2mδ·max_{1 ≤ i ≤ v} P(v − i ≤ B < v)/i,
        B ~ Binomial(guesses, e^ε/(1 + e^ε)).
    """
    truth = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, truth))
    if delta == 0 or right == 0:
        return min(1.0, tail)
    steps = np.arange(1, right + 1)
    between = binom.cdf(right - 1, guesses, truth) - binom.cdf(right - 1 - steps, guesses, truth)
    return min(1.0, tail + 2 * canaries * delta * float(np.max(between / steps)))


def one_run(canaries: int, guesses: int, right: int, *, delta: float, alpha: float) -> float:
    """The least ε that one run allows, (ε, δ)-privacy being all that is assumed."""

    def excess(epsilon: float) -> float:
        return one_run_p_value(canaries, guesses, right, epsilon=epsilon, delta=delta) - alpha

    return _largest_refuted(excess)


def one_run_refutes(canaries: int, guesses: int, right: int, *, mu: float, alpha: float) -> bool:
    """Whether one run contradicts that its trade-off curve is that of μ-Gaussian
    privacy, with error at most alpha.

    Mahloujifar, Melis, Chaudhuri 2024, Theorem 3.2 and Algorithm 3 (two options for each canary). `r` and `h`
    bound the mass of right and wrong guesses, per canary, over runs with at least i right ones; if even i = 0
    needs more mass than there is, the curve is refuted.
    """
    r, h = alpha * right / canaries, alpha * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        level = max(h, float(ndtr(ndtri(r) - mu))) if r < 1 else max(h, 1.0)
        if level == h:
            break
        r, h = min(r + i / (guesses - i) * (level - h), 1.0), level
    return r + h > guesses / canaries


def one_run_gaussian(
    canaries: int, guesses: int, right: int, *, alpha: float, precision: float = 1e-3
) -> float:
    """The largest μ, down to `precision`, such that one run refutes μ-GDP; valid within
    the Gaussian family only."""
    if not one_run_refutes(canaries, guesses, right, mu=0.0, alpha=alpha):
        return 0.0
    below, above = 0.0, 0.5
    while above < 64 and one_run_refutes(canaries, guesses, right, mu=above, alpha=alpha):
        below, above = above, 2 * above
    while above - below > precision:
        middle = (below + above) / 2
        is_refuted = one_run_refutes(canaries, guesses, right, mu=middle, alpha=alpha)
        below, above = (middle, above) if is_refuted else (below, middle)
    return below


# ------------------------------------------------------------------------------------------------ small parts


def _largest_refuted(excess: Callable[[float], float]) -> float:
    """The root of a function of ε that rises through 0, approached from below; 0 if it is never negative."""
    if excess(0.0) >= 0:
        return 0.0
    top = 1.0
    while excess(top) < 0:
        top *= 2
        if top > 700:
            return top
    root = float(brentq(excess, 0.0, top, xtol=1e-9))
    return max(0.0, root - 1e-8)


def _logit(p: float) -> float:
    return math.inf if p >= 1 else -math.inf if p <= 0 else math.log(p / (1 - p))


def _check(alpha: float, delta: float) -> None:
    if not 0 < alpha < 1:
        raise InvalidParameter(f"Expected alpha={alpha} in (0, 1).")
    if not 0 <= delta < 1:
        raise InvalidParameter(f"Expected delta={delta} in [0, 1).")
