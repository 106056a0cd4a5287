"""From ε to rational probabilities that are never bolder than ε allows.

e^ε is irrational, so no rational coin spends exactly ε. Each function here rounds to a multiple of 2^−64
towards more noise, with integer brackets of e^−ε, so the stated ε is an upper bound of the true one and
exceeds it by less than 2^−36.

>>> float(truth(1))
0.731058578630...
"""

from __future__ import annotations

import math
from fractions import Fraction

from deniable.errors import InvalidParameter
from deniable.loss import Number, exact
from deniable.randomness.certified import exp_bounds

BITS = 64
GUARD = 192
LEAST, MOST = Fraction(1, 10**6), Fraction(40)
OPTIONS = 1 << 24


def truth(epsilon: Number, options: int = 2) -> Fraction:
    """The largest multiple of 2^−64 certified to be at most e^ε/(e^ε + options − 1).

    Randomized response among `options` with this chance of the truth has ε' = ln(truth·(options − 1)/(1 −
    truth)) ≤ ε: the function t ↦ t/(1 − t) grows, and the real probability gives ε. It stays above 1/options,
    since ε ≥ 10^−6 lifts it by at least ε/(4·options) > 2^−46 while rounding takes less than 2^−63.
    """
    return share(epsilon, 1, options - 1)


def share(epsilon: Number, inner: int, outer: int) -> Fraction:
    """The largest multiple of 2^−64 certified to be at most inside/(inside + outside·e^−ε).

    With this chance to fall uniformly on `inner` answers, else uniformly on `outer` others, no answer is
    more than e^ε times as likely in one place as in the other.
    """
    _, high = exp_bounds(exact(epsilon), GUARD)
    return Fraction((inner << (GUARD + BITS)) // ((inner << GUARD) + outer * high), 1 << BITS)


def log_ratio(ratio: Fraction, times: int = 1) -> float:
    """A float certified to be at least times·ln(ratio), for a ratio of at least 1."""
    epsilon = times * (math.log(ratio.numerator) - math.log(ratio.denominator))
    step = 2.0**-46 * (1 + times * math.log(ratio.numerator))
    while not covers(epsilon, ratio, times):
        epsilon, step = epsilon + step, 2 * step
    return epsilon


def covers(epsilon: float, ratio: Fraction, times: int = 1) -> bool:
    """Whether e^(−ε/times) ≤ 1/ratio is certain, for the float as it is and for the decimal that it
    prints."""
    least = min(exact(epsilon), Fraction(epsilon)) / times
    if least < 0:
        return False
    bits = GUARD + ratio.numerator.bit_length()
    _, high = exp_bounds(least, bits)
    return Fraction(high, 1 << bits) * ratio <= 1


def check_epsilon(epsilon: object) -> None:
    number = (
        isinstance(epsilon, int | float | Fraction)
        and not isinstance(epsilon, bool)
        and math.isfinite(epsilon)
    )
    if not (number and LEAST <= exact(epsilon) <= MOST):  # type: ignore[arg-type]
        raise InvalidParameter(
            f"Expected epsilon={epsilon!r} in [{float(LEAST):g}, {float(MOST):g}]. Nothing was drawn."
        )


def check_whole(name: str, value: int, least: int, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= largest:
        raise InvalidParameter(
            f"Expected {name}={value!r} to be a whole number in [{least:,}, {largest:,}]. Nothing was drawn."
        )
