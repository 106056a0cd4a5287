"""Integers before noise stay inside: they are not shown, compared, copied or stored, and only a short list of
code takes them."""

from __future__ import annotations

import ast
import copy
import pickle
from typing import Any

import pytest

from deniable.errors import InvalidParameter, Uncopyable
from deniable.randomness import SeededRandom
from deniable.sql.plan.exact import Exact
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.tree import Aggregate
from deniable.sql.tree import Statistic as S
from deniable.units import Unit
from tests.meta.source import SOURCE, list_nodes, modules
from tests.sql.planned import PEOPLE, PRIVATE, PUBLIC, SALT, Duck, X, duck, query

ROWS = [(i, "ab"[i % 2], 1.0, 1, True) for i in range(7919)]
COUNT = plan(query([Aggregate(S.COUNT)], keys=PUBLIC), PEOPLE, Terms(epsilon=1))

TAKERS = {
    "deniable.sql.plan.plan": {"measure"},
    "deniable.sql.plan.draws": {"integers"},
    "deniable.audit.endpoint": {"measure"},
    "deniable.sql.profile.mechanism": {"measure"},
}
"""Who may have integers before noise: the plan and the parts of a profile, which release them, and audits on
tables that were generated for them."""


@pytest.fixture(scope="module")
def engine() -> Any:
    with duck(ROWS) as opened:
        yield opened


@pytest.fixture
def exact(engine: Duck) -> Exact:
    return COUNT.measure(engine, SALT)


def test_a_run_is_its_two_steps(engine: Duck) -> None:
    """The salt is the first that a run draws; what follows is what `release` draws."""
    for keys in (PUBLIC, PRIVATE):
        made = plan(query([Aggregate(S.COUNT)], keys=keys), PEOPLE, Terms(epsilon=1, delta=1e-6))
        rng = SeededRandom(5)
        salt = format(rng.uniform_integers(1 << 62), "x")
        assert made.measure(engine, salt).release(rng).table.equals(made(engine, rng=SeededRandom(5)).table)


def test_numbers_are_not_shown(exact: Exact) -> None:
    [integers] = exact.integers()
    numbers = [str(number) for part in integers.parts for number in part.values()]
    assert len(numbers) == 2
    for text in (repr(exact), str(exact), f"{exact}", repr(integers), repr([exact, integers])):
        assert not any(number in text for number in numbers)
        assert not any(character.isdigit() for character in text.split(" object at ")[0])


def test_they_cannot_be_copied_pickled_or_compared(exact: Exact, engine: Duck) -> None:
    for double in (copy.copy, copy.deepcopy, pickle.dumps):
        for thing in (exact, exact.integers()[0]):
            with pytest.raises(Uncopyable):
                double(thing)
    again = COUNT.measure(engine, SALT)
    assert exact != again
    assert exact.integers()[0] != again.integers()[0]


def test_each_release_has_noise_of_its_own(exact: Exact) -> None:
    rng = SeededRandom(3)
    assert not exact.release(rng).table.equals(exact.release(rng).table)


def test_bounds_are_settled_before_anything_is_measured(engine: Duck) -> None:
    for unit, aggregate in ((PEOPLE, Aggregate(S.SUM, X)), (Unit.column("person"), Aggregate(S.COUNT))):
        made = plan(query([aggregate], unit), unit, Terms(epsilon=1, discover=True))
        with pytest.raises(InvalidParameter, match="must be settled first"):
            made.measure(engine, SALT)
        assert (
            made.settle(engine, SeededRandom(1)).measure(engine, SALT).release(SeededRandom(1)).table.num_rows
            == 1
        )


def test_where_all_is_declared_settling_asks_and_draws_nothing() -> None:
    closed = Duck(None)  # type: ignore[arg-type]
    settled = COUNT.settle(closed, None)  # type: ignore[arg-type]
    assert (settled.limit, settled.bounds) == (COUNT.limit, {})


def test_only_the_plan_and_audits_take_integers_before_noise() -> None:
    takers: dict[str, set[str]] = {}
    for name, path in modules(SOURCE).items():
        calls = {
            node.func.attr
            for node in list_nodes(path)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        imported = "sql.plan" in path.read_text(encoding="utf-8")
        if imported and calls & {"measure", "integers"}:
            takers[name] = calls & {"measure", "integers"}
    # `rng.integers` of numpy has the same name as that of `Exact`.
    takers["deniable.audit.endpoint"] -= {"integers"}
    assert takers == TAKERS


def test_nothing_of_a_run_is_exported() -> None:
    import deniable
    import deniable.sql

    for package in (deniable, deniable.sql):
        assert not {"Exact", "Settled", "Draws", "Integers"} & set(dir(package))
