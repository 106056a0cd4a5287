"""The ledger: accounts in one database, one chain of entries, one key."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from deniable.accounting.filters import Filter, Purpose
from deniable.errors import InvalidParameter, LedgerError, UnitMismatch
from deniable.guarantee import Budget
from deniable.ledger import names
from deniable.ledger.account import Account
from deniable.ledger.data_sets import beside, sources
from deniable.ledger.journal import Clock, Draft, Journal, Standings, now
from deniable.ledger.journal.adopt import adopt
from deniable.ledger.journal.chain import Head
from deniable.ledger.journal.entries import Entry, EntryKind, Standing, Status
from deniable.ledger.journal.verify import Verification, verify
from deniable.ledger.store import Store, schema
from deniable.process import Original
from deniable.units import Unit


class Ledger(Original):
    """Budgets that cannot be overspent, lost or raced: `Ledger.open("sqlite:///privacy.db")`.

    >>> from deniable import Budget, Unit
    >>> with Ledger.open("sqlite://") as ledger:
    ...     account = ledger.create("visits", Unit.row(), limit=Budget(3))
    ...     account.spent().epsilon, account.remaining().epsilon
    (0.0, 3.0)
    """

    WAY_OUT = "Open the ledger by its address; processes and threads share it."

    def __init__(
        self, journal: Journal, analyst: str, on_failure: Callable[[Exception], None] | None
    ) -> None:
        self._journal = journal
        self._on_failure = on_failure
        self.analyst = analyst

    @classmethod
    def open(
        cls,
        url: str = "sqlite:///privacy.db",
        *,
        key: str | Path | None = None,
        analyst: str | None = None,
        create: bool = True,
        clock: Clock = now,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> Ledger:
        """Open the ledger at `url`: `sqlite:///file.db`, `postgresql://…`, or
        `sqlite://` in memory, for tests.

        `key` is the file of the key, by default beside the database and named after it.
        `analyst` is who asks, by default the user of this process. `on_failure` is told
        why a mechanism failed: it belongs to the owner of the data, since the reason may
        depend on it. With `create=False` a ledger that does not exist is an error.
        """
        store = Store(str(url))
        try:
            journal = Journal(store, key=key, create=create, clock=clock)
            adopt(journal)
        except BaseException:  # raised again, before any data is opened
            store.close()
            raise
        return cls(journal, analyst or _user(), on_failure)

    @property
    def in_memory(self) -> bool:
        """Whether it is forgotten with this object."""
        return self._journal.store.in_memory

    def become(self, ledger: Ledger) -> None:
        """A proposal is this ledger from now on: whoever holds the one holds the other."""
        self._journal.store.close()
        self.__dict__.update(ledger.__dict__)

    # -------------------------------------------------------------------------------------------- accounts

    def create(
        self,
        name: str,
        unit: Unit | None = None,
        *,
        limit: Budget,
        owner: str | None = None,
        parent: str | None = None,
        purpose: Purpose | str | None = None,
        filter: Callable[[Budget], Filter] | None = None,
        data: Collection[str] = (),
    ) -> Account:
        """A new account; with `parent` an analyst's own limit inside another's: a charge
        counts in both or in neither.

        `purpose` says what the account is for, and so which rules share its δ: "counts" (many
        Gaussian answers), "run" (one charge that uses up the limit exactly) or "mixed" (the
        default). `filter` makes the rules itself: `Filter.basic`, `Filter.renyi`,
        `Filter.gaussians`. The owner of the outermost account is the one who may raise limits
        and unfreeze. `data` are keys of sources that belong to the account from the beginning.
        """
        names.account(name, parent)
        rules = _rules(limit, purpose, filter)

        def decide(standings: Standings) -> Draft:
            if name in standings or name in standings.tip.aliases:
                raise LedgerError(
                    f'There is an account "{name}" already. Nothing was changed; open it with ledger.account.'
                )
            above = None
            if parent is not None:
                above = _parent(standings, parent)
            own_unit = _unit(name, unit, above)
            holder = owner or (self.analyst if above is None else above.owner)
            sources.check(standings, name, data)
            bound = {}
            if data:
                bound = {"sources": sorted(data)}
            details = {"parent": parent, "owner": holder, "filter": rules.to_dict()} | bound
            words = f"Account of {holder}, limit {limit}, protects {own_unit}."
            return Draft(EntryKind.CREATE, name, self.analyst, words, own_unit.to_json(), details)

        self._journal.append([name] if parent is None else [name, parent], decide)
        return self.account(name)

    def reset(self, name: str, unit: Unit, *, limit: Budget, owner: str | None = None) -> Account:
        """Set unit and limit of an account anew, for its owner, as long as nothing was
        ever charged to it or to a part of it.

        A balance of 0 after a refund is not that. Journaled; afterwards as before, the
        limit is what is granted in all.
        """
        by = owner or self.analyst
        rules = _rules(limit, None, None)
        account = self.account(name)

        def decide(standings: Standings) -> Draft:
            standing = standings[account.name]
            if account.name in standings.tip.charged:
                raise LedgerError(
                    f'The account "{account.name}" has been charged, so its unit and limit stay. Nothing was '
                    "changed. A "
                    "limit can be raised: account.raise_limit(…), or `deniable ledger raise` in a shell."
                )
            if by != standing.owner or standing.parent is not None:
                raise LedgerError(
                    f"Only {standing.owner}, the owner of the data set, may set the unit and limit of "
                    f'"{account.name}" anew; you '
                    f"are {by}. Nothing was changed."
                )
            if any(other.startswith(f"{account.name}{names.STROKE}") for other in standings.tip.accounts):
                raise LedgerError(
                    f'The account "{account.name}" has parts, made for its limit. Nothing was changed.'
                )
            words = f"Set anew before the first charge: limit {limit}, protects {unit}."
            return Draft(
                EntryKind.RESET, account.name, by, words, unit.to_json(), {"filter": rules.to_dict()}
            )

        self._journal.append([account.name], decide)
        return self.account(account.name)

    def rename(self, name: str, new: str, *, owner: str | None = None) -> Account:
        """Give a data set's account a further name, for its owner. The old name goes on to mean it and stays
        taken, and its data stays its own: a new name is no second budget."""
        names.account(new, None)
        by = owner or self.analyst
        account = self.account(name)

        def decide(standings: Standings) -> Draft:
            standing = standings[account.name]
            if by != standing.owner or standing.parent is not None:
                raise LedgerError(
                    f'Only {standing.owner}, the owner, may rename the data set "{account.root}"; you are '
                    f"{by}. "
                    "Nothing was changed."
                )
            if new in standings.tip.accounts or new in standings.tip.aliases:
                raise LedgerError(f'The name "{new}" is taken. Nothing was changed.')
            words = f'"{account.name}" is now called "{new}" as well.'
            return Draft(EntryKind.RENAME, account.name, by, words, standing.unit_json, {"name": new})

        self._journal.append([account.name], decide)
        return self.account(new)

    def hand_over(self, name: str, to: str, *, owner: str | None = None, by: str | None = None) -> Account:
        """Give a data set's account, with its parts, to another owner, who may raise limits and unfreeze from
        now on. `owner` is whose it is; `by` is who is written down, if not she herself."""
        names.name(to, "an owner")
        holder = owner or self.analyst
        account = self.account(name)

        def decide(standings: Standings) -> Draft:
            standing = standings[account.name]
            if holder != standing.owner or standing.parent is not None:
                raise LedgerError(
                    f'Only {standing.owner}, the owner, may hand over the data set "{account.root}"; you are '
                    f"{holder}. Nothing was changed."
                )
            words = f"Handed over from {standing.owner} to {to}."
            details = {"owner": to, "accounts": [account.name, *parts]}
            return Draft(EntryKind.HAND, account.name, by or holder, words, standing.unit_json, details)

        parts = [other for other in self._journal.names() if other.startswith(account.name + names.STROKE)]
        self._journal.append([account.name, *parts], decide)
        return self.account(account.name)

    def root_of(self, name: str) -> str:
        """The account behind a name: itself, where it was never renamed."""
        return self._journal.resolved(name)

    def was_charged(self, name: str) -> bool:
        """Whether anything was ever charged to the account, whatever was given back later."""
        with self._journal.following() as (_, at):
            return at.aliases.get(name, name) in at.charged

    def owners(self, keys: Collection[str]) -> dict[str, str]:
        """The accounts that sources of data with these keys belong to."""
        return sources.owners(self._journal, keys)

    def bind_sources(self, name: str, keys: Collection[str]) -> None:
        """Bind sources of data to the account `name`, for good."""
        sources.bind(self._journal, self.account(name).root, self.analyst, keys)

    def account(self, name: str, *, analyst: str | None = None) -> Account:
        """The account of this name. `analyst` is who will ask, if not the one who opened the ledger."""
        return Account(self._journal, self._journal.path(name), analyst or self.analyst, self._on_failure)

    def accounts(self) -> list[Account]:
        """Every account, by name."""
        return [self.account(name) for name in self._journal.names()]

    # -------------------------------------------------------------------------------------------- the journal

    def history(self) -> list[Entry]:
        """Every entry, in order."""
        with self._journal.store.reading() as transaction:
            return list(self._journal.entries(transaction))

    def paid(self, request: str) -> int | None:
        """The entry that paid for a request (`requests.paid_once`), by its key; None if none did."""
        with self._journal.store.reading() as transaction:
            row = transaction.first(schema.REQUEST, this=request)
        if row is None:
            return None
        return int(row[1])

    def head(self) -> Head:
        """How many entries there are, and the last seal. Keep it elsewhere: `verify`
        finds a roll-back against it."""
        return self._journal.head()

    def verify(self, head: Head | str | None = None) -> Verification:
        """Read the whole journal and check every seal, number and sum, and that it still holds `head`."""
        return verify(self._journal, Head.parse(head) if isinstance(head, str) else head)

    def accept_clock(self, reason: str, *, owner: str | None = None) -> None:
        """Go on at the time that the clock shows now, though the journal has an entry of a later one.

        For the owner of a ledger that was written to while some machine's clock was ahead: until that time
        comes, every charge is refused. This is an entry of the journal, with the reason; what was written in
        the meantime stays as it is.
        """
        by = owner or self.analyst
        if not reason.strip():
            raise InvalidParameter("Expected a reason: it is written into the journal. Nothing was changed.")
        owners = {self.account(name).owner for name in self._journal.names()}
        if owners and by not in owners:
            raise LedgerError(
                f"Only an owner of its accounts ({', '.join(sorted(owners))}) may set the clock of a ledger; "
                f"you are {by}. Nothing was changed."
            )
        self._journal.append(
            (), lambda standings: Draft(EntryKind.CLOCK, "", by, reason, "{}", {"after": standings.tip.time})
        )

    def bind(self, data: str | os.PathLike[str]) -> None:
        """Mark a file of data as metered by this ledger. Warns, and names it, if another
        ledger lies beside the data."""
        beside.bind(self._journal, Path(data))

    def close(self) -> None:
        """Let go of the database. Accounts of this ledger can no longer be used."""
        self._journal.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _rules(limit: Budget, purpose: Purpose | str | None, filter: Callable[[Budget], Filter] | None) -> Filter:
    if filter is None:
        return Filter.of(limit, Purpose.MIXED if purpose is None else purpose)
    if purpose is not None:
        raise InvalidParameter(
            "Expected a purpose or a filter of an account, not both: a purpose chooses the filter."
        )
    rules = filter(limit)
    if rules.limit != limit:
        raise InvalidParameter(
            f"Expected a filter that keeps the limit {limit}, got one for {rules.limit}. Nothing was "
            "created. Name the rule alone, like filter=Filter.basic."
        )
    return rules


def _parent(standings: Standings, name: str) -> Standing:
    if name not in standings:
        raise LedgerError(f'There is no account "{name}" to be a part of. Nothing was created.')
    if standings[name].status is Status.CLOSED:
        raise LedgerError(f'The account "{name}" is closed. Nothing was created.')
    return standings[name]


def _unit(name: str, unit: Unit | None, parent: Standing | None) -> Unit:
    if parent is None:
        if unit is None:
            raise InvalidParameter(
                f'Expected a unit for the account "{name}": whom does it protect? For example Unit.row().'
            )
        return unit
    if unit is not None and unit != parent.unit:
        raise UnitMismatch(
            f'The account "{parent.name}" protects {parent.unit}, so no part of it can protect {unit}. '
            "Nothing "
            "was created."
        )
    return parent.unit


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user here, as in a container
        return "unknown"
