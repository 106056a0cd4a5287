"""From a checked query to its plan: its loss and error are known before any data is opened."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from deniable.errors import InvalidQuery
from deniable.loss import exact
from deniable.numbers import plain
from deniable.sql.answer import evaluate
from deniable.sql.answer.estimate import Footing, standing
from deniable.sql.plan.accuracy import least
from deniable.sql.plan.allocation import Allotment, Item, allot
from deniable.sql.plan.bounds.row_classes import Classes, moved
from deniable.sql.plan.bounds.values import SHARE, ValueBounds
from deniable.sql.plan.keys import KeySelection, combinations
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.measure import Footprint, Measure
from deniable.sql.plan.measures.ranks import Ranks
from deniable.sql.plan.measures.totals import LeftOut, counted
from deniable.sql.plan.measures.units import Units
from deniable.sql.plan.noise import LARGEST_BITS, Family, Noise, gaussian, laplace
from deniable.sql.plan.plan import GroupingSet, NoisyMeasure, Plan, PlanPrice, PrivateBounds
from deniable.sql.plan.quantiles import Bracket, Rank, divided
from deniable.sql.plan.request import DEFAULT_GROUPS, PRIVATE_GROUPS, Terms
from deniable.sql.profile.knowledge import NOTHING, Knowledge
from deniable.sql.profile.rows import RowBound
from deniable.sql.tree import Column, Query, Relation, Scan
from deniable.sql.types import INTEGER
from deniable.sql.types_relations import children, read
from deniable.sql.write import prepared
from deniable.sql.write.contributions import MOST_ROWS_DECLARED, ONE, TOTAL, VALUE_BITS, Limit, class_edges
from deniable.units import Unit, UnitKind

MOST_FOUND = 4
"""Of how many values one query may find bounds privately."""
_SPARED = 1 - Fraction(1, 10**9)
"""The part of δ that is used: a charge at a δ rounds it down by a step of floats."""
_COARSEST_BITS = 12
_ONE_ROW = RowBound(1, True, 0)
_FOR_CLASSES = Fraction(1, 20)
"""The part of ε for the number of units by their rows, where only a bound is chosen by it."""
_FOR_CLASSES_TOLD = Fraction(1, 8)
"""The same where what the bound leaves out is told: that rests on it too."""


def plan(
    query: Query, unit: Unit, terms: Terms, *, bounding: bool = True, knowledge: Knowledge = NOTHING
) -> Plan:
    """The mechanism that answers `query` on `terms`. Nothing but metadata is used, and what is known of the
    table's profile. (`bounding=False` switches the protection of units with many rows off, for audits that
    must find that.)"""
    query, clamps = knowledge.clamp_sums(query)
    has_bound = knowledge.bounds_rows(query, unit)
    stands = standing(query, told=_tells(unit, terms) and not has_bound)
    _check(query, unit, terms, stands.measures)

    def plan_at(epsilon: Fraction) -> Plan:
        planner = _Planner(query, unit, terms, epsilon, stands, bounding, clamps)
        if has_bound:
            # Shares of ε do not depend on the bound, so the noise of a row is known before it.
            noise = None if terms.epsilon is None else replace(planner, row_bound=_ONE_ROW).noise_per_row
            bound = knowledge.bound_rows(query, unit, noise, planner.group_count)
            planner = replace(planner, row_bound=bound)
        return planner.plan()

    if terms.epsilon is not None:
        return plan_at(exact(terms.epsilon))
    return least(plan_at, terms)


def _tells(unit: Unit, terms: Terms) -> bool:
    """Whether a bound on rows may leave something out that is to be told."""
    if not terms.left_out or unit.kind is not UnitKind.COLUMN:
        return False
    return unit.max_rows is None or terms.most_rows is None or terms.most_rows > unit.max_rows


@dataclass(frozen=True)
class _Planner:
    """One plan at one ε, step by step: contributions, shares of ε, grids, noise."""

    query: Query
    unit: Unit
    terms: Terms
    epsilon: Fraction
    stands: Footing
    bounding: bool
    clamps: Mapping[str, tuple[float, float]]
    row_bound: RowBound | None = None
    """From the profile, where it has one for this query."""

    def plan(self) -> Plan:
        # δ is stated only where something uses it: Laplace noise on public keys is pure, and charged so.
        has_delta = any(self.private) or self.shares.family is Family.GAUSSIAN
        delta = self.terms.delta if has_delta else 0
        price = PlanPrice(plain(self.epsilon), delta, self.shares)
        bounds = PrivateBounds(self._classes(), tuple(self._value_bounds()), self.bits)
        sets = tuple(self._set(index) for index in range(len(self.query.sets)))
        limit, stands = self.footprint.limit, self.stands.positions
        findings = self.row_bound, self.clamps
        return Plan(self.query, self.unit, self.terms, price, limit, stands, sets, bounds, *findings)

    # ------------------------------------------------------------------------------- what is known beforehand

    @property
    def measures(self) -> tuple[Measure, ...]:
        return self.stands.measures

    @cached_property
    def footprint(self) -> Footprint:
        has_weights = any(not isinstance(measure, Units) for measure in self.measures)
        is_unbounded = self.unit.max_rows is None and self.row_bound is None
        is_chosen = self.unit.kind is UnitKind.COLUMN and is_unbounded and has_weights
        limit = _limit(self.query, self.unit, self.terms, self.bounding, self.row_bound)
        return Footprint(limit, self.unit.replace, is_chosen)

    @property
    def noise_per_row(self) -> float:
        """The largest mean noise of a number for each row of a unit that counts, in rows of a group."""
        numbers = [self._noisy(i, self.shares.amounts[i], self.single[0]) for i in range(len(self.measures))]
        return max(number.per_row for number in numbers)

    @property
    def group_count(self) -> int:
        """Of the first grouping set; of private keys as many as are expected."""
        if self.private[0]:
            return PRIVATE_GROUPS
        return len(combinations([self.query.keys[i] for i in self.query.sets[0]]))

    @cached_property
    def private(self) -> list[bool]:
        """Of each grouping set, whether its keys are."""
        return [_is_private(self.query, group) for group in self.query.sets]

    @cached_property
    def single(self) -> list[bool]:
        """Of each grouping set, whether there is exactly one group, whatever the data."""
        groups = [[self.query.keys[i] for i in group] for group in self.query.sets]
        return [
            not hidden and len(combinations(keys)) == 1
            for keys, hidden in zip(groups, self.private, strict=True)
        ]

    @cached_property
    def missing(self) -> list[Measure]:
        return _missing(self.query.relation, self.measures, self.terms)

    # -------------------------------------------------------------------------------------------- shares of ε

    @cached_property
    def shares(self) -> Allotment:
        """Of what bounds of values leave, one amount for each measure of each grouping set, one for each
        selection, and one for the classes of rows per unit."""
        # Basic composition: every private choice of bounds is a mechanism of its own, and takes its part off
        # the top.
        left = self.epsilon * (1 - SHARE * len(self.missing))
        uses = self.stands.uses * len(self.query.sets)
        items = [Item(use, ratio) for use, ratio in zip(uses, self._ratios(), strict=True)]
        delta, beta = exact(self.terms.delta) * _SPARED, float(self.terms.beta)
        return allot(items, sum(self.private), left, delta, self.terms.family, beta, self._aside)

    @property
    def told(self) -> bool:
        return any(isinstance(measure, LeftOut) for measure in self.measures)

    @property
    def _aside(self) -> Fraction:
        """For the classes of rows per unit: they say which bound to choose, and up to where there is somebody
        to be told of."""
        if not self.footprint.chosen and (not self.told or self.terms.most_rows is not None):
            return Fraction(0)
        if self.told:
            return _FOR_CLASSES_TOLD
        return _FOR_CLASSES

    def _ratios(self) -> Iterator[float | None]:
        """Of the L2 to the L1 sensitivity; None for a choice."""
        for single in self.single:
            for measure in self.measures:
                sensitivity = measure.sensitivity(self.footprint, single=single, bits=VALUE_BITS)
                # A choice has a range and no vector, so Gaussian noise cannot gain from an L2 norm there.
                if sensitivity is None:
                    yield None
                else:
                    yield math.sqrt(sensitivity.l2_squared) / sensitivity.l1

    @cached_property
    def bits(self) -> int:
        """How fine values may be, so that no noise passes the samplers' range: at most 2 · total · 2^(bits −
        1) / ε."""
        laplace_noise = self.shares.family is Family.LAPLACE
        scales = (float(a) if laplace_noise else math.sqrt(2 * a) for a in self.shares.amounts)
        smallest = min(scales, default=1.0)
        total = max(self.footprint.limit.total, TOTAL if self.told else 1)
        room = LARGEST_BITS - math.ceil(math.log2(2 * total / smallest)) - 1
        return max(_COARSEST_BITS, min(VALUE_BITS, room))

    # -------------------------------------------------------------------------------------------- noise

    def _set(self, index: int) -> GroupingSet:
        many = len(self.measures)
        amounts = self.shares.amounts[index * many : (index + 1) * many]
        noisy = [self._noisy(i, amount, self.single[index]) for i, amount in enumerate(amounts)]
        selection = self._selection() if self.private[index] else None
        return GroupingSet(self.query.sets[index], selection, tuple(noisy))

    def _noisy(self, position: int, amount: Fraction, single: bool) -> NoisyMeasure:
        measure, family = self.measures[position], self.shares.family
        noise = measure.noise(amount, family, self.footprint, single=single, bits=self.bits)
        point, bracket = self._bracketed(noise, self.failures.get(position))
        return NoisyMeasure(measure, point, bracket, self.grids[position])

    def _bracketed(self, noise: Noise | Rank, beta: float | None) -> tuple[Noise | Rank, Bracket | None]:
        """A quantile's choice divided into its point and the two cells around it."""
        if beta is None or not isinstance(noise, Rank):
            return noise, None
        if not self.terms.bracket and noise.level not in (0, 1):
            return noise, None
        sensitivity = counted(self.footprint.limit.total, replace=self.unit.replace, single=False)
        return divided(noise, beta, sensitivity, self.shares.family)

    @cached_property
    def grids(self) -> list[Grid | None]:
        """Of declared bounds; None where there is none."""
        return [measure.grid(self.bits) for measure in self.measures]

    @cached_property
    def failures(self) -> dict[int, float]:
        """How often the interval of each quantile may fail: β over the number of aggregates in an output, of
        the largest output that reads it."""
        beta = float(self.terms.beta)
        betas = {i: beta for i, measure in enumerate(self.measures) if isinstance(measure, Ranks)}
        for output in self.query.outputs:
            aggregates = evaluate.aggregates_in(output.of)
            for position in (self.stands.positions[a][0] for a in aggregates):
                # A union bound: what is made of k aggregates holds if each of them holds but for β/k.
                if position in betas:
                    betas[position] = min(betas[position], beta / len(aggregates))
        return betas

    def _selection(self) -> KeySelection:
        groups, replace = self.footprint.limit.groups, self.unit.replace
        # A unit that is replaced leaves the keys of its old rows, and enters those of the new ones.
        touches = groups * (2 if replace else 1)
        epsilon, delta = self.shares.selection
        return KeySelection(epsilon / touches, delta / touches, groups, replace)

    def _classes(self) -> Classes | None:
        if not self._aside:
            return None
        noise = laplace if self.shares.family is Family.LAPLACE else gaussian
        sensitivity = moved(replaced=self.unit.replace)
        return Classes(class_edges(self.unit.max_rows), noise(sensitivity, self.shares.reserved))

    def _value_bounds(self) -> Iterator[ValueBounds]:
        sensitivity = counted(self.footprint.limit.total, replace=self.unit.replace, single=False)
        for measure in self.missing:
            yield ValueBounds(measure, laplace(sensitivity, self.epsilon * SHARE))


