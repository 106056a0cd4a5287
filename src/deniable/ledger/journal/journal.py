"""The journal: entries that only grow in number, each sealed to the one before, and the
accounts they come to."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deniable.errors import InvalidParameter, LedgerError, TamperedLedger
from deniable.ledger.journal import chain, tip
from deniable.ledger.journal.chain import Head
from deniable.ledger.journal.entries import COLUMNS, Entry, EntryKind, Standing, Status, apply, compact
from deniable.ledger.journal.tip import Tip
from deniable.ledger.store import Row, Store, Transaction, schema
from deniable.ledger.store.migrate import migrate
from deniable.process import Original

SKEW = timedelta(seconds=10)
"""How far clocks of several machines may differ. Within it, an entry gets the time of the one before."""

ACCOUNT_COLUMNS = tuple(column.name for column in schema.accounts.columns)
PAGE = 2000
TEXT_LIMIT = 10_000

Clock = Callable[[], datetime]


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Draft:
    """An entry before it has a number, a time and a seal."""

    kind: EntryKind
    account: str
    analyst: str
    description: str
    unit_json: str
    details: Mapping[str, Any] = field(default_factory=dict)
    loss_json: str | None = None


class Standings(dict[str, Standing]):
    """The accounts that were asked for and exist, as they stand in one transaction at the entry `tip`."""

    def __init__(
        self, accounts: Mapping[str, Standing], tip: Tip, entry: Callable[[int], Entry | None]
    ) -> None:
        super().__init__(accounts)
        self.tip = tip
        self.entry = entry
        """The entry of a number, if there is one and it is as it was written."""


class Journal(Original):
    """Reads and appends. `key` is None if it was not found: then nothing can be
    appended, and seals are not checked."""

    def __init__(self, store: Store, *, key: str | Path | None, create: bool, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        migrate(store, create=create)
        self.key_path = chain.key_path(key, store.path)
        self.id, self.key = self._identity()
        self._tip: Tip | None = None
        self.successor: Callable[[], Journal] | None = None
        """Of a journal that is only proposed: makes the real one, in which everything is then written."""

    def _identity(self) -> tuple[str, bytes | None]:
        with self.store.reading() as transaction:
            identity = transaction.first(schema.IDENTITY)
        if identity is None:
            return self._begin()
        key = None
        if not self.store.in_memory:
            key = chain.read_key(self.key_path)
        if key is not None and chain.key_check(key, identity[0]) != identity[1]:
            raise LedgerError(
                f"The key in {self.key_path} is not the key of the ledger in {self.store}. Nothing was "
                "opened."
            )
        return identity[0], key

    def _begin(self) -> tuple[str, bytes]:
        """The identity of a new ledger; of two processes that come at once the first decides."""
        key = self._new_key()
        with self.store.writing() as transaction:
            identity = transaction.first(schema.IDENTITY)
            name = str(uuid.uuid4()) if identity is None else str(identity[0])
            check = chain.key_check(key, name)
            if identity is None:
                transaction.run(schema.BEGIN, id=name, key_check=check, form=schema.CHAINED)
            elif identity[1] != check:
                raise LedgerError(f"The key in {self.key_path} is not the key of the ledger in {self.store}.")
        return name, key

    def _new_key(self) -> bytes:
        if self.store.in_memory:
            return uuid.uuid4().bytes + uuid.uuid4().bytes
        return chain.read_key(self.key_path) or chain.make_key(self.key_path)

    # -------------------------------------------------------------------------------------------- writing

    def append(
        self,
        names: Sequence[str],
        decide: Callable[[Standings], Draft],
        also: Callable[[Transaction, Entry], None] | None = None,
    ) -> Entry:
        """Add the entry that `decide` makes of the accounts `names`, and what follows
        from it. Durable on return.

        `decide` runs inside the transaction, alone among writers; if it raises, nothing was written. What
        `also` writes stands or falls with the entry.
        """
        if self.successor is not None:
            return self.successor().append(names, decide, also)
        key = self._writer()
        for name in names:
            _check_text(name)
        tip_before = self._tip
        with self.store.writing() as transaction:
            before = self.standings_in(transaction, names, self.followed(transaction, tip_before))
            entry, after = self.write(transaction, decide(before), before, key)
            if also is not None:
                also(transaction, entry)
        self._tip = after  # only what is durable is known
        return entry

    def write(
        self, transaction: Transaction, draft: Draft, before: Standings, key: bytes
    ) -> tuple[Entry, Tip]:
        """The entry of a draft, inside a transaction, and the tip after it."""
        entry = self._sealed(draft, before.tip, key)
        transaction.run(schema.APPEND, **dict(zip(COLUMNS, entry, strict=True)))
        transaction.newest = entry.seq, entry.mac
        for name, standing in apply(entry, before, draft.details).items():
            self.put(transaction, standing, key, entry.mac, new=name not in before)
        after = tip.advanced(before.tip, entry, draft.details)
        if entry.seq % tip.EVERY == 0:
            self.mark(transaction, after, key)
        return entry, after

    def mark(self, transaction: Transaction, after: Tip, key: bytes) -> None:
        transaction.run(schema.UNMARK, before=after.seq - tip.EVERY, this=after.seq)
        transaction.run(schema.MARK, seq=after.seq, **tip.sealed_mark(key, self.id, after.to_json()))

    def _sealed(self, draft: Draft, last: Tip, key: bytes) -> Entry:
        for text in (draft.analyst, draft.description):
            _check_text(text)
        seq, time = last.seq + 1, self._time("" if draft.kind is EntryKind.CLOCK else last.time)
        details = compact(draft.details)
        body = (
            seq,
            time,
            draft.kind,
            draft.account,
            draft.analyst,
            draft.description,
            draft.loss_json,
            draft.unit_json,
            details,
        )
        return Entry(*body, mac=chain.sealed(key, last.mac, body))

    def _time(self, last: str) -> str:
        """UTC with microseconds, never before the entry before."""
        moment = self._clock()
        text = moment.astimezone(UTC).isoformat(timespec="microseconds")
        if text >= last:
            return text
        if moment + SKEW < datetime.fromisoformat(last):
            raise LedgerError(
                f"The clock reads {text}, before the last entry of the ledger at {last}. "
                "Nothing was charged and nothing was run. Set the clock of this machine; if it is right and "
                "the entry is not, an "
                'owner goes on with ledger.accept_clock("…"), or `deniable ledger clock --accept "…"` in a '
                "shell."
            )
        return last

    def put(self, transaction: Transaction, standing: Standing, key: bytes, entry: str, *, new: bool) -> None:
        """Write an account down, sealed to the seal of the `entry` that changed it."""
        mac = chain.sealed(key, entry, standing)
        if new:
            transaction.run(schema.OPEN_ACCOUNT, **dict(zip(ACCOUNT_COLUMNS, (*standing, mac), strict=True)))
            return
        transaction.run(
            schema.UPDATE_ACCOUNT,
            this=standing.name,
            new_unit=standing.unit_json,
            new_filter=standing.filter_json,
            new_spent=standing.spent_json,
            new_owner=standing.owner,
            new_status=standing.status,
            new_seq=standing.seq,
            new_mac=mac,
        )

    def _writer(self) -> bytes:
        if self.key is None:
            raise LedgerError(
                f"The key of the ledger in {self.store} was not found at {self.key_path}, so it can only be "
                f"read. Nothing was charged. Name the file in {chain.VARIABLE}."
            )
        return self.key

    def _root(self, key: bytes) -> str:
        """What the first entry is sealed to: entries of one ledger never fit another."""
        return chain.sealed(key, "journal of", [self.id])

    # -------------------------------------------------------------------------------------------- reading

    def check_held(self, seq: int, mac: str) -> None:
        """Raise unless the ledger that its path shows holds an entry. What was paid for by one that is no
        longer there is not given out."""
        if self.store.path is None:
            return
        with self.store.reading() as transaction:
            row = transaction.first(schema.ENTRY, this=seq)
            if row is None or row[-1] != mac:
                raise tip.rolled_back(seq)

    def standings(self, names: Sequence[str]) -> Standings:
        """The accounts of these names that there are."""
        with self.following() as (transaction, at):
            return self.standings_in(transaction, names, at)

    @property
    def tip(self) -> Tip | None:
        """The end of the journal as this process knows it, if it has looked."""
        return self._tip

    @contextmanager
    def following(self) -> Iterator[tuple[Transaction, Tip]]:
        """One consistent view, and the tip of the journal in it."""
        tip_before = self._tip  # before the view is taken, which therefore holds all of it
        with self.store.reading() as transaction:
            at = self.followed(transaction, tip_before)
            yield transaction, at
        self._tip = at

    def followed(self, transaction: Transaction, known: Tip | None) -> Tip:
        """Check every entry that this process has not seen, and that those it has seen are still there."""
        at = self._marked(transaction) if known is None else known
        last = transaction.first(schema.LAST)
        if last is not None and (last[0], last[2]) == (at.seq, at.mac):
            return at  # nobody wrote in between
        rows = transaction.fetch_all(schema.ENTRIES, after=at.seq - 1, most=PAGE)
        if at.seq and (not rows or (rows[0][0], rows[0][-1]) != (at.seq, at.mac)):
            raise tip.rolled_back(at.seq)
        fresh = rows
        if at.seq:
            fresh = rows[1:]
        if fresh:
            at = tip.followed(at, map(read_entry, fresh), self.key)
        while len(rows) == PAGE:
            rows = transaction.fetch_all(schema.ENTRIES, after=at.seq, most=PAGE)
            at = tip.followed(at, map(read_entry, rows), self.key)
        return at

    def _marked(self, transaction: Transaction) -> Tip:
        """Where to begin: at the newest mark, if it is as it was written, else before the first entry."""
        row = transaction.first(schema.MARKED)
        if row is None or (
            self.key is not None and tip.sealed_mark(self.key, self.id, row[1])["mac"] != row[2]
        ):
            return tip.start(self.root() or "")
        return Tip.from_json(row[1])

    def names(self) -> list[str]:
        """Of every account."""
        with self.following() as (_, at):
            return sorted(at.accounts)

    def resolved(self, name: str) -> str:
        """The account behind a name that it was given later."""
        with self.following() as (_, at):
            return at.aliases.get(name, name)

    def path(self, name: str) -> list[Standing]:
        """The account, the one it is part of, and so on."""
        standings: list[Standing] = []
        account: str | None = self.resolved(name)
        while account is not None:
            standing = self.standings([account]).get(account)
            if standing is None:
                raise LedgerError(
                    f'There is no account "{account}" in {self.store}. Those there are: ledger.accounts(), '
                    "or `deniable ledger list`."
                )
            standings.append(standing)
            account = standing.parent
        return standings

    def standings_in(self, transaction: Transaction, names: Sequence[str], at: Tip) -> Standings:
        rows = {name: transaction.first(schema.ACCOUNT, this=name) for name in names}
        standings = {
            name: self._genuine(name, row, at) for name, row in rows.items() if row or name in at.accounts
        }
        return Standings(standings, at, lambda seq: self._entry(transaction, seq))

    def _entry(self, transaction: Transaction, seq: int) -> Entry | None:
        row = transaction.first(schema.ENTRY, this=seq)
        if row is None:
            return None
        entry = read_entry(row)
        before = transaction.first(schema.ENTRY, this=seq - 1)
        mac = self.root() if before is None else before[-1]
        if self.key is not None and chain.sealed(self.key, str(mac), entry.content) != entry.mac:
            raise tip.broken(seq)
        return entry

    def _genuine(self, name: str, row: Row | None, at: Tip) -> Standing:
        """The account in a row, if it is as its last entry wrote it: an edited, older or
        missing row must not grant anything."""
        standing = None
        if row is not None:
            standing = genuine(self.key, row, at.accounts.get(name))
        if standing is None:
            raise TamperedLedger(
                f'The account "{name}" in {self.store} is not as it was written. Nothing was charged and '
                "nothing was run. "
                "`deniable ledger verify` tells what differs."
            )
        return standing

    def entries(self, transaction: Transaction) -> Iterator[Entry]:
        """The whole journal in order, a page at a time."""
        after = 0
        while True:
            rows = transaction.fetch_all(schema.ENTRIES, after=after, most=PAGE)
            yield from map(read_entry, rows)
            if len(rows) < PAGE:
                return
            after = rows[-1][0]

    def head(self) -> Head:
        with self.store.reading() as transaction:
            last = transaction.first(schema.LAST)
        if last is None:
            return Head(0, "0" * 64)
        return Head(last[0], last[2])

    def root(self) -> str | None:
        """What the first entry is sealed to, if the key is known."""
        if self.key is None:
            return None
        return self._root(self.key)


KINDS = {kind.value: kind for kind in EntryKind}
STATUSES = {status.value: status for status in Status}


def read_entry(row: Row) -> Entry:
    kind = KINDS.get(row[2])
    if kind is None:
        raise TamperedLedger(
            f"Entry {row[0]} of the journal is of no known kind. It was edited, or written by a later "
            "version."
        )
    return Entry._make((row[0], row[1], kind, *row[3:]))


def genuine(key: bytes | None, row: Row, entry: str | None) -> Standing | None:
    """The account in a row that is sealed to the seal of the `entry` that changed it
    last. Without the key any row is."""
    standing = read_standing(row)
    is_genuine = entry is not None and (key is None or chain.sealed(key, entry, standing) == row[-1])
    if is_genuine:
        return standing
    return None


def read_standing(row: Row) -> Standing:
    status = STATUSES.get(row[6])
    if status is None:
        raise TamperedLedger(
            f'The account "{row[0]}" has no known status. It was edited, or written by a later version.'
        )
    return Standing._make((*row[:6], status, row[7]))


def _check_text(text: str) -> None:
    """Names and descriptions are stored as they are, so they must be text that every database can hold."""
    if (
        not isinstance(text, str)
        or "\0" in text
        or len(text) > TEXT_LIMIT
        or text != text.encode(errors="replace").decode()
    ):
        raise InvalidParameter(
            f"Expected plain text of at most {TEXT_LIMIT:,} characters, got {str(text)[:40]!r}."
        )
