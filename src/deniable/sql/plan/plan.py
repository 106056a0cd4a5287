"""From a checked query to a Mechanism: its loss and error are known before any data is opened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from deniable.errors import InvalidParameter, InvalidQuery
from deniable.loss import Approximate, Composed, Loss, Number, Zcdp, exact
from deniable.mechanism import Error, Random
from deniable.numbers import plain
from deniable.sql.answer import evaluate
from deniable.sql.answer.table import expectations
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Engine, Statement
from deniable.sql.plan import statistics
from deniable.sql.plan.accuracy import least
from deniable.sql.plan.allocation import Allotment, Item, allot
from deniable.sql.plan.exact import Exact
from deniable.sql.plan.keys import Selection, combinations
from deniable.sql.plan.noise import LARGEST_BITS, Family, Noise, Sensitivity, gaussian, laplace
from deniable.sql.plan.private_bounds import MOST_ROWS, SHARE, RowBound, ValueBounds
from deniable.sql.plan.quantiles import CELL_BITS, CELLS, Bracket, Rank, divided
from deniable.sql.plan.request import DEFAULT_GROUPS, Expected, Terms
from deniable.sql.plan.settled import Settled
from deniable.sql.plan.statistics import Grid, Measure, Part
from deniable.sql.tree import Column, Filter, Join, PerUnit, Project, Query, Relation, Result, Scan, Union
from deniable.sql.types import INTEGER
from deniable.sql.types_relations import read
from deniable.sql.write import prepared
from deniable.sql.write.contributions import Limit
from deniable.sql.write.weights import MOST_ROWS_DECLARED, ONE, TOTAL, VALUE_BITS
from deniable.units import Kind as UnitKind
from deniable.units import Unit

T = TypeVar("T")
_SPARED = 1 - Fraction(1, 10**9)
"""The part of δ that is used: a charge at a δ rounds it down by a step of floats."""
_COARSEST_BITS = 12
_SALTS = 1 << 62


@dataclass(frozen=True)
class Plan:
    """A query as a Mechanism: called with an engine it runs its statements, adds exact integer noise, and releases a `Result`.

    Guarantee: `loss`, at most (`epsilon`, `delta`), for `unit`: every part is an integer vector that one unit moves by at most
               its sensitivity; private keys, private bounds and quantiles are mechanisms of their own; all are composed.
    Assumes:   the engine computes the statements exactly; the relation's rows of a unit depend on that unit's rows and public
               tables only (`sql.read.query`); fewer than 2^40 rows.
    Error:     `expected` for each column. It leaves out the bias of clamping and of bounding contributions.
    Reference: docs/theory/curator.md.
    """

    query: Query
    unit: Unit
    terms: Terms
    epsilon: Number
    delta: Number
    limit: Limit
    parts: tuple[Part, ...]
    stands: tuple[tuple[int, ...], ...]
    grids: tuple[Grid | None, ...]
    measures: tuple[tuple[Noise | Rank, ...], ...]
    brackets: tuple[tuple[Bracket | None, ...], ...]
    selections: tuple[Selection | None, ...]
    allotment: Allotment
    bits: int
    row_bound: RowBound | None = None
    value_bounds: tuple[ValueBounds, ...] = ()

    @property
    def loss(self) -> Loss:
        """Laplace noise, choices and selections add up. Gaussian noise and the choices beside it are one ρ of zCDP (a choice of
        range ε is ε²/8: Cesar, Rogers 2021), stated as (ε, δ) where something else is composed with it."""
        measures = [measure for each in self.measures for measure in each]
        around = [bracket for each in self.brackets for bracket in each if bracket is not None]
        measures += [rank for bracket in around for rank in (bracket.low, bracket.high)]
        others: list[Loss] = [selection.loss for selection in self.selections if selection is not None]
        others += [self.row_bound.loss] if self.row_bound is not None else []
        others += [bounds.loss for bounds in self.value_bounds]
        if self.allotment.family is Family.LAPLACE:
            return _composed([measure.loss for measure in measures] + others)
        if not others:
            return Zcdp(plain(sum((_rho(measure) for measure in measures), Fraction(0))))
        allotted = plain(self.allotment.noise_epsilon), plain(self.allotment.noise_delta)
        return _composed([Approximate(*allotted), *others])

    def error(self, confidence: float = 0.95) -> Error | None:
        """Of a query with one number per group whose ± is known before the release."""
        if sum(bool(evaluate.aggregates_in(output.of)) for output in self.query.outputs) != 1:
            return None
        shown = self.expected(confidence)
        if len(shown) != 1 or shown[0].within is None or shown[0].rows is not None:
            return None
        return Error(shown[0].within, float(confidence))

    def expected(self, confidence: float | None = None) -> tuple[Expected, ...]:
        """The ± of each column made from aggregates, before the release."""
        return expectations(self, self.terms.confidence if confidence is None else confidence)

    def statements(self, dialect: Dialect) -> tuple[Statement, ...]:
        """What the engine is asked, to be read: with the salt 0, and private bounds at their starting values."""
        return self._start.statements(dialect)

    @property
    def known_grids(self) -> dict[Part, Grid]:
        start = (Fraction(-1), Fraction(1))
        return {
            part: grid if grid is not None else self.grid(part, start)
            for part, grid in zip(self.parts, self.grids, strict=True)
            if _has_grid(part)
        }

    def grid(self, part: Part, bounds: tuple[Fraction, Fraction]) -> Grid:
        """Of bounds that are found privately: as fine as the noise was sized for, whole numbers too."""
        return _grid(part, bounds, self.bits, filled=True)

    def bounded(self, rows: int) -> Limit:
        """The limit for a private contribution bound."""
        return replace(self.limit, rows=rows, one=TOTAL // rows)

    def __call__(self, data: Engine, *, rng: Random) -> Result:
        salt = format(rng.uniform_integers(_SALTS), "x")
        return self.settle(data, rng).measure(data, salt).release(rng)

    def settle(self, engine: Engine, rng: Random) -> Settled:
        """First the bounds that are found privately: on rows, then, with rows weighed, on values. Where all is declared,
        nothing is asked and nothing drawn."""
        settled = self.prepared(engine.prepared)._start.with_rows(engine, rng)
        for bounds in self.value_bounds:
            settled = settled.with_values(bounds, engine, rng)
        return settled

    def measure(self, engine: Engine, salt: str) -> Exact:
        """The integers before noise, where no bound is to be found privately."""
        if self.settles:
            raise InvalidParameter(
                "Bounds that are found privately change the statements of every run, so they must be settled first. Nothing "
                "was run."
            )
        return self.prepared(engine.prepared)._start.measure(engine, salt)

    @property
    def settles(self) -> bool:
        """Whether a run begins by finding bounds privately."""
        return self.row_bound is not None or bool(self.value_bounds)

    @property
    def _start(self) -> Settled:
        return Settled(self, self.limit, self.known_grids)

    def prepared(self, tables: Mapping[str, int]) -> Plan:
        """The same plan on stored weights, where the one table it reads was prepared with the unit's own max_rows.

        A unit's stored weights sum to at most max_rows·W over all its rows, so to no more over those that pass a filter: the
        sensitivities stay, and nothing needs counting. Only who shares a weight changes.
        """
        found = prepared.table(self.query.relation)
        usable = self.limit.by_unit and self.limit.bounded and self.unit.max_rows is not None
        if not usable or found is None or tables.get(found) != self.unit.max_rows:
            return self
        query = replace(self.query, relation=prepared.carrying(self.query.relation))
        return replace(self, query=query, limit=replace(self.limit, stored=True))


def plan(query: Query, unit: Unit, terms: Terms, *, bounding: bool = True) -> Plan:
    """The mechanism that answers `query` on `terms`. Nothing but metadata is used. (`bounding=False` switches the protection
    of units with many rows off, for audits that must find that.)"""
    _check(query, unit, terms)
    if terms.epsilon is not None:
        return _planned(query, unit, terms, exact(terms.epsilon), bounding)
    return least(lambda epsilon: _planned(query, unit, terms, epsilon, bounding), terms)


def _planned(query: Query, unit: Unit, terms: Terms, epsilon: Fraction, bounding: bool) -> Plan:
    parts, stands, uses = statistics.parts_of(query)
    limit = _limit(query, unit, terms, bounding)
    weighed = any(part.measure is not Measure.UNITS for part in parts)
    chooses = unit.kind is UnitKind.COLUMN and unit.max_rows is None and weighed
    missing = _missing(query.relation, parts, terms)
    left = epsilon * (1 - SHARE * (chooses + len(missing)))
    singles = [_single(query, group) for group in query.sets]
    private = [_is_private(query, group) for group in query.sets]

    def sensitivities(bits: int) -> list[list[Sensitivity | None]]:
        return [[_moved(part, limit, unit, single, chooses, bits) for part in parts] for single in singles]

    rough = [sensitivity for each in sensitivities(VALUE_BITS) for sensitivity in each]
    items = [Item(use, _ratio(moved)) for use, moved in zip(uses * len(singles), rough, strict=True)]
    shares = allot(items, sum(private), left, exact(terms.delta) * _SPARED, terms.family, float(terms.beta))
    bits = _bits(shares, limit, unit)
    exactly = [sensitivity for each in sensitivities(bits) for sensitivity in each]
    measures = [
        _measure(part, amount, moved, limit, unit, shares.family, bits)
        for part, amount, moved in zip(parts * len(singles), shares.amounts, exactly, strict=True)
    ]
    failures = _failures(query, parts, stands, float(terms.beta))
    pairs = [_bracketed(each, failures.get(i % len(parts)), shares.family) for i, each in enumerate(measures)]
    small = statistics.counted(limit.total, replace=unit.replace, single=False)
    return Plan(
        query,
        unit,
        terms,
        plain(epsilon),
        terms.delta if any(private) or shares.family is Family.GAUSSIAN else 0,
        limit,
        parts,
        stands,
        tuple(_grid(part, part.bounds, bits) if _has_grid(part) and part.bounds else None for part in parts),
        _by_set([point for point, _ in pairs], len(singles)),
        _by_set([bracket for _, bracket in pairs], len(singles)),
        tuple(_selection(shares, limit, unit) if hidden else None for hidden in private),
        shares,
        bits,
        RowBound(epsilon * SHARE, unit.replace) if chooses else None,
        tuple(ValueBounds(part, laplace(small, epsilon * SHARE)) for part in missing),
    )


# ------------------------------------------------------------------------------------------------ what may be asked


def _check(query: Query, unit: Unit, terms: Terms) -> None:
    if unit.kind not in (UnitKind.ROW, UnitKind.COLUMN):
        raise InvalidQuery(
            f"A query protects a row or a column's value, not {unit}. Open the data with Unit.row() or Unit.column()."
        )
    if unit.kind is UnitKind.ROW and any(part.measure is Measure.UNITS for part in statistics.parts_of(query)[0]):
        raise InvalidQuery("Where each row is a unit there is no column of units to count. Use COUNT(*).")
    for group in query.sets:
        if _is_private(query, group):
            if not terms.delta:
                names = ", ".join(query.keys[i].name for i in group if query.keys[i].domain is None)
                raise InvalidQuery(
                    f"The values of {names} are not public, so their release needs a delta above 0. Nothing was run and "
                    "nothing was charged. Give a delta, or let the owner declare the keys."
                )
        else:
            combinations([query.keys[i] for i in group])


def _missing(relation: Relation, parts: Sequence[Part], terms: Terms) -> list[Part]:
    """One part for each expression without bounds."""
    found: dict[object, Part] = {}
    for part in parts:
        if _has_grid(part) and part.bounds is None:
            found.setdefault((part.of, part.where), part)
    if found and not terms.discover:
        raise InvalidQuery(
            f"{_called(relation, list(found.values()))} no bounds. Nothing was run and nothing was charged. Let the owner "
            "declare them (bounds= or --bounds x=0:100), clamp in the query, like SUM(CLAMP(x, 0, 100)), or find them "
            "privately with discover=True (--discover)."
        )
    if len(found) > 4:
        raise InvalidQuery(
            f"Bounds of {len(found)} values would have to be found privately; at most 4 can be in one query."
        )
    return list(found.values())


def _called(relation: Relation, parts: Sequence[Part]) -> str:
    """By the columns of the table, where these are what the analyst sees."""
    columns = [Column(name, INTEGER) for part in parts for name in read(part.of)]
    names = list(dict.fromkeys(prepared.source(relation, column) for column in columns))
    if not names or None in names:
        return "A value that is summed, averaged or ranked has"
    what = " and ".join(f'"{name}"' for name in names)
    alone = len(parts) == 1 and isinstance(parts[0].of, Column)
    return f"{'The column' if alone else 'An expression of'} {what} is summed, averaged or ranked, and has"


def _is_private(query: Query, group: Sequence[int]) -> bool:
    return any(query.keys[i].domain is None for i in group)


def _single(query: Query, group: Sequence[int]) -> bool:
    """Whether there is exactly one group, whatever the data."""
    return not _is_private(query, group) and len(combinations([query.keys[i] for i in group])) == 1


# ------------------------------------------------------------------------------------------------ contributions


def _limit(query: Query, unit: Unit, terms: Terms, bounding: bool) -> Limit:
    if unit.kind is UnitKind.ROW:
        times = multiplicity(query.relation)
        return Limit(False, times, times, 1)
    if unit.max_rows is not None and unit.max_rows > MOST_ROWS_DECLARED:
        raise InvalidQuery(
            f"Expected max_rows={unit.max_rows} to be at most 2^40. Nothing was run and nothing was charged. Open the data for a "
            "unit with fewer rows."
        )
    if unit.max_rows is None:
        # Rows and weight of one are replaced by the private choice; their product, which the loss rests on, is not.
        return Limit(True, 1, terms.max_groups or DEFAULT_GROUPS, TOTAL, bounded=bounding)
    return Limit(True, unit.max_rows, terms.max_groups or unit.max_rows, ONE, bounded=bounding)


def multiplicity(relation: Relation) -> int:
    """How often a row of one table may reach the aggregate: once for each time that the table is read and put together.

    A join, which has at most one private side, meets the other side's rows on unique columns, so it multiplies nothing.
    """
    return max(_readings(relation).values(), default=1)


def _readings(relation: Relation) -> dict[str, int]:
    match relation:
        case Scan(table, _, _, _):
            return {table: 1}
        case Project(of, _) | Filter(of, _) | PerUnit(of, _, _):
            return _readings(of)
        case Join(left, right, _, _, _):
            return _added([_readings(left), _readings(right)])
        case Union(parts):
            return _added([_readings(part) for part in parts])


def _added(many: Sequence[dict[str, int]]) -> dict[str, int]:
    return {table: sum(each.get(table, 0) for each in many) for table in {name for each in many for name in each}}


# ------------------------------------------------------------------------------------------------ noise of a part


def _has_grid(part: Part) -> bool:
    return part.measure in (Measure.SUM, Measure.SQUARE, Measure.RANKS)


def _grid(part: Part, bounds: tuple[Fraction, Fraction], bits: int, filled: bool = False) -> Grid:
    if part.of is None:
        raise InvalidQuery("A sum needs a value to sum.")
    if part.measure is Measure.RANKS:
        return statistics.grid(part.of, bounds, None, CELL_BITS)
    return statistics.grid(part.of, bounds, part.centred, bits, filled=filled)


def _moved(part: Part, limit: Limit, unit: Unit, single: bool, chooses: bool, bits: int) -> Sensitivity | None:
    """The sensitivity of a part over all groups of one grouping set; None for ranks, whose choice has its own."""
    many = {"replace": unit.replace, "single": single}
    match part.measure:
        case Measure.COUNT:
            return statistics.counted(limit.total, **many)
        case Measure.UNITS:
            return statistics.present(limit.groups, ONE, **many)
        case Measure.DISTINCT:
            return statistics.counted(MOST_ROWS if chooses else limit.rows, **many)
        case Measure.RANKS:
            _grid(part, part.bounds or (Fraction(0), Fraction(1)), bits)
            return None
        case _:
            return statistics.summed(limit.total, *_range(part, bits), **many)


def _range(part: Part, bits: int) -> tuple[int, int]:
    """The least and largest integer that a value becomes; where bounds are found later, what any grid of `bits` may hold."""
    if part.bounds is None:
        return -(1 << (bits - 1)), 1 << (bits - 1)
    grid = _grid(part, part.bounds, bits)
    return grid.squares if part.measure is Measure.SQUARE else (grid.low, grid.high)


def _ratio(moved: Sensitivity | None) -> float | None:
    return None if moved is None else math.sqrt(moved.l2_squared) / moved.l1


def _bits(shares: Allotment, limit: Limit, unit: Unit) -> int:
    """How fine values may be, so that no noise passes the samplers' range: at most 2 · total · 2^(bits − 1) / ε."""
    least = min(
        (float(a) if shares.family is Family.LAPLACE else math.sqrt(2 * a) for a in shares.amounts), default=1.0
    )
    room = LARGEST_BITS - math.ceil(math.log2(2 * limit.total / least)) - 1
    return max(_COARSEST_BITS, min(VALUE_BITS, room))


