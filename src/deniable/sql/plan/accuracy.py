"""The least ε that makes an answer as accurate as asked, from metadata only."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol, TypeVar

from deniable.errors import InvalidQuery
from deniable.loss import exact
from deniable.sql.plan.request import Expected, Terms


class Foreseen(Protocol):
    def expected(self) -> tuple[Expected, ...]: ...


P = TypeVar("P", bound=Foreseen)


def least(planned: Callable[[Fraction], P], terms: Terms) -> P:
    """The plan of the least ε, to four digits, at which every number is off by at most `within`; errors fall
    with ε."""
    bound = float(terms.within or 0)

    def far(epsilon: Fraction) -> bool:
        return _worst(planned(epsilon).expected(), terms) > bound

    exponent = 0
    while far(Fraction(2) ** exponent) and exponent < 12:
        exponent += 1
    while not far(Fraction(2) ** exponent) and exponent > -12:
        exponent -= 1
    if exponent == 12:
        raise InvalidQuery(
            f"No ε up to 4096 brings the error within {terms.within} at confidence {terms.confidence:g}. "
            "Nothing was run and nothing was charged. Ask for less accuracy, or bound values and "
            "contributions more tightly."
        )
    low, high = Fraction(2) ** exponent, Fraction(2) ** (exponent + 1)
    while high / low > 1 + Fraction(1, 5000):
        # The middle in logarithms, in six digits: an ε that is printed is the one that is charged.
        middle = exact(float(f"{math.sqrt(float(low) * float(high)):.6g}"))
        low, high = (middle, high) if far(middle) else (low, middle)
    return planned(high)


def _worst(expected: tuple[Expected, ...], terms: Terms) -> float:
    """The largest error: a ± in the numbers' own measure, or of quantiles the share of a group's rows that
    the rank is off."""
    if any(item.ranks is not None for item in expected):
        return max(_level(item, terms) for item in expected)
    return max((_number(item, terms) for item in expected), default=0.0)


def _number(shown: Expected, terms: Terms) -> float:
    if shown.within is None or (shown.rows is not None and terms.at_least is None):
        raise InvalidQuery(
            f'How accurate "{shown.name}" will be depends on the data. Nothing was run and nothing was '
            "charged. Ask with epsilon= instead; for averages and variances give at_least=, a public size of "
            "every group; for any query declare bounds and max_rows."
        )
    return shown.within


def _level(shown: Expected, terms: Terms) -> float:
    """How far a value is off depends on the values around it; how far its rank is off, as a share of the
    rows, does not."""
    if shown.ranks is None or terms.at_least is None or not float(terms.within or 0) < 0.5:
        raise InvalidQuery(
            "The accuracy of a quantile is a share of its group's rows: within=0.02 puts a median between "
            "the 48th and the 52nd percentile. Nothing was run and nothing was charged. Ask for quantiles by "
            "themselves, with within= below 0.5 and at_least=, a public size of every group; or ask with "
            "epsilon= instead."
        )
    return shown.ranks / terms.at_least
