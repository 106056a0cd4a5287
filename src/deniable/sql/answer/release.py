"""What leaves: the exact integers of a run, each with its noise, and the answer that is made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deniable.mechanism import Random
from deniable.sql.answer.table import Planned, Released, answer
from deniable.sql.engines import Engine
from deniable.sql.plan.keys import Group, combinations
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.quantiles import Rank
from deniable.sql.plan.run import Run
from deniable.sql.tree import Result


def release(plan: Planned, run: Run, engine: Engine, rng: Random) -> Result:
    """First the bounds that are found privately, then the groups of each grouping set, then the answer."""
    settled, bounds = run.settled(engine, rng)
    groups = [group for i in range(len(plan.query.sets)) for group in _release_set(plan, settled, i, engine, rng)]
    return answer(plan, settled.limit, settled.grids, groups, bounds)


def _release_set(plan: Planned, run: Run, index: int, engine: Engine, rng: Random) -> list[Released]:
    """The groups of one grouping set: which ones, then every part with its noise, quantiles with their brackets."""
    group, selection = plan.query.sets[index], plan.selections[index]
    if selection is None:
        keys = combinations([plan.query.keys[i] for i in group])
    else:
        keys = selection(run.supports(index, engine), rng=rng)
    exactly = run.exactly(index, engine)
    columns = [_noisy(m, found, keys, rng) for m, found in zip(plan.measures[index], exactly, strict=True)]
    beside = zip(plan.brackets[index], exactly, strict=True)
    around = [
        [None if bracket is None else bracket(found.get(key, {}), rng=rng) for key in keys] for bracket, found in beside
    ]
    numbers, brackets = _rows(columns, len(keys)), _rows(around, len(keys))
    return [Released(index, _spread(plan, group, key), numbers[i], brackets[i]) for i, key in enumerate(keys)]


def _rows(columns: Sequence[Sequence[Any]], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _spread(plan: Planned, group: Sequence[int], key: Group) -> Group:
    """The keys of a group at their positions in the query, None for those that are summed over."""
    found = dict(zip(group, key, strict=True))
    return tuple(found.get(i) for i in range(len(plan.query.keys)))


def _noisy(measure: Noise | Rank, found: Mapping[Group, Any], keys: Sequence[Group], rng: Random) -> list[int]:
    """One number for each key; a group without rows is measured as all others are."""
    if isinstance(measure, Rank):
        return [measure(found.get(key, {}), rng=rng) for key in keys]
    return [found.get(key, 0) + noise for key, noise in zip(keys, measure.draw(len(keys), rng), strict=True)]
