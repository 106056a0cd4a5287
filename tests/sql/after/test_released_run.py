"""What a plain answer keeps for other texts: enough to make its block as it would have been made at once, and
nothing that was not released."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from deniable.curator import Curator
from deniable.curator.answers import kept as kept_texts
from deniable.curator.answers.kept import KeptText
from deniable.datasets.people import DIAGNOSES
from deniable.datasets.visits import visits
from deniable.errors import BudgetExceeded
from deniable.guarantee import Budget
from deniable.ledger.releases import Kept
from deniable.loss import exact
from deniable.randomness import SeededRandom
from deniable.sql.after.canonical import OwnBlock, own_block
from deniable.sql.after.release import (
    ReleasedBlock,
    ReleasedRun,
    block_of_run,
    block_plan,
    released_block,
    run_serves,
)
from deniable.sql.after.split import split_query
from deniable.sql.arrays import unpack_table
from deniable.sql.engines import Engine
from deniable.sql.plan.exact import Exact
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.plan.settled import Settled
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.types import DATE, INTEGER, TEXT, decimal
from deniable.units import Unit
from tests.sql.engines import real

TABLE = TableInfo(
    "visits",
    (
        ColumnInfo("patient_id", INTEGER),
        ColumnInfo("days", INTEGER, Fraction(0), Fraction(60)),
        ColumnInfo("age", INTEGER),
        ColumnInfo("price", decimal(2), Fraction(0), Fraction(1000)),
        ColumnInfo("diagnosis", TEXT, keys=DIAGNOSES),
        ColumnInfo("sex", TEXT, keys=("F", "M")),
        ColumnInfo("ward", TEXT),
        ColumnInfo("admitted", DATE),
    ),
    unit="patient_id",
)
SCHEMA = Schema((TABLE,))
UNITS = {"row": Unit.row(), "four": Unit.column("patient_id", max_rows=4), "any": Unit.column("patient_id")}
TEXTS = {
    "two keys": "SELECT sex, diagnosis, AVG(days) AS d, COUNT(*) AS n FROM visits GROUP BY sex, diagnosis",
    "no key": "SELECT SUM(price) / COUNT(*) AS p, COUNT(DISTINCT ward) AS w FROM visits",
    "quantile": "SELECT sex, SUM(days) AS s, MEDIAN(days) AS m, MAX(days) AS x FROM visits GROUP BY sex",
    "rollup": "SELECT sex, diagnosis, VARIANCE(days) AS v FROM visits GROUP BY ROLLUP (diagnosis, sex)",
    "private": "SELECT ward, date_trunc('year', admitted) AS y, COUNT(*) AS n FROM visits GROUP BY ALL",
    "having": "SELECT sex, AVG(days) AS d FROM visits GROUP BY sex HAVING COUNT(*) > 10 ORDER BY d LIMIT 1",
    "found": "SELECT sex, SUM(age) AS a, SUM(days) AS d, COUNT(*) AS n FROM visits GROUP BY sex",
}
RANKED = "SELECT diagnosis, COUNT(*) AS n, RANK() OVER (ORDER BY n DESC) AS r FROM visits GROUP BY diagnosis"
PLAIN = "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    rows = visits(1500)
    price = pa.array([Decimal(cost % 1000) for cost in rows.column("cost").to_pylist()], pa.decimal128(9, 2))
    columns = rows.append_column("price", price).select([column.name for column in TABLE.columns])
    connected = real.opened("duckdb", {"visits": columns}, SCHEMA)
    yield connected
    connected.close()


def planned(text: str, unit: Unit, **terms: Any) -> tuple[Plan, OwnBlock, Plan]:
    """A plain text, what it is as a block, and that block as another text's."""
    query, stated = (
        check(text, SCHEMA, unit),
        Terms(**({"epsilon": 1, "delta": 1e-6, "discover": True} | terms)),
    )
    own, block = own_block(query), split_query(text, SCHEMA, unit, apart=True).blocks[0]
    assert own is not None
    return plan(query, unit, stated), own, plan(block, unit, stated)


def measured(of: Plan, engine: Engine) -> tuple[Settled, Exact]:
    run = of.settle(engine, SeededRandom(3))
    return run, run.measure(engine, "5")


def kept(run: ReleasedRun) -> Any:
    return json.loads(json.dumps(run.to_dict()))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", TEXTS)
def test_the_block_is_the_one_that_would_have_been_made_at_once(name: str, unit: str, engine: Engine) -> None:
    mine, own, theirs = planned(TEXTS[name], UNITS[unit])
    run, integers = measured(mine, engine)
    groups = integers.groups(SeededRandom(4))
    said = kept(ReleasedRun.from_groups(block_plan(run.plan, own), own, run, groups))
    moved = [replace(group, keys=tuple(group.keys[i] for i in own.keys)) for group in groups]
    at_once = released_block(replace(run.public, plan=block_plan(run.plan, own)), moved)
    assert run_serves(said, theirs)
    assert groups
    for reader in (theirs, block_plan(mine, own)):
        assert_same(block_of_run(ReleasedRun.from_dict(said), reader), at_once)


def assert_same(block: ReleasedBlock, other: ReleasedBlock) -> None:
    assert block.table.equals(other.table)
    assert block.limits.keys() == other.limits.keys()
    for level, sides in block.limits.items():
        for mine, theirs in zip(sides, other.limits[level], strict=True):
            assert str(mine.to_pydict()) == str(theirs.to_pydict())  # as texts: NaN is NaN
    assert (block.noises, block.bounds, block.bounding) == (other.noises, other.bounds, other.bounding)


