"""Whole queries under our own auditor: within their claim on neighbouring tables, and
caught with contribution bounding off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from deniable.audit import Pair, Verdict, audit
from deniable.audit.endpoint import Remembering, Salted
from deniable.guarantee import Budget
from deniable.mechanism import Random
from deniable.sql.engines import open_engine
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.infer import describe
from deniable.sql.schema.overrides import declared
from deniable.units import Unit

PERSON = Unit.column("person", max_rows=2)
EPSILON, DELTA = 1, 0.01
SAMPLES = 1000
MANY = 20_000


def people(*, guest: bool) -> pa.Table:
    """Ten people with a row or two, and a guest with thirty rows of large values in a
    ward of her own, or not."""
    rows = [(i, "a" if i % 2 else "b", i % 5) for i in range(10)] + [(i, "a", 3) for i in range(5)]
    rows += [(99, "rare" if k % 2 else "a", 10) for k in range(30)] if guest else []
    person, ward, days = zip(*rows, strict=True)
    return pa.table({"person": person, "ward": ward, "days": days})


PAIR = Pair(people(guest=True), people(guest=False), "with or without a guest")


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
            engine: Any = self.engines[id(data)]
            return Salted(planned)(engine, rng=rng).table

        return released

    def found(self, samples: int = SAMPLES) -> Any:
        claim = Budget(EPSILON, DELTA if self.plan().delta else 0)
        return audit(
            self.target(), PAIR, claim, seed=0, samples=samples, unit=self.unit, workers=1, name=self.text
        )


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


@pytest.mark.parametrize("name", ["count", "sum", "avg", "groups"])
def test_without_contribution_bounds_the_same_audit_finds_the_violation(name: str) -> None:
    text, keys = QUERIES[name]
    found = Query(text, PERSON, keys, bounding=False).found()
    assert found.verdict is Verdict.VIOLATION, str(found)
    assert found.epsilon > EPSILON


def test_without_contribution_bounds_private_keys_are_not_certified() -> None:
    """One neighbour then gives one answer in all runs, which the auditor cannot tell from an answer that is
    remembered: the target holds an engine, so it cannot be started anew."""
    text, keys = QUERIES["private keys"]
    assert Query(text, PERSON, keys, bounding=False).found().verdict in (Verdict.VIOLATION, Verdict.REPEATS)