# ------------------------------------------------------------------------------------------ what may be asked


def _check(query: Query, unit: Unit, terms: Terms, measures: Iterable[Measure]) -> None:
    if unit.kind not in (UnitKind.ROW, UnitKind.COLUMN):
        raise InvalidQuery(
            f"A query protects a row or a column's value, not {unit}. Open the data with Unit.row() or "
            "Unit.column()."
        )
    if unit.kind is UnitKind.ROW and any(isinstance(measure, Units) for measure in measures):
        raise InvalidQuery("Where each row is a unit there is no column of units to count. Use COUNT(*).")
    for group in query.sets:
        # Called for its refusal: that public keys make too many groups is known before anything is paid.
        if not _is_private(query, group):
            combinations([query.keys[i] for i in group])
        elif not terms.delta:
            names = ", ".join(query.keys[i].name for i in group if query.keys[i].domain is None)
            raise InvalidQuery(
                f"The values of {names} are not public, so their release needs a delta above 0. Nothing was "
                "run and nothing was charged. Give a delta, or let the owner declare the keys."
            )


def _missing(relation: Relation, measures: Sequence[Measure], terms: Terms) -> list[Measure]:
    """One measure for each expression without bounds."""
    gaps: dict[object, Measure] = {}
    for measure in measures:
        if measure.valued and measure.bounds is None:
            # SUM(x) and AVG(x) rest on the same values: one choice of bounds, paid once, serves both.
            gaps.setdefault((measure.of, measure.where), measure)
    if gaps and not terms.discover:
        raise InvalidQuery(
            f"{_called(relation, list(gaps.values()))} no bounds. Nothing was run and nothing was "
            "charged. Let the owner declare them (bounds= or --bounds x=0:100), clamp in the query, like "
            "SUM(CLAMP(x, 0, 100)), or find them privately with discover=True (--discover)."
        )
    if len(gaps) > MOST_FOUND:
        raise InvalidQuery(
            f"Bounds of {len(gaps)} values would have to be found privately; at most {MOST_FOUND} can "
            "be in one query."
        )
    return list(gaps.values())


