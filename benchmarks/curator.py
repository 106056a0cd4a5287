"""SQL under a budget beside plain DuckDB and OpenDP: CPU seconds, peak memory,
milliseconds to a plan, and error.

    python benchmarks/curator.py             10 M rows, 1 M users, 50 regions; writes docs/benchmarks.md
    python benchmarks/curator.py --ours      without OpenDP, prints only
    python benchmarks/curator.py --rows 100  100 M rows from parquet (row level and user level, ours and DuckDB), prints only

Every measurement is a process of its own, so that its peak memory is its own, best of three. Plain DuckDB and
our engine read the same file, once a DuckDB file and once parquet: plain DuckDB is several times faster on
its own format, so one of them alone would not tell. OpenDP reads the parquet, in the environment .venv-bench
(or by the interpreter that DENIABLE_BENCH_PYTHON names), since its Polars is pinned. SmartNoise, which needs
another OpenDP, is measured if DENIABLE_BENCH_SMARTNOISE names an interpreter that has it, on a million rows:
at ten million it passes 4.8 GB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from _report import write_section
from deniable.randomness import SecureRandom
from deniable.sql.engines import open_engine
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.file import parse
from deniable.units import Unit

ROOT = Path(__file__).resolve().parent.parent
REGIONS, TOP, BOUND, EPSILON, RUNS = 50, 200_000, 4, 1.0, 10
SELECT = "SELECT region, COUNT(*) AS n, SUM(income) AS total, AVG(income) AS mean FROM visits"
QUERY = f"{SELECT} GROUP BY region"
FILTERED = f"{SELECT} WHERE income >= 1000 GROUP BY region"
ROW, USER = Unit.row(), Unit.column("user_id", max_rows=BOUND)
Measured = dict[str, Any]


def schema(unit: Unit) -> Schema:
    keys = ", ".join(f"region {i:02d}" for i in range(REGIONS))
    by = "unit: user_id, " if unit == USER else ""
    return parse(
        f"tables: {{visits: {{{by}columns: {{user_id: integer, region: {{type: text, length: 16, keys: "
        f"[{keys}]}}, income: {{type: integer, bounds: [0, {TOP}]}}}}}}}}"
    )


def generate(folder: Path, rows: int, *, table: bool, spread: bool = False) -> None:
    """Users and regions uniform, incomes skewed; the same rows in parquet and, if asked, in a DuckDB file.
    Users are numbered from 0, or, `spread`, known by numbers of 63 bits."""
    user = f"hash(range) % {rows // 10}"
    select = (
        f"SELECT CAST({f'hash({user}) >> 1' if spread else user} AS BIGINT) AS user_id, "
        f"format('region {{:02d}}', hash(range + {rows}) % {REGIONS}) AS region, "
        f"CAST({TOP} * pow((hash(range + {2 * rows}) % 1000000) / 1e6, 3) AS BIGINT) AS income FROM "
        f"range({rows})"
    )
    with duckdb.connect(
        str(folder / "visits.duckdb") if table else ":memory:", config={"threads": "2"}
    ) as connection:
        if table:
            connection.execute(f"CREATE TABLE visits AS {select}")
        what = "visits" if table else f"({select})"
        connection.execute(f"COPY (SELECT * FROM {what}) TO '{folder / 'visits.parquet'}' (FORMAT parquet)")


# ------------------------------------------------------------------------------------------------ one measurement


def timed(act: Callable[[], object], times: int = 3) -> Measured:
    """The least CPU seconds of `times`, of all threads, and this process's peak memory."""
    spent = []
    for _ in range(times):
        started = time.process_time()
        act()
        spent.append(time.process_time() - started)
    return {"cpu": min(spent), "memory": memory("VmHWM"), "held": memory("VmRSS")}


