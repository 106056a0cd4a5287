"""Releases kept for whoever asks the same again, each under the ledger's key.

A release that is shown a second time reveals nothing new, so it costs the data set nothing: the account that paid for it, and
those it is part of, read it for free. An analyst with an account of her own that has not paid learns something new *to her*: her
own account is charged, and the accounts above that have paid already are not.

Rows are sealed with the key of the ledger. A row that was edited or moved is never shown; a row that was removed only means that
the question costs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deniable.errors import TamperedLedger
from deniable.ledger import chain, schema
from deniable.ledger.journal import Journal
from deniable.ledger.store import Row, Transaction
from deniable.loss import Loss, Number, exact


@dataclass(frozen=True)
class Kept:
    """A release as it was kept: the entry that paid for it, the loss and the δ it was charged at, and its text."""

    key: str
    entry: str
    loss_json: str
    delta: str | None
    private: bool
    content: str

    @property
    def loss(self) -> Loss:
        return Loss.from_json(self.loss_json)

    @property
    def fields(self) -> tuple[str | int | None, ...]:
        return (self.key, self.entry, self.loss_json, self.delta, int(self.private), self.content)

    @classmethod
    def of(cls, key: str, entry: str, loss: Loss, delta: Number | None, private: bool, content: str) -> Kept:
        return cls(key, entry, loss.to_json(), None if delta is None else str(exact(delta)), private, content)


def find(journal: Journal, key: str) -> tuple[Kept, set[str]] | None:
    """The release under `key` and the accounts that have paid for it. Without the ledger's key nothing can be trusted."""
    if journal.key is None:
        return None
    with journal.store.reading() as transaction:
        row = transaction.first(schema.RELEASE, this=key)
        return None if row is None else (_genuine(journal, row), set(_readers(journal, transaction, key)))


def keep(journal: Journal, kept: Kept, accounts: Iterable[str]) -> bool:
    """Keep a release that `accounts` paid for. False if another process kept one for this question first: that one stays, and
    who paid for this one has not paid for that."""
    if journal.key is None:
        return False
    with journal.store.writing() as transaction:
        if transaction.first(schema.RELEASE, this=kept.key) is not None:
            return False
        mac = _seal(journal, "release", kept.fields)
        transaction.run(schema.KEEP, **dict(zip(COLUMNS, (*kept.fields, mac), strict=True)))
        admit(journal, transaction, kept.key, accounts)
    return True


def admit(journal: Journal, transaction: Transaction, key: str, accounts: Iterable[str]) -> None:
    """Write down that these accounts have paid for the release under `key`."""
    known = set(_readers(journal, transaction, key))
    for account in (name for name in accounts if name not in known):
        transaction.run(schema.ADMIT, key=key, account=account, mac=_seal(journal, "reader", (key, account)))


def problems(journal: Journal, transaction: Transaction) -> Iterator[str]:
    """Every release and reader that is not as it was written."""
    for row in transaction.all(schema.RELEASES):
        try:
            _genuine(journal, row)
            list(_readers(journal, transaction, row[0]))
        except TamperedLedger as error:
            yield str(error)


COLUMNS = tuple(column.name for column in schema.releases.columns)


def _seal(journal: Journal, kind: str, fields: tuple[str | int | None, ...]) -> str:
    """Told apart from seals of entries, which follow a MAC, and of accounts, which follow the ledger's name alone."""
    return chain.sealed(journal.key or b"", f"{kind} of {journal.id}", fields)


def _genuine(journal: Journal, row: Row) -> Kept:
    key, entry, loss, delta, private, content, mac = row
    kept = Kept(key, entry, loss, delta, bool(private), content)
    if _seal(journal, "release", kept.fields) != mac:
        raise _tampered(key)
    return kept


def _readers(journal: Journal, transaction: Transaction, key: str) -> Iterator[str]:
    for _, account, mac in transaction.all(schema.READERS, this=key):
        if _seal(journal, "reader", (key, account)) != mac:
            raise _tampered(key)
        yield account


def _tampered(key: str) -> TamperedLedger:
    return TamperedLedger(
        f"The release kept under {key[:12]}… is not as it was written. Nothing was shown and nothing was charged. "
        "See `deniable ledger verify`."
    )