def _called(relation: Relation, measures: Sequence[Measure]) -> str:
    """By the columns of the table, where these are what the analyst sees."""
    columns = [Column(name, INTEGER) for measure in measures for name in read(measure.of)]
    names = list(dict.fromkeys(prepared.source(relation, column) for column in columns))
    if not names or None in names:
        return "A value that is summed, averaged or ranked has"
    listing = " and ".join(f'"{name}"' for name in names)
    alone = len(measures) == 1 and isinstance(measures[0].of, Column)
    return f"{'The column' if alone else 'An expression of'} {listing} is summed, averaged or ranked, and has"


def _is_private(query: Query, group: Sequence[int]) -> bool:
    return any(query.keys[i].domain is None for i in group)


# ---------------------------------------------------------------------------------------------- contributions


def _limit(query: Query, unit: Unit, terms: Terms, bounding: bool, known: RowBound | None) -> Limit:
    if unit.kind is UnitKind.ROW:
        # The unit is one row, but a union may read it several times, and each time counts.
        times = multiplicity(query.relation)
        return Limit(False, times, times, 1)
    if unit.max_rows is None and known is not None:
        groups = terms.max_groups or min(DEFAULT_GROUPS, known.rows)
        return Limit(True, known.rows, groups, ONE, bounded=bounding)
    if unit.max_rows is None:
        # Rows and weight of one are replaced by the private choice; their product, which the loss rests on,
        # is not.
        return Limit(True, 1, terms.max_groups or DEFAULT_GROUPS, TOTAL, bounded=bounding)
    if unit.max_rows > MOST_ROWS_DECLARED:
        raise InvalidQuery(
            f"Expected max_rows={unit.max_rows} to be at most 2^40. Nothing was run and nothing was charged. "
            "Open the data for a unit with fewer rows."
        )
    return Limit(True, unit.max_rows, terms.max_groups or unit.max_rows, ONE, bounded=bounding)


def multiplicity(relation: Relation) -> int:
    """How often a row of one table may reach the aggregate: once for each time that the table is read and put
    together.

    A join, which has at most one private side, meets the other side's rows on unique columns, so it
    multiplies nothing."""
    return max(_readings(relation).values(), default=1)


def _readings(relation: Relation) -> Counter[str]:
    if isinstance(relation, Scan):
        return Counter([relation.table])
    return sum(map(_readings, children(relation)), Counter[str]())
