"""Holes that stood open in SQL under a budget, each as the claim that it is closed."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deniable.sql
from deniable.curator import Curator
from deniable.curator.answer import Answer
from deniable.errors import InvalidQuery
from deniable.guarantee import Budget
from deniable.sql.check import check
from deniable.sql.engines import Statement, open_engine
from deniable.sql.plan import plan
from deniable.sql.schema_file import parse
from deniable.sql.terms import Terms
from deniable.sql.weights import ONE, TOTAL, VALUE_BITS
from deniable.units import Unit

PERSON = Unit.column("id", max_rows=2)


def asked(source: Any, query: str, *, limit: float = 100_000, **terms: Any) -> Answer:
    with Curator.open(
        source, name="t", unit=PERSON, limit=Budget(limit, 1e-5), ledger="sqlite://", threads=1
    ) as curator:
        return curator.sql(query, **terms)


# ------------------------------------------------------------------------------------------------ 21: one home


def _numbers(path: Path) -> list[str]:
    """The names in capitals that a module gives to numbers."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and not any(
            isinstance(n, (ast.Name, ast.Call, ast.Dict)) for n in ast.walk(node.value)
        ):
            targets = [t for target in node.targets for t in getattr(target, "elts", [target])]
            numeric = any(isinstance(n, ast.Constant) and isinstance(n.value, int) for n in ast.walk(node.value))
            names += [t.id.strip("_") for t in targets if isinstance(t, ast.Name) and t.id.isupper() and numeric]
    return names


def test_a_number_that_a_proof_rests_on_has_one_home() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for path in Path(deniable.sql.__file__).parent.rglob("*.py"):
        for name in _numbers(path):
            homes[name].add(path.name)
    several = {name: files for name, files in homes.items() if len(files) > 1}
    # Versions of three engines, the 1 of a probability in keys, steps of two searches: different numbers with one name.
    assert several.keys() <= {"VERSIONS", "ONE", "STEPS"}, several
    assert homes["ONE"] == {"weights.py", "keys.py"}
    assert {name: homes[name] for name in ("TOTAL", "MAX_SCALE", "LENGTH")} == {
        "TOTAL": {"weights.py"},
        "MAX_SCALE": {"types.py"},
        "LENGTH": {"tree.py"},
    }


def test_prepared_and_fresh_weights_are_those_of_the_loss() -> None:
    schema = parse("tables: {t: {unit: id, columns: {id: integer, x: {type: integer, bounds: [0, 9]}}}}")
    people = [1] * 1 + [2] * 2 + [3] * 7 + [4] * 8
    engine = open_engine(pa.table({"id": people, "x": people}), schema, threads=1)
    engine.prepare(schema, PERSON)
    made = plan(check("SELECT SUM(x) FROM t", schema, PERSON), PERSON, Terms(epsilon=1))
    sums = engine.run(Statement((), 'SELECT id, CAST(SUM("_weight") AS BIGINT) AS w FROM "t" GROUP BY id')).to_pylist()
    assert max(row["w"] for row in sums) == made.limit.total == 2 * ONE
    assert made.limit.one == ONE
    engine.close()


def test_no_product_of_a_weight_and_a_value_passes_64_bits() -> None:
    assert TOTAL * 2 ** (VALUE_BITS - 1) < 2**63
    assert TOTAL * 2 ** (VALUE_BITS - 1) * 2**40 < 10**38


def test_more_rows_than_weights_can_hold_are_refused() -> None:
    unit = Unit.column("id", max_rows=2**41)
    schema = parse("tables: {t: {unit: id, columns: {id: integer}}}")
    with pytest.raises(InvalidQuery, match="at most 2\\^40"):
        plan(check("SELECT COUNT(*) FROM t", schema, unit), unit, Terms(epsilon=1))


# ------------------------------------------------------------------------------------------------ 29: numbers


def _people(n: int = 4000) -> pa.Table:
    rng = random.Random(1)
    whole = [rng.randrange(62) for _ in range(n)]
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "whole": pa.array(whole, pa.int64()),
            "real": pa.array(whole, pa.float64()),
            "k": pa.array([f"k{i % 3}" for i in range(n)]),
        }
    )


@pytest.mark.parametrize("statistic", ["STDDEV", "STDDEV_POP", "VAR_POP", "VARIANCE", "AVG", "SUM", "MEDIAN"])
@pytest.mark.parametrize("bounds", ["0, 1e200", "-1e308, 1e308", "-1e-300, 1e-300"])
def test_bounds_of_any_size_are_answered(statistic: str, bounds: str) -> None:
    answer = asked(_people(50), f"SELECT {statistic}(CLAMP(real, {bounds})) * 2 AS x FROM t", epsilon=1)
    assert answer.value.num_rows == 1


@pytest.mark.parametrize("epsilon", [5_000, 90_000])
def test_private_keys_are_released_at_any_epsilon(epsilon: int) -> None:
    answer = asked(_people(), "SELECT k, COUNT(*) AS n FROM t GROUP BY k", epsilon=epsilon)
    assert [(row["k"], round(row["n"])) for row in answer.value.to_pylist()] == [
        ("k0", 1334),
        ("k1", 1333),
        ("k2", 1333),
    ]


def test_private_keys_that_no_share_releases_are_refused_before_the_charge() -> None:
    with pytest.raises(InvalidQuery, match="nothing was charged"):
        asked(_people(50), "SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1e-9, delta=1e-40)


def test_discovered_bounds_of_whole_numbers_are_as_exact_as_of_floats() -> None:
    table = _people()
    for column in ("whole", "real"):
        answer = asked(
            table,
            f"SELECT SUM({column}) AS s, AVG({column}) AS a, STDDEV({column}) AS d FROM t",
            epsilon=20,
            discover=True,
        )
        row = answer.value.to_pylist()[0]
        assert abs(row["s"] - sum(table[column].to_pylist())) < 2_000, column
        assert abs(row["a"] - 30.5) < 1, column
        assert abs(row["d"] - 17.9) < 1, column
