"""A ledger of an earlier version is brought to seals that follow the chain: once, by the
first who opens it with its key.

The rows of accounts were sealed to the ledger alone, so that an old one could be put back. They are computed
again from the journal, whose every seal is checked, and sealed to the entry that changed each last. A row
that is not the one which that entry wrote is left as it is, and refused when it is used. A second SETTLE of a
session, or a refund above its charge, which earlier versions let pass, gives nothing back any more: the
account is frozen, and the entry that freezes it says why.
"""

from __future__ import annotations

from deniable.errors import TamperedLedger
from deniable.ledger.journal import chain
from deniable.ledger.journal.entries import EntryKind, Standing, Status, touched
from deniable.ledger.journal.journal import Draft, Journal, read_standing
from deniable.ledger.journal.replay import Replay
from deniable.ledger.journal.tip import Tip
from deniable.ledger.store import Transaction, schema


def adopt(journal: Journal) -> None:
    """Nothing is done without the key, or to a journal that was tampered with: `verify` tells what is
    wrong."""
    if journal.key is None or not _old(journal):
        return
    try:
        with journal.store.writing() as transaction:
            if transaction.first(schema.FORM) == (None,):  # no other process was faster
                _adopt(journal, transaction, journal.key)
    except TamperedLedger:
        return


def _adopt(journal: Journal, transaction: Transaction, key: bytes) -> None:
    at = journal.followed(transaction, None)
    replay, faults = _replayed(journal, transaction)
    _seal(journal, transaction, replay, at, key)
    transaction.run(schema.ADOPT, new_form=schema.CHAINED)
    for name, problem in faults.items():
        at = _freeze(journal, transaction, replay.accounts[name], problem, at, key)
    if at.seq:
        journal.mark(transaction, at, key)


def _old(journal: Journal) -> bool:
    with journal.store.reading() as transaction:
        return transaction.first(schema.FORM) == (None,)


def _replayed(journal: Journal, transaction: Transaction) -> tuple[Replay, dict[str, str]]:
    """The accounts that the journal comes to, and what is wrong with those that were given back too much."""
    replay = Replay()
    faults: dict[str, str] = {}
    for entry in journal.entries(transaction):
        problems = replay.enter(entry)
        if problems and entry.kind is EntryKind.SETTLE:
            faults |= dict.fromkeys(touched(entry, entry.details), problems[0])
    return replay, faults


def _seal(journal: Journal, transaction: Transaction, replay: Replay, at: Tip, key: bytes) -> None:
    for row in transaction.fetch_all(schema.ACCOUNTS):
        standing, account = read_standing(row), replay.accounts.get(row[0])
        genuine = chain.sealed(key, journal.id, standing) == row[-1]
        if account is not None and genuine and standing.seq == account.seq:
            journal.put(transaction, account, key, at.accounts[account.name], new=False)


def _freeze(
    journal: Journal, transaction: Transaction, standing: Standing, problem: str, at: Tip, key: bytes
) -> Tip:
    frozen = [standing.name] * (standing.status is Status.OPEN)
    words = f"Frozen when the ledger was opened by this version. {problem}"
    draft = Draft(EntryKind.FREEZE, standing.name, "ledger", words, standing.unit_json, {"accounts": frozen})
    before = journal.standings_in(transaction, [standing.name], at)
    return journal.write(transaction, draft, before, key)[1]
