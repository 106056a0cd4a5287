"""A query as a Mechanism: what is measured of each grouping set, with which noise, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from deniable.errors import InvalidParameter
from deniable.loss import Approximate, Composed, Loss, Number, Zcdp
from deniable.mechanism import Error, Random
from deniable.numbers import plain
from deniable.sql.answer import evaluate
from deniable.sql.answer.table import Released, answer, expectations
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Engine, Statement
from deniable.sql.plan.allocation import Allotment
from deniable.sql.plan.bounds.row_classes import Classes
from deniable.sql.plan.bounds.values import ValueBounds
from deniable.sql.plan.exact import Exact
from deniable.sql.plan.keys import KeySelection
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.measure import Footprint, Measure
from deniable.sql.plan.measures.totals import LeftOut
from deniable.sql.plan.noise import Family, Noise
from deniable.sql.plan.quantiles import Bracket, Rank
from deniable.sql.plan.request import Expected, Terms
from deniable.sql.plan.settled import Settled
from deniable.sql.profile.rows import RowBound
from deniable.sql.tree import Query, Result
from deniable.sql.write import prepared
from deniable.sql.write.contributions import Limit
from deniable.units import Unit

_SALTS = 1 << 62
_START = (Fraction(-1), Fraction(1))
"""Where bounds that are found privately begin, for a plan that is only read."""


@dataclass(frozen=True)
class NoisyMeasure:
    """What is released of one measure in one grouping set: with noise, or a cell that is chosen and two that
    bracket it. `grid` is None where bounds are to be found privately, and for what has no values."""

    measure: Measure
    noise: Noise | Rank
    bracket: Bracket | None = None
    grid: Grid | None = None

    @property
    def rho(self) -> Fraction:
        """In zCDP; a choice of range ε is ε²/8 (Cesar, Rogers 2021)."""
        point = self.noise.rho if isinstance(self.noise, Noise) else self.noise.epsilon**2 / 8
        if self.bracket is None:
            return point
        return point + self.bracket.noise.rho

    @property
    def per_row(self) -> float:
        """The mean size of the noise where one row of a unit counts, in rows; of a sum with half of the
        largest value for a row. 0 for a choice."""
        if not isinstance(self.noise, Noise):
            return 0.0
        return (1 if self.grid is None else 2) * self.noise.mean / self.noise.sensitivity.l1

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Beside Laplace noise: of the number or the choice, and of what brackets it."""
        if self.bracket is None:
            return (self.noise.loss,)
        return (self.noise.loss, self.bracket.loss)


@dataclass(frozen=True)
class GroupingSet:
    """The groups by some of the query's keys (by position): how private ones are selected, and what is
    released of each."""

    keys: tuple[int, ...]
    selection: KeySelection | None
    measures: tuple[NoisyMeasure, ...]


@dataclass(frozen=True)
class PlanPrice:
    """What a plan may cost in all, and how that is divided among what it measures."""

    epsilon: Number
    delta: Number
    allotment: Allotment


@dataclass(frozen=True)
class PrivateBounds:
    """What a run finds privately before it measures: how many units have how many rows, and bounds of values,
    on grids of `bits`."""

    classes: Classes | None
    values: tuple[ValueBounds, ...]
    bits: int


