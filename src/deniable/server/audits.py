"""Audits of a service: attacks on how it would answer, on tables that are made up from what is declared.

No row of anybody's data is read and nothing is charged: two neighbouring tables are made from the schema, and
the question is attacked on them as from the outside. What was found is kept, with all that is needed to run
its decisive part again.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from deniable.audit import Endpoint, Finding, audit, replay
from deniable.audit.bench import case
from deniable.audit.endpoint import MeasuredEndpoint
from deniable.audit.target_options import AuditTarget, find_target
from deniable.errors import InvalidParameter, NotFound, TooMany
from deniable.guarantee import Budget
from deniable.server.people import store
from deniable.server.people.rights import Caller, Right
from deniable.server.service import Service
from deniable.sql.schema.declare import ColumnInfo, TableInfo
from deniable.sql.tree import Kind
from deniable.units import Unit, UnitKind

SAMPLES = 200_000
WHOLE_SAMPLES = 2000
"""Of a question that is asked anew for each sample."""
MECHANISMS = ("laplace", "gaussian")
BROKEN = "HalvedNoise"
"""A case of the bench that has half the noise it needs: to see what a violation looks like."""
OTHERS = 3
_ONE = threading.Lock()


@dataclass(frozen=True)
class Audited:
    """A finding that is kept."""

    id: int
    person: str
    time: float
    subject: str
    finding: Finding


def run(service: Service, caller: Caller, data: str, text: str, epsilon: Fraction, delta: Fraction) -> int:
    """Attack a question about a data set; its number."""
    caller.need(Right.LOOK)
    service.throttle.hit("requests", caller.name)
    endpoint = make_endpoint(service, caller, data, text, epsilon, delta)
    target = _attackable(endpoint)
    options = {"data": data, "sql": text, "epsilon": str(epsilon), "delta": str(delta)}
    samples = SAMPLES
    if target is endpoint:
        samples = WHOLE_SAMPLES
    with _alone():
        finding = audit(
            target, endpoint.pairs(), endpoint.claim, samples=samples, name=endpoint.name, workers=1
        )
    return _keep(service, caller, f"question about {data}", finding, options)


def run_mechanism(service: Service, caller: Caller, name: str, epsilon: Fraction, delta: Fraction) -> int:
    """Attack a mechanism of ours, or one that is broken on purpose."""
    caller.need(Right.LOOK)
    service.throttle.hit("requests", caller.name)
    if name not in (*MECHANISMS, BROKEN):
        raise NotFound("There is no such mechanism. Nothing was run.")
    target = _target(name, epsilon, delta)
    options = {"mechanism": name, "epsilon": str(epsilon), "delta": str(delta)}
    with _alone():
        finding = audit(target.subject, target.pairs, target.claim, samples=SAMPLES, name=name, workers=1)
    about = "mechanism"
    if name == BROKEN:
        about = "mechanism, broken on purpose"
    return _keep(service, caller, about, finding, options)


def run_again(service: Service, caller: Caller, number: int) -> Finding:
    """The decisive part of a finding once more, from the same seed: nothing is chosen anew."""
    caller.need(Right.LOOK)
    service.throttle.hit("requests", caller.name)
    record, options = _row(service, number)
    epsilon, delta = Fraction(options["epsilon"]), Fraction(options["delta"])
    finding, target = record.finding, None
    if "mechanism" in options:
        target = _target(options["mechanism"], epsilon, delta).subject
    else:
        endpoint = make_endpoint(service, caller, options["data"], options["sql"], epsilon, delta)
        target = _attackable(endpoint)
        if finding.witness is not None:  # the tables as they were made, and not as JSON wrote their dates
            tables = {"first": endpoint.first, "second": endpoint.second}
            finding = replace(finding, witness=replace(finding.witness, **tables))
    with _alone():
        return replay(finding, target, workers=1)


def list_audits(service: Service, caller: Caller) -> list[Audited]:
    caller.need(Right.LOOK)
    with service.state.reading() as connection:
        rows = list(connection.execute(sa.select(store.audits).order_by(store.audits.c.id.desc())).mappings())
    return [_read(row) for row in rows]


def look(service: Service, caller: Caller, number: int) -> Audited:
    caller.need(Right.LOOK)
    return _row(service, number)[0]


class _alone:
    """One audit at a time: they take a processor each."""

    def __enter__(self) -> None:
        if not _ONE.acquire(blocking=False):
            raise TooMany("An audit is running already. Nothing was done. Wait for it, and ask again.")

    def __exit__(self, *_: object) -> None:
        _ONE.release()


def _target(name: str, epsilon: Fraction, delta: Fraction) -> AuditTarget:
    if name == BROKEN:
        broken = case(BROKEN)
        return AuditTarget(broken, broken.pairs(), None, {})
    budget = Budget(float(epsilon), float(delta))
    return find_target(name, budget)


def _keep(service: Service, caller: Caller, subject: str, finding: Finding, options: dict[str, str]) -> int:
    row = {"person": caller.name, "time": time.time(), "about": subject, "options": json.dumps(options)}
    with service.state.writing() as connection:
        last = connection.execute(sa.select(sa.func.max(store.audits.c.id))).scalar() or 0
        connection.execute(store.audits.insert().values(id=last + 1, **row, finding=finding.to_json()))
    return int(last) + 1


def _row(service: Service, number: int) -> tuple[Audited, dict[str, str]]:
    with service.state.reading() as connection:
        query = sa.select(store.audits).where(store.audits.c.id == number)
        row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound("There is no audit of this number.")
    options: dict[str, str] = json.loads(row["options"])
    return _read(row), options


def _read(row: sa.RowMapping) -> Audited:
    return Audited(row["id"], row["person"], row["time"], row["about"], Finding.from_json(row["finding"]))


# ----------------------------------------------------------------------------------------- made-up neighbours


def make_endpoint(
    service: Service, caller: Caller, data: str, text: str, epsilon: Fraction, delta: Fraction
) -> Endpoint:
    """The question on two tables that differ by one unit, at the far ends of what is declared."""
    service.schema(caller, data)  # whether it is for the caller
    curator = service.shelf.curator(data)
    private = [table for table in curator.schema.tables if not table.public]
    if len(private) != 1:
        raise InvalidParameter(
            "Expected a data set of one private table: others are audited by `deniable audit`. Nothing was "
            "run."
        )
    table, unit = private[0], curator.account.unit
    without, with_one = neighbours(table, unit)
    beside = {each.name: _rows(each, unit, []) for each in curator.schema.tables if each.public}
    return Endpoint.of(
        curator,
        text,
        (with_one, without),
        epsilon=epsilon,
        delta=delta,
        table=table.name,
        public_tables=beside,
    )


def _attackable(endpoint: Endpoint) -> Endpoint | MeasuredEndpoint:
    """What is run again and again: a plan that settles on something is asked anew each time, any other one
    measures once and is released often."""
    if endpoint.plan.settles:
        return endpoint
    return endpoint.measured


def neighbours(table: TableInfo, unit: Unit) -> tuple[pa.Table, pa.Table]:
    """Some units at the low ends, and the same with one more at the high ends."""
    others = [(i + 1, False) for i in range(OTHERS)]
    rows = 1
    if unit.kind is UnitKind.COLUMN:
        rows = unit.max_rows or 1
    extra = [(OTHERS + 1, True)] * min(rows, 1000)
    return _rows(table, unit, others), _rows(table, unit, others + extra)


def _rows(table: TableInfo, unit: Unit, rows: list[tuple[int, bool]]) -> pa.Table:
    columns = {}
    for column in table.columns:
        identity = column.name == unit.column_name
        cells = [_identity(column, who) if identity else _cell(column, high) for who, high in rows]
        columns[column.name] = pa.array(cells, _arrow(column))
    return pa.table(columns)


def _identity(column: ColumnInfo, number: int) -> Any:
    match column.type.kind:
        case Kind.TEXT:
            return str(number)
        case Kind.DATE:
            return date(2000, 1, number)
        case Kind.TIMESTAMP:
            return datetime(2000, 1, number)
        case Kind.BOOLEAN:
            return bool(number % 2)
        case Kind.DECIMAL:
            return Decimal(number)
        case _:
            return number


ENDS: dict[Kind, tuple[Any, Any]] = {
    Kind.TEXT: ("a", "b"),
    Kind.DATE: (date(2000, 1, 1), date(2000, 1, 2)),
    Kind.TIMESTAMP: (datetime(2000, 1, 1), datetime(2000, 1, 2)),
    Kind.BOOLEAN: (False, True),
}
"""The low and the high cell of a column that has no bounds."""


def _cell(column: ColumnInfo, high: bool) -> Any:
    if column.keys:
        return (column.keys[0], column.keys[-1])[high]
    if column.type.kind in ENDS:
        return ENDS[column.type.kind][high]
    number = (column.lower, column.upper)[high]
    if number is None:
        number = Fraction(high)
    match column.type.kind:
        case Kind.FLOAT:
            return float(number)
        case Kind.DECIMAL:
            return Decimal(number.numerator) / Decimal(number.denominator)
        case _:
            return int(number)


def _arrow(column: ColumnInfo) -> pa.DataType:
    match column.type.kind:
        case Kind.TEXT:
            return pa.string()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.FLOAT:
            return pa.float64()
        case Kind.DECIMAL:
            return pa.decimal128(38, column.type.scale)
        case _:
            return pa.int64()
