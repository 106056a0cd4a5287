"""Noise that several parties add together, and mechanisms stated by their own probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from deniable.errors import InvalidLoss
from deniable.loss.tree import Loss, Number, _boolean, _integer, _number, _replaced, exact, show
from deniable.units import Relation

LEAST_SHARE = Fraction(5, 2)
"""Grid units of deviation that each party's noise must have, for the sum to be nearly one integer Gaussian."""


@dataclass(frozen=True)
class IntegerGaussianSum(Loss):
    """The sum of `parties` independent integer Gaussian noises of deviation `sigma` each, on integer vectors of L2 sensitivity
    `sensitivity` in `dimension` coordinates (grid units); `parties` counts only those whose noise is surely in the sum.

    A party that leaves takes its noise along, so this is stated for a unit that is silenced, or (`replace`) replaced, never for
    one that is added or removed. Reference: Kairouz, Liu, Steinke 2021, Theorem 1; docs/theory/numerical.md, T9.
    """

    parties: int
    sigma: Number
    sensitivity: Number
    dimension: int
    replace: bool = False

    def __post_init__(self) -> None:
        _integer(self, "parties", at_least=1)
        _number(self, "sigma", above=0)
        _number(self, "sensitivity", above=0)
        _integer(self, "dimension", at_least=1)
        _boolean(self, "replace")
        if exact(self.sigma) < LEAST_SHARE:
            raise InvalidLoss(
                f"Expected sigma={show(self.sigma)} of IntegerGaussianSum to be at least {float(LEAST_SHARE)} grid units a "
                "party: below it a sum of integer noises is not near enough to one integer Gaussian. Use a finer grid."
            )

    @property
    def relation(self) -> Relation:
        return _replaced(True) if self.replace else Relation.SILENCED

    @property
    def distance(self) -> float:
        """A bound on the log-ratio, over all coordinates, between the sum and one integer Gaussian of its variance; rounded up.

        τ = 10·Σ_k exp(−2π²σ²·k/(k+1)), k = 1..parties − 1, for each coordinate that neighbours may change.
        """
        square = float(exact(self.sigma)) ** 2
        few = min(self.parties - 1, 1000)
        terms = [math.exp(-2 * math.pi**2 * square * k / (k + 1)) for k in range(1, few + 1)]
        # The exponents grow with k, so the remaining terms are below the last.
        rest = (self.parties - 1 - few) * terms[-1] if terms else 0.0
        changed = min(self.dimension, math.floor(exact(self.sensitivity) ** 2))
        return 10 * (math.fsum(terms) + rest) * changed * (1 + 1e-9)

    def __str__(self) -> str:
        return (
            f"{show(self.parties)} integer Gaussian noises of σ = {show(self.sigma)} on sensitivity "
            f"{show(self.sensitivity)}"
        )