@dataclass(frozen=True)
class Plan:
    """A query as a Mechanism: called with an engine it runs its statements, adds exact integer noise, and
    releases a `Result`.

    Guarantee: `loss`, at most (`epsilon`, `delta`), for `unit`: every measure is an integer vector that one
               unit moves by at most its sensitivity; private keys, private bounds and quantiles are
               mechanisms of their own; all are composed.
    Assumes:   the engine computes the statements exactly; the relation's rows of a unit depend on that unit's
               rows and public tables only (`sql.read.query`); fewer than 2^40 rows.
    Error:     `expected` for each column. It leaves out the bias of clamping and of bounding contributions.
    Reference: docs/theory/curator.md.

    Every grouping set has the same measures; `stands` says for each aggregate which ones it stands on, by
    position. From the profile come `row_bound`, how many rows of a unit count, and `clamps`, where sums of
    columns are clamped."""

    query: Query
    unit: Unit
    terms: Terms
    price: PlanPrice
    limit: Limit
    stands: tuple[tuple[int, ...], ...]
    sets: tuple[GroupingSet, ...]
    private_bounds: PrivateBounds
    row_bound: RowBound | None = None
    clamps: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    # ---------------------------------------------------------------------------------------- before any data

    @property
    def epsilon(self) -> Number:
        return self.price.epsilon

    @property
    def delta(self) -> Number:
        return self.price.delta

    @property
    def loss(self) -> Loss:
        """Laplace noise, choices and selections add up. Gaussian noise and the choices beside it are one ρ of
        zCDP, stated as (ε, δ) where something else is composed with it."""
        allotment = self.price.allotment
        others: list[Loss] = [each.selection.loss for each in self.sets if each.selection is not None]
        others += [bounds.loss for bounds in self.private_bounds.values]
        noisy = self._noisy_measures
        classes = self.private_bounds.classes
        # Each part is stated by itself, not by the sum of their ε: the accountant composes them tighter.
        if allotment.family is Family.LAPLACE:
            people = [] if classes is None else [classes.loss]
            return _composed([*(loss for measure in noisy for loss in measure.losses), *others, *people])
        if not others:
            people_rho = Fraction(0)
            if classes is not None:
                people_rho = classes.noise.rho
            # ρ adds up (Bun, Steinke 2016), and stated as ρ it goes on adding up with later charges.
            return Zcdp(plain(sum((measure.rho for measure in noisy), people_rho)))
        pair = plain(allotment.noise_epsilon), plain(allotment.noise_delta)
        return _composed([Approximate(*pair), *others])

    @property
    def _noisy_measures(self) -> list[NoisyMeasure]:
        """Of all grouping sets."""
        return [measure for each in self.sets for measure in each.measures]

    def error(self, confidence: float = 0.95) -> Error | None:
        """Of a query with one number per group whose ± is known before the release."""
        if sum(bool(evaluate.aggregates_in(output.of)) for output in self.query.outputs) != 1:
            return None
        columns = self.expected(confidence)
        if len(columns) != 1 or columns[0].within is None or columns[0].rows is not None:
            return None
        return Error(columns[0].within, float(confidence))

    def expected(self, confidence: float | None = None) -> tuple[Expected, ...]:
        """The ± of each column made from aggregates, before the release."""
        return expectations(self, self.terms.confidence if confidence is None else confidence)

    @property
    def shares_told(self) -> tuple[str, ...]:
        """What part of ε goes where, beside the numbers themselves."""
        people = self.private_bounds.classes
        leftovers = [each for each in self._noisy_measures if isinstance(each.measure, LeftOut)]
        if not leftovers or self.price.allotment.family is not Family.LAPLACE:
            return ()
        parts = []
        if people is not None:
            parts.append(f"{float(people.noise.epsilon):.3g} for how many rows people have")
        beyond = sum(each.noise.epsilon for each in leftovers)
        parts.append(f"{float(beyond):.3g} for what the bound on a person's rows leaves out")
        return (f"Of this ε: {', '.join(parts)} (left_out=False spends all of it on the numbers).",)

    def statements(self, dialect: Dialect) -> tuple[Statement, ...]:
        """What the engine is asked, to be read: with the salt 0, and private bounds at their starting
        values."""
        return self.start.statements(dialect)

    @property
    def measures(self) -> Sequence[Measure]:
        return [noisy.measure for noisy in self.sets[0].measures]

    @property
    def footprint(self) -> Footprint:
        return Footprint(self.limit, self.unit.replace, self.chooses)

    @property
    def chooses(self) -> bool:
        """Whether the bound on a unit's rows is chosen privately."""
        return self.private_bounds.classes is not None and self.unit.max_rows is None

    @property
    def tells(self) -> bool:
        """Whether what the bound on a unit's rows leaves out is told."""
        return any(isinstance(measure, LeftOut) for measure in self.measures)

    @property
    def start(self) -> Settled:
        """A run before private bounds are found: these are at their starting values."""
        grids = {noisy.measure: noisy.grid or self.grid(noisy.measure) for noisy in self.sets[0].measures}
        return Settled(
            self, self.limit, {measure: grid for measure, grid in grids.items() if grid is not None}
        )

    def grid(self, measure: Measure, bounds: tuple[Fraction, Fraction] = _START) -> Grid | None:
        """Of bounds that are found privately: as fine as the noise was sized for."""
        return measure.grid(self.private_bounds.bits, bounds)

    # -------------------------------------------------------------------------------------------- a run

    def fits(self, data: object) -> None:
        """Raise before the charge where the run could not begin: a forked child has no
        connection of its own."""
        if isinstance(data, Engine):
            data.check_process()

    def __call__(self, data: Engine, *, rng: Random) -> Result:
        return answer(*self.groups(data, rng))

    def groups(self, data: Engine, rng: Random) -> tuple[Settled, list[Released]]:
        """A run whose numbers are still to be read: as the query's outputs, or in any other way."""
        # Drawn anew in each run, so that nobody can choose an identifier that is always cut, or never.
        salt = format(rng.uniform_integers(_SALTS), "x")
        run = self.settle(data, rng)
        return run.public, run.measure(data, salt).groups(rng)

    def settle(self, engine: Engine, rng: Random) -> Settled:
        """First the bounds that are found privately: on rows, then, with rows weighed, on values. Where all
        is declared, nothing is asked and nothing drawn."""
        # Rows come first: the histograms that bounds of values are read from weigh rows by the bound.
        run = self.prepared(engine.prepared).start.with_rows(engine, rng)
        for bounds in self.private_bounds.values:
            run = run.with_values(bounds, engine, rng)
        return run

    def measure(self, engine: Engine, salt: str) -> Exact:
        """The integers before noise, where no bound is to be found privately."""
        if self.settles:
            raise InvalidParameter(
                "Bounds that are found privately change the statements of every run, so they must be settled "
                "first. Nothing was run."
            )
        return self.prepared(engine.prepared).start.measure(engine, salt)

    @property
    def settles(self) -> bool:
        """Whether a run begins by finding bounds privately."""
        return self.private_bounds.classes is not None or self.tells or bool(self.private_bounds.values)

    def prepared(self, tables: Mapping[str, int]) -> Plan:
        """The same plan on stored weights, where the one table it reads was prepared with the unit's own
        max_rows.

        A unit's stored weights sum to at most max_rows·W over all its rows, so to no more over those that
        pass a filter: the sensitivities stay, and nothing needs counting. Only who shares a weight changes.
        """
        table = prepared.table(self.query.relation)
        usable = self.limit.by_unit and self.limit.bounded and self.unit.max_rows is not None
        if not usable or table is None or tables.get(table) != self.unit.max_rows:
            return self
        query = replace(self.query, relation=prepared.carrying(self.query.relation))
        return replace(self, query=query, limit=replace(self.limit, stored=True))


def _composed(parts: list[Loss]) -> Loss:
    if len(parts) == 1:
        return parts[0]
    return Composed(tuple(parts))
