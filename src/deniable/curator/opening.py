"""Where things are: the names of sources, the ledger that meters them, and their account in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deniable.errors import InvalidParameter, LedgerError, UnitMismatch
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger, names
from deniable.ledger.beside import ledger_of
from deniable.ledger.sources import another
from deniable.ledger.store import Store
from deniable.sql.engines.identity import above
from deniable.sql.schema.declare import Schema
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


@dataclass(frozen=True)
class Terms:
    """What a data set is opened with: its account's name, unit and limit, who asks, and the keys and paths of its sources."""

    name: str
    unit: Unit
    limit: Budget | None
    analyst: str | None
    keys: tuple[str, ...]
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Opening:
    """A data set that was opened and never charged: nothing of it is written before its first charge.

    Until then an account in memory stands for the one that would be made. `commit` makes what is missing: the ledger, the
    account, its sources and the mark beside the data. Of two that commit at once the first decides unit and limit.
    """

    place: str | Ledger
    terms: Terms
    limit: Budget
    on_failure: Callable[[Exception], None] | None

    def proposed(self) -> tuple[Ledger, Account]:
        """A ledger that is forgotten, and in it the account as it would be made."""
        ledger = Ledger.open("sqlite://", analyst=self.terms.analyst, on_failure=self.on_failure)
        ledger.create(self.terms.name, self.terms.unit, limit=self.limit)
        return ledger, ledger.account(self.terms.name, analyst=self.terms.analyst)

    def commit(self) -> tuple[Ledger, Account]:
        """The ledger and the account, made now."""
        given = isinstance(self.place, Ledger)
        ledger = self.place if isinstance(self.place, Ledger) else self._new_ledger(self.place)
        try:
            return ledger, self._account(ledger)
        except BaseException:
            if not given:
                ledger.close()
            raise

    def _new_ledger(self, url: str) -> Ledger:
        return Ledger.open(url, analyst=self.terms.analyst, on_failure=self.on_failure)

    def _account(self, ledger: Ledger) -> Account:
        terms = self.terms
        data_account(
            ledger, terms.name, True, terms.keys
        )  # another process may have opened the same data by another name
        other = {account.name: account for account in ledger.accounts()}.get(terms.name)
        if other is None:
            account = _first(ledger, terms.name, terms.unit, self.limit, terms.analyst, terms.keys)
        else:
            if (other.unit, other.limit) != (terms.unit, self.limit) and fresh(ledger, terms.name, terms.keys):
                ledger.reset(terms.name, terms.unit, limit=self.limit)
            account = open_account(ledger, terms.name, terms.unit, self.limit, terms.analyst)
        bind(ledger, terms)
        return account


def bind(ledger: Ledger, terms: Terms) -> None:
    """The sources belong to the account from now on, and a mark beside them names the ledger."""
    ledger.bind_sources(terms.name, terms.keys)
    for path in terms.paths:
        ledger.bind(path)


def is_bound(ledger: Ledger, terms: Terms) -> bool:
    """Whether all sources belong to the account already. Reads only."""
    return set(ledger.owners(terms.keys)) == set(terms.keys)


def opening(
    ledger: Ledger | None, place: str, terms: Terms, on_failure: Callable[[Exception], None] | None
) -> Opening | None:
    """How the account is made at its first charge; None where it is there and stays as it is."""
    known = {} if ledger is None else {account.name: account for account in ledger.accounts()}
    there = known.get(terms.name)
    if there is None or ledger is None:
        if terms.limit is None:
            raise no_limit(terms.name, place)
        return Opening(ledger or place, terms, terms.limit, on_failure)
    if there.parent is None and there.owner == ledger.analyst and fresh(ledger, terms.name, terms.keys):
        return Opening(ledger, terms, terms.limit or there.limit, on_failure)
    return None


def fresh(ledger: Ledger, name: str, keys: Collection[str]) -> bool:
    """Whether an account was made by opening this data and was never charged. One made on purpose has no data yet."""
    return bool(keys) and name in ledger.owners(keys).values() and not ledger.was_charged(name)


def known_ledger(
    url: str, name: str, limit: Budget | None, analyst: str | None, on_failure: Callable[[Exception], None] | None
) -> Ledger | None:
    """The ledger at `url`, if there is one already. One that does not exist is made only for a data set that has a limit."""
    store = Store(url)
    exists, in_memory = store.exists(), store.in_memory
    store.close()
    if exists or in_memory:
        return Ledger.open(url, analyst=analyst, create=in_memory, on_failure=on_failure)
    if limit is None:
        raise no_limit(name, url)
    return None


def open_ledger(
    url: str, name: str, limit: Budget | None, analyst: str | None, on_failure: Callable[[Exception], None] | None
) -> Ledger:
    """The ledger at `url`, made if there is none and the data set has a limit."""
    known = known_ledger(url, name, limit, analyst, on_failure)
    return known or Ledger.open(url, analyst=analyst, on_failure=on_failure)


def data_account(ledger: Ledger | None, name: str, explicit: bool, keys: tuple[str, ...]) -> str:
    """The account of a data set: the one that any of its sources belongs to, else the one of its name."""
    if ledger is None:
        return name
    owners = ledger.owners((*keys, *above(keys)))
    accounts = sorted(set(owners.values()))
    if len(accounts) > 1:
        raise LedgerError(
            f"These sources belong to several accounts of this ledger ({', '.join(accounts)}), and a query of them all would "
            "have to be charged to each. Nothing was opened. Open them one by one, or begin a ledger for all of them together."
        )
    if not accounts:
        return ledger.root_of(name)
    if explicit and ledger.root_of(name) != accounts[0]:
        raise another(next(iter(owners)), accounts[0], name)
    return accounts[0]


def protects(ledger: Ledger | None, name: str, unit: Unit | None, limit: Budget | None) -> Unit:
    """Whom the data set protects: as it was set at its first use, or as it is being set now."""
    known = {} if ledger is None else {account.name: account for account in ledger.accounts()}
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


def _first(
    ledger: Ledger,
    name: str,
    unit: Unit | None,
    limit: Budget | None,
    analyst: str | None,
    keys: Collection[str] = (),
) -> Account:
    if limit is None:
        raise no_limit(name, "this ledger")
    try:
        ledger.create(name, unit, limit=limit, data=keys)
    except LedgerError:
        if name not in {account.name for account in ledger.accounts()}:
            raise
    return open_account(ledger, name, unit, limit, analyst)  # another process may have been faster, with another limit


def no_limit(name: str, where: str) -> InvalidParameter:
    return InvalidParameter(
        f'The data set "{name}" has no limit yet in {where}: how much may everything that leaves it tell about one person? '
        "Nothing was opened. Set it at the first use: limit=Budget(epsilon=3, delta=1e-6), or --limit 3:1e-6."
    )
