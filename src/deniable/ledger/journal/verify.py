"""Check a journal: every seal, every number, every sum, and the head that was kept elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deniable.errors import DeniableError
from deniable.ledger import releases
from deniable.ledger.journal import chain
from deniable.ledger.journal.chain import Head
from deniable.ledger.journal.entries import Entry, EntryKind, Standing
from deniable.ledger.journal.journal import Journal, genuine
from deniable.ledger.journal.replay import Replay
from deniable.ledger.store import Row, Transaction, schema

MOST = 20
"""Problems told one by one; one edit may break much of what follows."""


@dataclass(frozen=True)
class Verification:
    """What was found, and what could not be seen."""

    head: Head
    problems: tuple[str, ...]
    unseen: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


NO_KEY = "Without the key, an edit of an entry or of an account cannot be seen: seals were not checked."
NO_HEAD = "Without a head kept elsewhere, a roll-back of the whole ledger to an earlier state cannot be seen."
HOLDER = "Whoever holds the key can write any journal; only heads kept elsewhere bind them."


def verify(journal: Journal, head: Head | None) -> Verification:
    """Read everything once, in order, as it stood at one moment."""
    with journal.store.reading() as transaction:
        reading = _Reading(journal, transaction, head)
        problems = list(reading.problems())
    unseen = [NO_KEY] * (journal.key is None) + [NO_HEAD] * (head is None) + [HOLDER]
    return Verification(Head(reading.count, reading.mac), _few(problems), tuple(unseen))


def _few(problems: list[str]) -> tuple[str, ...]:
    more = len(problems) - MOST
    return tuple(problems[:MOST]) + ((f"And {more:,} more.",) if more > 0 else ())


class _Reading:
    """One pass over the journal: the chain, the accounts it comes to, and the limits on the way."""

    def __init__(self, journal: Journal, transaction: Transaction, head: Head | None) -> None:
        self._journal = journal
        self._transaction = transaction
        self._head = head
        self._replay = Replay()
        self.count = 0
        self.mac = journal.root() or ""
        self._time = ""

    def problems(self) -> Iterator[str]:
        try:
            for problem in self._journal.store.damage(self._transaction):
                yield f"The file of the ledger is damaged: {problem}."
            for entry in self._journal.entries(self._transaction):
                yield from self._entry(entry)
        except DeniableError as error:
            yield str(error)
            return
        yield from self._kept_head()
        yield from self._standings()
        if self._journal.key is not None:
            yield from releases.problems(self._journal, self._transaction)

    def _entry(self, entry: Entry) -> Iterator[str]:
        if entry.seq != self.count + 1:
            yield f"Entries {self.count + 1} to {entry.seq - 1} are missing."
        if (
            self._journal.key is not None
            and chain.sealed(self._journal.key, self.mac, entry.content) != entry.mac
        ):
            yield f"Entry {entry.seq} was edited, moved, or does not follow the entry before it."
        if entry.time < self._time and entry.kind is not EntryKind.CLOCK:
            yield f"Entry {entry.seq} is dated before the entry before it."
        self.count, self.mac, self._time = entry.seq, entry.mac, entry.time
        if self._head is not None and self._head.count == entry.seq and self._head.mac != entry.mac:
            yield (
                f"Entry {entry.seq} is not the one that the head was taken of: the ledger was rolled back "
                "and written on."
            )
        yield from self._replay.enter(entry)

    def _kept_head(self) -> Iterator[str]:
        if self._head is not None and self._head.count > self.count:
            yield (
                f"The head was taken at {self._head.count} entries; there are {self.count}: the end was cut "
                "off or rolled back."
            )

    def _standings(self) -> Iterator[str]:
        """The table of accounts, which is what charges are granted by, against what the journal comes to."""
        rows = {row[0]: row for row in self._transaction.fetch_all(schema.ACCOUNTS)}
        for name in sorted(rows.keys() | self._replay.accounts.keys()):
            yield from self._standing(name, rows.get(name))

    def _standing(self, name: str, row: Row | None) -> Iterator[str]:
        truth = self._replay.accounts.get(name)
        if truth is None:
            yield f'The account "{name}" is not what the journal comes to: no entry ever made it.'
        elif row is None:
            yield (
                f'The account "{name}" is not what the journal comes to: its row is missing. Entry '
                f"{truth.seq} changed it last."
            )
        elif differing := [
            field for field, a, b in zip(Standing._fields, row, truth, strict=False) if a != b
        ]:
            yield (
                f'The account "{name}" in the table of accounts is not as it was written: '
                f"{_listed(differing)} "
                f"{'is' if len(differing) == 1 else 'are'} not what the journal comes to. Entry {truth.seq} "
                "changed it last."
            )
        elif genuine(self._journal.key, row, self._replay.seals[name]) is None:
            yield (
                f'The account "{name}" in the table of accounts is not as it was written: it has another '
                "seal."
            )


WORDS = {
    "unit_json": "its unit",
    "filter_json": "its limit",
    "spent_json": "what is spent",
    "status": "its status",
    "seq": "its last entry",
    "parent": "what it is part of",
    "owner": "its owner",
}


def _listed(fields: list[str]) -> str:
    return ", ".join(WORDS.get(field, field) for field in fields)