def test_the_noise_that_was_drawn_is_kept_not_planned_again(engine: Engine) -> None:
    mine, own, _ = planned(TEXTS["two keys"], UNITS["row"])
    run, integers = measured(mine, engine)
    said = kept(
        ReleasedRun.from_groups(block_plan(run.plan, own), own, run, integers.groups(SeededRandom(4)))
    )
    _, _, otherwise = planned(TEXTS["two keys"], UNITS["row"], epsilon=8)
    by_others = block_of_run(ReleasedRun.from_dict(said), otherwise)
    assert_same(by_others, block_of_run(ReleasedRun.from_dict(said), block_plan(mine, own)))
    assert not run_serves(said, planned(TEXTS["quantile"], UNITS["row"])[2])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", ["two keys", "no key", "rollup", "found"])
def test_no_integer_before_noise_is_kept(name: str, unit: str, engine: Engine) -> None:
    """At an ε so small that the noise drawn here is never 0, nor one integer plus noise another."""
    mine, own, _ = planned(TEXTS[name], UNITS[unit], epsilon=1e-3)
    run, integers = measured(mine, engine)
    said = kept(
        ReleasedRun.from_groups(block_plan(run.plan, own), own, run, integers.groups(SeededRandom(4)))
    )
    secrets = {abs(n) for each in integers.integers() for part in each.parts for n in part.values()}
    classes = mine.private_bounds.classes
    if classes is not None:
        secrets |= set(run._units(classes, run.sizes, engine).values())
    large = {n for n in secrets if n > 100}
    assert large
    assert not large & {abs(n) for n in numbers_in(said)}


def numbers_in(said: Any) -> Iterator[int]:
    """All integers, those in texts too, but for what is declared: grids, noises and the limit."""
    if isinstance(said, Mapping):
        for name, value in said.items():
            if name == "keys":
                assert all(column.type == pa.string() for column in unpack_table(value).columns)
            elif name not in ("grids", "noises", "limit", "layout"):
                yield from numbers_in(value)
    elif isinstance(said, list):
        for value in said:
            yield from numbers_in(value)
    elif isinstance(said, (int, float)):
        yield int(said)


def test_grids_noises_and_limits_are_those_of_the_plan_or_of_released_numbers(engine: Engine) -> None:
    """Where nothing is found privately they are known before any data."""
    for name in ("two keys", "quantile", "rollup"):
        mine, own, _ = planned(TEXTS[name], UNITS["row"])
        run, integers = measured(mine, engine)
        said = kept(
            ReleasedRun.from_groups(block_plan(run.plan, own), own, run, integers.groups(SeededRandom(4)))
        )
        before = kept(ReleasedRun.from_groups(block_plan(mine, own), own, mine.start, []))
        same = ("layout", "noises", "grids", "limit", "crowd", "bounds")
        assert {part: said[part] for part in same} == {part: before[part] for part in same}
        assert said.keys() - same == {"keys", "groups"}


# ------------------------------------------------------------------------------------------- in a ledger


@pytest.fixture
def opened() -> Iterator[Callable[..., Curator]]:
    curators: list[Curator] = []

    def open_(**changes: Any) -> Curator:
        how: dict[str, Any] = {"name": "visits", "unit": Unit.row(), "limit": Budget(1, 1e-6)}
        how |= {"ledger": "sqlite://", "bounds": {"days": (0, 60)}, "keys": {"diagnosis": DIAGNOSES}}
        curators.append(Curator.open(visits(300), **(how | {"rng": SeededRandom(1)} | changes)))
        return curators[-1]

    yield open_
    for curator in curators:
        curator.close()


def test_blocks_that_were_kept_as_tables_are_still_read(engine: Engine) -> None:
    """As the plain text's answer and its block were kept before: both in full."""
    mine, own, theirs = planned(TEXTS["two keys"], UNITS["row"])
    run, integers = measured(mine, engine)
    released = ReleasedRun.from_groups(block_plan(run.plan, own), own, run, integers.groups(SeededRandom(4)))
    block = block_of_run(released, theirs)
    content = {"format": 1, "unit": Unit.row().to_dict(), "blocks": [block.to_dict()], "confidence": 0.95}
    content |= {
        "epsilon": 1.0,
        "delta": 0.0,
        "seconds": 0.1,
        "answers": {"question": '{"value": "its answer"}'},
    }
    row = Kept.from_release("key", "1:a", mine.loss, exact(0), True, json.dumps(content), Unit.row())
    assert not KeptText(row).has_run
    assert KeptText(row).answer_to("question") == {"value": "its answer"}
    assert_same(KeptText(row).read_blocks("1:a", lambda: theirs).release.value[0], block)


def test_a_run_that_cannot_be_read_costs_again(
    opened: Callable[..., Curator], monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = opened()
    curator.sql(PLAIN, epsilon=1)
    assert curator.preview(RANKED, epsilon=1).free
    monkeypatch.setattr(kept_texts, "run_serves", lambda said, plan: False)  # as another version's plan would
    assert not curator.preview(RANKED, epsilon=1).free
    with pytest.raises(BudgetExceeded):
        curator.sql(RANKED, epsilon=1)
    assert curator.sql(PLAIN, epsilon=1).again


def test_a_plain_answer_keeps_no_second_table(opened: Callable[..., Curator]) -> None:
    inquiry = opened().ask(PLAIN, epsilon=1)
    inquiry.answer()
    quote, _ = inquiry._look()
    record = inquiry._desk.account.view(quote.keys[0]).kept
    assert record is not None
    content = json.loads(record.content)
    assert "blocks" not in content
    assert len(content["run"]["groups"]) == len(DIAGNOSES)
