"""A few outcomes, run many times: some runs at once as one pair of many outcomes.

A handful of atoms off the lattice cost the lower side first order in dt, each time they are drawn (T2). The
outcomes of m runs are counts of each atom, with multinomial masses: exact, and so dense that cells of them
cost second order (docs/theory/numerical.md, "Few outcomes, many times").
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from deniable.accounting.numerical.lattice.discretise import sparse
from deniable.accounting.numerical.lattice.steer import common_parts
from deniable.accounting.numerical.pairs.continuous import FEW_ATOMS, Pair
from deniable.accounting.numerical.pairs.finite import Finite
from deniable.accounting.numerical.rounding import Array

Term: TypeAlias = tuple[Pair, int]
MANY = 64
"""Runs from which on it is worth while."""
MOST_OUTCOMES = 4000
SAME = 1e-12
"""Losses no further apart are one."""
FINEST = 10_000
"""Nodes that a lattice may have between the least and the largest loss."""
MOST_RUNS = 100
"""Of one block: as many roundings of a mass must stay within T5."""


def in_blocks(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The same composition, with runs of sparse pairs taken together."""
    return tuple(block for pair, times in terms for block in _blocks(pair, times))


def _blocks(pair: Pair, times: int) -> Iterator[Term]:
    if times < MANY or not sparse(pair) or _on_lattice(pair):
        yield pair, times
        return
    lattice = _lattice(pair.atoms[0])
    if lattice is not None:
        yield Finite(*pair.atoms, lattice, pair.slack), times
        return
    runs = _runs(int(np.isfinite(pair.atoms[0]).sum()), times)
    blocks, left = divmod(times, runs)
    yield (power(pair, runs) if runs > 1 else pair), blocks
    if left:
        yield (power(pair, left) if left > 1 else pair), 1


def _runs(atoms: int, times: int) -> int:
    """Runs of one block: as many as have no more outcomes than are easily listed; 1 where blocks are no
    help."""
    sizes = [m for m in range(2, min(times, MOST_RUNS) + 1) if math.comb(m + atoms - 1, m) <= MOST_OUTCOMES]
    runs = max(sizes, default=1)
    if atoms > 1 and math.comb(runs + atoms - 1, runs) > FEW_ATOMS:
        return runs
    return 1


def _on_lattice(pair: Pair) -> bool:
    """Whether the pair knows a lattice that holds all its atoms."""
    if pair.lattice is None:
        return False
    offset, step = pair.lattice
    places = (pair.atoms[0][np.isfinite(pair.atoms[0])] - offset) / (step or 1.0)
    return bool((np.abs(places - np.rint(places)) < SAME).all())


def _lattice(losses: Array) -> tuple[float, float] | None:
    """Offset and step of a lattice on which all finite losses lie, if there is one that is not too fine."""
    finite = np.sort(losses[np.isfinite(losses)])
    away = finite[finite - finite[:1] > SAME] - finite[:1]
    if not len(away):
        return None
    gaps = np.diff(away, prepend=0.0)
    shortest = float(gaps[gaps > SAME].min())
    parts = common_parts([float(distance) / shortest for distance in away])
    fine = parts * float(away[-1]) / shortest
    if parts and fine <= FINEST:
        return (float(finite[0]), shortest / parts)
    return None


def power(pair: Pair, runs: int) -> Finite:
    """`runs` independent draws of a sparse pair, seen together."""
    losses, p, q = pair.atoms
    finite = np.isfinite(losses)
    counts = np.array(list(_counts(runs, int(finite.sum()))))
    ways = np.array([_multinomial(row) for row in counts.tolist()])
    total = counts @ losses[finite]
    order = np.argsort(total, kind="stable")
    # Products under each measure for itself: neither is derived from the other by a rounded ratio.
    masses = [ways * np.prod(mass[finite] ** counts, axis=1) for mass in (p, q)]
    # What only one of the two measures can say is said in one of the runs or in none.
    exposures = [
        -math.expm1(runs * math.log1p(-min(float(mass[losses == end].sum()), 1 - 2.0**-53)))
        for mass, end in ((q, -math.inf), (p, math.inf))
    ]
    return Finite(
        np.concatenate([[-math.inf], total[order], [math.inf]]),
        np.concatenate([[0.0], masses[0][order], [exposures[1]]]),
        np.concatenate([[exposures[0]], masses[1][order], [0.0]]),
        None,
        runs * pair.slack,
    )


def _counts(runs: int, atoms: int) -> Iterator[tuple[int, ...]]:
    if atoms == 1:
        yield (runs,)
        return
    for first in range(runs + 1):
        for rest in _counts(runs - first, atoms - 1):
            yield (first, *rest)


def _multinomial(counts: Sequence[int]) -> float:
    """Exact, then rounded once."""
    ways, left = 1, sum(counts)
    for count in counts:
        ways *= math.comb(left, count)
        left -= count
    return float(ways)