def _measure(
    part: Part, amount: Fraction, moved: Sensitivity | None, limit: Limit, unit: Unit, family: Family, bits: int
) -> Noise | Rank:
    if moved is not None:
        return laplace(moved, amount) if family is Family.LAPLACE else gaussian(moved, amount)
    grid = _grid(part, part.bounds, bits) if part.bounds else None
    cells = CELLS if grid is None else grid.high + 1
    # A choice of range ε is ε²/8-zCDP; the root is rounded down.
    epsilon = amount if family is Family.LAPLACE else Fraction(math.isqrt(math.floor(8 * amount * 10**24)), 10**12)
    return Rank(part.level or Fraction(0), epsilon, limit.total, cells, unit.replace)


def _bracketed(measure: Noise | Rank, beta: float | None, family: Family) -> tuple[Noise | Rank, Bracket | None]:
    """A quantile's choice divided into its point and the two cells around it."""
    if beta is None or not isinstance(measure, Rank):
        return measure, None
    return divided(measure, beta, squared=family is Family.GAUSSIAN)


def _failures(query: Query, parts: Sequence[Part], stands: Sequence[Sequence[int]], beta: float) -> dict[int, float]:
    """How often the interval of each quantile may fail: β over the number of aggregates in an output, of the largest output
    that reads it."""
    found: dict[int, float] = {}
    for output in query.outputs:
        read = evaluate.aggregates_in(output.of)
        for part in (stands[a][0] for a in read):
            if parts[part].measure is Measure.RANKS:
                found[part] = min(found.get(part, beta), beta / len(read))
    return found | {i: beta for i, part in enumerate(parts) if part.measure is Measure.RANKS and i not in found}


def _by_set(each: Sequence[T], sets: int) -> tuple[tuple[T, ...], ...]:
    many = len(each) // sets
    return tuple(tuple(each[i * many : (i + 1) * many]) for i in range(sets))


def _rho(measure: Noise | Rank) -> Fraction:
    return measure.rho if isinstance(measure, Noise) else measure.epsilon**2 / 8


def _selection(shares: Allotment, limit: Limit, unit: Unit) -> Selection:
    touched = limit.groups * (2 if unit.replace else 1)
    epsilon, delta = shares.selection
    return Selection(epsilon / touched, delta / touched, limit.groups, unit.replace)


def _composed(parts: list[Loss]) -> Loss:
    return parts[0] if len(parts) == 1 else Composed(tuple(parts))
