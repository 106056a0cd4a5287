"""Tables of log-ratios: exact for what is discrete, histograms for what is continuous,
drawn together where counts say little.

The score of a table is largest where a few lucky counts are, unless luck is taken out first. So every
log-ratio is shrunk by how well it is known, among its likes (empirical Bayes; Efron, Morris 1973), and the
bins of a coordinate form a binary tree in which only differences between halves are learnt (a Haar basis;
Donoho, Johnstone 1994): where halves do not differ, bins are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Flags = NDArray[np.bool_]

MOST_PATTERNS = 4096
FEW_PATTERNS = 64
"""Up to so many outputs in all, the table of their counts is all there is to know: nothing else is learnt,"""
ROWS_EACH = 400
"""if there are so many rows for each."""
MOST_ATOMS = 64
PARTS = 16
"""Parts of the rows whose counts are compared to see how well a log-ratio is known,
whether or not runs were coupled."""
PLAIN = 2.0
"""How many deviations from 0 a log-ratio must lie to be kept for its own sake."""


# ------------------------------------------------------------------------------------------------ bins


@dataclass(frozen=True)
class Coder:
    """Bins for each coordinate. A frequent value (an atom) has a bin of its own; what is
    not finite goes last."""

    edges: tuple[Array, ...]
    atoms: tuple[Flags, ...]

    @classmethod
    def fit(cls, rows: Rows, bins: int, *, is_shared: bool = False) -> Coder:
        if is_shared:
            edges, atoms = _bins(rows.ravel(), bins)
            return cls((edges,) * rows.shape[1], (atoms,) * rows.shape[1])
        column_bins = [_bins(column, bins) for column in rows.T]
        return cls(tuple(e for e, _ in column_bins), tuple(a for _, a in column_bins))

    def codes(self, rows: Rows) -> Iterator[Codes]:
        """The bin of each value, one coordinate after the other."""
        for column, edges in zip(rows.T, self.edges, strict=True):
            yield np.searchsorted(edges, np.ascontiguousarray(column), side="right")

    def to_dict(self) -> dict[str, Any]:
        return {"edges": [e.tolist() for e in self.edges], "atoms": [a.tolist() for a in self.atoms]}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Coder:
        return cls(
            tuple(np.array(e, np.float64) for e in value["edges"]),
            tuple(np.array(a, np.bool_) for a in value["atoms"]),
        )


def _bins(values: Array, count: int) -> tuple[Array, Flags]:
    sample = _sample(values)
    distinct, times = np.unique(sample, return_counts=True)
    frequent = times >= max(10, 0.002 * len(sample))
    if len(distinct) <= MOST_ATOMS:
        frequent = times > 1
    atoms = distinct[frequent][np.argsort(-times[frequent])[:MOST_ATOMS]]
    # What is rarely not an atom is looked for among all values: a tail of a tail is where ratios are largest.
    rest = _sample(values[~np.isin(values, atoms)])
    cuts = np.quantile(rest, np.linspace(0, 1, count + 1)[1:-1]) if len(rest) > 20 * count else np.empty(0)
    edges = np.unique(np.concatenate([atoms, np.nextafter(atoms, np.inf), cuts, [np.inf]]))
    starts = np.isin(edges, atoms)
    return edges, np.concatenate([[False], starts[:-1], [True]])


def _sample(values: Array, limit: int = 20_000) -> Array:
    sample = values[:: max(1, len(values) // limit)]
    return sample[np.isfinite(sample)]


# ------------------------------------------------------------------------------------------------ tables


@dataclass(frozen=True)
class Tables:
    """ln P/Q of the pattern of atoms, plus, for each continuous coordinate, ln P/Q of
    its bin given the pattern.

    Exact for discrete outputs, and for independent continuous coordinates; with many
    atoms (no `patterns`) every coordinate is scored by itself. `is_pooled` shares one
    histogram among all coordinates: few parameters, for exchangeable outputs.
    """

    coder: Coder
    weights: tuple[Array, ...]
    keys: NDArray[np.uint64] | None = None
    values: Array | None = None

    @classmethod
    def fit(cls, first: Rows, second: Rows, *, bins: int, patterns: bool, is_pooled: bool) -> Tables | None:
        coder = Coder.fit(np.concatenate([first, second]), bins, is_shared=is_pooled)
        keys = values = None
        if patterns:
            keys, values = _pattern_table(_patterns(coder, first), _patterns(coder, second))
            if len(keys) > MOST_PATTERNS or len(keys) < 2:
                return None
        pairs = zip(coder.codes(first), coder.codes(second), coder.edges, strict=True)
        counts = [TableTally.from_codes(a, b, len(e) + 1) for a, b, e in pairs]
        if is_pooled:
            weights = (_weights(TableTally.pool(counts), coder.atoms[0], relative=patterns),) * len(counts)
        else:
            weights = tuple(
                _weights(c, a, relative=patterns) for c, a in zip(counts, coder.atoms, strict=True)
            )
        return cls(coder, weights, keys, values).merge_bins()

    def merge_bins(self) -> Tables:
        """The same with no edge between bins of equal weight that no pattern tells apart."""
        edges, atoms, weights = [], [], []
        for e, a, w in zip(self.coder.edges, self.coder.atoms, self.weights, strict=True):
            apart = w[1:] != w[:-1]
            if self.keys is not None:
                apart |= a[1:] | a[:-1]
            starts = np.concatenate([[True], apart])
            edges.append(e[apart])
            atoms.append(a[starts])
            weights.append(w[starts])
        return Tables(Coder(tuple(edges), tuple(atoms)), tuple(weights), self.keys, self.values)

    def complete(self, rows: int) -> bool:
        """Whether all outputs are patterns, few and frequent in `rows` rows: then their
        log-ratios are all there is to know."""
        few = self.keys is not None and len(self.keys) <= min(FEW_PATTERNS, rows // ROWS_EACH)
        return few and not any(np.any(w) for w in self.weights)

    def score(self, rows: Rows) -> Array:
        score, pattern = np.zeros(len(rows)), np.zeros(len(rows), np.uint64)
        for i, code in enumerate(self.coder.codes(rows)):
            if np.any(self.weights[i]):
                score += self.weights[i][code]
            if self.keys is not None:
                pattern += _categories(self.coder.atoms[i], i)[code]
        if self.keys is not None and self.values is not None:
            at = np.minimum(np.searchsorted(self.keys, pattern), len(self.keys) - 1)
            score += np.where(self.keys[at] == pattern, self.values[at], 0.0)
        return score

    def to_dict(self) -> dict[str, Any]:
        keys = None if self.keys is None else [int(k) for k in self.keys]
        values = None if self.values is None else self.values.tolist()
        return {
            "model": "tables",
            "coder": self.coder.to_dict(),
            "weights": [w.tolist() for w in self.weights],
            "keys": keys,
            "values": values,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Tables:
        return cls(
            Coder.from_dict(value["coder"]),
            tuple(np.array(w, np.float64) for w in value["weights"]),
            None if value["keys"] is None else np.array(value["keys"], np.uint64),
            None if value["values"] is None else np.array(value["values"], np.float64),
        )


def _categories(atoms: Flags, coordinate: int) -> NDArray[np.uint64]:
    """For each bin a number: 0 if it is continuous, else a 64-bit one for this atom of
    this coordinate; sums are patterns.

    Two patterns that collide are one event instead of two: a weaker attack, never a wrong one.
    """
    draws = np.random.default_rng([7, coordinate]).integers(1, 2**63, int(atoms.sum())).astype(np.uint64)
    numbers = np.zeros(len(atoms), np.uint64)
    numbers[atoms] = draws
    return numbers


def _patterns(coder: Coder, rows: Rows) -> NDArray[np.uint64]:
    total = np.zeros(len(rows), np.uint64)
    for i, code in enumerate(coder.codes(rows)):
        total += _categories(coder.atoms[i], i)[code]
    return total


def _pattern_table(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], Array]:
    keys, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    tally = TableTally.from_codes(place[: len(first)], place[len(first) :], len(keys))
    return keys, shrunk(tally.ratio, tally.doubt())


# ------------------------------------------------------------------------------------------------ log-ratios


@dataclass(frozen=True)
class TableTally:
    """How often each of some cells was met on the two neighbours, in each of `PARTS`
    parts of the rows: (parts, cells)."""

    first: Array
    second: Array

    @classmethod
    def from_codes(cls, first: Codes, second: Codes, cells: int) -> TableTally:
        return cls(_tally(first, cells), _tally(second, cells))

    @classmethod
    def pool(cls, tallies: list[TableTally]) -> TableTally:
        """The tally of all coordinates as if they were one."""
        return cls(np.sum([t.first for t in tallies], axis=0), np.sum([t.second for t in tallies], axis=0))

    def shares(self) -> tuple[Array, Array]:
        """Smoothed counts of each neighbour as shares of its rows."""
        sides = [
            (side.sum(axis=0) + 0.5) / (side.sum() + 0.5 * side.shape[1])
            for side in (self.first, self.second)
        ]
        return sides[0], sides[1]

    @property
    def ratio(self) -> Array:
        """ln P/Q of each cell."""
        p, q = self.shares()
        return np.asarray(np.log(p / q))

    def part_effects(self) -> Array:
        """What each part adds to each cell's log-ratio: their squares add up to its
        variance, coupled or not."""
        sides = [side / (side.sum(axis=0) + 0.5) - _part(side) for side in (self.first, self.second)]
        return np.asarray(sides[0] - sides[1])

    def doubt(self) -> Array:
        """The variance of each log-ratio."""
        return np.asarray(
            (self.part_effects() ** 2).sum(axis=0) * PARTS / (PARTS - 1) + self.prior_variance()
        )

    def prior_variance(self) -> Array:
        """The variance of the half counts that were added: all there is to say of cells
        that were hardly met."""
        return np.asarray(sum(0.5 / (side.sum(axis=0) + 0.5) ** 2 for side in (self.first, self.second)))

    def cells(self, groups: list[slice]) -> TableTally:
        """Cells taken together."""
        sides = [
            np.stack([side[:, g].sum(axis=1) for g in groups], axis=1) for side in (self.first, self.second)
        ]
        return TableTally(sides[0], sides[1])


def _part(side: Array) -> Array:
    return np.asarray(side.sum(axis=1, keepdims=True) / max(1.0, float(side.sum())))


def _tally(code: Codes, cells: int) -> Array:
    part = np.arange(len(code)) % PARTS
    return np.bincount(part * cells + code, minlength=PARTS * cells).reshape(PARTS, cells).astype(np.float64)


def shrunk(values: Array, variance: Array) -> Array:
    """Values around 0, each drawn to it by how little it is known.

    The posterior mean, the spread being what they have in excess of their variances; or, where a value stands
    out by itself among many that do not, what is left of it after the garrote (Gao 1998), if that is more.
    """
    weight = 1 / np.maximum(variance, 1e-12)
    spread = max(0.0, float(np.sum(values**2 * weight - 1) / np.sum(weight)))
    alone = 1 - PLAIN**2 * variance / np.maximum(values**2, 1e-12)
    return np.asarray(values * np.maximum(spread / (spread + 1 / weight), np.maximum(alone, 0)))


def _weights(tally: TableTally, atoms: Flags, *, relative: bool) -> Array:
    """ln P/Q of each bin of a coordinate: of the atoms, unless `relative`, and of the
    others, which form one tree."""
    order = np.concatenate([np.flatnonzero(atoms), np.flatnonzero(~atoms)])
    tally = TableTally(tally.first[:, order], tally.second[:, order])
    atom_count, size = int(atoms.sum()), len(atoms)
    weights = np.zeros(size)
    groups = [slice(i, i + 1) for i in range(atom_count)] + [slice(atom_count, size)] * (atom_count < size)
    if not relative:
        coarse = tally.cells(groups)
        ratio = shrunk(coarse.ratio, coarse.doubt())
        weights[:atom_count], weights[atom_count:] = (
            ratio[:atom_count],
            ratio[-1] if atom_count < size else 0.0,
        )
    nodes = [slice(atom_count, size)]
    while nodes := [n for n in nodes if n.stop - n.start > 1]:
        halves = [h for n in nodes for h in _halves(n)]
        weights += _level(tally.cells(halves), halves, size)
        nodes = halves
    cell_weights = np.empty(size)
    cell_weights[order] = weights
    return cell_weights


def _halves(node: slice) -> tuple[slice, slice]:
    middle = (node.start + node.stop) // 2
    return slice(node.start, middle), slice(middle, node.stop)


def _level(tally: TableTally, halves: list[slice], width: int) -> Array:
    """What one level of the tree adds: the difference of each node's halves, shrunk,
    such that their mean keeps its ratio."""
    ratio, shifts, unseen = tally.ratio, tally.part_effects(), tally.prior_variance()
    variance = (
        ((shifts[:, ::2] - shifts[:, 1::2]) ** 2).sum(axis=0) * PARTS / (PARTS - 1)
        + unseen[::2]
        + unseen[1::2]
    )
    gap = shrunk(ratio[::2] - ratio[1::2], variance)
    _, q = tally.shares()
    right = -np.log((q[::2] * np.exp(gap) + q[1::2]) / (q[::2] + q[1::2]))
    increments = np.zeros(width)
    for i, (low, high) in enumerate(zip(halves[::2], halves[1::2], strict=True)):
        increments[low], increments[high] = right[i] + gap[i], right[i]
    return increments
