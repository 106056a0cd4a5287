"""What an analyst asks for beside the text of a query, and what a plan expects of its answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.loss import Number, exact
from deniable.sql.plan.noise import Family

DEFAULT_GROUPS = 4
"""How many private keys a unit counts for where neither max_groups nor the unit's max_rows says it."""
PRIVATE_GROUPS = 16
"""How many groups are expected where their keys are private, to choose a bound by."""
TYPICAL = 1000
"""The size of the group for which the error of an average is shown before the release."""


@dataclass(frozen=True)
class Terms:
    """The price, or the accuracy, of a query.

    `epsilon` is the total at `delta`, private keys and bounds included. Or `within` is the ± wanted at
    `confidence`, and the least ε that gives it is taken; averages and variances then need `at_least`, a
    public size of every group. `noise` is "auto", "laplace" or "gaussian". `max_groups` is how many private
    keys one unit counts for. `discover=True` lets missing bounds be found privately. `left_out=True` tells,
    from a part of ε, what the bound on a unit's rows leaves out, up to `most_rows` rows of a unit: as many as
    somebody is seen to have where it is None. `bracket=False` spends all of a quantile's share on the number
    itself, which then has no interval."""

    epsilon: Number | None = None
    delta: Number = 0
    confidence: float = 0.95
    noise: str = "auto"
    max_groups: int | None = None
    within: Number | None = None
    at_least: int | None = None
    discover: bool = False
    left_out: bool = field(default=False, repr=False)
    most_rows: int | None = field(default=None, repr=False)
    bracket: bool = field(default=True, repr=False)

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.within is None):
            raise InvalidParameter(
                "Expected either epsilon= (--epsilon .5) or within= (--within 50), and not both. Nothing was "
                "run and nothing was charged."
            )
        for name in ("epsilon", "within"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checks.number(name, getattr(self, name), above=0))
        for name in ("max_groups", "at_least", "most_rows"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checks.whole(name, getattr(self, name), at_least=1))
        object.__setattr__(self, "delta", checks.number("delta", self.delta, at_least=0, below=1))
        checks.failure(self.confidence)
        if self.noise != "auto" and self.noise not in list(Family):
            raise InvalidParameter(f'Expected noise={self.noise!r} to be "auto", "laplace" or "gaussian".')
        if self.noise == Family.GAUSSIAN and not self.delta:
            raise InvalidParameter(
                "Expected delta above 0 for Gaussian noise. Ask with noise='laplace', or give a delta."
            )

    def shared(self, among: int) -> Terms:
        """Those of one of several queries that together have these; ε and δ are rounded down."""
        if among == 1:
            return self
        epsilon = None
        if self.epsilon is not None:
            epsilon = _part(exact(self.epsilon), among)
        return replace(self, epsilon=epsilon, delta=_part(exact(self.delta), among))

    def __str__(self) -> str:
        """All that an answer depends on. (Answers from before it was told what bounding leaves out, or there
        were numbers without a bracket, are found as they were.)"""
        left_out = ""
        if self.left_out:
            left_out = f" left out up to {self.most_rows}"
        return f"{self!r}{left_out}{'' if self.bracket else ' without brackets'}"

    @property
    def family(self) -> Family | None:
        if self.noise == "auto":
            return None
        return Family(self.noise)

    @property
    def beta(self) -> Fraction:
        return 1 - exact(self.confidence)


def _part(total: Fraction, among: int) -> Fraction:
    """An equal part, to twelve digits: a number that prints as it is."""
    if not total:
        return total
    places = 12 - math.floor(math.log10(total / among))
    return Fraction(math.floor(total / among * 10**places), 10**places)


@dataclass(frozen=True)
class Expected:
    """How far a column of the answer may be off, before the release.

    `within` is None where it is known only after it. `rows` is None where the ± holds whatever the data, else
    the size of the group for which it is shown. Of a quantile, `ranks` is how many rows its rank may be off.
    """

    name: str
    within: float | None
    rows: int | None = None
    ranks: float | None = None

    def __str__(self) -> str:
        if self.ranks is not None:
            return f"{self.name}: within {self.ranks:,.0f} rows of the rank asked for"
        if self.within is None:
            return f"{self.name}: known after the release"
        return f"{self.name}: ± {self.within:.4g}" + (f" for a group of {self.rows:,}" if self.rows else "")
