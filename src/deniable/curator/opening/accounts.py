"""How a data set is opened: the names of its sources, the ledger that meters them, and their account in
it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from deniable.curator.opening.data_set import DataSet, address, files
from deniable.curator.profile import make_allowance
from deniable.errors import InvalidParameter, LedgerError, UnitMismatch
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger, names
from deniable.ledger.data_sets.sources import another
from deniable.ledger.store import Store
from deniable.sql.engines.identity import above
from deniable.sql.schema.declare import Schema
from deniable.units import Unit, UnitKind

OnFailure = Callable[[Exception], None] | None


@dataclass(frozen=True)
class DataSetTerms:
    """What a data set is opened with: its account's name, unit and limit, who asks, and the keys and paths of
    its sources."""

    name: str
    unit: Unit
    limit: Budget | None
    analyst: str | None
    keys: tuple[str, ...]
    paths: tuple[Path, ...]
    purpose: str | None = None


@dataclass(frozen=True)
class OpeningProposal:
    """A data set that was opened and never charged: nothing of it is written before its first charge.

    Until then an account in memory stands for the one that would be made. `commit` makes what is missing: the
    ledger, the account, its sources and the mark beside the data. Of two that commit at once the first
    decides unit and limit."""

    place: str | Ledger
    terms: DataSetTerms
    limit: Budget
    on_failure: OnFailure
    allowance: Fraction = Fraction(0)
    """For the profile."""

    def open_in_memory(self) -> tuple[Ledger, Account]:
        """A ledger that is forgotten, and in it the account as it would be made."""
        ledger = Ledger.open("sqlite://", analyst=self.terms.analyst, on_failure=self.on_failure)
        ledger.create(self.terms.name, self.terms.unit, limit=self.limit, purpose=self.terms.purpose)
        return ledger, ledger.account(self.terms.name, analyst=self.terms.analyst)

    def commit(self) -> tuple[Ledger, Account]:
        """The ledger and the account, made now."""
        is_ledger = isinstance(self.place, Ledger)
        ledger = self.place if isinstance(self.place, Ledger) else self._new_ledger(self.place)
        try:
            return ledger, self._account(ledger)
        except BaseException:  # it goes on as it is; no ledger stays open behind it
            if not is_ledger:
                ledger.close()
            raise

    def _new_ledger(self, url: str) -> Ledger:
        return Ledger.open(url, analyst=self.terms.analyst, on_failure=self.on_failure)

    def _account(self, ledger: Ledger) -> Account:
        terms = self.terms
        # Another process may have opened the same data by another name.
        data_account(ledger, terms.name, True, terms.keys)
        other = {account.name: account for account in ledger.accounts()}.get(terms.name)
        if other is None:
            arguments = (terms.name, terms.unit, self.limit, terms.analyst)
            account = _first(ledger, *arguments, keys=terms.keys, purpose=terms.purpose)
        else:
            if (other.unit, other.limit) != (terms.unit, self.limit) and is_fresh(
                ledger, terms.name, terms.keys
            ):
                ledger.reset(terms.name, terms.unit, limit=self.limit)
            account = open_account(ledger, terms.name, terms.unit, self.limit, terms.analyst)
        with suppress(LedgerError):  # another process may have been faster
            make_allowance(ledger, terms.name, self.allowance)
        bind(ledger, terms)
        account.is_new = True
        return account


@dataclass(frozen=True)
class LedgerPlace:
    """The ledger of a data set where it lies, None if it is to be made at the first charge; `own` if it was
    opened here."""

    address: str
    ledger: Ledger | None
    own: bool

    @classmethod
    def find(
        cls,
        data: DataSet,
        ledger: str | Ledger | None,
        limit: Budget | None,
        analyst: str | None,
        on_failure: OnFailure,
    ) -> LedgerPlace:
        if isinstance(ledger, Ledger):
            return cls("this ledger", ledger, own=False)
        url = ledger or address(data.sources)
        return cls(url, known_ledger(url, data.name, limit, analyst, on_failure), own=True)

    @property
    def own_ledgers(self) -> list[Ledger]:
        if self.own and self.ledger is not None:
            return [self.ledger]
        return []

    def terms(
        self,
        data: DataSet,
        unit: Unit | None,
        limit: Budget | None,
        analyst: str | None,
        purpose: str | None = None,
    ) -> DataSetTerms:
        """Under the account that the sources belong to already, if they do, and for the unit that it
        protects."""
        name = data_account(self.ledger, data.name, data.explicit, data.keys)
        account_unit = protects(self.ledger, name, unit, limit, data.unit)
        return DataSetTerms(
            name, account_unit, limit, analyst, data.keys, tuple(files(data.sources)), purpose
        )


@dataclass(frozen=True)
class Payment:
    """The account that pays, in its ledger. Where nothing was charged yet, both are forgotten, and `proposal`
    makes the real ones; `unbound` are the terms of sources that are still to be bound to an account that is
    there."""

    ledger: Ledger
    account: Account
    proposal: OpeningProposal | None
    unbound: DataSetTerms | None
    resources: list[Ledger]


def payment(place: LedgerPlace, terms: DataSetTerms, unit: Unit | None, on_failure: OnFailure) -> Payment:
    """Who pays for a data set on `terms`; `unit` as it was asked for, which an account that is there may
    contradict."""
    opening = proposal(place.ledger, place.address, terms, on_failure)
    if opening is not None:
        ledger, account = opening.open_in_memory()
        return Payment(place.ledger or ledger, account, opening, None, [ledger])
    assert place.ledger is not None
    account = open_account(place.ledger, terms.name, unit, terms.limit, terms.analyst)
    unbound = None if is_bound(place.ledger, terms) else terms
    return Payment(place.ledger, account, None, unbound, [])


def bind(ledger: Ledger, terms: DataSetTerms) -> None:
    """The sources belong to the account from now on, and a mark beside them names the ledger."""
    ledger.bind_sources(terms.name, terms.keys)
    for path in terms.paths:
        ledger.bind(path)


def is_bound(ledger: Ledger, terms: DataSetTerms) -> bool:
    """Whether all sources belong to the account already. Reads only."""
    return set(ledger.owners(terms.keys)) == set(terms.keys)


def proposal(
    ledger: Ledger | None, place: str, terms: DataSetTerms, on_failure: OnFailure
) -> OpeningProposal | None:
    """How the account is made at its first charge; None where it is there and stays as it is."""
    accounts = {} if ledger is None else {account.name: account for account in ledger.accounts()}
    there = accounts.get(terms.name)
    if there is None or ledger is None:
        if terms.limit is None:
            raise no_limit(terms.name, place)
        return OpeningProposal(ledger or place, terms, terms.limit, on_failure)
    if there.parent is None and there.owner == ledger.analyst and is_fresh(ledger, terms.name, terms.keys):
        return OpeningProposal(ledger, terms, terms.limit or there.limit, on_failure)
    return None


def is_fresh(ledger: Ledger, name: str, keys: Collection[str]) -> bool:
    """Whether an account was made by opening this data and was never charged. One made on purpose has no data
    yet."""
    return bool(keys) and name in ledger.owners(keys).values() and not ledger.was_charged(name)


def known_ledger(
    url: str, name: str, limit: Budget | None, analyst: str | None, on_failure: OnFailure
) -> Ledger | None:
    """The ledger at `url`, if there is one already. One that does not exist is made only for a data set that
    has a limit."""
    store = Store(url)
    exists, in_memory = store.exists(), store.in_memory
    store.close()
    if exists or in_memory:
        return Ledger.open(url, analyst=analyst, create=in_memory, on_failure=on_failure)
    if limit is None:
        raise no_limit(name, url)
    return None


def open_ledger(
    url: str, name: str, limit: Budget | None, analyst: str | None, on_failure: OnFailure
) -> Ledger:
    """The ledger at `url`, made if there is none and the data set has a limit."""
    ledger = known_ledger(url, name, limit, analyst, on_failure)
    return ledger or Ledger.open(url, analyst=analyst, on_failure=on_failure)


def data_account(ledger: Ledger | None, name: str, explicit: bool, keys: tuple[str, ...]) -> str:
    """The account of a data set: the one that any of its sources belongs to, else the one of its name."""
    if ledger is None:
        return name
    owners = ledger.owners((*keys, *above(keys)))
    accounts = sorted(set(owners.values()))
    if len(accounts) > 1:
        raise LedgerError(
            f"These sources belong to several accounts of this ledger ({', '.join(accounts)}), and a query "
            "of them all would have to be charged to each. Nothing was opened. Open them one by one, or "
            "begin a ledger for all of them together."
        )
    if not accounts:
        return ledger.root_of(name)
    if explicit and ledger.root_of(name) != accounts[0]:
        raise another(next(iter(owners)), accounts[0], name)
    return accounts[0]


def protects(
    ledger: Ledger | None, name: str, unit: Unit | None, limit: Budget | None, stated: Unit | None
) -> Unit:
    """Whom the data set protects: as it was set at its first use, or as it is being set now, by `unit` or
    else by what its schema has `stated`."""
    accounts = {} if ledger is None else {account.name: account for account in ledger.accounts()}
    if name in accounts:
        return unit or accounts[name].unit
    if limit is None:
        raise no_limit(name, "this ledger")
    if unit is None and stated is not None:
        return stated
    if unit is None:
        raise InvalidParameter(
            f'Expected a unit for the data set "{name}": whom does it protect? Nothing was opened. For '
            'example unit=Unit.column("patient_id", max_rows=4), or Unit.row(); in the shell --unit '
            "patient_id "
            "--max-rows 4, or --unit row."
        )
    return unit


def _way_on(unit: Unit) -> str:
    """How whoever asked for this unit goes on with an account that protects another one."""
    if unit.kind is UnitKind.CLIENT:
        return "Let the same side add the noise as before (noise= and unit=; in the shell --noise, --replace)"
    return "Leave unit= (--unit, --max-rows) out"


def open_account(
    ledger: Ledger, name: str, unit: Unit | None, limit: Budget | None, analyst: str | None
) -> Account:
    """The account of a data set, made at its first use; the analyst's own part of it, if she has one."""
    accounts = {account.name: account for account in ledger.accounts()}
    if name not in accounts:
        if limit is None:
            raise no_limit(name, "this ledger")
        return _first(ledger, name, unit, limit, analyst)
    root = accounts[name]
    if root.parent is not None:
        raise InvalidParameter(
            f'The account "{name}" is a part of "{root.parent}", not a data set of its own. Nothing was '
            "opened. "
            "Name the data set, and its analyst with analyst= (--analyst)."
        )
    if unit is not None and unit != root.unit:
        raise UnitMismatch(
            f'The account "{name}" protects {root.unit}, so its data cannot be opened for {unit}. Nothing '
            f"was opened. {_way_on(unit)} to go on with it, or name another ledger."
        )
    if limit is not None and limit != root.limit:
        raise InvalidParameter(
            f'The account "{name}" has the limit {root.limit} already, so it cannot be opened with {limit}. '
            "Nothing was "
            "changed. Leave limit= (--limit) out, or raise it: curator.account.raise_limit(…), or `deniable "
            "ledger raise`."
        )
    own = None
    if analyst is not None:
        own = accounts.get(names.part(name, analyst))
    if own is None:
        return ledger.account(name, analyst=analyst)
    return part_of(ledger, own, name, analyst)


