"""Only people above the bound are looked up, and every integer is the one of looking up all: on three engines."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from deniable.sql.engines import Engine
from deniable.sql.plan.measures.measure import read_cells
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.plan.settled import Settled
from deniable.sql.read.query import check
from deniable.sql.schema.file import parse
from deniable.sql.write import contributions
from deniable.sql.write.contributions import Limit
from deniable.units import Unit
from tests.sql.engines.real import ENGINES, opened

BOUND = 3
UNIT = Unit.column("id", max_rows=BOUND)
SCHEMA = parse(
    "tables: {t: {unit: id, columns: {id: integer, region: {type: text, keys: [a, b, null]}, "
    "ward: {type: integer, keys: [1, 2]}, income: {type: integer, bounds: [0, 100]}, ok: boolean}}}"
)
QUERIES = [
    "SELECT region, COUNT(*), AVG(income) FROM t GROUP BY region",
    "SELECT region, ward, COUNT(income) FILTER (WHERE ok), SUM(income) FROM t GROUP BY region, ward",
    "SELECT region, ward, COUNT(*), VARIANCE(income) FROM t WHERE income < 90 GROUP BY ROLLUP (region, ward)",
]


def table(seed: int) -> pa.Table:
    """Some people above the bound, some at it, some below; keys on no list, and people without any that is."""
    draw = random.Random(seed)
    sizes = {person: draw.choice([1, 2, 3, 3, 4, 7, 40]) for person in range(25)} | {None: 5, 99: 6}
    lines = [
        {
            "id": person,
            "region": "z" if person == 99 else draw.choice(["a", "b", "z", None]),
            "ward": draw.choice([1, 2, 3, None]),
            "income": draw.choice([None, -5, 0, 17, 99, 10**12]),
            "ok": draw.choice([True, False, None]),
        }
        for person, size in sizes.items()
        for _ in range(size)
    ]
    types = {
        "id": pa.int64(),
        "region": pa.string(),
        "ward": pa.int64(),
        "income": pa.int64(),
        "ok": pa.bool_(),
    }
    return pa.Table.from_pylist(lines, pa.schema(list(types.items())))


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine = opened(request.param, {"t": table(1)}, SCHEMA)
    yield engine
    engine.close()


def caps(engine: Engine) -> tuple[int, ...]:
    """Up to which it is told what is left out; Spark takes seconds for each."""
    return (5,) if engine.dialect.name == "spark" else (0, 5, 1 << 30)


def integers(run: Settled, engine: Engine) -> list[Any]:
    """The sums of the public groups, of every grouping set, that are not 0."""
    query = run.plan.query
    sums = []
    for group in run.plan.sets:
        listed = set(run._combinations(group.keys))
        of = run._read_sums(group.keys, [query.keys[i].of.type for i in group.keys], engine)
        sums.append(
            {
                (measure, key): n
                for measure, each in of.items()
                for key, n in each.items()
                if n and key in listed
            }
        )
    return sums


def on_every_engine() -> Iterator[Any]:
    """Each query on each engine; Spark, which takes seconds for each, is asked one of them in `make test`."""
    for text in QUERIES:
        yield pytest.param("duckdb", text)
        yield pytest.param("postgres", text, marks=pytest.mark.needs("postgres"))
        more = [] if text == QUERIES[1] else [pytest.mark.soak]
        yield pytest.param("spark", text, marks=[pytest.mark.needs("spark"), *more])


@pytest.mark.parametrize(("engine", "text"), list(on_every_engine()), indirect=["engine"])
def test_integers_do_not_depend_on_who_is_looked_up(
    engine: Engine, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(check(text, SCHEMA, UNIT), UNIT, Terms(epsilon=1, delta=1e-6, left_out=True))
    classes = made.private_bounds.classes
    assert classes is not None
    runs = [replace(made.start, limit=replace(made.limit, most=most)) for most in caps(engine)]
    expected = [integers(run, engine) for run in runs]
    units = read_cells(engine.run(classes.statement(made.start.writer(engine.dialect))))
    assert min(units) == 0
    assert len(units) > 2

    monkeypatch.setattr(contributions, "LOOKED_UP_FROM", BOUND)
    assert [integers(run, engine) for run in runs] == expected
    sizes = made.start.read_sizes(engine)
    assert [integers(replace(run, sizes=sizes), engine) for run in runs] == expected
    for group, each in sizes.items():
        assert each.units(made.start._combinations(group), classes.edges) == units


def test_the_form_follows_what_is_declared(engine: Engine) -> None:
    for rows, looked_up in ((contributions.LOOKED_UP_FROM - 1, False), (contributions.LOOKED_UP_FROM, True)):
        unit = Unit.column("id", max_rows=rows)
        for left_out in (True, False):
            made = plan(
                check(QUERIES[0], SCHEMA, unit), unit, Terms(epsilon=1, delta=1e-6, left_out=left_out)
            )
            (statement,) = made.statements(engine.dialect)
            form = "UNION ALL" if left_out else "LEFT JOIN"
            assert (form in statement.select) is looked_up


def test_a_unit_weighs_no_more_than_before() -> None:
    """By brute force: what a person's rows weigh in either form is one number."""
    limit = Limit(True, contributions.LOOKED_UP_FROM, 1, contributions.ONE)
    for count in range(1, limit.rows + 1):
        assert contributions.row_weight(limit, count) == limit.one
        assert contributions.row_excess(replace(limit, most=100), count) == 0
