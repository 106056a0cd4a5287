"""All small tables and their neighbours, and the worst δ over them of a mechanism with a loss."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

import numpy as np

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
    UniformlyCappedSample,
)
from deniable.units import Relation
from tests.accounting.small_tables.laws import Law, Line, NotStated, cell_masses, delta
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
        case Sampled() | CappedSample() | UniformlyCappedSample() | DrawnSample() | Allocated() | Shuffled():
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
"""How far, at most, a δ in doubles is from the truth, relatively."""
BLOCK = 2000
"""Pairs of tables that are looked at together."""


def worst(case: Case, x: float) -> list[Worst]:
    """For each mechanism the tables that reveal most at x, where that may be the most of all; raises NotStated where the nodes
    say nothing of any."""
    tops = [_worst(case, ways, x) for ways in case.ways]
    most = max((rough for rough, _ in tops), default=-1.0)
    if most < 0:
        raise NotStated("No table of this size has a neighbour.")
    return [top for rough, top in tops if top is not None and rough >= most * (1 - NEAR)]


class RoughTables:
    """All tables of a case for one mechanism, in doubles: a row of chances for each law, and which laws are neighbours."""

    def __init__(self, case: Case, ways: Ways) -> None:
        meaning, seen = Meaning(ways, case.rows, float), start(case.relation)
        self._places: dict[tuple[Any, ...], int] = {}
        numbers: dict[Lot, int] = {}
        self._pairs: dict[tuple[int, int], Neighbours] = {}
        laws: list[Law] = []
        for pair in neighbours(case, ordered=ways.ordered):
            for table in pair:
                if table not in numbers:
                    numbers[table] = len(laws)
                    laws.append(meaning.law(case.loss, table, seen))
            # Tables that show the same are looked at once.
            self._pairs.setdefault((numbers[pair[0]], numbers[pair[1]]), pair)
        for law in laws:
            for outcome in law:
                self._places.setdefault(outcome, len(self._places))
        self._chances = np.zeros((len(laws), len(self._places)))
        for number, law in enumerate(laws):
            for outcome, chance in law.items():
                self._chances[number, self._places[outcome]] = chance
        self._finite, self._lines = self._divide()
        self._leave_out_equal_pairs()

    def _divide(self) -> tuple[Any, list[tuple[Any, Any]]]:
        """Places of outcomes without a real answer; of those with one, places and cells, by all else that is seen beside it."""
        finite: list[int] = []
        lines: dict[Any, list[tuple[int, Line]]] = {}
        for outcome, place in self._places.items():
            answers = [part for part in outcome if isinstance(part, Line)]
            if len(answers) > 1:
                raise NotStated("Two real answers would be a plane.")
            if not answers:
                finite.append(place)
                continue
            beside = tuple(part for part in outcome if not isinstance(part, Line))
            lines.setdefault((answers[0].kind, answers[0].scale, beside), []).append((place, answers[0]))
        groups = [
            ([place for place, _ in group], np.stack([cell_masses(*line) for _, line in group]))
            for group in lines.values()
        ]
        return finite, groups

    def _leave_out_equal_pairs(self) -> None:
        _, kinds = np.unique(self._chances.round(15), axis=0, return_inverse=True)
        kinds = kinds.ravel()
        distinct: dict[tuple[int, int], tuple[int, int]] = {}
        for first, second in self._pairs:
            distinct.setdefault((int(kinds[first]), int(kinds[second])), (first, second))
        self._numbers = np.array(list(distinct.values()), dtype=np.intp).reshape(-1, 2)

    def worst(self, x: float) -> tuple[float, Neighbours | None]:
        """The largest δ at x, and the two tables in the order in which they reveal it."""
        top: tuple[float, Neighbours | None] = (-1.0, None)
        for start_at in range(0, len(self._numbers), BLOCK):
            numbers = self._numbers[start_at : start_at + BLOCK]
            p, q = self._chances[numbers[:, 0]], self._chances[numbers[:, 1]]
            for difference, is_turned in ((p - x * q, False), (q - x * p, True)):
                deltas = self._positive_parts(difference)
                at = int(deltas.argmax())
                if deltas[at] > top[0] + 1e-15:
                    first, second = self._pairs[tuple(numbers[at].tolist())]
                    top = float(deltas[at]), (second, first) if is_turned else (first, second)
        return top

    def _positive_parts(self, difference: Any) -> Any:
        total = np.maximum(difference[:, self._finite], 0).sum(axis=1)
        for places, cells in self._lines:
            total += np.maximum(difference[:, places] @ cells, 0).sum(axis=1)
        return total


@lru_cache(maxsize=32)
def _rough_tables(case: Case, ways: Ways) -> RoughTables:
    """The laws of a case are the same at every ε."""
    return RoughTables(case, ways)


def _worst(case: Case, ways: Ways, x: float) -> tuple[float, Worst | None]:
    rough, tables = _rough_tables(case, ways).worst(x)
    if tables is None:
        return rough, None
    return rough, Worst(tables, ways)


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
