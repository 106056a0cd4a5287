"""All small tables and their neighbours, and the worst δ over them of a mechanism with a loss."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

from deniable.loss import (
    Allocated,
    CappedSample,
    DrawnSample,
    Grouped,
    Loss,
    Parallel,
    Sampled,
    Scheme,
    Shuffled,
)
from deniable.units import Relation
from tests.accounting.small_tables.laws import NotStated, delta, rough_delta
from tests.accounting.small_tables.references import LARGEST, Lot, Meaning, Member, Seen, Ways

VALUES = (-1, 0, 1)
Neighbours = tuple[Lot, Lot]


@dataclass(frozen=True)
class Case:
    """A loss, the relation it is stated for, and how many records the largest table has."""

    loss: Loss
    relation: Relation
    rows: int
    ways: tuple[Ways, ...]


def group_size(loss: Loss) -> int:
    """Records of the own unit: groups inside groups multiply."""
    return reduce(lambda a, b: a * b, (node.size for node in loss.walk() if isinstance(node, Grouped)), 1)


def outer_group(loss: Loss) -> int:
    """Records of the own unit that a sample draws singly: groups inside a sample are drawn as one."""
    match loss:
        case Sampled() | CappedSample() | DrawnSample() | Allocated() | Shuffled():
            return 1
        case Grouped(size, of):
            return size * outer_group(of)
        case _:
            return max((outer_group(child) for child in loss.children), default=1)


def neighbours(case: Case, *, ordered: bool) -> Iterator[Neighbours]:
    """Every table with the own unit and its neighbour. Where no order counts the own unit comes first, the others sorted."""
    group, parts = group_size(case.loss), range(_parts(case.loss))
    own_units = [Member(value, part, group) for value in VALUES for part in parts]
    others = [Member(value, part) for value in VALUES for part in parts]
    for count in _numbers_of_others(case, group):
        lists = (
            itertools.product(others, repeat=count)
            if ordered
            else itertools.combinations_with_replacement(others, count)
        )
        for rest, own in itertools.product(list(lists), own_units):
            for place in range(count + 1) if ordered else (0,):
                table = (*rest[:place], own, *rest[place:])
                for other in _without(case.relation, own, own_units):
                    yield table, (*rest[:place], *other, *rest[place:])


def _without(relation: Relation, own: Member, units: list[Member]) -> Iterator[Lot]:
    match relation:
        case Relation.ADDED:
            yield ()
        case Relation.REPLACED:
            yield from ((other,) for other in units if other != own)
        case Relation.SILENCED:
            if own.value:
                yield (own._replace(value=0),)


def _parts(loss: Loss) -> int:
    return max((len(node.parts) for node in loss.walk() if isinstance(node, Parallel)), default=1)


def _numbers_of_others(case: Case, group: int) -> range:
    """Tables of all sizes up to `rows`, or of that size alone where the loss states it."""
    most = case.rows - outer_group(case.loss)
    is_exact = any(
        isinstance(node, DrawnSample | Shuffled)
        or (isinstance(node, Sampled) and node.scheme is not Scheme.POISSON)
        for node in case.loss.walk()
    )
    room = LARGEST - group
    if is_exact:
        return range(most, most + 1 if most <= room else most)
    return range(min(most, room) + 1)


def start(relation: Relation) -> Seen:
    """A leaf that no sample stands over is stated for the relation itself."""
    return Seen(2 if relation is Relation.REPLACED else 1)


@dataclass(frozen=True)
class Worst:
    """Two neighbours, in the order in which they reveal most, and the mechanism that does."""

    tables: Neighbours
    ways: Ways

    def delta(self, case: Case, x: Fraction) -> Fraction:
        """The exact δ at x = e^ε."""
        meaning = Meaning(self.ways, case.rows, Fraction)
        p, q = (meaning.law(case.loss, table, start(case.relation)) for table in self.tables)
        return delta(p, q, x)


NEAR = 1e-3
"""How far, at most, `rough_delta` is from the truth, relatively."""


def worst(case: Case, x: float) -> list[Worst]:
    """For each mechanism the tables that reveal most at x, where that may be the most of all; raises NotStated where the nodes
    say nothing of any."""
    tops = [_worst(case, ways, x) for ways in case.ways]
    most = max((rough for rough, _ in tops), default=-1.0)
    if most < 0:
        raise NotStated("No table of this size has a neighbour.")
    return [top for rough, top in tops if top is not None and rough >= most * (1 - NEAR)]


@lru_cache(maxsize=32)
def _rough_meaning(case: Case, ways: Ways) -> Meaning:
    """The laws of a case are the same at every ε."""
    return Meaning(ways, case.rows, float)


def _worst(case: Case, ways: Ways, x: float) -> tuple[float, Worst | None]:
    top: tuple[float, Worst | None] = (-1.0, None)
    meaning, seen = _rough_meaning(case, ways), start(case.relation)
    for first, second in neighbours(case, ordered=ways.ordered):
        p, q = meaning.law(case.loss, first, seen), meaning.law(case.loss, second, seen)
        for rough, tables in (
            (rough_delta(p, q, x), (first, second)),
            (rough_delta(q, p, x), (second, first)),
        ):
            if rough > top[0] + 1e-15:
                top = rough, Worst(tables, ways)
    return top


def every_way(loss: Loss) -> tuple[Ways, ...]:
    """All mechanisms that are listed for a loss; an order of the table counts where a lot is cut."""
    kinds = {type(node).__name__ for node in loss.walk()}
    cuts: tuple[Any, ...] = (
        ("first", "random") if any(isinstance(n, CappedSample) for n in loss.walk()) else ("random",)
    )
    statistics = ["sum"]
    if kinds & {"Pure", "Zcdp"}:
        statistics.append("parity")
    # Where a sample draws groups as one, the number of reports would tell whose they are.
    if (
        "ResponseNoise" in kinds
        and kinds & {"Sampled", "DrawnSample", "Grouped"}
        and group_size(loss) == outer_group(loss)
    ):
        statistics.append("reports")
    adaptive = (False, True) if kinds & {"Repeated", "Composed", "Allocated"} else (False,)
    offsets = (-2, 0, 2) if "BoundedRange" in kinds else (0, 2) if "FiniteOutcomes" in kinds else (0,)
    choices = itertools.product(statistics, cuts, adaptive, offsets)
    return tuple(Ways(statistic, cut, adapts, offset) for statistic, cut, adapts, offset in choices)