def memory(what: str) -> float:
    """Megabytes. Not getrusage: its maximum is inherited from the process that started this one."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{what}:")[1].split()[0]) / 1024


def plain(source: Path, sql: str) -> Measured:
    connection = duckdb.connect(":memory:", config={"threads": "2"})
    if source.suffix == ".duckdb":
        connection.execute(f"ATTACH '{source}' AS given (READ_ONLY)")
        connection.execute("CREATE VIEW visits AS SELECT * FROM given.visits")
    else:
        connection.execute(f"CREATE VIEW visits AS SELECT * FROM read_parquet('{source}')")
    return timed(lambda: connection.sql(sql).to_arrow_table())


def ours(source: Path, unit: Unit, *, prepare: bool = False, query: str = QUERY) -> Measured:
    declared = schema(unit)
    engine = open_engine(source, declared, threads=2)
    mechanism = plan(check(query, declared, unit), unit, Terms(epsilon=EPSILON))
    once = timed(lambda: engine.prepare(declared, unit), 1)["cpu"] if prepare else 0.0
    return timed(lambda: mechanism(engine, rng=SecureRandom())) | {"once": once}


def planning(_: Path) -> Measured:
    """Milliseconds from text to plan, after the first, by the clock of the CPU."""
    declared = schema(USER)
    act = lambda: plan(check(QUERY, declared, USER), USER, Terms(epsilon=EPSILON))  # noqa: E731
    return {"milliseconds": 1000 * timed(act, 50)["cpu"]}


def errors(source: Path) -> Measured:
    """Mean relative error of COUNT and AVG by region at user level: against the data,
    and against the bounded data."""
    declared = schema(USER)
    engine = open_engine(source, declared, threads=2)
    mechanism = plan(check(QUERY, declared, USER), USER, Terms(epsilon=EPSILON))
    answers = [mechanism(engine, rng=SecureRandom()).table.to_pylist() for _ in range(RUNS)]
    return compared(
        source, [{row["region"]: (row["n"], row["mean"]) for row in answer} for answer in answers]
    )


def off(given: float, true: float) -> float:
    return abs(given - true) / true


def compared(source: Path, answers: list[dict[str, tuple[float, float]]]) -> Measured:
    """`count` and `mean` against the data; `bounded` the count against what is left when
    each user counts for BOUND rows."""
    bounded = (
        f"WITH p AS (SELECT user_id, least(1, {BOUND} / count(*)) AS w FROM visits GROUP BY user_id) "
        "SELECT region, count(*), avg(income), sum(w) FROM visits JOIN p USING (user_id) GROUP BY region"
    )
    with duckdb.connect(str(source.with_suffix(".duckdb")), read_only=True) as connection:
        truth = {row[0]: row[1:] for row in connection.execute(bounded).fetchall()}
    pairs = [(answer[region], truth[region]) for answer in answers for region in truth]
    return {
        "count": sum(off(given[0], true[0]) for given, true in pairs) / len(pairs),
        "mean": sum(off(given[1], true[1]) for given, true in pairs) / len(pairs),
        "bounded": sum(off(given[0], true[2]) for given, true in pairs) / len(pairs),
    }


USERS = "SELECT count(*), max(n) FROM (SELECT user_id, count(*) AS n FROM visits GROUP BY user_id)"
CASES: dict[str, Callable[[Path], Measured]] = {
    "plain": lambda source: plain(source, QUERY),
    "plain filtered": lambda source: plain(source, FILTERED),
    "users": lambda source: plain(source, USERS),
    "row": lambda source: ours(source, ROW),
    "user": lambda source: ours(source, USER),
    "prepared": lambda source: ours(source, USER, prepare=True),
    "prepared filtered": lambda source: ours(source, USER, prepare=True, query=FILTERED),
    "planning": planning,
    "errors": errors,
}


def measured(case: str, source: Path) -> Measured:
    """One case in a process of its own."""
    return _said([sys.executable, __file__, "--case", case, str(source)])


def opendp(source: Path) -> Measured:
    python = os.environ.get("DENIABLE_BENCH_PYTHON", str(ROOT / ".venv-bench" / "bin" / "python"))
    if not Path(python).exists():
        raise SystemExit(f"{python} is not there: make bench installs the peers (or run with --ours).")
    found = _said(
        [python, str(ROOT / "benchmarks" / "peers" / "opendp_sql.py"), str(source.with_suffix(".parquet"))]
    )
    answers = [{region: tuple(pair) for region, pair in answer.items()} for answer in found["answers"]]
    return found | {"errors": compared(source, answers)}


def smartnoise(folder: Path) -> list[str]:
    """Beside SmartNoise on a million rows, if it is there."""
    python = os.environ.get("DENIABLE_BENCH_SMARTNOISE")
    if python is None:
        return []
    small = folder / "million"
    small.mkdir()
    generate(small, 1_000_000, table=True)
    source = small / "visits.parquet"
    peer = _said([python, str(ROOT / "benchmarks" / "peers" / "smartnoise_sql.py"), str(source)])
    base, row, user = (measured(case, source) for case in ("plain", "row", "user"))
    error, theirs = (
        measured("errors", source),
        [{k: tuple(v) for k, v in each.items()} for each in peer["answers"]],
    )
    lines = [
        "",
        "SmartNoise 1.0.10 on a million rows of the same kind, from a pandas frame; the others from parquet:",
        "",
    ]
    lines += [
        "| | CPU s | ÷ plain | peak MB | COUNT, of the bounded rows | AVG |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, case, off_by in (
        ("plain DuckDB, by region", base, None),
        ("Deniable, row level", row, None),
        ("SmartNoise, row level", peer["row"], None),
        (f"Deniable, user level ({BOUND} rows each)", user, error),
        (f"SmartNoise, user level ({BOUND} rows each)", peer["user"], compared(source, theirs)),
    ):
        ends = f"{off_by['bounded']:.3%} | {off_by['mean']:.3%}" if off_by else "|"
        lines.append(
            f"| {name} | {case['cpu']:.3f} | {case['cpu'] / base['cpu']:.1f} | {case['memory']:,.0f} | "
            f"{ends} |"
        )
    return lines


def _said(command: list[str]) -> Measured:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


# ------------------------------------------------------------------------------------------------ the page


def table(found: dict[str, Measured], peer: Measured | None) -> list[str]:
    base, users = found["plain"], found["users"]
    names = {
        "plain": "plain DuckDB, by region",
        "users": "plain DuckDB, bare GROUP BY user_id",
        "row": "Deniable, row level",
        "user": f"Deniable, user level ({BOUND} rows each)",
        "prepared": "Deniable, user level, prepared",
    }
    lines = {name: found[case] for case, name in names.items()}
    lines |= (
        {}
        if peer is None
        else {"OpenDP, row level": peer["row"], f"OpenDP, user level ({BOUND} rows each)": peer["user"]}
    )
    rows = ["| | CPU s | ÷ plain | ÷ GROUP BY user_id | peak MB |", "|---|---:|---:|---:|---:|"]
    for name, case in lines.items():
        cpu = case["cpu"]
        rows.append(
            f"| {name} | {cpu:.2f} | {cpu / base['cpu']:.2f} | {cpu / users['cpu']:.2f} | "
            f"{case['memory']:,.0f} |"
        )
    return rows


def error_table(mine: Measured, peer: Measured | None) -> list[str]:
    rows = ["| | COUNT | COUNT, of the bounded rows | AVG |", "|---|---:|---:|---:|"]
    for name, found in (("Deniable", mine), *((("OpenDP", peer["errors"]),) if peer else ())):
        rows.append(f"| {name} | {found['count']:.3%} | {found['bounded']:.4%} | {found['mean']:.4%} |")
    return rows


def chance(peer: Measured) -> str:
    """What of a peer's error is not its noise."""
    return (
        f"OpenDP keeps {BOUND} rows of a user at random, and most of its errors in the last two columns come "
        f"from that choice: its noise on a count has the scale {peer['count_scale']:g}, ours, shared with "
        "SUM and AVG, is what the second column shows."
    )


