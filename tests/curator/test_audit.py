"""Whole queries under our own auditor: within their claim on neighbouring tables, and caught with contribution bounding off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from deniable.audit import Pair, Verdict, audit
from deniable.curator.declare import declared
from deniable.guarantee import Budget
from deniable.mechanism import Random
from deniable.sql.check import check
from deniable.sql.dialects import Dialect
from deniable.sql.draft import describe
from deniable.sql.engines import Engine, Statement, open_engine
from deniable.sql.plan import Plan, plan
from deniable.sql.schema import Schema
from deniable.sql.terms import Terms
from deniable.units import Unit

PERSON = Unit.column("person", max_rows=2)
EPSILON, DELTA = 1, 0.01
SAMPLES = 1000
MANY = 20_000


def people(*, guest: bool) -> pa.Table:
    """Ten people with a row or two, and a guest with thirty rows of large values in a ward of her own, or not."""
    rows = [(i, "a" if i % 2 else "b", i % 5) for i in range(10)] + [(i, "a", 3) for i in range(5)]
    rows += [(99, "rare" if k % 2 else "a", 10) for k in range(30)] if guest else []
    person, ward, days = zip(*rows, strict=True)
    return pa.table({"person": person, "ward": ward, "days": days})


PAIR = Pair(people(guest=True), people(guest=False), "with or without a guest")


@dataclass
class Remembering:
    """An engine that answers a statement it has seen from memory: what it computes is a function of the data alone."""

    engine: Engine
    seen: dict[Statement, pa.Table] = field(default_factory=dict)

    @property
    def dialect(self) -> Dialect:
        return self.engine.dialect

    @property
    def prepared(self) -> Mapping[str, int]:
        return self.engine.prepared

    def run(self, statement: Statement) -> pa.Table:
        if statement not in self.seen:
            self.seen[statement] = self.engine.run(statement)
        return self.seen[statement]


class Salted:
    """A generator whose salt for keyed hashes is fixed: the guarantee holds for every salt, and statements repeat."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rng, name)

    def uniform_integers(self, bound: int, size: int | None = None) -> Any:
        return 7 if bound == 1 << 62 and size is None else self._rng.uniform_integers(bound, size)


@dataclass
class Query:
    """A whole query as an audit's target: from an Arrow table to the released table."""

    text: str
    unit: Unit
    keys: Mapping[str, list[str]]
    bounding: bool = True
    engines: dict[int, Remembering] = field(default_factory=dict)

    def schema(self) -> Schema:
        told = Schema((describe("visits", PAIR.first),))
        return declared(told, self.unit, {"days": (0, 10)}, self.keys, None)

    def plan(self) -> Plan:
        terms = Terms(epsilon=EPSILON, delta=DELTA)
        return plan(check(self.text, self.schema(), self.unit), self.unit, terms, bounding=self.bounding)

    def target(self) -> Any:
        planned = self.plan()

        def released(data: pa.Table, rng: Random) -> Any:
            if id(data) not in self.engines:
                self.engines[id(data)] = Remembering(open_engine({"visits": data}, self.schema()))
            return planned(self.engines[id(data)], rng=Salted(rng)).table

        return released

    def found(self, samples: int = SAMPLES) -> Any:
        claim = Budget(EPSILON, DELTA if self.plan().delta else 0)
        return audit(self.target(), PAIR, claim, samples=samples, unit=self.unit, workers=1, name=self.text)


WARDS = {"ward": ["a", "b"]}
QUERIES = {
    "count": ("SELECT COUNT(*) AS n FROM visits", WARDS),
    "sum": ("SELECT SUM(days) AS s FROM visits", WARDS),
    "avg": ("SELECT AVG(days) AS d FROM visits", WARDS),
    "people": ("SELECT COUNT(DISTINCT person) AS n FROM visits", WARDS),
    "groups": ("SELECT ward, COUNT(*) AS n, SUM(days) AS s FROM visits GROUP BY ward", WARDS),
    "median": ("SELECT MEDIAN(days) AS m FROM visits", WARDS),
    "private keys": ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", {}),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_stays_within_its_claim(name: str) -> None:
    text, keys = QUERIES[name]
    found = Query(text, PERSON, keys).found()
    assert found.verdict is not Verdict.VIOLATION, str(found)
    assert found.epsilon <= EPSILON


@pytest.mark.soak
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_stays_within_its_claim_under_a_long_look(name: str) -> None:
    text, keys = QUERIES[name]
    assert Query(text, PERSON, keys).found(MANY).verdict is not Verdict.VIOLATION


@pytest.mark.parametrize("name", ["count", "sum", "avg", "groups", "private keys"])
def test_without_contribution_bounds_the_same_audit_finds_the_violation(name: str) -> None:
    text, keys = QUERIES[name]
    found = Query(text, PERSON, keys, bounding=False).found()
    assert found.verdict is Verdict.VIOLATION, str(found)
    assert found.epsilon > EPSILON
