"""The root of the tree, and the combinators that say how runs are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from deniable.errors import InvalidLoss
from deniable.loss.fields import (
    check_boolean,
    check_integer,
    check_loss,
    check_losses,
    check_number,
    check_relation,
    replaced_or_added,
)
from deniable.loss.node import POISSON, WITHOUT_REPLACEMENT, LossTree, Scheme
from deniable.numbers import Number, show
from deniable.strict_json import shown
from deniable.units import Relation, Unit


class Loss(LossTree, abstract=True):
    """The root of the tree. `a + b`, `a * k`, `a.sampled(rate)` and `a.grouped(k)` build combinators."""

    @property
    def children(self) -> tuple[Loss, ...]:
        """The losses right below this one, in the order of its fields."""
        return tuple(part for _, parts in self._below() for part in parts)

    def walk(self) -> Iterator[Loss]:
        """This node and all below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.walk()

    def with_children(self, change: Callable[[Loss], Loss]) -> Self:
        """This node with every child changed; itself where no child was."""
        updates: dict[str, Any] = {}
        for name, parts in self._below():
            new = tuple(map(change, parts))
            if any(a is not b for a, b in zip(new, parts, strict=True)):
                updates[name] = new if isinstance(getattr(self, name), tuple) else new[0]
        return replace(self, **updates) if updates else self  # type: ignore[type-var]

    def _below(self) -> Iterator[tuple[str, tuple[Loss, ...]]]:
        """The fields that hold losses."""
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, Loss):
                yield field.name, (value,)
            elif isinstance(value, tuple) and value and isinstance(value[0], Loss):
                yield field.name, value

    def __add__(self, other: Loss) -> Composed:
        if not isinstance(other, Loss):
            return NotImplemented
        return Composed(_parts(self) + _parts(other))

    def __mul__(self, times: int) -> Loss:
        if times == 1 and type(times) is int:
            return self
        return Repeated(times, self)

    __rmul__ = __mul__

    def sampled(self, rate: Number, scheme: Scheme = POISSON, *, replace: bool = False) -> Sampled:
        return Sampled(rate, self, scheme, replace)

    def grouped(self, size: int) -> Grouped:
        return Grouped(size, self)


def _parts(loss: Loss) -> tuple[Loss, ...]:
    if isinstance(loss, Composed):
        return loss.parts
    return (loss,)


@dataclass(frozen=True)
class Sampled(Loss):
    """`of`, run on a random sample of the data that nobody sees.

    Releases that share one sample are `Sampled(rate, Composed(…))`; `Composed((Sampled, Sampled))` are
    independent samples. `replace` is the neighbour relation: False adds or removes one unit, True replaces
    one. What `of` is stated for:

    - Poisson: adding or removing one unit's record in the sample, whatever `replace` says (a replaced record
      is taken out by its coin, the new one comes in by the same);
    - without replacement: replacing one record of the sample (its size is fixed).
    """

    rate: Number
    of: Loss
    scheme: Scheme = POISSON
    replace: bool = False

    def __post_init__(self) -> None:
        check_number(self, "rate", above=0, at_most=1)
        check_loss(self, "of")
        if not isinstance(self.scheme, Scheme):
            raise InvalidLoss(f"Expected scheme={shown(self.scheme)} to be one of {', '.join(Scheme)}.")
        check_boolean(self, "replace")
        if self.relation is not Relation.SILENCED:
            check_relation(self, replaced_or_added(self.scheme is WITHOUT_REPLACEMENT), self.of)

    @property
    def relation(self) -> Relation:
        """On a Poisson sample what is stated for a silenced unit stays so: its coin is
        the same, its contribution is not."""
        if self.scheme is POISSON and not self.replace and self.of.relation is Relation.SILENCED:
            return Relation.SILENCED
        return replaced_or_added(self.replace)

    def __str__(self) -> str:
        kind = {"poisson": "a Poisson sample", "without replacement": "a fixed-size sample"}
        suffix = ", one record replaced" if self.replace else ""
        return f"{self.of}, on {kind.get(self.scheme, 'shuffled batches')} of rate {show(self.rate)}{suffix}"


@dataclass(frozen=True)
class Repeated(Loss):
    """`of`, `times` times over the same data, each run free to depend on the earlier answers."""

    times: int
    of: Loss

    def __post_init__(self) -> None:
        check_integer(self, "times", at_least=1)
        check_loss(self, "of")

    @property
    def relation(self) -> Relation | None:
        return self.of.relation

    def __str__(self) -> str:
        return f"{show(self.times)} × ({self.of})"