def page(folder: Path, peer: bool) -> str:
    generate(folder, 10_000_000, table=True)
    native, parquet = folder / "visits.duckdb", folder / "visits.parquet"
    speeds = ("plain", "users", "row", "user", "prepared")
    on_native, on_parquet = (
        {case: measured(case, source) for case in speeds} for source in (native, parquet)
    )
    other = opendp(native) if peer else None
    return "\n".join(
        [
            "## SQL",
            "",
            "10 M rows, 1 M users, 50 regions; COUNT, SUM and AVG of one column by region, two threads, each "
            "measurement in a process of its own, best of three. From a DuckDB file:",
            "",
            *table(on_native, None),
            "",
            "From parquet:",
            "",
            *table(on_parquet, other),
            "",
            prepared(on_native, native),
            "",
            spread(folder),
            "",
            f"From text to plan: {measured('planning', native)['milliseconds']:.1f} ms.",
            "",
            f"Mean relative error by region at user level, ε = {EPSILON:g}, {RUNS} runs. Users have 10 rows "
            f"in the mean and {BOUND} count, so a count misses most of the rows by design; the second column "
            "leaves that out:",
            "",
            *error_table(measured("errors", native), other),
            *([] if other is None else ["", chance(other)]),
            *(smartnoise(folder) if peer else []),
        ]
    )


