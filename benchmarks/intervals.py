"""Whether ± holds the real answer, of all rows, on the default path, and how wide it is: five real tables and small ones.

    DENIABLE_DATA=… python benchmarks/intervals.py            writes docs/benchmarks.md
    DENIABLE_DATA=… python benchmarks/intervals.py --print    prints only; names of tables may follow

Nothing is declared but the unit, the keys and the bounds of the values; no bound on a person's rows is said. COUNT(*), SUM(x),
AVG(x) and a share are asked, each by itself, of the whole table and by its groups. Small tables are the rows of so many people
of a larger one. An interval should hold the real answer in at least 90 % of the cells, and its median half width be at most
twice the 95 % quantile of the true error, or one and a half times what the noise forces on the rows between the bound κ and the
cap M, (M − κ)/ε′, where that is more.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from _report import write_section
from deniable.datasets import load
from deniable.datasets.readers import FileTable
from deniable.randomness import SecureRandom
from deniable.sql.engines import Engine, Statement, open_engine
from deniable.sql.plan.measures.totals import LeftOut
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Result
from deniable.sql.types import FLOAT, INTEGER, TEXT
from deniable.units import Unit

EPSILONS, RUNS = (1.0, 0.5), 20
AGGREGATES = {
    "COUNT": "COUNT(*)",
    "SUM": "SUM(x)",
    "AVG": "AVG(x)",
    "share": "CAST(COUNT(*) FILTER (WHERE f) AS DOUBLE) / COUNT(*)",
    "AVG beside COUNT": "AVG(x)",
}
HEAD = """## SQL: what ± holds, and how wide it is