def note_version(account: Account, schema: Schema, version: str | None) -> None:
    """Entries say which version of the data they are of, if the owner opens it and has declared one: beside
    the schema or in it. Version 1 of a schema is what one has that declares none."""
    is_declared = version is not None or schema.version != Schema.version
    if is_declared and account.by_owner:
        account.declare_version(schema.version)


def part_of(ledger: Ledger, own: Account, root: str, analyst: str | None) -> Account:
    """An analyst's part of the data set `root`. What only has the name of one would spend another's budget on
    this data."""
    if own.parent != root:
        raise LedgerError(
            f'The account "{own.name}" has the name of an analyst\'s part of "{root}", and is none. Nothing '
            "was opened. "
            "Give the analyst another name."
        )
    return ledger.account(own.name, analyst=analyst)


def _first(
    ledger: Ledger,
    name: str,
    unit: Unit | None,
    limit: Budget,
    analyst: str | None,
    *,
    keys: Collection[str] = (),
    purpose: str | None = None,
) -> Account:
    try:
        ledger.create(name, unit, limit=limit, purpose=purpose, data=keys)
    except LedgerError:
        if name not in {account.name for account in ledger.accounts()}:
            raise
    return open_account(
        ledger, name, unit, limit, analyst
    )  # another process may have been faster, with another limit


def no_limit(name: str, where: str) -> InvalidParameter:
    return InvalidParameter(
        f'The data set "{name}" has no limit yet in {where}: how much may everything that leaves it tell '
        "about one person? "
        "Nothing was opened. Set it at the first use: limit=Budget(epsilon=3, delta=1e-6), or --limit 3:1e-6."
    )
