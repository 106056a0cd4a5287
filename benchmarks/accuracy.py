"""Mean error against the real answer, of all rows, beside OpenDP and SmartNoise with the same declared metadata.

    DENIABLE_DATA=… python benchmarks/accuracy.py           writes docs/benchmarks.md
    DENIABLE_DATA=… python benchmarks/accuracy.py --ours    without peers, prints only

Three tables, each as (who, k, x): visits of diabetics by patient, a census by its instance weight, generated taxi rides by a
driver, of whom a few have very many. Declared are the bounds of x, the values of k, and that there are no NULLs; how many rows a
person has is not. Ours is asked by the default path, with no bound said; and, as its peers must be, with a bound k on a person's
rows: each gets the one of 1, 2, 4, …, 64 that is best for each column in hindsight, which nobody could choose without looking.
(For peers it is foreseen from what they cut and the noise they state, and then measured.)

The error of a column is the mean over runs and groups of |answer − real answer|, as a share of the mean real answer; that of the
median is in its own measure. OpenDP runs in the environment .venv-bench (or by DENIABLE_BENCH_PYTHON), SmartNoise by
DENIABLE_BENCH_SMARTNOISE.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from _report import write_section
from deniable.datasets import load
from deniable.datasets.readers import FileTable
from deniable.randomness import SecureRandom
from deniable.sql.engines import open_engine
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Result
from deniable.sql.types import INTEGER, TEXT
from deniable.units import Unit

ROOT = Path(__file__).resolve().parent.parent
EPSILON, RUNS = 1.0, 20
BOUNDS = [1, 2, 4, 8, 16, 32, 64]
COUNTS = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
BOTH = "SELECT k, COUNT(*) AS n, SUM(x) AS total, AVG(x) AS mean FROM t GROUP BY k"
MEDIAN = "SELECT MEDIAN(x) AS m FROM t"
QUERIES = {"counts": COUNTS, "both": BOTH, "median": MEDIAN}
COLUMNS = ("COUNT alone", "COUNT", "SUM", "AVG", "MEDIAN")
HEAD = """## SQL: how far from the real answer

`python benchmarks/accuracy.py`, ε = {epsilon:g} a query, {runs} runs: the mean of |answer − real answer|, that of all rows, as a
share of the mean real answer (of MEDIAN, of the whole table, in its own measure). COUNT alone is one query by group; COUNT, SUM
and AVG together are another. Everybody is told the bounds of the values, the keys and that there are no NULLs. Ours is the
default: no bound on a person's rows is said, and a quarter of ε goes to choosing one and to telling what it leaves out. Then all
get the best bound k of 1, 2, 4, …, 64 for each column, in hindsight, which is more than anybody knows who may not look (for peers
it is foreseen from what they cut and the noise they state, and then measured)."""
Errors = dict[str, float]
Numbers = dict[str, list[float]]
Bounds = dict[str, list[int]]


@dataclass(frozen=True)
class Case:
    """A table of `who`, `k` and `x`, whose values are whole numbers from 0 to `top`."""

    name: str
    table: pa.Table
    top: int

    @property
    def keys(self) -> list[str]:
        return sorted(set(self.table["k"].to_pylist()))

    @property
    def schema(self) -> Schema:
        who = ColumnInfo("who", INTEGER, nulls=False)
        key = ColumnInfo("k", TEXT, keys=tuple(self.keys), nulls=False)
        value = ColumnInfo("x", INTEGER, Fraction(0), Fraction(self.top), nulls=False)
        return Schema((TableInfo("t", (who, key, value), unit="who"),))


# ------------------------------------------------------------------------------------------------ the tables


def case(name: str, source: pa.Table, who: pa.Array, key: str, value: str, top: int) -> Case:
    ids = np.unique(np.asarray(who), return_inverse=True)[1]
    keys = pa.array([str(k).strip() for k in source[key].to_pylist()])
    return Case(name, pa.table({"who": ids.astype(np.int64), "k": keys, "x": source[value]}), top)


def diabetes() -> Case:
    table = _loaded("diabetes-hospitals")
    return case("diabetes-hospitals by patient", table, table["patient_nbr"], "age", "num_medications", 81)


def census() -> Case:
    table = _loaded("census-kdd")
    return case("census-kdd by instance weight", table, table["instance_weight"], "education", "age", 90)


def _loaded(name: str) -> pa.Table:
    found = load(name)
    assert isinstance(found, FileTable)
    return found.table


def taxi(rides: int = 200_000) -> Case:
    """A driver's number of rides has a tail of power 1.2, at most 2,000; fares and boroughs differ by driver."""
    rng = np.random.default_rng(16)
    sizes = np.minimum(np.floor(rng.pareto(1.2, rides) + 1), 2_000).astype(int)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), rides)) + 1]
    who = np.repeat(np.arange(len(sizes)), sizes)[:rides]
    home = rng.integers(0, 5, len(sizes))[who]
    borough = np.where(rng.random(len(who)) < 0.6, home, rng.integers(0, 5, len(who)))
    fares = np.minimum(rng.gamma(3, 6 + home, len(who)), 100).astype(np.int64)
    names = np.array(["Bronx", "Brooklyn", "Manhattan", "Queens", "Staten Island"])[borough]
    return Case("taxi, generated, by driver", pa.table({"who": who, "k": names.tolist(), "x": fares}), 100)


