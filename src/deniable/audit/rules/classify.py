"""Classifiers that tell the outputs of two neighbours apart. What they learn is only a
proposal: `sniper` certifies it.

An output is a row of numbers. A `OutputView` rewrites rows (as they are, differences of
neighbours, lowest set bits), a `ScoreModel` gives each row a score that is larger where the
first neighbour is likelier. Any function of the output is a valid attack, so nothing
here has to be right for a finding to be; it has to be good for a finding to be large.

    Tables    exact log-ratios of the discrete part, histograms of the continuous one  (SVT, RAPPOR; `tables`)
    Logistic  a linear score on values and on indicators of frequent values            (as in DP-Sniper)
    Boosting  oblivious trees on histogram bins                                        (interactions)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.audit.rules.support import Support
from deniable.audit.rules.tables import Array, Coder, Codes, Tables
from deniable.audit.rules.tables import Rows as Rows
from deniable.errors import InvalidParameter

BINS = 16
"""Of a continuous coordinate, before those that do not differ are merged."""
ENOUGH = 100_000
"""Rows of one neighbour from which a linear score is learnt."""
FINE = -9
"""The lowest set bit below which numbers are no integers or plain fractions; those of half precision go to
−24."""
NEWTON, ENOUGH_GAINED = 25, 1e-9
"""Newton steps, at most, and the gain in mean log-likelihood that is no longer worth one."""


class OutputView(StrEnum):
    """How a row of output is looked at."""

    RAW = "raw"
    DIFFERENCES = "differences"
    """The first number, then each one less its predecessor: undoes running sums, shows
    noise that was used twice."""
    BITS = "bits"
    """The exponent of the lowest set bit: shows which floats noise cannot reach (Mironov 2012)."""

    def see(self, rows: Rows) -> Rows:
        match self:
            case OutputView.RAW:
                return rows
            case OutputView.DIFFERENCES:
                return np.diff(rows, axis=1, prepend=0.0)
            case OutputView.BITS:
                return lowest_bit(rows)


def views(rows: Rows) -> list[OutputView]:
    """The views that can show something about rows like these."""
    kinds = [OutputView.RAW]
    if (
        rows.shape[1] > 1 and len(np.unique(rows[:512])) > 8
    ):  # with fewer values, patterns show all that differences would
        kinds.append(OutputView.DIFFERENCES)
    if rows.shape[1] <= 4 and np.mean(lowest_bit(rows[:512]) < FINE) > 0.2:
        kinds.append(OutputView.BITS)
    return kinds


def lowest_bit(values: Rows) -> Rows:
    """The k with x = odd × 2^k; −2000 for 0 and for what is not finite.

    >>> lowest_bit(np.array([[1.0, 12.0, 0.75, 0.0]])).tolist()
    [[0.0, 2.0, -2.0, -2000.0]]
    """
    fraction, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    trailing = np.frexp((mantissa & -mantissa).astype(np.float64))[1] - 1
    return np.where(mantissa == 0, -2000.0, exponent - 53.0 + trailing)


class ScoreModel(Protocol):
    """Scores rows; larger means likelier from the first neighbour."""

    def score(self, rows: Rows) -> Array: ...

    def to_dict(self) -> dict[str, Any]: ...


# ------------------------------------------------------------------------------------------------ logistic


@dataclass(frozen=True)
class LogisticClassifier:
    """A linear score on standardised values and on indicators of the few most frequent
    ones (DP-Sniper's flags)."""

    centre: Array
    scale: Array
    flags: tuple[Array, ...]
    weights: Array

    @classmethod
    def fit(cls, first: Rows, second: Rows, *, ridge: float = 1e-4) -> LogisticClassifier:
        first, second = first[:ENOUGH], second[:ENOUGH]
        rows = np.concatenate([first, second])
        label = np.concatenate([np.ones(len(first)), np.zeros(len(second))])
        flags = tuple(_flags(column) for column in rows.T)
        centre, scale = _robust(rows)
        design = cls(centre, scale, flags, np.empty(0)).design(rows)

        weights, at = np.zeros(design.shape[1]), np.inf
        step = np.zeros_like(weights)
        for _ in range(NEWTON):
            score = design @ (weights + step)
            value = float(
                np.mean(np.logaddexp(0, score) - label * score) + ridge / 2 * np.sum((weights + step) ** 2)
            )
            if value > at:
                step /= 2
                continue
            weights, gain, at = weights + step, at - value, value
            if gain < ENOUGH_GAINED:
                break
            p = 1 / (1 + np.exp(-np.clip(score, -40, 40)))
            slope = design.T @ (p - label) / len(label) + ridge * weights
            bend = design.T @ (design * (p * (1 - p))[:, None]) / len(label) + ridge * np.eye(len(weights))
            step = -np.linalg.solve(bend, slope)
        return cls(centre, scale, flags, weights)

    def design(self, rows: Rows) -> Rows:
        standard = np.clip((np.nan_to_num(rows, posinf=0, neginf=0) - self.centre) / self.scale, -20, 20)
        marks = [(column == flag) for column, flags in zip(rows.T, self.flags, strict=True) for flag in flags]
        return np.column_stack([standard, *marks]) if marks else standard

    def score(self, rows: Rows) -> Array:
        return np.asarray(self.design(rows) @ self.weights)

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": "logistic",
            "centre": self.centre.tolist(),
            "scale": self.scale.tolist(),
            "flags": [f.tolist() for f in self.flags],
            "weights": self.weights.tolist(),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> LogisticClassifier:
        arrays = [np.array(value[k], np.float64) for k in ("centre", "scale", "weights")]
        flags = tuple(np.array(f, np.float64) for f in value["flags"])
        return cls(arrays[0], arrays[1], flags, arrays[2])


def _flags(column: Array, limit: int = 2) -> Array:
    """The most frequent values, if they make up more than a hundredth; none for a bit,
    which is its own indicator."""
    values, times = np.unique(column[:20_000], return_counts=True)
    if len(values) <= 2:
        return np.empty(0)
    order = np.argsort(-times)[:limit]
    return np.asarray(values[order][times[order] > max(20, 0.01 * min(len(column), 20_000))])


def _robust(rows: Rows) -> tuple[Array, Array]:
    finite = np.nan_to_num(rows[:50_000], posinf=0, neginf=0)
    spread = np.std(finite, axis=0)
    return np.mean(finite, axis=0), np.where(spread > 0, spread, 1.0)


# ------------------------------------------------------------------------------------------------ boosting


@dataclass(frozen=True)
class Boosting:
    """Oblivious trees: every level asks one question of one bin, so that a tree is a
    table of 2^depth leaves."""

    coder: Coder
    questions: NDArray[np.int64]
    """(trees, depth, 2): the coordinate and the bin that it must reach."""
    leaves: Array

    @classmethod
    def fit(
        cls, first: Rows, second: Rows, *, trees: int = 40, depth: int = 3, rate: float = 0.3
    ) -> Boosting:
        half = 60_000
        rows = np.concatenate([first[:half], second[:half]])
        label = np.concatenate([np.ones(len(first[:half])), np.zeros(len(second[:half]))])
        coder = Coder.fit(rows, 24)
        codes = np.stack(list(coder.codes(rows)))
        width = max(len(e) for e in coder.edges) + 1
        score, questions, leaves = np.zeros(len(rows)), [], []
        for _ in range(trees):
            p = 1 / (1 + np.exp(-score))
            splits, leaf = _grow(codes, label - p, depth, width)
            gain = np.bincount(leaf, label - p, 1 << depth) / (
                np.bincount(leaf, p * (1 - p), 1 << depth) + 20.0
            )
            score += rate * gain[leaf]
            questions.append(splits)
            leaves.append(rate * gain)
        return cls(coder, np.array(questions, np.int64), np.array(leaves))

    def score(self, rows: Rows) -> Array:
        codes = [code.astype(np.int16) for code in self.coder.codes(rows)]
        total = np.zeros(len(rows))
        for splits, leaves in zip(self.questions, self.leaves, strict=True):
            leaf = np.zeros(len(rows), np.int8)
            for level, (coordinate, bound) in enumerate(splits):
                leaf |= (codes[coordinate] >= bound).astype(np.int8) << level
            total += leaves[leaf]
        return total

    def to_dict(self) -> dict[str, Any]:
        trees = {"questions": self.questions.tolist(), "leaves": self.leaves.tolist()}
        return {"model": "boosting", "coder": self.coder.to_dict()} | trees

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Boosting:
        trees = np.array(value["questions"], np.int64), np.array(value["leaves"], np.float64)
        return cls(Coder.from_dict(value["coder"]), *trees)


def _grow(
    codes: NDArray[Any], gradient: Array, depth: int, width: int
) -> tuple[list[tuple[int, int]], Codes]:
    """The questions of one tree, greedily, and the leaf of each row."""
    leaf = np.zeros(codes.shape[1], np.intp)
    splits: list[tuple[int, int]] = []
    for level in range(depth):
        gains = np.stack([_gains(leaf * width + code, gradient, (1 << level, width)) for code in codes])
        coordinate, bound = np.unravel_index(int(np.argmax(gains)), gains.shape)
        splits.append((int(coordinate), int(bound)))
        leaf += (codes[coordinate] >= bound).astype(np.intp) << level
    return splits, leaf


def _gains(cells: Codes, gradient: Array, shape: tuple[int, int]) -> Array:
    """What splitting every leaf at each bin gains: Σ over both sides of G²/(n + 50), the
    usual score of a split."""
    size = shape[0] * shape[1]
    g = np.bincount(cells, gradient, size).reshape(shape)
    n = np.bincount(cells, minlength=size).reshape(shape).astype(np.float64)
    above_g, above_n = np.cumsum(g[:, ::-1], axis=1)[:, ::-1], np.cumsum(n[:, ::-1], axis=1)[:, ::-1]
    below_g, below_n = above_g[:, :1] - above_g, above_n[:, :1] - above_n
    return np.asarray(np.sum(above_g**2 / (above_n + 50) + below_g**2 / (below_n + 50), axis=0))


# ------------------------------------------------------------------------------------------------ all of them


def fit_all(first: Rows, second: Rows, *, boosting: bool) -> Iterator[ScoreModel]:
    """Every classifier that applies to rows like these."""
    full_tables = Tables.fit(first, second, bins=BINS, patterns=True, is_pooled=False)
    if full_tables is not None:
        yield full_tables
        if full_tables.complete(min(len(first), len(second))):
            return
    shapes = ((False, False),) if first.shape[1] == 1 else ((False, False), (False, True), (True, True))
    for patterns, is_pooled in shapes:
        tables = Tables.fit(first, second, bins=BINS, patterns=patterns, is_pooled=is_pooled)
        if tables is not None:
            yield tables
    yield LogisticClassifier.fit(first, second)
    if boosting:
        yield Boosting.fit(first, second)


def model_from_dict(value: Mapping[str, Any]) -> ScoreModel:
    match value.get("model"):
        case "tables":
            return Tables.from_dict(value)
        case "logistic":
            return LogisticClassifier.from_dict(value)
        case "boosting":
            return Boosting.from_dict(value)
        case "support":
            return Support.from_dict(value)
        case other:
            raise InvalidParameter(
                f"Expected the model of a witness to be tables, logistic, boosting or support, got {other!r}."
            )
