"""Where things are: the names of sources, the ledger that meters them, and their account in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deniable.errors import InvalidParameter, LedgerError, UnitMismatch
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger, names
from deniable.ledger.beside import ledger_of
from deniable.ledger.store import Store
from deniable.sql.schema import Schema
from deniable.units import Unit


def named(source: Any, name: str | None, schema: Schema | None) -> dict[str, Any]:
    """The sources by the names of their tables. One source holds all tables of a schema, where there is one; else a file is
    named after itself, and a folder or pattern after the folder."""
    if isinstance(source, Mapping):
        if not source or not all(isinstance(table, str) and table for table in source):
            raise InvalidParameter('Expected sources by the names of their tables, like {"visits": "visits.parquet"}.')
        return dict(source)
    if schema is not None:
        return {table.name: source for table in schema.tables}
    if name is not None:
        return {name: source}
    path = as_path(source)
    if path is None:
        raise InvalidParameter(
            f"Expected a name for the table in this {type(source).__name__}, like name='visits'. Nothing was opened."
        )
    return {(path.parent.name if "*" in path.name else path.stem) or "data": source}


def data_name(schema: Schema) -> str:
    """What the account of a data set is called where no name is given: after its private tables."""
    return "+".join(sorted(table.name for table in schema.tables if not table.public)) or "data"


def as_path(source: Any) -> Path | None:
    """The file that a source is, if it is one."""
    if isinstance(source, Path):
        return source
    return Path(source) if isinstance(source, str) and "://" not in source else None


def files(sources: Mapping[str, Any]) -> list[Path]:
    found = (as_path(source) for source in sources.values())
    return list(dict.fromkeys(path.parent if "*" in path.name else path for path in found if path is not None))


def address(sources: Mapping[str, Any]) -> str:
    """The ledger beside the data. Data that is no file has nothing beside it."""
    known = {ledger_of(path) for path in files(sources)}
    if len(known) == 1:
        return known.pop()
    if known:
        raise InvalidParameter(f"Expected ledger=: these sources lie beside several: {', '.join(sorted(known))}.")
    raise InvalidParameter(
        "Expected ledger=: data that is no file has no place beside it where what is spent could be remembered. Nothing was "
        'opened. For example ledger="sqlite:///privacy.db", or ledger="sqlite://" for a test that forgets.'
    )


def open_ledger(
    url: str, name: str, limit: Budget | None, analyst: str | None, on_failure: Callable[[Exception], None] | None
) -> Ledger:
    """The ledger at `url`. One that does not exist is made only for a data set that has a limit."""
    store = Store(url)
    exists, in_memory = store.exists(), store.in_memory
    store.close()
    if limit is None and not exists:
        raise no_limit(name, url)
    return Ledger.open(url, analyst=analyst, create=limit is not None or in_memory, on_failure=on_failure)


def protects(ledger: Ledger, name: str, unit: Unit | None, limit: Budget | None) -> Unit:
    """Whom the data set protects: as it was set at its first use, or as it is being set now."""
    known = {account.name: account for account in ledger.accounts()}
    if name in known:
        return unit or known[name].unit
    if limit is None:
        raise no_limit(name, "this ledger")
    if unit is None:
        raise InvalidParameter(
            f'Expected a unit for the data set "{name}": whom does it protect? Nothing was opened. For example '
            'unit=Unit.column("patient_id", max_rows=4), or Unit.row().'
        )
    return unit


def open_account(ledger: Ledger, name: str, unit: Unit | None, limit: Budget | None, analyst: str | None) -> Account:
    """The account of a data set, made at its first use; the analyst's own part of it, if she has one."""
    known = {account.name: account for account in ledger.accounts()}
    if name not in known:
        return _first(ledger, name, unit, limit, analyst)
    root = known[name]
    if root.parent is not None:
        raise InvalidParameter(
            f'The account "{name}" is a part of "{root.parent}", not a data set of its own. Nothing was opened. '
            "Name the data set, and its analyst with analyst= (--analyst)."
        )
    if unit is not None and unit != root.unit:
        raise UnitMismatch(
            f'The account "{name}" protects {root.unit}, so its data cannot be opened for {unit}. Nothing was '
            "opened. Leave unit= (--unit, --max-rows) out to go on with it, or name another ledger."
        )
    if limit is not None and limit != root.limit:
        raise InvalidParameter(
            f'The account "{name}" has the limit {root.limit} already, so it cannot be opened with {limit}. Nothing was '
            "changed. Leave limit= (--limit) out, or raise it: curator.account.raise_limit(…), or `deniable ledger raise`."
        )
    own = None if analyst is None else known.get(names.part(name, analyst))
    return ledger.account(name, analyst=analyst) if own is None else part_of(ledger, own, name, analyst)


def part_of(ledger: Ledger, own: Account, root: str, analyst: str | None) -> Account:
    """An analyst's part of the data set `root`. What only has the name of one would spend another's budget on this data."""
    if own.parent != root:
        raise LedgerError(
            f'The account "{own.name}" has the name of an analyst\'s part of "{root}", and is none. Nothing was opened. '
            "Give the analyst another name."
        )
    return ledger.account(own.name, analyst=analyst)


def _first(ledger: Ledger, name: str, unit: Unit | None, limit: Budget | None, analyst: str | None) -> Account:
    if limit is None:
        raise no_limit(name, "this ledger")
    try:
        ledger.create(name, unit, limit=limit)
    except LedgerError:
        if name not in {account.name for account in ledger.accounts()}:
            raise
    return open_account(ledger, name, unit, limit, analyst)  # another process may have been faster, with another limit


def no_limit(name: str, where: str) -> InvalidParameter:
    return InvalidParameter(
        f'The data set "{name}" has no limit yet in {where}: how much may everything that leaves it tell about one person? '
        "Nothing was opened. Set it at the first use: limit=Budget(epsilon=3, delta=1e-6), or --limit 3:1e-6."
    )
