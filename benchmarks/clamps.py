"""How far sums and averages of values without declared bounds are from the real answer: bounds found privately.

    DENIABLE_DATA=… python benchmarks/clamps.py           writes docs/benchmarks.md
    DENIABLE_DATA=… python benchmarks/clamps.py --print   prints only

Nine columns of five tables, ε = 1, 20 runs: the mean of |answer − real answer| as a share of the real answer, where the bound
on a person's rows is chosen privately too, and where eight rows count.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from _report import write_section
from deniable.randomness import SecureRandom
from deniable.sql.engines import Engine, open_engine
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.types import FLOAT, INTEGER
from deniable.units import Unit
from intervals import Remembered, _loaded, census, speakers

RUNS = 20
DIABETES = ("num_medications", "num_lab_procedures", "number_outpatient")
SCHEMA = Schema(
    (
        TableInfo(
            "t",
            (ColumnInfo("who", INTEGER, nulls=False), ColumnInfo("x", FLOAT, nulls=False)),
            unit="who",
        ),
    )
)


def columns() -> Iterator[tuple[str, Sequence[Any], Sequence[Any]]]:
    """A name, whose row it is, and the value."""
    t = _loaded("diabetes-hospitals")
    for name in DIABETES:
        yield f"diabetes-hospitals, {name}", t["patient_nbr"], t[name]
    t = _loaded("adult")
    for name in ("capital_gain", "hours_per_week"):
        yield f"Adult, {name}", t["fnlwgt"], t[name]
    t = _loaded("california-housing")
    place = [f"{a:.1f} {b:.1f}" for a, b in zip(t["longitude"], t["latitude"], strict=True)]
    for name in ("population", "total_rooms"):
        yield f"California housing, {name}", place, t[name]
    for name, of in (("lines by speaker, letters", speakers()), ("census-kdd, age", census())):
        yield name, of.table["who"].to_pylist(), of.table["x"].to_pylist()


def error(aggregate: str, real: float, unit: Unit, engine: Engine) -> float:
    text = f"SELECT {aggregate} AS v FROM t"
    mechanism = plan(check(text, SCHEMA, unit), unit, Terms(epsilon=1, left_out=True, discover=True))
    answers = [mechanism(engine, rng=SecureRandom()).table["v"][0].as_py() for _ in range(RUNS)]
    return float(np.mean([abs(float(answer or 0) - real) for answer in answers])) / abs(real)


def lines() -> Iterator[str]:
    yield "| column | largest | SUM | AVG | SUM, 8 rows count | AVG, 8 rows count |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, who, values in columns():
        ids = np.unique(np.asarray(who), return_inverse=True)[1].astype(np.int64)
        x = np.asarray(values, float)
        engine = Remembered(open_engine({"t": pa.table({"who": ids, "x": x})}, SCHEMA))
        errors = [
            error(aggregate, real, Unit.column("who", max_rows=rows), engine)
            for rows in (None, 8)
            for aggregate, real in (("SUM(x)", float(x.sum())), ("AVG(x)", float(x.mean())))
        ]
        engine.close()
        yield f"| {name} | {x.max():,.0f} | " + " | ".join(f"{each:.2%}" for each in errors) + " |"


def main() -> None:
    text = "## SQL: bounds of values that nobody declared\n\n" + "\n".join(lines())
    print(text)
    if "--print" not in sys.argv:
        write_section("clamps", text)


if __name__ == "__main__":
    main()
