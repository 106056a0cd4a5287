"""Basic composition: ε's add, δ's add, exactly.

>>> from deniable.loss import LaplaceNoise, Pure
>>> exact_epsilon(Pure(0.1) * 30)
Fraction(3, 1)
>>> epsilon(LaplaceNoise(10) * 1000, delta=0)
100.0

Sums are of rational numbers (a float means the decimal it prints), so thirty times 0.1 is 3. What is
irrational (randomized response, sampling) is rounded up to 20 digits. For Laplace noise basic composition is
optimal at δ = 0: the largest privacy loss of k runs is k/multiplier, and it is attained. Reference: Dwork,
McSherry, Nissim, Smith 2006.
"""

from __future__ import annotations

import math
from fractions import Fraction

from deniable.accounting.methods.sampling import LARGE, amplify_pair
from deniable.accounting.refusals import guard
from deniable.accounting.rounding import ceil_float, exp_wide, log_ratio_up, shorten_up
from deniable.accounting.runs.selection import pure_epsilon
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteLaplaceNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    Number,
    Parallel,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Selected,
    Shuffled,
    exact,
)

Pair = tuple[Fraction, Fraction]


@guard
def epsilon(loss: Loss, delta: Number) -> float:
    """ε by basic composition; ∞ if the δ's of the parts come to more than `delta`."""
    total, failure = exact_pair(loss)
    if failure <= share(delta):
        return ceil_float(total)
    return math.inf


def exact_epsilon(loss: Loss) -> Fraction:
    """The pure ε of `loss`, exact where it is rational. Raises `Unaccountable` where there is none."""
    total, failure = exact_pair(loss)
    if failure:
        raise Unaccountable(
            f"No pure ε is known for {loss}: it fails with a probability of up to {float(failure):.3g}."
        )
    return total


def exact_pair(loss: Loss) -> Pair:
    """(ε, δ) by basic composition, for trees whose leaves have such a pair by themselves."""
    match loss:
        case Pure(value) | BoundedRange(
            value
        ):  # a range of ε holds 0, so no ratio exceeds e^ε (Durfee, Rogers 2019)
            return exact(value), Fraction(0)
        case Approximate(value, delta):
            return exact(value), exact(delta)
        case LaplaceNoise(multiplier):
            return 1 / exact(multiplier), Fraction(0)
        case DiscreteLaplaceNoise(scale, sensitivity):
            return sensitivity / exact(scale), Fraction(0)
        case ResponseNoise(truth, options):
            return log_ratio_up(exact(truth) * (options - 1) / (1 - exact(truth))), Fraction(0)
        case _:
            return _combine(loss)


def _combine(loss: Loss) -> Pair:
    match loss:
        case Repeated(times, of):
            total, failure = exact_pair(of)
            return times * total, min(times * failure, Fraction(1))
        case Composed(parts):
            pairs = [exact_pair(part) for part in parts]
            total, failure = (sum((p[i] for p in pairs), Fraction(0)) for i in (0, 1))
            return total, min(failure, Fraction(1))
        case Parallel(parts, replace):
            pairs = [exact_pair(part) for part in parts]
            worst = max(p[0] for p in pairs), max(p[1] for p in pairs)
            # A unit that is replaced may leave and re-enter the worst part; two different parts cost no more.
            if replace:
                return group_pair(2, worst)
            return worst
        case Grouped(size, of):
            return group_pair(size, exact_pair(of))
        case Sampled(_, of):
            return amplify_pair(loss, *exact_pair(of))
        case Shuffled(_, of):  # mixing is post-processing
            return exact_pair(of)
        case Selected(of, runs):
            return pure_epsilon(exact_epsilon(of), runs), Fraction(0)
        case _:
            raise Unaccountable(
                f"Basic composition knows no (ε, δ) of its own for {loss}. Use zCDP, Rényi or numerical."
            )


def group_pair(size: int, pair: Pair) -> Pair:
    """(kε, δ·(e^{kε} − 1)/(e^ε − 1)): a chain of k neighbours (Vadhan 2017, Lemma 2.2)."""
    epsilon, delta = pair
    if not delta or size == 1:
        return size * epsilon, delta
    if size * epsilon > LARGE:
        # e^{kε} would have more digits than a bound is worth; δ = 1 always holds.
        return size * epsilon, Fraction(1)
    if epsilon == 0:
        return epsilon, min(size * delta, Fraction(1))
    growth = (exp_wide(size * epsilon) - 1) / (exp_wide(epsilon) - 1)
    return size * epsilon, min(shorten_up(delta * growth), Fraction(1))


def share(delta: Number) -> Fraction:
    """`delta` as an exact number in [0, 1]."""
    if isinstance(delta, bool) or not isinstance(delta, int | float | Fraction) or not 0 <= delta <= 1:
        raise InvalidParameter(f"Expected delta={delta!r} in [0, 1].")
    return exact(delta)
