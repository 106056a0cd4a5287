"""Releases kept for whoever asks the same again, each under the ledger's key.

A release that is shown a second time reveals nothing new, so it costs the data set
nothing: the account that paid for it, and those it is part of, read it for free. An
analyst with an account of her own that has not paid learns something new *to her*: her
own account is charged, and the accounts above that have paid already are not.

Rows are sealed with the key of the ledger, a release together with its unit and a reader
together with the entry that paid, and both entries must stand in the journal. A row that was
edited or moved is never shown; a row that was removed only means that the question costs
again. A release is put back only as it was: what was paid for it stays paid. One that was kept
without its unit, by an earlier version, is not found, and neither is one of another unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deniable.errors import LedgerError, TamperedLedger
from deniable.ledger.journal import Journal, Standings, chain
from deniable.ledger.journal.chain import Head
from deniable.ledger.store import Row, Transaction, schema
from deniable.loss import Loss, Number, exact
from deniable.units import Unit


@dataclass(frozen=True)
class Kept:
    """A release as it was kept: the entry that paid for it, the loss and the δ it was
    charged at, and its text."""

    key: str
    entry: str
    loss_json: str
    delta: str | None
    private: bool
    content: str
    unit_json: str

    @property
    def unit(self) -> Unit:
        return Unit.from_json(self.unit_json)

    @property
    def loss(self) -> Loss:
        return Loss.from_json(self.loss_json)

    @property
    def fields(self) -> tuple[str | int | None, ...]:
        return (
            self.key,
            self.entry,
            self.loss_json,
            self.delta,
            int(self.private),
            self.content,
            self.unit_json,
        )

    @classmethod
    def from_release(
        cls,
        key: str,
        entry: str,
        loss: Loss,
        delta: Number | None,
        private: bool,
        content: str,
        unit: Unit | None = None,
    ) -> Kept:
        """A release to keep. Without a unit it can be read and is never recalled."""
        at = None
        if delta is not None:
            at = str(exact(delta))
        return cls(key, entry, loss.to_json(), at, private, content, "" if unit is None else unit.to_json())


@dataclass(frozen=True)
class LedgerView:
    """What stands in the ledger at one moment about the accounts on a path and about a question put to them:
    the release that is kept for it, if there is one, and who has paid for that, by which entry."""

    standings: Standings
    kept: Kept | None = None
    readers: Mapping[str, str] = field(default_factory=dict)

    def owing(self, names: Sequence[str]) -> list[str]:
        """Those of the accounts that have to pay before the question is answered."""
        return [name for name in names if self.kept is None or name not in self.readers]


def view(journal: Journal, names: Sequence[str], keys: Sequence[str], unit: Unit) -> LedgerView:
    """What stands there in one transaction, with the release of the first of these keys that has one.

    Only a release of this unit is found; without the ledger's key none is trusted.
    """
    with journal.following() as (transaction, at):
        standings = journal.standings_in(transaction, names, at)
        if journal.key is None:
            return LedgerView(standings)
        for row in (transaction.first(schema.RELEASE, this=key) for key in keys):
            if row is not None and row[-1] is not None and row[-1] == unit.to_json():
                release = _check_release(journal, transaction, row)
                return LedgerView(standings, release, dict(_readers(journal, transaction, release)))
        return LedgerView(standings)


def keep(journal: Journal, release: Kept, accounts: Sequence[str]) -> bool:
    """Keep a release that `accounts`, the first of them by its own charge, paid for.

    False if another process kept one for this question first: that one stays, and who
    paid for this one has not paid for that.
    """
    if journal.key is None:
        return False
    tip_before = journal.tip
    with journal.store.writing() as transaction:
        before = journal.standings_in(transaction, (), journal.followed(transaction, tip_before))
        _check_paid(before, release, accounts[0])
        row = transaction.first(schema.RELEASE, this=release.key)
        if row is not None and row[-1] is not None:
            return False
        for statement in (schema.FORGET, schema.FORGET_READERS):  # one that was kept without its unit
            transaction.run(statement, this=release.key)
        mac = _seal(journal, "release", release.fields)
        transaction.run(schema.KEEP, **dict(zip(FIELDS, release.fields, strict=True)), mac=mac)
        admit(journal, transaction, release, accounts, release.entry)
    return True


def admit(
    journal: Journal, transaction: Transaction, release: Kept, accounts: Iterable[str], entry: str
) -> None:
    """Write down that these accounts have paid for the release, by `entry`."""
    readers = dict(_readers(journal, transaction, release))
    for account in (name for name in accounts if name not in readers):
        mac = _seal(journal, "reader", (release.key, release.entry, account, entry))
        transaction.run(schema.ADMIT, key=release.key, account=account, entry=entry, mac=mac)


def _check_paid(standings: Standings, release: Kept, account: str) -> None:
    head = Head.parse(release.entry)
    entry = standings.entry(head.count)
    if entry is None or (entry.mac, entry.account, entry.loss_json) != (head.mac, account, release.loss_json):
        raise LedgerError(
            f'Entry {head.count} is not what the account "{account}" paid for this release. Nothing was kept.'
        )


def problems(journal: Journal, transaction: Transaction) -> Iterator[str]:
    """Every release and reader that is not as it was written. Those of earlier versions,
    without a unit, are not read."""
    for row in transaction.fetch_all(schema.RELEASES):
        if row[-1] is None:
            continue
        try:
            list(_readers(journal, transaction, _check_release(journal, transaction, row)))
        except TamperedLedger as error:
            yield str(error).split(". ")[0] + "."


FIELDS = ("key", "entry", "loss", "delta", "private", "content", "unit")


def _seal(journal: Journal, kind: str, fields: tuple[str | int | None, ...]) -> str:
    """The seal of a release, told apart from seals of entries and accounts, which follow a MAC."""
    return chain.sealed(journal.key or b"", f"{kind} of {journal.id}", fields)


def _check_release(journal: Journal, transaction: Transaction, row: Row) -> Kept:
    key, entry, loss, delta, private, content, mac, unit = row
    release = Kept(key, entry, loss, delta, bool(private), content, unit)
    if _seal(journal, "release", release.fields) != mac or not _stands(transaction, entry):
        raise _tampering(key, entry)
    return release


def _readers(journal: Journal, transaction: Transaction, release: Kept) -> Iterator[tuple[str, str]]:
    for _, account, mac, entry in transaction.fetch_all(schema.READERS, this=release.key):
        if _seal(journal, "reader", (release.key, release.entry, account, entry)) != mac or not _stands(
            transaction, entry
        ):
            raise _tampering(release.key, release.entry)
        yield account, entry


def _stands(transaction: Transaction, entry: str) -> bool:
    """Whether the journal holds this entry: after a cut or a roll-back, nobody has paid for what is kept."""
    head = Head.parse(entry)
    row = transaction.first(schema.ENTRY, this=head.count)
    return row is not None and row[-1] == head.mac


def _tampering(key: str, entry: str) -> TamperedLedger:
    return TamperedLedger(
        f"The release kept under {key[:12]}… (entry {entry.split(':')[0]}), or who has paid for it, is not "
        "as it was written. Nothing was shown and nothing was charged. `deniable ledger verify` tells what "
        "else differs."
    )
