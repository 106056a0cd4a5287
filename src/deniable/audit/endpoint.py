"""A SQL endpoint as a target: one query, its curator's schema and unit, and two neighbouring tables.

    Endpoint            a whole run: planned from the text, charged to an account of its own whose limit is
                        the claim, answered as an Arrow table Endpoint.measured   the same plan's exact
                        integers, taken once from each table, with fresh noise of the plan's own mechanisms
                        for every run: thousands of runs a second

Both ask the engine once per statement and table and remember what it said: exact statistics are functions of
the data alone. So the engine's own run time and failures are not audited. `measured` shows an attacker the
integers behind the answer (every sum and count on its grid, which keys were released), and the answer is a
function of these: what they hide, it hides. It leaves out the ledger and the arithmetic from integers to the
answer, which `Endpoint` has."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from deniable.accounting.filters import Filter, above
from deniable.accounting.filters.charges import Price, price
from deniable.audit.rules.classify import Rows
from deniable.audit.runs.pairs import Pair
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.loss import Loss, Number
from deniable.mechanism import Error, Random
from deniable.randomness import SeededRandom
from deniable.sql.engines import Engine, Statement, open_engine
from deniable.sql.plan.draws import Draws
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema
from deniable.sql.tree import Result
from deniable.units import Unit

SALT = "7"
"""A keyed hash draws which rows of a unit count. The guarantee holds for every key, so one of them is
attacked."""
LONGEST = 60
"""Characters of a query that name its finding."""


class Opened(Protocol):
    """What is read of a `Curator`: what it declares and whom it protects."""

    @property
    def schema(self) -> Schema: ...

    @property
    def account(self) -> Protected: ...


class Protected(Protocol):
    """The account of a `Curator`."""

    @property
    def unit(self) -> Unit: ...


@dataclass(frozen=True, eq=False)
class Endpoint:
    """One query on two neighbouring tables, as a target of `audit`. Made by `Endpoint.of`.

    Guarantee: none: it is there to be attacked. `loss` is what the plan claims.
    Assumes:   `first` and `second` are neighbours for `unit`, which is checked; all other tables are the same
    in both.
    Error:     none.
    """

    text: str
    schema: Schema
    unit: Unit
    terms: Terms
    table: str
    first: pa.Table
    second: pa.Table
    public_tables: Mapping[str, Any] = field(default_factory=dict)
    bounding: bool = True

    def __post_init__(self) -> None:
        Pair(self.first, self.second, f"two tables {self.table}").check(self.unit)
        _ = self.plan

    @classmethod
    def of(
        cls,
        curator: Opened,
        text: str,
        pair: tuple[Any, Any],
        *,
        epsilon: Number,
        delta: Number = 0,
        table: str | None = None,
        public_tables: Mapping[str, Any] | None = None,
        noise: str = "auto",
        max_groups: int | None = None,
        discover: bool = False,
    ) -> Endpoint:
        """A query as `curator` would plan it, on two tables in place of its private one (`table`, if it has
        several).

        The curator's own data and ledger are not touched. `public_tables` holds its other tables, if any.
        """
        terms = Terms(epsilon=epsilon, delta=delta, noise=noise, max_groups=max_groups, discover=discover)
        first, second = map(_table, pair)
        name = _private(curator.schema) if table is None else table
        return cls(
            text, curator.schema, curator.account.unit, terms, name, first, second, public_tables or {}
        )

    def unbounded(self) -> Endpoint:
        """The same with contribution bounding switched off: an audit must find that."""
        return replace(self, bounding=False)

    @cached_property
    def plan(self) -> Plan:
        return plan(check(self.text, self.schema, self.unit), self.unit, self.terms, bounding=self.bounding)

    @property
    def name(self) -> str:
        line = " ".join(self.text.split())
        return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"

    @property
    def pair(self) -> Pair:
        return Pair(self.first, self.second, f"two tables {self.table}")

    def pairs(self) -> list[Pair]:
        return [self.pair]

    @property
    def loss(self) -> Loss:
        return self.plan.loss

    @property
    def claim(self) -> Budget:
        """What an analyst is told that the query costs: ε, and δ where it is used."""
        return Budget(self.plan.epsilon, self.plan.delta)

    # -------------------------------------------------------------------------------------------- whole runs

    def __call__(self, data: Any, *, rng: Random) -> pa.Table:
        """Charge an account of this run's own, whose limit is what the plan may cost; then release."""
        name = f"run {next(self._runs)}"
        account = self._ledger.create(name, self.unit, limit=self._limit, filter=Filter.basic)
        return account.run(
            Salted(self.plan), self._engine(data), rng=rng, delta=self._price.delta
        ).value.table

    @cached_property
    def _price(self) -> Price:
        return price(self.plan.loss, self.terms.delta)

    @cached_property
    def _limit(self) -> Budget:
        return Budget(above(self._price.charge.epsilon), above(self._price.charge.delta))

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger.open("sqlite://", analyst="auditor")

    @cached_property
    def _runs(self) -> itertools.count[int]:
        return itertools.count()

    # -------------------------------------------------------------------------------------------- tables

    @cached_property
    def measured(self) -> MeasuredEndpoint:
        """The fast form. A plan that finds bounds privately has none: its statements follow from what it
        drew."""
        if self.plan.settles:
            raise InvalidParameter(
                "Bounds that are found privately change the statements of every run, so they cannot be taken "
                "beforehand. Nothing was run; audit the endpoint itself, or declare max_rows and bounds."
            )
        first, second = (self.plan.measure(engine, SALT) for engine in self._engines)
        return MeasuredEndpoint(self, Draws(self.plan, first, second))

    @cached_property
    def _engines(self) -> tuple[Engine, Engine]:
        first, second = (
            Remembering(open_engine({**self.public_tables, self.table: table}, self.schema, threads=1))
            for table in (self.first, self.second)
        )
        return first, second

    def _engine(self, data: Any) -> Engine:
        return self._engines[self.side_of(data)]

    def side_of(self, data: Any) -> int:
        """0 for the first table, 1 for the second; also where it comes back from a saved finding, as
        columns."""
        for i, table in enumerate((self.first, self.second)):
            if data is table or _is_table(data, table):
                return i
        raise InvalidParameter("This endpoint knows its own two tables only. Nothing was run.")