def prepared(found: dict[str, Measured], native: Path) -> str:
    """What preparing costs, and a query that the stored sums do not hold."""
    once, held = found["prepared"]["once"], found["prepared"]["held"] / found["users"]["held"]
    base, ready = measured("plain filtered", native), measured("prepared filtered", native)
    on_parquet = measured("plain filtered", native.with_suffix(".parquet"))
    return (
        f"Preparing took {once:.2f} CPU s, once, and afterwards the process holds {held:.2f} times the "
        "memory of one that has run the bare GROUP BY user_id. It sums beforehand what the query above asks. "
        "With WHERE income >= 1000, which these sums do not answer, the stored weights are read: "
        f"{ready['cpu']:.2f} CPU s, plain DuckDB {base['cpu']:.2f} on its own file "
        f"({ready['cpu'] / base['cpu']:.2f} times) and {on_parquet['cpu']:.2f} on parquet "
        f"({ready['cpu'] / on_parquet['cpu']:.2f} times)."
    )


def spread(folder: Path) -> str:
    """Users whose numbers cannot be positions in a table."""
    wide = folder / "spread"
    wide.mkdir()
    generate(wide, 10_000_000, table=False, spread=True)
    users, user = (measured(case, wide / "visits.parquet") for case in ("users", "user"))
    return (
        "These are queries that tell nothing of what the bound leaves out; those that do are below, under SQL by "
        "people. Users are numbered 0 to 999,999 here, and whole numbers of up to 20 bits are grouped by position. "
        f"Known by numbers of 63 bits instead, on parquet: user level {user['cpu']:.2f} CPU s, bare GROUP BY "
        f"user_id {users['cpu']:.2f} ({user['cpu'] / users['cpu']:.2f} times)."
    )


def large(folder: Path, millions: int) -> str:
    generate(folder, millions * 1_000_000, table=False)
    source = folder / "visits.parquet"
    found = {case: measured(case, source) for case in ("plain", "users", "row", "user")}
    lines = [
        f"{case:6} {case_found['cpu']:8.2f} CPU s {case_found['memory']:8,.0f} MB"
        for case, case_found in found.items()
    ]
    size = source.stat().st_size / 2**20
    return "\n".join([f"{millions} M rows from {size:,.0f} MB of parquet", *lines])


def main() -> None:
    if "--case" in sys.argv:
        case, source = sys.argv[2:4]
        print(json.dumps(CASES[case](Path(source))))
        return
    with tempfile.TemporaryDirectory() as name:
        if "--rows" in sys.argv:
            print(large(Path(name), int(sys.argv[sys.argv.index("--rows") + 1])))
            return
        text = page(Path(name), peer="--ours" not in sys.argv)
    print(text)
    if "--ours" not in sys.argv:
        write_section("curator", text)


if __name__ == "__main__":
    main()
