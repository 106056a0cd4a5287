"""What the blocks of a text release: each a table, with intervals around its numbers at several levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from deniable import checks
from deniable.loss import Composed, Loss, exact
from deniable.mechanism import Error, Random
from deniable.sql import arrays
from deniable.sql.after.canonical import OwnBlock
from deniable.sql.after.reach import MANY_ROWS, levels
from deniable.sql.after.released_run import ReleasedRun
from deniable.sql.answer.like_noises import RootLine, line
from deniable.sql.answer.table import GroupReader, Released, answer
from deniable.sql.arrays import pack_table, unpack_table
from deniable.sql.engines import Engine
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.quantiles import Rank
from deniable.sql.plan.settled import Settled
from deniable.sql.tree import AggregateRef, Bounding, Result
from deniable.units import Unit

Limits = tuple[pa.Table, pa.Table]
MOST_GROUPS_KEPT = 1_000
"""Of larger answers nothing is kept for a block: its table would be made anew for each text that reads it."""


@dataclass(frozen=True)
class CellNoise:
    """The noise of each cell of a column, times `worth`: drawn for each by itself, in one call of
    `Noise.draw`. `beta` is how often a text's interval may fail."""

    noise: Noise
    worth: Fraction
    beta: float

    def line(self, cells: int, level: int) -> RootLine | None:
        """How far sums of up to so many cells are off, but for β/level."""
        return line(self.worth, self.noise, cells, self.beta / level)

    def to_dict(self) -> dict[str, Any]:
        sensitivity = self.noise.sensitivity
        return {
            "family": self.noise.family.value,
            "scale": str(exact(self.noise.scale)),
            "sensitivity": [sensitivity.l1, sensitivity.l2_squared],
            "worth": str(self.worth),
            "beta": self.beta,
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> CellNoise:
        scale, sensitivity = Fraction(said["scale"]), IntegerSensitivity(*said["sensitivity"])
        noise = Noise(Family(said["family"]), scale, sensitivity)
        return cls(noise, Fraction(said["worth"]), float(said["beta"]))


@dataclass(frozen=True)
class ReleasedBlock:
    """A released table. `limits` hold, by level m, an interval around every number that fails with
    probability β/m, β that of the text's confidence. `bounds` were found privately. `noises` are those of the
    columns whose cells are off by one noise each and by nothing else. `bounding` is what the intervals assume
    of people with many rows."""

    table: pa.Table
    limits: Mapping[int, Limits]
    bounds: Mapping[str, tuple[float, float]]
    noises: Mapping[str, CellNoise] = field(default_factory=dict)
    bounding: Bounding | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": pack_table(self.table),
            "limits": {str(m): [pack_table(low), pack_table(high)] for m, (low, high) in self.limits.items()},
            "bounds": {name: list(pair) for name, pair in self.bounds.items()},
            "noises": {name: noise.to_dict() for name, noise in self.noises.items()},
            "bounding": None if self.bounding is None else vars(self.bounding),
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> ReleasedBlock:
        limits = {
            int(m): (unpack_table(low), unpack_table(high)) for m, (low, high) in said["limits"].items()
        }
        bounds = {name: (pair[0], pair[1]) for name, pair in said["bounds"].items()}
        noises = {name: CellNoise.from_dict(each) for name, each in said.get("noises", {}).items()}
        bounding = None
        if said.get("bounding"):
            bounding = Bounding(**said["bounding"])
        return cls(unpack_table(said["table"]), limits, bounds, noises, bounding)


@dataclass(frozen=True)
class Blocks:
    """The plans of a text's blocks as one Mechanism: all are charged at once, then run one after the other.

    Guarantee: the composition of the plans' losses, for their common unit.
    Assumes:   what each plan assumes.
    Error:     None for all together; each plan has its own.
    Reference: docs/theory/curator.md.
    """

    plans: tuple[Plan, ...]

    @property
    def loss(self) -> Loss:
        losses = [plan.loss for plan in self.plans]
        if len(losses) == 1:
            return losses[0]
        return Composed(tuple(losses))

    @property
    def unit(self) -> Unit:
        return self.plans[0].unit

    def error(self, confidence: float = 0.95) -> Error | None:
        return None

    def fits(self, data: object) -> None:
        for plan in self.plans:
            plan.fits(data)

    def __call__(self, data: Engine, *, rng: Random) -> tuple[ReleasedBlock, ...]:
        return tuple(released_block(*plan.groups(data, rng)) for plan in self.plans)


@dataclass(frozen=True)
class WithBlock:
    """A plan whose numbers are read twice: as its own answer, and, when they ask, as the block `own` of other
    texts.

    Guarantee: `plan.loss`, for the plan's unit: both are computed from the same noisy integers.
    Assumes:   what the plan assumes.
    Error:     the plan's.
    Reference: docs/theory/curator.md (post-processing).
    """

    plan: Plan
    own: OwnBlock | None

    @property
    def loss(self) -> Loss:
        return self.plan.loss

    @property
    def unit(self) -> Unit:
        return self.plan.unit

    def error(self, confidence: float = 0.95) -> Error | None:
        return self.plan.error(confidence)

    def fits(self, data: object) -> None:
        self.plan.fits(data)

    def __call__(self, data: Engine, *, rng: Random) -> tuple[Result, ReleasedRun | None]:
        run, groups = self.plan.groups(data, rng)
        result = answer(run, groups)
        if self.own is None or len(groups) > MOST_GROUPS_KEPT:
            return result, None
        return result, ReleasedRun.of(block_plan(run.plan, self.own), self.own, run, groups)


def block_plan(plan: Plan, own: OwnBlock) -> Plan:
    """The same plan as the block's: what is measured stays where it is."""
    places = {key: at for at, key in enumerate(own.keys)}
    sets = [replace(each, keys=tuple(sorted(places[i] for i in each.keys))) for each in plan.sets]
    stands = tuple(plan.stands[i] for i in own.aggregates)
    return replace(plan, query=own.query, stands=stands, sets=tuple(sets))


def block_of_run(run: ReleasedRun, plan: Plan) -> ReleasedBlock:
    """The block that a run released, by the plan of that block."""
    block = released_block(*run.read_by(plan))
    keys = set(run.keys.column_names)
    columns = {
        name: (run.keys if name in keys else block.table).column(name) for name in block.table.column_names
    }
    return replace(block, table=pa.table(columns))


def released_block(settled: Settled, groups: list[Released]) -> ReleasedBlock:
    result = answer(settled, groups)
    many = levels(result.table.num_rows, len(result.low))
    limits = {1: (_table(result, result.low, set()), _table(result, result.high, set()))}
    limits |= {m: _limits(settled, groups, m) for m in many[1:]}
    noises = _noises(settled) if result.table.num_rows <= MANY_ROWS else {}
    return ReleasedBlock(result.table, limits, dict(result.bounds), noises, result.bounding)


def _noises(settled: Settled) -> dict[str, CellNoise]:
    """Of one grouping set: cells of several have several noises."""
    plan, reader = settled.plan, GroupReader(settled)
    beta = float(checks.failure(plan.terms.confidence))
    noises = {}
    for output in plan.query.outputs if len(plan.sets) == 1 else ():
        single = None
        if isinstance(output.of, AggregateRef):
            single = reader.single(output.of.index)
        noise = None
        if single is not None:
            noise = CellNoise(single[1], single[0], beta)
        if noise is not None and noise.line(1, 1) is not None:
            noises[output.name] = noise
    return noises


def _limits(settled: Settled, groups: list[Released], level: int) -> Limits:
    """The intervals at β/level. A quantile's was chosen when it was planned, so it has one at level 1
    only."""
    plan = settled.plan
    beta = float(checks.failure(plan.terms.confidence))
    terms = replace(plan.terms, confidence=1 - beta / level)
    result = answer(replace(settled, plan=replace(plan, terms=terms)), groups)
    choices = set() if level == 1 else _chosen(plan)
    return _table(result, result.low, choices), _table(result, result.high, choices)


def _table(result: Result, side: Mapping[str, Any], without: set[str]) -> pa.Table:
    columns = {
        name: arrays.column(_floats(cells), pa.float64())
        for name, cells in side.items()
        if name not in without
    }
    return pa.table(columns)


def _floats(cells: Any) -> list[float | None]:
    return [None if cell is None else float(cell) for cell in cells]


def _chosen(plan: Plan) -> set[str]:
    """The outputs that are quantiles."""
    measures = plan.sets[0].measures
    return {
        output.name
        for output in plan.query.outputs
        if isinstance(output.of, AggregateRef)
        and any(isinstance(measures[at].noise, Rank) for at in plan.stands[output.of.index])
    }