# ------------------------------------------------------------------------------------------------ answers


def real(of: Case) -> tuple[Numbers, float]:
    """The counts and sums of every group, and the median of all."""
    t = of.table  # noqa: F841
    with duckdb.connect() as connection:
        groups = connection.execute("SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k").fetchall()
        found = connection.execute("SELECT quantile_disc(x, 0.5) FROM t").fetchall()
    return {k: [float(n), float(total)] for k, n, total in groups}, float(found[0][0])


def ours(of: Case) -> Errors:
    """By the default path: no bound on a person's rows is said."""
    unit, engine, truth = Unit.column("who"), open_engine({"t": of.table}, of.schema), real(of)
    found: Errors = {}
    for query, text in QUERIES.items():
        made = plan(check(text, of.schema, unit), unit, Terms(epsilon=EPSILON, left_out=True))
        found |= errors(query, [_numbers(made(engine, rng=SecureRandom())) for _ in range(RUNS)], *truth)
    return found


def ours_bounded(of: Case) -> dict[tuple[str, int], Errors]:
    """With the bounds that peers are given, and all of ε for the bounded answer."""
    engine, truth = open_engine({"t": of.table}, of.schema), real(of)
    found = {}
    for query, text in QUERIES.items():
        for bound in BOUNDS:
            unit = Unit.column("who", max_rows=bound)
            terms = Terms(epsilon=EPSILON, bracket=query != "median")
            exact = plan(check(text, of.schema, unit), unit, terms).measure(engine, "0")
            answers = [_numbers(exact.release(SecureRandom())) for _ in range(RUNS)]
            found[query, bound] = errors(query, answers, *truth)
    return found


def _numbers(result: Result) -> Numbers:
    rows = result.table.to_pylist()
    return {row.get("k", ""): [float(v or 0) for name, v in row.items() if name != "k"] for row in rows}


def errors(query: str, answers: list[Numbers], truth: Numbers, middle: float) -> Errors:
    """By column, over all runs."""
    if query == "median":
        return {"MEDIAN": float(np.mean([abs(a[""][0] - middle) for a in answers]))}
    pairs = [(a[k], truth[k]) for a in answers for k in truth]
    counts = _share([given[0] for given, _ in pairs], [t[0] for _, t in pairs])
    if query == "counts":
        return {"COUNT alone": counts}
    sums = _share([given[1] for given, _ in pairs], [t[1] for _, t in pairs])
    return {
        "COUNT": counts,
        "SUM": sums,
        "AVG": _share([_mean(g) for g, _ in pairs], [_mean(t) for _, t in pairs]),
    }


def _share(given: list[float], true: list[float]) -> float:
    return float(np.mean(np.abs(np.subtract(given, true))) / np.mean(true))


def _mean(given: list[float]) -> float:
    """Ours is released as such; a peer's is the quotient of its sum and count."""
    return given[2] if len(given) > 2 else given[1] / max(1.0, given[0])


# ------------------------------------------------------------------------------------------------ peers


