"""Noise that several parties add together, and mechanisms stated by their own probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real

from deniable.errors import InvalidLoss
from deniable.loss.fields import check_boolean, check_integer, check_number, replaced_or_added
from deniable.loss.tree import Loss
from deniable.numbers import Number, exact, plain, show
from deniable.units import Relation

LEAST_SHARE = Fraction(5, 2)
"""Grid units of deviation that each party's noise must have, for the sum to be nearly one integer
Gaussian."""


@dataclass(frozen=True)
class IntegerGaussianSum(Loss):
    """The sum of `parties` independent integer Gaussian noises of deviation `sigma`
    each, on integer vectors of L2 sensitivity `sensitivity` in `dimension` coordinates
    (grid units); `parties` counts only those whose noise is surely in the sum.

    A party that leaves takes its noise along, so this is stated for a unit that is silenced, or (`replace`)
    replaced, never for one that is added or removed. Reference: Kairouz, Liu, Steinke 2021, Theorem 1;
    docs/theory/numerical.md, T9.
    """

    parties: int
    sigma: Number
    sensitivity: Number
    dimension: int
    replace: bool = False

    def __post_init__(self) -> None:
        check_integer(self, "parties", at_least=1)
        check_number(self, "sigma", above=0)
        check_number(self, "sensitivity", above=0)
        check_integer(self, "dimension", at_least=1)
        check_boolean(self, "replace")
        if exact(self.sigma) < LEAST_SHARE:
            raise InvalidLoss(
                f"Expected sigma={show(self.sigma)} of IntegerGaussianSum to be at least "
                f"{float(LEAST_SHARE)} grid units a party: below it a sum of integer noises is not near "
                "enough to one integer Gaussian. Use a finer grid."
            )

    @property
    def relation(self) -> Relation:
        if self.replace:
            return replaced_or_added(True)
        return Relation.SILENCED

    @property
    def distance(self) -> float:
        """A bound on the log-ratio, over all coordinates, between the sum and one
        integer Gaussian of its variance; rounded up.

        τ = 10·Σ_k exp(−2π²σ²·k/(k+1)), k = 1..parties − 1, for each coordinate that neighbours may change.
        """
        square = float(exact(self.sigma)) ** 2
        few = min(self.parties - 1, 1000)
        terms = [math.exp(-2 * math.pi**2 * square * k / (k + 1)) for k in range(1, few + 1)]
        # The exponents grow with k, so the remaining terms are below the last.
        rest = 0.0
        if terms:
            rest = (self.parties - 1 - few) * terms[-1]
        coordinates = min(self.dimension, math.floor(exact(self.sensitivity) ** 2))
        return 10 * (math.fsum(terms) + rest) * coordinates * (1 + 1e-9)

    def __str__(self) -> str:
        return (
            f"{show(self.parties)} integer Gaussian noises of σ = {show(self.sigma)} on sensitivity "
            f"{show(self.sensitivity)}"
        )


@dataclass(frozen=True)
class FiniteOutcomes(Loss):
    """A mechanism of your own with finitely many outcomes: their probabilities with the unit (`present`) and
    without it (`absent`), such that this pair dominates every two neighbours.

    That is: for each outcome set and each pair of neighbours, P(S) − x·Q(S) is at most that of the best set
    here, for every x ≥ 0; where a unit is replaced, for the neighbours in either order. Both sides of every
    bound are then of this pair.
    """

    present: tuple[Number, ...]
    absent: tuple[Number, ...]

    def __post_init__(self) -> None:
        _probabilities(self, "present")
        _probabilities(self, "absent")
        if len(self.present) != len(self.absent):
            raise InvalidLoss(
                f"Expected as many probabilities in present ({len(self.present)}) as in absent "
                f"({len(self.absent)})."
            )

    def __str__(self) -> str:
        return f"{len(self.present)} outcomes of known probability"


@dataclass(frozen=True)
class MixedGaussianNoise(Loss):
    """Gaussian noise of deviation `sigma` around a random shift: with the unit shifts[i]
    ≥ 0 with probability weights[i], without it 0. A vector-valued shift counts by its
    norm. Reference: Choquette-Choo et al. 2024; Ganesh 2024.
    """

    sigma: Number
    shifts: tuple[Number, ...]
    weights: tuple[Number, ...]

    def __post_init__(self) -> None:
        check_number(self, "sigma", above=0)
        _probabilities(self, "weights")
        object.__setattr__(
            self, "shifts", tuple(_plain_number(self, "shifts", x) for x in _sequence(self, "shifts"))
        )
        if len(self.shifts) != len(self.weights):
            raise InvalidLoss(
                f"Expected as many shifts ({len(self.shifts)}) as weights ({len(self.weights)})."
            )

    def __str__(self) -> str:
        return f"Gaussian noise of σ = {show(self.sigma)} around one of {len(self.shifts)} shifts"


NEAR_ONE = Fraction(1, 10**9)
"""How far probabilities given as decimals may sum from 1; what is missing is charged as revealed."""


def _sequence(node: Loss, name: str) -> tuple[object, ...]:
    value = getattr(node, name)
    if not isinstance(value, tuple | list) or not value:
        raise InvalidLoss(f"Expected {name} of {type(node).__name__} to be a list of numbers.")
    return tuple(value)


def _plain_number(node: Loss, name: str, value: object) -> Number:
    """One entry, finite and not negative, as int, float or Fraction."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidLoss(f"Expected the entries of {name} of {type(node).__name__} to be numbers.")
    number = plain(value)
    if not 0 <= number < math.inf:
        raise InvalidLoss(
            f"Expected the entries of {name} of {type(node).__name__} to be finite and at least 0."
        )
    return number


def _probabilities(node: Loss, name: str) -> None:
    values = tuple(_plain_number(node, name, x) for x in _sequence(node, name))
    total = sum((exact(x) for x in values), Fraction(0))
    if abs(total - 1) > NEAR_ONE:
        raise InvalidLoss(
            f"Expected the probabilities {name} of {type(node).__name__} to sum to 1, got "
            f"{float(total):.12g}."
        )
    object.__setattr__(node, name, values)
