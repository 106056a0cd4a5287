"""What the blocks of a text release: each a table, with intervals around its numbers at several levels. Of a
text that is one block by itself only the noisy numbers are kept, and what they are read by (`ReleasedRun`):
the table of the block is made of them when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from deniable.sql.answer import evaluate
from deniable.sql.answer.like_noises import RootLine, line
from deniable.sql.answer.table import GroupReader, Released, answer, arrow_type
from deniable.sql.arrays import pack_table, unpack_table
from deniable.sql.engines import Engine
from deniable.sql.plan.bounds.row_classes import Crowd
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.measure import Measure
from deniable.sql.plan.measures.totals import LeftOut
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise
from deniable.sql.plan.plan import NoisyMeasure, Plan
from deniable.sql.plan.quantiles import Rank
from deniable.sql.plan.settled import Settled
from deniable.sql.tree import AggregateRef, Bounding, Result
from deniable.sql.write.contributions import Limit
from deniable.units import Unit

Limits = tuple[pa.Table, pa.Table]
_GRID_FRACTIONS = ("lower", "upper", "centre", "step", "scale")
Layout = list[list[Any]]
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
    def from_dict(cls, content: Mapping[str, Any]) -> CellNoise:
        scale, sensitivity = Fraction(content["scale"]), IntegerSensitivity(*content["sensitivity"])
        noise = Noise(Family(content["family"]), scale, sensitivity)
        return cls(noise, Fraction(content["worth"]), float(content["beta"]))


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
    def from_dict(cls, content: Mapping[str, Any]) -> ReleasedBlock:
        limits = {
            int(m): (unpack_table(low), unpack_table(high)) for m, (low, high) in content["limits"].items()
        }
        bounds = {name: (pair[0], pair[1]) for name, pair in content["bounds"].items()}
        noises = {name: CellNoise.from_dict(each) for name, each in content.get("noises", {}).items()}
        bounding = None
        if content.get("bounding"):
            fields_kept = content["bounding"]
            bounding = Bounding(**{**fields_kept, "values": tuple(map(tuple, fields_kept.get("values", ())))})
        return cls(unpack_table(content["table"]), limits, bounds, noises, bounding)


@dataclass(frozen=True)
class ReleasedRun:
    """`keys` are columns, as the block's table has them; `groups` have none, and their numbers are in the
    order of `_measure_order`. `noises` and `grids` are those of these numbers, the former by grouping set;
    None where a cell was chosen. All of it is public: no integer before noise is in it."""

    layout: Layout
    keys: pa.Table
    groups: Sequence[Released]
    noises: Sequence[Sequence[Noise | None]]
    grids: Sequence[Grid | None]
    limit: Limit
    crowd: Crowd | None
    bounds: Mapping[str, tuple[float, float]]

    @classmethod
    def from_groups(
        cls, plan: Plan, own: OwnBlock, settled: Settled, groups: Sequence[Released]
    ) -> ReleasedRun:
        """`plan` is the block's; `groups` are those of the text that is this block by itself."""
        places = _measure_order(plan)
        return cls(
            _layout(plan),
            _key_columns(plan, own, groups),
            [_reorder(group, places) for group in groups],
            [[_drawn_noise(each.measures[at]) for at in places] for each in plan.sets],
            [settled.grids.get(plan.measures[at]) for at in places],
            settled.limit,
            settled.crowd,
            dict(settled.bounds),
        )

    def read_by(self, plan: Plan) -> tuple[Settled, list[Released]]:
        """The run as one of `plan`, which is that of the same block, planned for any text."""
        places = _measure_order(plan)
        sets = tuple(
            replace(each, measures=_with_noises(each.measures, dict(zip(places, noises, strict=True))))
            for each, noises in zip(plan.sets, self.noises, strict=True)
        )
        kept_grids = zip(places, self.grids, strict=True)
        grids = {plan.measures[at]: grid for at, grid in kept_grids if grid is not None}
        back = [places.index(at) for at in range(len(places))]
        groups = [
            replace(_reorder(group, back), keys=(None,) * len(plan.query.keys)) for group in self.groups
        ]
        return Settled(replace(plan, sets=sets), self.limit, grids, self.bounds, self.crowd), groups

    def to_dict(self) -> dict[str, Any]:
        return {
            "layout": self.layout,
            "keys": pack_table(self.keys),
            "groups": [[group.set, group.numbers, group.brackets] for group in self.groups],
            "noises": [[_noise_to_list(noise) for noise in each] for each in self.noises],
            "grids": [_grid_to_dict(grid) for grid in self.grids],
            "limit": vars(self.limit),
            "crowd": self.crowd and [self.crowd.edges, self.crowd.sizes, _noise_to_list(self.crowd.noise)],
            "bounds": self.bounds,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ReleasedRun:
        return cls(
            content["layout"],
            unpack_table(content["keys"]),
            [_group_from_list(*each) for each in content["groups"]],
            [[_noise_from_list(noise) for noise in each] for each in content["noises"]],
            [_grid_from_dict(grid) for grid in content["grids"]],
            Limit(**content["limit"]),
            _crowd_from_list(content["crowd"]),
            {name: (pair[0], pair[1]) for name, pair in content["bounds"].items()},
        )


@dataclass(frozen=True)
class ReleasedText:
    """What a text released: its `blocks`, where something is said over them; else its `result`, and `run`,
    the same numbers for other texts that read this block."""

    blocks: tuple[ReleasedBlock, ...] = ()
    result: Result | None = None
    run: ReleasedRun | None = None


@dataclass(frozen=True)
class Blocks:
    """The plans of a text's blocks as one Mechanism: all are charged at once, then run one after the other.
    `said_over`: what they release is read by the rest of the text. Else the text is one block, whose numbers
    are its answer; they are read a second time as the block `own` of other texts, if it can be one.

    Guarantee: the composition of the plans' losses, for their common unit; both readings of a block are
               computed from the same noisy integers.
    Assumes:   what each plan assumes.
    Error:     that of the plan, if there is one; None for several together.
    Reference: docs/theory/curator.md (post-processing).
    """

    plans: tuple[Plan, ...]
    said_over: bool = True
    own: OwnBlock | None = None

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
        if self.said_over:
            return None
        return self.plans[0].error(confidence)

    def fits(self, data: object) -> None:
        for plan in self.plans:
            plan.fits(data)

    def __call__(self, data: Engine, *, rng: Random) -> ReleasedText:
        runs = [plan.groups(data, rng) for plan in self.plans]
        if self.said_over:
            return ReleasedText(tuple(released_block(*each) for each in runs))
        [(run_plan, groups)] = runs
        run = None
        if self.own is not None and len(groups) <= MOST_GROUPS_KEPT:
            run = ReleasedRun.from_groups(block_plan(run_plan.plan, self.own), self.own, run_plan, groups)
        return ReleasedText(result=answer(run_plan, groups), run=run)


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
    limits = {1: (_side_table(result, result.low, set()), _side_table(result, result.high, set()))}
    limits |= {m: _make_limits(settled, groups, m) for m in many[1:]}
    noises = _cell_noises(settled) if result.table.num_rows <= MANY_ROWS else {}
    return ReleasedBlock(result.table, limits, dict(result.bounds), noises, result.bounding)


def _cell_noises(settled: Settled) -> dict[str, CellNoise]:
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


def _make_limits(settled: Settled, groups: list[Released], level: int) -> Limits:
    """The intervals at β/level. A quantile's was chosen when it was planned, so it has one at level 1
    only."""
    plan = settled.plan
    beta = float(checks.failure(plan.terms.confidence))
    terms = replace(plan.terms, confidence=1 - beta / level)
    result = answer(replace(settled, plan=replace(plan, terms=terms)), groups)
    choices = set() if level == 1 else _quantile_names(plan)
    return _side_table(result, result.low, choices), _side_table(result, result.high, choices)


def _side_table(result: Result, side: Mapping[str, Any], without: set[str]) -> pa.Table:
    columns = {
        name: arrays.column([None if cell is None else float(cell) for cell in cells], pa.float64())
        for name, cells in side.items()
        if name not in without
    }
    return pa.table(columns)


def _quantile_names(plan: Plan) -> set[str]:
    """The outputs that are quantiles."""
    measures = plan.sets[0].measures
    return {
        output.name
        for output in plan.query.outputs
        if isinstance(output.of, AggregateRef)
        and any(isinstance(measures[at].noise, Rank) for at in plan.stands[output.of.index])
    }


# --------------------------------------------------------------------- what one run released, as it is kept


def run_serves(content: Mapping[str, Any], plan: Plan) -> bool:
    """Whether a run that was kept measured what `plan` does. Another version may plan the same text
    otherwise."""
    if plan.row_bound is not None and content["limit"]["rows"] != plan.row_bound.rows:
        return False
    return bool(content["layout"] == _layout(plan))


# ------------------------------------------------------------------------------------------ one order for all


def _measure_order(plan: Plan) -> list[int]:
    """The measures of a block's plan in an order that the block alone says: as its aggregates stand on them,
    then what is left out of these, then the rest."""
    measures = plan.measures
    stood_on = dict.fromkeys(at for places in plan.stands for at in places)
    left_out: dict[Measure, int] = {
        each.counted: at for at, each in enumerate(measures) if isinstance(each, LeftOut)
    }
    beyond = [left_out[measures[at]] for at in stood_on if measures[at] in left_out]
    return list(dict.fromkeys([*stood_on, *beyond, *range(len(measures))]))


def _layout(plan: Plan) -> Layout:
    places = _measure_order(plan)
    measures = plan.measures
    kinds = [type(measures[at]).__name__ for at in places]
    stands = [[places.index(at) for at in each] for each in plan.stands]
    return [kinds, stands, [list(each.keys) for each in plan.sets]]


def _reorder(group: Released, places: Sequence[int]) -> Released:
    numbers, brackets = group.numbers, group.brackets
    return Released(group.set, (), tuple(numbers[at] for at in places), tuple(brackets[at] for at in places))


def _key_columns(plan: Plan, own: OwnBlock, groups: Sequence[Released]) -> pa.Table:
    columns = {}
    for key, at in zip(plan.query.keys, own.keys, strict=True):
        values = [evaluate.written(group.keys[at], key.of.type) for group in groups]
        columns[key.name] = arrays.column(values, arrow_type(key.of.type))
    return pa.table(columns)


def _drawn_noise(noisy: NoisyMeasure) -> Noise | None:
    if isinstance(noisy.noise, Noise):
        return noisy.noise
    return None


def _with_noises(
    measures: Sequence[NoisyMeasure], noises: Mapping[int, Noise | None]
) -> tuple[NoisyMeasure, ...]:
    """With the noise that they had; a cell that was chosen is read by its bracket alone."""
    return tuple(replace(each, noise=noises[at] or each.noise) for at, each in enumerate(measures))


# ------------------------------------------------------------------------------------------------ as JSON


def _group_from_list(index: int, numbers: Sequence[int], brackets: Sequence[Any]) -> Released:
    pairs = tuple(None if pair is None else (pair[0], pair[1]) for pair in brackets)
    return Released(index, (), tuple(numbers), pairs)


def _noise_to_list(noise: Noise | None) -> list[Any] | None:
    if noise is None:
        return None
    return [noise.family.value, str(exact(noise.scale)), noise.sensitivity.l1, noise.sensitivity.l2_squared]


def _noise_from_list(content: Sequence[Any] | None) -> Noise | None:
    if content is None:
        return None
    family, scale, l1, l2_squared = content
    return Noise(Family(family), Fraction(scale), IntegerSensitivity(l1, l2_squared))


def _grid_to_dict(grid: Grid | None) -> dict[str, Any] | None:
    if grid is None:
        return None
    return vars(grid) | {name: str(getattr(grid, name)) for name in _GRID_FRACTIONS}


def _grid_from_dict(content: Mapping[str, Any] | None) -> Grid | None:
    if content is None:
        return None
    return Grid(**{**content, **{name: Fraction(content[name]) for name in _GRID_FRACTIONS}})


def _crowd_from_list(content: Sequence[Any] | None) -> Crowd | None:
    if content is None:
        return None
    edges, sizes, noise_content = content
    noise = _noise_from_list(noise_content)
    assert noise is not None
    return Crowd(tuple(edges), tuple(sizes), noise)
