"""Samples as loaders and accelerators make them: a draw into one step of a pass, a cap
on the lot, draws with replacement."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.errors import InvalidLoss
from deniable.loss.fields import check_integer, check_loss, check_number, check_relation
from deniable.loss.tree import Loss
from deniable.numbers import Number, show
from deniable.units import Relation


@dataclass(frozen=True)
class Allocated(Loss):
    """One pass of `steps` runs of `of`, each unit falling by its own uniform draw into
    one of the steps (balls in bins).

    Stated for adding or removing one unit, as is `of`. A shuffled pass cut into lots of
    fixed size is **not** this: there the draws of different units depend on one another.
    Several passes, each with new draws, are `Repeated`.
    Reference: Chua et al. 2025 (balls-and-bins); Feldman, Shenfeld 2025 (random
               allocation); docs/theory/batches.md.
    """

    steps: int
    of: Loss

    def __post_init__(self) -> None:
        check_integer(self, "steps", at_least=1)
        check_loss(self, "of")
        check_relation(self, Relation.ADDED, self.of)

    @property
    def relation(self) -> Relation:
        return Relation.ADDED

    def __str__(self) -> str:
        return f"{show(self.steps)} steps of ({self.of}), each unit in one of them by its own draw"


@dataclass(frozen=True)
class CappedSample(Loss):
    """`of` on a Poisson sample of `rate` of at most `rows` units, of which no more than `cap` are kept.

    Which are kept is decided so that one more unit in the sample displaces at most one
    other (the first `cap` in a random or fixed order). `rows` is declared, never
    counted: adding or removing one unit is what this is stated for, as is `of`.
    """

    rate: Number
    cap: int
    rows: int
    of: Loss

    def __post_init__(self) -> None:
        check_number(self, "rate", above=0, at_most=1)
        check_integer(self, "cap", at_least=1)
        check_integer(self, "rows", at_least=1)
        check_loss(self, "of")
        check_relation(self, Relation.ADDED, self.of)

    @property
    def relation(self) -> Relation:
        return Relation.ADDED

    def __str__(self) -> str:
        return (
            f"{self.of}, on a Poisson sample of rate {show(self.rate)} "
            f"cut to {show(self.cap)} of at most {show(self.rows)}"
        )


@dataclass(frozen=True)
class UniformlyCappedSample(Loss):
    """`of` on a Poisson sample of `rate` of at most `rows` units, cut uniformly to `cap`.

    Each unit enters by its own coin. If more than `cap` coins came up, `cap` of those units are kept: a
    subset drawn uniformly, anew for each sample and independent of all else. A fixed order of the table is
    **not** this, nor one that is drawn once for a whole run: both are a `CappedSample`, which costs more.
    `rows` is declared, never counted: adding or removing one unit is what this is stated for, as is `of`.
    Reference: Ganesh 2025 (truncated Poisson sampling); docs/theory/batches.md.
    """

    rate: Number
    cap: int
    rows: int
    of: Loss

    def __post_init__(self) -> None:
        check_number(self, "rate", above=0, at_most=1)
        check_integer(self, "cap", at_least=1)
        check_integer(self, "rows", at_least=1)
        check_loss(self, "of")
        check_relation(self, Relation.ADDED, self.of)

    @property
    def relation(self) -> Relation:
        return Relation.ADDED

    def __str__(self) -> str:
        return (
            f"{self.of}, on a Poisson sample of rate {show(self.rate)} "
            f"cut uniformly to {show(self.cap)} of at most {show(self.rows)}"
        )


@dataclass(frozen=True)
class DrawnSample(Loss):
    """`of` on `draws` records, each drawn from all `rows` with replacement, so that one
    may come several times.

    Stated for replacing one record, as is `of` (for one of the drawn records).
    Reference: Balle, Barthe, Gaboardi 2018, Theorem 10.
    """

    draws: int
    rows: int
    of: Loss

    def __post_init__(self) -> None:
        check_integer(self, "draws", at_least=1)
        check_integer(self, "rows", at_least=1)
        check_loss(self, "of")
        check_relation(self, Relation.REPLACED, self.of)
        if self.rows == 1 and self.draws > 1:
            raise InvalidLoss(
                "Expected rows=1 of DrawnSample to be drawn once: with one record there is no sample."
            )

    @property
    def relation(self) -> Relation:
        return Relation.REPLACED

    def __str__(self) -> str:
        return f"{self.of}, on {show(self.draws)} draws with replacement among {show(self.rows)}"
