"""Logistic regression by noisy clipped gradients on public census rows, and how well it serves each group.

An experiment on public data, not a release: noise is drawn in doubles from a seeded generator, and nothing is
charged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deniable.accounting import calibrate_noise
from deniable.datasets.real import FileTable, load

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
DELTA = 1e-5
LONGEST = 2.0
"""Rows are scaled to at most this length."""
INCOMES = {"adult": ">50K", "census-kdd": "50000+"}
LEFT_OUT = {"adult": ("fnlwgt",), "census-kdd": ("instance_weight",)}
"""Weights of the sample, which say nothing of the person."""


@dataclass(frozen=True)
class People:
    """Rows, whether their income is above 50,000, and which group each belongs to."""

    rows: Floats
    labels: Labels
    groups: NDArray[Any]

    def select(self, places: Any) -> People:
        return People(self.rows[places], self.labels[places], self.groups[places])

    def __len__(self) -> int:
        return len(self.labels)


def people(name: str, limit: int | None = None, seed: int = 0) -> tuple[People, People]:
    """Training and test rows of `adult` or `census-kdd`, at most `limit` of each, drawn at random."""
    data = cast(FileTable, load(name))
    parts = [
        _sample_rows(table.replace_schema_metadata(), limit, seed)
        for table in (data.table, data.test)
        if table is not None
    ]
    table = pa.concat_tables(parts, promote_options="permissive")
    columns = [column for column in table.column_names if column not in (data.target, *LEFT_OUT[name])]
    rows = np.hstack([_encode_column(table[column]) for column in columns])
    rows = np.hstack([rows, np.ones((len(rows), 1), np.float32)])
    rows *= np.minimum(1, LONGEST / np.linalg.norm(rows, axis=1, keepdims=True))
    labels = np.array([INCOMES[name] in str(value) for value in table[data.target].to_pylist()], np.int64)
    population = People(rows, labels, groups(table["race"].to_pylist(), table["sex"].to_pylist()))
    first = parts[0].num_rows
    return population.select(slice(0, first)), population.select(slice(first, None))


def groups(races: Sequence[str], sexes: Sequence[str]) -> NDArray[Any]:
    """White or Black women or men; everybody else is of "others"."""
    names = []
    for race, sex in zip(races, sexes, strict=True):
        colour, kind = race.strip(), "women" if sex.strip() == "Female" else "men"
        names.append(f"{colour.lower()} {kind}" if colour in ("White", "Black") else f"other {kind}")
    return np.array(names)


def _sample_rows(table: pa.Table, limit: int | None, seed: int) -> pa.Table:
    if limit is None or table.num_rows <= limit:
        return table
    return table.take(np.random.default_rng(seed).permutation(table.num_rows)[:limit])


def _encode_column(column: pa.ChunkedArray) -> Floats:
    """Numbers scaled by their 99th percentile and cut at 2, words as one column each."""
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values = column.to_numpy().astype(np.float64)
        scale = max(float(np.quantile(np.abs(values), 0.99)), 1.0)
        return np.asarray(np.clip(values / scale, -2, 2), np.float32)[:, None]
    codes = pc.dictionary_encode(column).combine_chunks().indices.to_numpy()
    return np.asarray(np.eye(int(codes.max()) + 1, dtype=np.float32)[codes])


@dataclass(frozen=True)
class GroupSteps:
    """How the model is trained: `steps` on lots of `lot` rows on average, each gradient at most `clip` long.

    `epsilon` is None without noise, `clip` None without clipping. `favourite` is a group whose gradients may
    be `favour` times as long: the noise is then that of the longest."""

    epsilon: float | None = None
    clip: float | None = 1.0
    steps: int = 400
    lot: int = 1000
    learning_rate: float = 4.0
    favourite: str | None = None
    favour: float = 1.0

    def noise(self, rows: int) -> float:
        """The deviation of the noise on a sum of gradients."""
        if self.epsilon is None or self.clip is None:
            return 0.0
        multiplier = calibrate_noise(self.epsilon, DELTA, rate=self.lot / rows, steps=self.steps)
        return multiplier * self.clip * max(self.favour, 1.0)

    def train(self, data: People, seed: int) -> Floats:
        """The mean of the later half of the points (Polyak, Juditsky 1992)."""
        g = np.random.default_rng(seed)
        weights, mean = np.zeros(data.rows.shape[1]), np.zeros(data.rows.shape[1])
        noise, half = self.noise(len(data)), self.steps // 2
        lengths = np.linalg.norm(data.rows, axis=1)
        for step in range(self.steps):
            lot = np.flatnonzero(g.random(len(data)) < self.lot / len(data))
            x = data.rows[lot]
            slope = 1 / (1 + np.exp(-(x @ weights))) - data.labels[lot]
            total = x.T @ (slope * self._clip_factors(np.abs(slope) * lengths[lot], data.groups[lot]))
            weights = weights - self.learning_rate / self.lot * (total + noise * g.normal(size=len(weights)))
            mean += weights / (self.steps - half) if step >= half else 0
        return mean.astype(np.float32)

    def _clip_factors(self, lengths: Any, groups: Any) -> Any:
        if self.clip is None:
            return 1.0
        clips = self.clip * np.where(groups == self.favourite, self.favour, 1.0)
        return np.minimum(1, clips / np.maximum(lengths, 1e-12))


def scores(weights: Floats, rows: Floats) -> NDArray[np.float64]:
    """The probability of an income above 50,000."""
    return np.asarray(1 / (1 + np.exp(-(rows @ weights).astype(np.float64))))
