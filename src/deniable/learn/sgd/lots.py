"""How long a run is and how its lots are drawn: public sizes only, never read from data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.loss import Number, exact
from deniable.numbers import plain


@dataclass(frozen=True)
class Plan:
    """`steps` lots, each row in each lot by its own coin of probability `rate`; `lot` = rate·n is what sums are divided by."""

    rate: Number
    lot: float
    steps: int


def plan(
    n: Number | None, lot: Number | None, rate: Number | None, epochs: Number | None, steps: Number | None
) -> Plan:
    """From two of n, lot and rate, and one of epochs and steps. `epochs` passes take ⌈epochs/rate⌉ steps.

    >>> plan(n=60_000, lot=600, rate=None, epochs=2, steps=None)
    Plan(rate=Fraction(1, 100), lot=600.0, steps=200)
    >>> plan(n=None, lot=None, rate=0.01, epochs=None, steps=100)
    Traceback (most recent call last):
        ...
    deniable.errors.InvalidParameter: Expected two of n, lot and rate, got rate=0.01. ...
    """
    chosen, size = _drawn(n, lot, rate)
    if (epochs is None) == (steps is None):
        raise InvalidParameter(
            f"Expected one of epochs and steps, got epochs={epochs} and steps={steps}. Nothing was charged."
        )
    if steps is not None:
        return Plan(chosen, size, checks.whole("steps", steps, at_least=1))
    passes = exact(checks.number("epochs", epochs, above=0))
    return Plan(chosen, size, math.ceil(passes / exact(chosen)))


def _drawn(n: Number | None, lot: Number | None, rate: Number | None) -> tuple[Number, float]:
    """(rate, lot). The number of rows is private: n is a size that the caller states."""
    given = {name: value for name, value in (("n", n), ("lot", lot), ("rate", rate)) if value is not None}
    if len(given) != 2:
        told = ", ".join(f"{name}={value}" for name, value in given.items()) or "none"
        raise InvalidParameter(
            f"Expected two of n, lot and rate, got {told}. A row is drawn with probability rate = lot/n and the noisy sum is "
            "divided by lot; both are public sizes that you state, never len(data). Nothing was charged."
        )
    sizes = {name: checks.number(name, value, above=0) for name, value in given.items()}
    chosen = sizes["rate"] if "rate" in sizes else plain(exact(sizes["lot"]) / exact(sizes["n"]))
    if chosen > 1:
        raise InvalidParameter(
            f"Expected rate={float(chosen):g} in (0, 1]: a lot is no larger than n. Nothing was charged."
        )
    return chosen, float(sizes["lot"] if "lot" in sizes else exact(sizes["n"]) * exact(chosen))