def _table(source: Any) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, Mapping):
        return pa.table(dict(source))
    raise InvalidParameter(
        f"Expected an Arrow table or columns by name, got {type(source).__name__}. Nothing was run."
    )


def _is_table(data: Any, table: pa.Table) -> bool:
    if isinstance(data, pa.Table):
        return bool(data.equals(table))
    return isinstance(data, Mapping) and dict(data) == table.to_pydict()


def _private(schema: Schema) -> str:
    names = [table.name for table in schema.tables if not table.public]
    if len(names) != 1:
        raise InvalidParameter(
            f"Expected table= to say which of {len(names)} private tables differs. Nothing was run."
        )
    return names[0]


# ----------------------------------------------------------------------------------------- what is remembered


class Remembering(Engine):
    """An engine that answers a statement it has seen from memory: what it computes is a function of the data
    alone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._answers: dict[Statement, pa.Table] = {}
        self.dialect, self.prepared, self.summaries = engine.dialect, engine.prepared, engine.summaries

    def run(self, statement: Statement) -> pa.Table:
        if statement not in self._answers:
            self._answers[statement] = self._engine.run(statement)
        return self._answers[statement]

    def present(self, table: str, columns: Sequence[str]) -> frozenset[str]:
        return self._engine.present(table, columns)

    @property
    def overran(self) -> bool:
        return self._engine.overran

    def cancel(self) -> None:
        self._engine.cancel()

    def close(self) -> None:
        self._engine.close()


@dataclass(frozen=True)
class Salted:
    """A plan whose key for hashes is always `SALT`, so that statements repeat; all else of a run is the
    plan's own."""

    plan: Plan

    @property
    def loss(self) -> Loss:
        return self.plan.loss

    @property
    def unit(self) -> Unit:
        return self.plan.unit

    def error(self, confidence: float = 0.95) -> Error | None:
        return self.plan.error(confidence)

    def __call__(self, data: Engine, *, rng: Random) -> Result:
        return self.plan.settle(data, rng).measure(data, SALT).release(rng)


# ------------------------------------------------------------------------------------------------ taken once


@dataclass(frozen=True, eq=False)
class MeasuredEndpoint:
    """An endpoint's exact integers on both tables, and fresh noise for each of many runs at once
    (`sql.plan.draws`)."""

    endpoint: Endpoint
    draws: Draws

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def unit(self) -> Unit:
        return self.endpoint.unit

    @property
    def loss(self) -> Loss:
        return self.endpoint.loss

    def pairs(self) -> list[Pair]:
        return self.endpoint.pairs()

    def draw(self, data: Any, n: int, rng: np.random.Generator) -> Rows:
        source = SeededRandom(int(rng.integers(2**62)))
        columns = self.draws.columns(self.endpoint.side_of(data), n, source)
        return np.column_stack(columns) if columns else np.empty((n, 0))