@dataclass(frozen=True)
class Composed(Loss):
    """All of `parts` over the same data, each free to depend on the earlier answers.
    Empty: nothing was revealed."""

    parts: tuple[Loss, ...]

    def __post_init__(self) -> None:
        check_losses(self, "parts")
        # Once, at the start: asked anew at each level, a deep tree would take for ever.
        relation = next(
            (
                relation_of_part
                for relation_of_part in (part.relation for part in self.parts)
                if relation_of_part is not None
            ),
            None,
        )
        object.__setattr__(self, "_relation", relation)
        if relation is not None:
            check_relation(self, relation, *self.parts)

    @property
    def relation(self) -> Relation | None:
        return getattr(self, "_relation", None)

    def __str__(self) -> str:
        return " + ".join(f"({p})" for p in self.parts) or "nothing"


@dataclass(frozen=True)
class Parallel(Loss):
    """`parts` on disjoint parts of the data, **each unit's rows all in one part**;
    stated for adding or removing one unit.

    Adding or removing a unit touches one part. `replace=True` replaces a unit: it may
    leave one part and enter another, so two parts are touched (or one part twice). A
    region is no partition of people: `Parallel.split` checks.
    """

    parts: tuple[Loss, ...]
    replace: bool = False

    def __post_init__(self) -> None:
        check_losses(self, "parts")
        if not self.parts:
            raise InvalidLoss("Expected at least one part in Parallel(parts=()).")
        check_boolean(self, "replace")
        check_relation(self, Relation.ADDED, *self.parts)

    @property
    def relation(self) -> Relation:
        return replaced_or_added(self.replace)

    @classmethod
    def split(cls, parts: tuple[Loss, ...], *, by: str, unit: Unit) -> Parallel:
        """Parts made by the values of column `by`, valid only if all rows of a unit share that value.

        >>> from deniable import Pure
        >>> Parallel.split((Pure(1), Pure(2)), by="region", unit=Unit.column("patient_id"))
        Traceback (most recent call last):
            ...
        deniable.errors.InvalidLoss: Rows of one patient_id may lie in several values of "region", so...
        """
        if not unit.falls_in_one_part(by):
            raise InvalidLoss(
                f'Rows of one {unit.column_name} may lie in several values of "{by}", so these parts add up: '
                f'use Composed, split by "{unit.column_name}", or bound the unit to max_rows=1.'
            )
        return cls(parts, unit.replace)

    def __str__(self) -> str:
        subject = "the two largest" if self.replace else "the largest"
        return f"{subject} of ({', '.join(str(p) for p in self.parts)}), on disjoint parts"


@dataclass(frozen=True)
class Grouped(Loss):
    """`of`, for a group of `size` units that change together: all added, all removed, or each replaced."""

    size: int
    of: Loss

    def __post_init__(self) -> None:
        check_integer(self, "size", at_least=1)
        check_loss(self, "of")

    @property
    def relation(self) -> Relation | None:
        return self.of.relation

    def __str__(self) -> str:
        return f"({self.of}) for a group of {show(self.size)}"


@dataclass(frozen=True)
class Shuffled(Loss):
    """One local report `of` from each of at least `reports` people, seen only after a shuffler mixed them.

    Reference: Feldman, McMillan, Talwar 2021 and 2023. `of` must be a pure local loss (`Pure`,
               `ResponseNoise`); the unit of
    the result is one person whose value is replaced.
    """

    reports: int
    of: Loss

    def __post_init__(self) -> None:
        check_integer(self, "reports", at_least=1)
        check_loss(self, "of")
        check_relation(self, Relation.REPLACED, self.of)

    @property
    def relation(self) -> Relation:
        return Relation.REPLACED

    def __str__(self) -> str:
        return f"({self.of}) shuffled among {show(self.reports)} reports"


def mismatch(loss: Loss, unit: Unit) -> str | None:
    """Why `loss` says nothing about `unit`: it is stated for the other neighbour
    relation. None if it is not."""
    relation = loss.relation
    if relation is None or relation is unit.relation:
        return None
    return (
        f"This loss is stated for a unit that is {relation.value}, so it says nothing about {unit}: {loss}."
    )
