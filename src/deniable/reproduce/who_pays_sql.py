"""Who pays for noise in a table of counts and means: relative error by the size of a group, down to a census
block.

Noise is the same for every group, so its share of an answer falls with the group's size: most countries of
Adult have fewer than a hundred people, and blocks of a census a handful."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from deniable.curator import Curator
from deniable.datasets import blocks, load
from deniable.guarantee import Budget
from deniable.plots import groups as plots
from deniable.reproduce.report import Progress, Report
from deniable.units import Unit

SUMMARY = (
    "Who pays in SQL: relative error of counts and means by group size (Adult by country; census blocks), "
    "ε = 1 each"
)
EPSILON, REPEATS, BLOCKS = 1.0, 8, 60
LIMIT = Budget(EPSILON)
BANDS = (1, 10, 30, 100, 300, 1000, 10_000, 1_000_000)
COLUMNS = ("table", "people in the group", "groups", "mean relative error", "largest")


@dataclass(frozen=True)
class PricedQuestion:
    """An aggregate by one column, its true values, and how large each group is."""

    words: str
    table: Any
    column: str
    aggregate: str
    truth: dict[Any, float]
    sizes: dict[Any, int]
    bounds: dict[str, tuple[float, float]]

    @classmethod
    def from_column(cls, words: str, table: Any, column: str, value: str | None = None) -> PricedQuestion:
        """Counts of a column's values, or the means of `value` for each."""
        keys = table[column].to_pylist()
        sizes = dict(Counter(keys))
        if value is None:
            return cls(words, table, column, "COUNT(*)", {k: float(n) for k, n in sizes.items()}, sizes, {})
        numbers = table[value].to_numpy().astype(np.float64)
        names = np.array(keys, object)
        truth = {key: float(numbers[names == key].mean()) for key in sizes}
        ends = (float(numbers.min()), float(numbers.max()))
        return cls(words, table, column, f"AVG({value})", truth, sizes, {value: ends})

    def errors(self) -> dict[Any, float]:
        """|answer − truth| / truth of each group, asked once of a fresh account; without an answer it is off
        by all."""
        text = f"SELECT {self.column}, {self.aggregate} AS answer FROM people GROUP BY {self.column}"
        keys = {self.column: list(self.sizes)}
        source: dict[str, Any] = {"name": "people", "unit": Unit.row(), "limit": LIMIT, "ledger": "sqlite://"}
        with Curator.open(self.table, bounds=self.bounds, keys=keys, **source) as curator:
            reply = curator.sql(text, epsilon=EPSILON).value
        answers = dict(zip(reply[self.column].to_pylist(), reply["answer"].to_pylist(), strict=True))
        return {key: abs((answers.get(key) or 0.0) - truth) / abs(truth) for key, truth in self.truth.items()}


def questions() -> list[PricedQuestion]:
    adult = load("adult").table.select(["native_country", "age"])
    small = blocks(BLOCKS)
    return [
        PricedQuestion.from_column("Adult, people by country", adult, "native_country"),
        PricedQuestion.from_column("Adult, mean age by country", adult, "native_country", "age"),
        PricedQuestion.from_column("census blocks, people by block", small, "block"),
        PricedQuestion.from_column("census blocks, mean age by block", small, "block", "age"),
    ]


def run(folder: Path, progress: Progress) -> Report:
    rows: list[tuple[object, ...]] = []
    points: dict[str, list[tuple[float, float]]] = {}
    for question in progress(questions(), "Tables"):
        runs = [question.errors() for _ in range(REPEATS)]
        mean = {key: float(np.mean([run[key] for run in runs])) for key in question.truth}
        points[question.words] = [(question.sizes[key], max(mean[key], 1e-6)) for key in mean]
        rows += _bands(question, mean)
    sizes = np.geomspace(4, 30_000, 60).tolist()
    theory = {"count": [(n, 1 / math.sinh(EPSILON) / n) for n in sizes]}
    title = f"Relative error of an answer by the size of its group, ε = {EPSILON:g} for each table"
    draw = partial(plots.by_size, points, theory, title=title, path=folder / "who-pays-sql.png")
    reading = (
        f"The same noise for every group: {1 / math.sinh(EPSILON):.2f} people on average at ε = {EPSILON:g}, "
        "so the relative error of a count is that over its size; a mean's is larger by the range of the "
        "values over their mean. A country of thirty is known to a few per cent, a block of eight to ten, "
        "its mean age to a quarter. What helps: fewer and larger groups, more of ε for the table that "
        f"matters, areas counted once and added up. Means of {REPEATS} answers."
    )
    return Report("Relative error by group size", COLUMNS, rows, draw, reading)


def _bands(question: PricedQuestion, errors: dict[Any, float]) -> list[tuple[object, ...]]:
    """One row for each range of sizes that has a group."""
    rows: list[tuple[object, ...]] = []
    for low, high in pairwise(BANDS):
        inside = [errors[key] for key, size in question.sizes.items() if low <= size < high]
        if inside:
            rows.append(
                (question.words, f"{low:,} to {high - 1:,}", len(inside), float(np.mean(inside)), max(inside))
            )
    return rows