def repeated(of: Case) -> pa.Table:
    """The table many times, each with its own people and keys."""
    people = int(of.table["who"].to_numpy().max()) + 1
    keys = np.array(of.table["k"].to_pylist())
    parts = [
        {
            "who": of.table["who"].to_numpy() + run * people,
            "k": np.char.add(f"{run}|", keys),
            "x": of.table["x"].to_numpy(),
            "run": np.full(len(keys), str(run)),
        }
        for run in range(RUNS)
    ]
    return pa.table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def peer(python: str, script: str, of: Case, folder: Path, bounds: Bounds) -> dict[tuple[str, int], Errors]:
    """The errors of each query at each bound."""
    source, said = folder / "t.parquet", folder / "case.json"
    if not source.exists():
        pq.write_table(repeated(of), source)
    runs = [str(run) for run in range(RUNS)]
    keys = [f"{run}|{key}" for run in runs for key in of.keys]
    about = {"keys": keys, "runs": runs, "top": of.top, "epsilon": EPSILON, "bounds": bounds}
    said.write_text(json.dumps(about), encoding="utf-8")
    command = [python, str(ROOT / "benchmarks" / "peers" / script), str(source), str(said)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    truth = real(of)
    return {
        (each["query"], each["bound"]): errors(each["query"], _by_run(each["answers"]), *truth)
        for each in json.loads(done.stdout.splitlines()[-1])
    }


def _by_run(answers: Numbers) -> list[Numbers]:
    made: list[Numbers] = [{} for _ in range(RUNS)]
    for name, numbers in answers.items():
        run, _, key = name.partition("|")
        made[int(run)][key] = numbers
    return made


def best(found: dict[tuple[str, int], Errors]) -> dict[str, tuple[float, int]]:
    """The least error of each column, and at which bound."""
    made: dict[str, tuple[float, int]] = {}
    for (_, bound), by_column in found.items():
        for column, error in by_column.items():
            made[column] = min(made.get(column, (np.inf, 0)), (error, bound))
    return made


def foreseen(of: Case) -> Bounds:
    """The bounds at which a peer's error is least for some column, by what it cuts and the noise that it says it adds; so that
    it need not run at all of them. (It keeps so many rows of a person at random: in the mean, each weighs min(1, k/n).)"""
    truth, middle = real(of)
    found = {}
    for bound in BOUNDS:
        for query, parts in (("counts", 1), ("both", 2)):
            kept, scale = _kept(of, bound), bound * parts / EPSILON
            answers = [
                {
                    k: [n + scale * noise[0], s + scale * of.top * noise[1]]
                    for (k, (n, s)), noise in _drawn(kept, seed)
                }
                for seed in range(100)
            ]
            found[query, bound] = errors(query, answers, truth, middle)
    wanted = {"COUNT alone": "counts", "COUNT": "both", "SUM": "both", "AVG": "both"}
    pairs = {(wanted[column], bound) for column, (_, bound) in best(found).items()}
    return {query: sorted(bound for q, bound in pairs if q == query) for query in ("counts", "both")} | {
        "median": [1, 4]
    }


def _drawn(kept: Numbers, seed: int) -> Iterator[tuple[tuple[str, list[float]], Any]]:
    return zip(kept.items(), np.random.default_rng(seed).laplace(size=(len(kept), 2)), strict=True)


def _kept(of: Case, bound: int) -> Numbers:
    t = of.table  # noqa: F841
    weights = f"WITH p AS (SELECT who, least(1.0, {bound} / COUNT(*)) AS w FROM t GROUP BY who) "
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"{weights} SELECT k, SUM(w), SUM(w * x) FROM t JOIN p USING (who) GROUP BY k"
        )
        return {k: [float(n), float(total)] for k, n, total in rows.fetchall()}


# ------------------------------------------------------------------------------------------------ the page


def line(name: str, found: dict[str, tuple[float, int]] | Errors) -> str:
    cells = []
    for column in COLUMNS:
        error = found.get(column, "")
        bound = f" (k = {error[1]})" if isinstance(error, tuple) else ""
        number = error[0] if isinstance(error, tuple) else error
        if number == "":
            cells.append("")
        else:
            cells.append((f"{number:.2f}" if column == "MEDIAN" else f"{number:.2%}") + bound)
    return f"| {name} | {' | '.join(cells)} |"


def section(of: Case, with_peers: bool) -> list[str]:
    sizes = np.bincount(of.table["who"].to_numpy())
    shape = f"{sizes.sum():,} rows of {(sizes > 0).sum():,}, at most {sizes.max():,} of one; {len(of.keys)} groups"
    lines = [
        "",
        f"**{of.name}**: {shape}.",
        "",
        f"| | {' | '.join(COLUMNS)} |",
        "|---|---:|---:|---:|---:|---:|",
        line("Deniable, as it comes", ours(of)),
        line("Deniable, best k", best(ours_bounded(of))),
    ]
    return lines if not with_peers else [*lines, *beside(of)]


def beside(of: Case) -> list[str]:
    opendp = os.environ.get("DENIABLE_BENCH_PYTHON", str(ROOT / ".venv-bench" / "bin" / "python"))
    peers = {"OpenDP": (opendp, "opendp_accuracy.py")}
    if "DENIABLE_BENCH_SMARTNOISE" in os.environ:
        peers["SmartNoise"] = (os.environ["DENIABLE_BENCH_SMARTNOISE"], "smartnoise_accuracy.py")
    bounds = foreseen(of)
    with tempfile.TemporaryDirectory() as folder:
        return [
            line(f"{name}, best k", best(peer(python, script, of, Path(folder), bounds)))
            for name, (python, script) in peers.items()
        ]


def main() -> None:
    with_peers = "--ours" not in sys.argv
    head = HEAD.format(epsilon=EPSILON, runs=RUNS)
    lines = [line for make in (diabetes, census, taxi) for line in section(make(), with_peers)]
    text = "\n".join([head, *lines])
    print(text)
    if with_peers:
        write_section("accuracy", text)


if __name__ == "__main__":
    main()