`python benchmarks/intervals.py`, {runs} runs of each query on the default path: the unit, the keys and the bounds of values are
declared, and nothing about a person's rows. *Held* is the share of cells whose interval holds the real answer, that of all
rows; *width* the median half width as a share of the real answer; *of error* that half width by the 95 % quantile of the true
error, *of noise* by the half width that noise forces on what is told between the bound and the cap, (M − κ)/ε′ (empty where
the bound is the cap). Asked for are 90 % and a width of at most 2 of the error or 1.5 of the noise; cells that miss are bold."""


@dataclass(frozen=True)
class Case:
    """A table of `who`, `k`, `x` between `low` and `high`, and a condition `f`."""

    name: str
    table: pa.Table
    low: float
    high: float

    @property
    def schema(self) -> Schema:
        keys = tuple(sorted(set(self.table["k"].to_pylist())))
        value = ColumnInfo("x", FLOAT, Fraction(self.low), Fraction(self.high), nulls=False)
        flag = ColumnInfo("f", INTEGER, nulls=False)
        columns = (ColumnInfo("who", INTEGER, nulls=False), ColumnInfo("k", TEXT, keys=keys, nulls=False))
        return Schema((TableInfo("t", (*columns, value, flag), unit="who"),))

    def of_people(self, many: int) -> Case:
        """The rows of so many of its people, the same for every run."""
        people = np.random.default_rng(16).permutation(int(self.table["who"].to_numpy().max()) + 1)[:many]
        rows = self.table.filter(pa.array(np.isin(self.table["who"].to_numpy(), people)))
        return Case(f"{many:,} people of {self.name}", rows, self.low, self.high)

    def once(self) -> Case:
        """One row of each person."""
        first = np.unique(self.table["who"].to_numpy(), return_index=True)[1]
        return Case(f"{self.name}, one row each", self.table.take(pa.array(first)), self.low, self.high)


# ------------------------------------------------------------------------------------------------ the tables


def case(
    name: str, who: Sequence[Any], keys: Sequence[Any], x: Any, flags: Any, bounds: tuple[float, float]
) -> Case:
    ids = np.unique(np.asarray(who), return_inverse=True)[1].astype(np.int64)
    columns = {"who": ids, "k": [str(k).strip() for k in keys], "x": np.asarray(x, float)}
    return Case(name, pa.table({**columns, "f": np.asarray(flags, np.int64)}), *bounds)


def _loaded(name: str) -> dict[str, Any]:
    source = load(name)
    table = source.table if isinstance(source, FileTable) else source
    assert isinstance(table, pa.Table)
    return {column: table[column].to_pylist() for column in table.column_names}


def diabetes() -> Case:
    t = _loaded("diabetes-hospitals")
    again = [value != "NO" for value in t["readmitted"]]
    return case("diabetes by patient", t["patient_nbr"], t["age"], t["num_medications"], again, (0, 81))


def census() -> Case:
    t = _loaded("census-kdd")
    rich = ["50000+" in str(value) for value in t["income"]]
    return case("census-kdd by weight", t["instance_weight"], t["education"], t["age"], rich, (0, 90))


def adult() -> Case:
    t = _loaded("adult")
    rich = [">50K" in value for value in t["income"]]
    return case("Adult by fnlwgt", t["fnlwgt"], t["education"], t["hours_per_week"], rich, (0, 99))


def california() -> Case:
    t = _loaded("california-housing")
    who = [f"{a:.1f} {b:.1f}" for a, b in zip(t["longitude"], t["latitude"], strict=True)]
    dear = [value > 200_000 for value in t["median_house_value"]]
    return case("California by place", who, t["ocean_proximity"], t["housing_median_age"], dear, (0, 52))


def speakers() -> Case:
    """Lines of a play, by who says them: a name and a colon stand before each speech."""
    text = load("tiny-shakespeare")
    assert isinstance(text, str)
    lines: list[tuple[str, str]] = []
    for speech in text.split("\n\n"):
        name, _, words = speech.partition(":\n")
        lines += [(name, line) for line in words.splitlines()]
    sizes = [len(line) for _, line in lines]
    first = [line[:1].upper() if re.match("[A-Za-z]", line) else "-" for _, line in lines]
    thirds = ["A-H" if a <= "H" else "I-P" if a <= "P" else "Q-Z" for a in first]
    asked = [line.endswith("?") for _, line in lines]
    return case("lines by speaker", [name for name, _ in lines], thirds, sizes, asked, (0, 80))


def cases() -> Iterator[Case]:
    for make in (diabetes, census, adult, california, speakers):
        yield make()
    for many in (3000, 300):
        yield diabetes().of_people(many)
        yield adult().of_people(many).once()


# ------------------------------------------------------------------------------------------------ measuring


class Remembered(Engine):
    """An engine that runs a statement once: its integers are the same in each run, only noise differs."""

    def __init__(self, of: Engine) -> None:
        self.of, self.dialect = of, of.dialect
        self.answers: dict[Statement, pa.Table] = {}

    def run(self, statement: Statement) -> pa.Table:
        if statement not in self.answers:
            self.answers[statement] = self.of.run(statement)
        return self.answers[statement]

    @property
    def overran(self) -> bool:
        return self.of.overran

    def cancel(self) -> None:
        self.of.cancel()

    def close(self) -> None:
        self.of.close()


@dataclass(frozen=True)
class Measured:
    """Of one query: how often its intervals held, their half width as a share of the answer and by the error's
    95 % quantile and by what noise forces, and the mean error as a share of the answer."""

    held: float
    width: float
    of_error: float
    of_noise: float
    error: float

    @property
    def good(self) -> bool:
        return self.held >= 0.9 and (self.of_error <= 2 or self.of_noise <= 1.5)


def forced(of: Case, made: Plan, result: Result, column: str, rows: float) -> float:
    """The half width that noise forces on what is told between κ and M: of a count in rows, of a sum in values, of a quotient by
    the `rows` below it."""
    bounding = result.bounding
    if bounding is None or bounding.most <= bounding.rows:
        return 0.0
    widths = []
    for noisy in made.sets[0].measures:
        if isinstance(noisy.measure, LeftOut) and isinstance(noisy.noise, Noise):
            grid = made.start.grids.get(noisy.measure)
            unit = (bounding.most - bounding.rows) / (1 << 24) * float(1 if grid is None else grid.unit)
            widths.append(noisy.noise.within(0.05) * unit)
    if column in ("COUNT", "SUM"):
        return widths[0]
    return widths[0] / rows * (1 if column == "share" else (of.high - of.low) / 2)


def measure(of: Case, column: str, grouped: bool, epsilon: float, engine: Engine) -> Measured:
    unit = Unit.column("who")
    text = AGGREGATES[column].replace("WHERE f", "WHERE f = 1")
    beside = ", COUNT(*) AS n" if column == "AVG beside COUNT" else ""
    sql = f"SELECT {'k, ' if grouped else ''}{text} AS v{beside} FROM t{' GROUP BY k' if grouped else ''}"
    truth, sizes = real(of, text, grouped)
    made = plan(check(sql, of.schema, unit), unit, Terms(epsilon=epsilon, left_out=True))
    held, half, errors, noise = [], [], [], []
    for _ in range(RUNS):
        result = made(engine, rng=SecureRandom())
        values = [float(v) if v is not None else math.nan for v in result.table["v"].to_pylist()]
        keys = result.table["k"].to_pylist() if grouped else [""]
        for i, key in enumerate(keys):
            low, high = result.low["v"][i], result.high["v"][i]
            held.append(low <= truth[key] <= high)
            half.append((high - low) / 2)
            errors.append(abs(values[i] - truth[key]))
            noise.append(forced(of, made, result, column, sizes[key]))
    scale = float(np.mean(list(truth.values())))
    # A group without a number at all has an error of all of it.
    errors = [abs(scale) if math.isnan(error) else error for error in errors]
    middle, limit = float(np.median(half)), float(np.median(noise))
    of_error = middle / max(1e-12, float(np.quantile(errors, 0.95)))
    return Measured(
        float(np.mean(held)),
        middle / scale,
        of_error,
        middle / limit if limit else math.inf,
        float(np.mean(errors)) / scale,
    )


def real(of: Case, text: str, grouped: bool) -> tuple[dict[str, float], dict[str, float]]:
    t = of.table  # noqa: F841
    key, by = ("k", " GROUP BY k") if grouped else ("''", "")
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT {key}, {text}, COUNT(*) FROM t{by}").fetchall()
    return {k: float(v) for k, v, _ in rows}, {k: float(n) for k, _, n in rows}


# ------------------------------------------------------------------------------------------------ the page


def lines(of: Case) -> Iterator[str]:
    sizes = np.bincount(of.table["who"].to_numpy())
    groups = len(set(of.table["k"].to_pylist()))
    yield ""
    yield (
        f"**{of.name}**: {sizes.sum():,} rows of {(sizes > 0).sum():,}, at most {sizes.max():,} of one; "
        f"{groups} groups."
    )
    yield ""
    yield "| | " + " | ".join(f"ε = {e:g}: held | width | of error | of noise" for e in EPSILONS) + " |"
    yield "|---|" + "---:|" * (4 * len(EPSILONS))
    engine = Remembered(open_engine({"t": of.table}, of.schema))
    for grouped in (False, True):
        for column in AGGREGATES:
            cells = [measure(of, column, grouped, epsilon, engine) for epsilon in EPSILONS]
            yield f"| {column}{' by group' if grouped else ''} | {' | '.join(map(shown, cells))} |"
    engine.close()


def shown(cell: Measured) -> str:
    mark = "" if cell.good else "**"
    noise = "" if math.isinf(cell.of_noise) else f"{cell.of_noise:.2f}"
    return f"{mark}{cell.held:.0%}{mark} | {cell.width:.2%} | {mark}{cell.of_error:.2f}{mark} | {noise}"


def main() -> None:
    chosen = [arg for arg in sys.argv[1:] if not arg.startswith("--")]
    text = [HEAD.format(runs=RUNS)]
    for of in cases():
        if not chosen or any(name in of.name for name in chosen):
            for line in lines(of):
                text.append(line)
                print(line, flush=True)
    if "--print" not in sys.argv:
        write_section("intervals", "\n".join(text))


if __name__ == "__main__":
    main()
