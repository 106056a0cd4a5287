"""The two steps of a run: integers before noise, which nobody sees, and what is released of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deniable.mechanism import Random
from deniable.process import Original
from deniable.sql.answer.table import Released, answer
from deniable.sql.plan.keys import Group, combinations
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.quantiles import Bracket, Rank
from deniable.sql.tree import Result

if TYPE_CHECKING:
    from deniable.sql.plan.settled import Settled


@dataclass(frozen=True, eq=False, repr=False)
class Integers(Original):
    """What one grouping set measures before noise.

    `supports` are the units behind each private key, None where keys are public; `parts` hold for each group
    that has rows an integer, or the weights in cells."""

    WAY_OUT = "Release it."

    supports: Mapping[Group, int] | None
    parts: Sequence[Mapping[Group, Any]]


class Exact(Original):
    """All that a run knows before noise. It is private data: it is not shown, compared, copied, pickled or
    stored.

    Made by `Settled.measure`. A test lists who may call that: the plan itself, and audits on data that was
    generated for them."""

    WAY_OUT = "Release it."

    def __init__(self, settled: Settled, sets: Sequence[Integers]) -> None:
        self._settled = settled
        self._sets = tuple(sets)

    def __repr__(self) -> str:
        return "Exact(…)"

    def integers(self) -> tuple[Integers, ...]:
        """The numbers themselves, by grouping set. For audits on data that was generated for them, and for
        nothing else."""
        return self._sets

    def release(self, rng: Random) -> Result:
        """The groups of each grouping set, every number with its noise, and the answer made from them."""
        return answer(self._settled, self.groups(rng))

    def groups(self, rng: Random) -> list[Released]:
        """The groups of each grouping set, every number with its noise."""
        return [group for i in range(len(self._sets)) for group in self._release_set(i, rng)]

    def _release_set(self, index: int, rng: Random) -> list[Released]:
        """The groups of one grouping set: which ones, then every measure with its noise, then the brackets of
        quantiles."""
        query, group, integers = self._settled.plan.query, self._settled.plan.sets[index], self._sets[index]
        if group.selection is None or integers.supports is None:
            # From the public lists and never from the rows: which groups are there says nothing about
            # anybody.
            keys = combinations([query.keys[i] for i in group.keys])
        else:
            keys = group.selection(integers.supports, rng=rng)
        pairs = list(zip(group.measures, integers.parts, strict=True))
        columns = [_noisy(noisy.noise, part, keys, rng) for noisy, part in pairs]
        around = [
            _around(noisy.bracket, part, keys, cells, rng)
            for (noisy, part), cells in zip(pairs, columns, strict=True)
        ]
        numbers, brackets = _rows(columns, len(keys)), _rows(around, len(keys))
        places = [_spread(group.keys, key, len(query.keys)) for key in keys]
        return [Released(index, *row) for row in zip(places, numbers, brackets, strict=True)]


def _rows(columns: Sequence[Sequence[Any]], count: int) -> list[tuple[Any, ...]]:
    if columns:
        return list(zip(*columns, strict=True))
    return [()] * count


def _spread(group: Sequence[int], key: Group, places: int) -> Group:
    """The keys of a group at their positions in the query, None for those that are summed over."""
    values = dict(zip(group, key, strict=True))
    return tuple(values.get(i) for i in range(places))


def _noisy(noise: Noise | Rank, part: Mapping[Group, Any], keys: Sequence[Group], rng: Random) -> list[int]:
    """One number for each key; a group without rows is measured as all others are."""
    if isinstance(noise, Rank):
        # An empty group draws too: that it has no rows must not show, neither by its number nor by its
        # absence.
        return [noise(part.get(key, {}), rng=rng) for key in keys]
    return [part.get(key, 0) + draw for key, draw in zip(keys, noise.draw(len(keys), rng), strict=True)]


def _around(
    bracket: Bracket | None,
    part: Mapping[Group, Any],
    keys: Sequence[Group],
    cells: Sequence[int],
    rng: Random,
) -> list[tuple[int, int] | None]:
    """Around the cell that was chosen for each key."""
    if bracket is None:
        return [None] * len(keys)
    return [bracket(part.get(key, {}), cell, rng=rng) for key, cell in zip(keys, cells, strict=True)]
