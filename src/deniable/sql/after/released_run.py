"""What one run of a plan released, kept as small as it is: the noisy numbers, and what they are read by. The
table of a block, with its intervals, is made of it when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from deniable.loss import exact
from deniable.sql import arrays
from deniable.sql.after.canonical import OwnBlock
from deniable.sql.answer import evaluate
from deniable.sql.answer.table import Released, arrow_type
from deniable.sql.arrays import pack_table, unpack_table
from deniable.sql.plan.bounds.row_classes import Crowd
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.left_out import LeftOut
from deniable.sql.plan.measures.measure import Measure
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise
from deniable.sql.plan.plan import NoisyMeasure, Plan
from deniable.sql.plan.settled import Settled
from deniable.sql.write.contributions import Limit

_GRID_FRACTIONS = ("lower", "upper", "centre", "step", "scale")
Layout = list[list[Any]]


@dataclass(frozen=True)
class ReleasedRun:
    """`keys` are columns, as the block's table has them; `groups` have none, and their numbers are in the
    order of `_places`. `noises` and `grids` are those of these numbers, the former by grouping set; None
    where a cell was chosen. All of it is public: no integer before noise is in it."""

    layout: Layout
    keys: pa.Table
    groups: Sequence[Released]
    noises: Sequence[Sequence[Noise | None]]
    grids: Sequence[Grid | None]
    limit: Limit
    crowd: Crowd | None
    bounds: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, plan: Plan, own: OwnBlock, settled: Settled, groups: Sequence[Released]) -> ReleasedRun:
        """`plan` is the block's; `groups` are those of the text that is this block by itself."""
        places = _places(plan)
        return cls(
            _layout(plan),
            _key_columns(plan, own, groups),
            [_moved(group, places) for group in groups],
            [[_noise(each.measures[at]) for at in places] for each in plan.sets],
            [settled.grids.get(plan.measures[at]) for at in places],
            settled.limit,
            settled.crowd,
            dict(settled.bounds),
        )

    def read_by(self, plan: Plan) -> tuple[Settled, list[Released]]:
        """The run as one of `plan`, which is that of the same block, planned for any text."""
        places = _places(plan)
        sets = tuple(
            replace(each, measures=_measures(each.measures, dict(zip(places, noises, strict=True))))
            for each, noises in zip(plan.sets, self.noises, strict=True)
        )
        kept_grids = zip(places, self.grids, strict=True)
        grids = {plan.measures[at]: grid for at, grid in kept_grids if grid is not None}
        back = [places.index(at) for at in range(len(places))]
        groups = [replace(_moved(group, back), keys=(None,) * len(plan.query.keys)) for group in self.groups]
        return Settled(replace(plan, sets=sets), self.limit, grids, self.bounds, self.crowd), groups

    def to_dict(self) -> dict[str, Any]:
        return {
            "layout": self.layout,
            "keys": pack_table(self.keys),
            "groups": [[group.set, group.numbers, group.brackets] for group in self.groups],
            "noises": [[_of_noise(noise) for noise in each] for each in self.noises],
            "grids": [_of_grid(grid) for grid in self.grids],
            "limit": vars(self.limit),
            "crowd": self.crowd and [self.crowd.edges, self.crowd.sizes, _of_noise(self.crowd.noise)],
            "bounds": self.bounds,
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> ReleasedRun:
        return cls(
            said["layout"],
            unpack_table(said["keys"]),
            [_group(*each) for each in said["groups"]],
            [[_noise_of(noise) for noise in each] for each in said["noises"]],
            [_grid_of(grid) for grid in said["grids"]],
            Limit(**said["limit"]),
            _crowd_of(said["crowd"]),
            {name: (pair[0], pair[1]) for name, pair in said["bounds"].items()},
        )


def serves(said: Mapping[str, Any], plan: Plan) -> bool:
    """Whether a run that was kept measured what `plan` does. Another version may plan the same text
    otherwise."""
    return bool(said["layout"] == _layout(plan))


# ------------------------------------------------------------------------------------------ one order for all


def _places(plan: Plan) -> list[int]:
    """The measures of a block's plan in an order that the block alone says: as its aggregates stand on them,
    then what is left out of these, then the rest."""
    stood_on = dict.fromkeys(at for places in plan.stands for at in places)
    left_out: dict[Measure, int] = {
        each.counted: at for at, each in enumerate(plan.measures) if isinstance(each, LeftOut)
    }
    beyond = [left_out[plan.measures[at]] for at in stood_on if plan.measures[at] in left_out]
    return list(dict.fromkeys([*stood_on, *beyond, *range(len(plan.measures))]))


def _layout(plan: Plan) -> Layout:
    places = _places(plan)
    kinds = [type(plan.measures[at]).__name__ for at in places]
    stands = [[places.index(at) for at in each] for each in plan.stands]
    return [kinds, stands, [list(each.keys) for each in plan.sets]]


def _moved(group: Released, places: Sequence[int]) -> Released:
    numbers, brackets = group.numbers, group.brackets
    return Released(group.set, (), tuple(numbers[at] for at in places), tuple(brackets[at] for at in places))


def _key_columns(plan: Plan, own: OwnBlock, groups: Sequence[Released]) -> pa.Table:
    columns = {}
    for key, at in zip(plan.query.keys, own.keys, strict=True):
        values = [evaluate.written(group.keys[at], key.of.type) for group in groups]
        columns[key.name] = arrays.column(values, arrow_type(key.of.type))
    return pa.table(columns)


def _noise(noisy: NoisyMeasure) -> Noise | None:
    if isinstance(noisy.noise, Noise):
        return noisy.noise
    return None


def _measures(
    measures: Sequence[NoisyMeasure], noises: Mapping[int, Noise | None]
) -> tuple[NoisyMeasure, ...]:
    """With the noise that they had; a cell that was chosen is read by its bracket alone."""
    return tuple(replace(each, noise=noises[at] or each.noise) for at, each in enumerate(measures))


# ------------------------------------------------------------------------------------------------ as JSON


def _group(index: int, numbers: Sequence[int], brackets: Sequence[Any]) -> Released:
    pairs = tuple(None if pair is None else (pair[0], pair[1]) for pair in brackets)
    return Released(index, (), tuple(numbers), pairs)


def _of_noise(noise: Noise | None) -> list[Any] | None:
    if noise is None:
        return None
    return [noise.family.value, str(exact(noise.scale)), noise.sensitivity.l1, noise.sensitivity.l2_squared]


def _noise_of(said: Sequence[Any] | None) -> Noise | None:
    if said is None:
        return None
    family, scale, l1, l2_squared = said
    return Noise(Family(family), Fraction(scale), IntegerSensitivity(l1, l2_squared))


def _of_grid(grid: Grid | None) -> dict[str, Any] | None:
    if grid is None:
        return None
    return vars(grid) | {name: str(getattr(grid, name)) for name in _GRID_FRACTIONS}


def _grid_of(said: Mapping[str, Any] | None) -> Grid | None:
    if said is None:
        return None
    return Grid(**{**said, **{name: Fraction(said[name]) for name in _GRID_FRACTIONS}})


def _crowd_of(said: Sequence[Any] | None) -> Crowd | None:
    if said is None:
        return None
    edges, sizes, noise_said = said
    noise = _noise_of(noise_said)
    assert noise is not None
    return Crowd(tuple(edges), tuple(sizes), noise)
