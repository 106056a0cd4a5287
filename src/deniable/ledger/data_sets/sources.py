"""A physical source of data belongs to one account of a ledger: under two names it would be granted twice.

A source is known by keys: texts like `path:/data/visits.parquet` and `file:66306:1835012` (device and inode),
which whoever opens it makes. The first charge binds all keys of a data set to its account, by an entry of the
journal; from then on whatever has one of them is charged to that account.
"""

from __future__ import annotations

from collections.abc import Collection

from deniable.errors import LedgerError
from deniable.ledger.journal import Draft, Journal, Standings
from deniable.ledger.journal.entries import EntryKind


def owners(journal: Journal, keys: Collection[str]) -> dict[str, str]:
    """The account that each of these keys belongs to, for those that belong to one."""
    with journal.following() as (_, at):
        return {key: at.sources[key] for key in keys if key in at.sources}


def bind(journal: Journal, root: str, author: str, keys: Collection[str]) -> None:
    """Bind these keys to the account `root`, durably. Nothing is written if they are bound already."""
    if not [key for key in keys if owners(journal, [key]).get(key) != root]:
        return

    def decide(standings: Standings) -> Draft:
        check(standings, root, keys)
        fresh = sorted(key for key in keys if key not in standings.tip.sources)
        words = f'Data of the account "{root}".'
        return Draft(EntryKind.BIND, root, author, words, standings[root].unit_json, {"sources": fresh})

    journal.append([root], decide)


def check(standings: Standings, root: str, keys: Collection[str]) -> None:
    """Raise if one of these keys belongs to another account."""
    for key in keys:
        if standings.tip.sources.get(key, root) != root:
            raise another(key, standings.tip.sources[key], root)


def another(key: str, owner: str, account: str) -> LedgerError:
    return LedgerError(
        f'The source {key} belongs to the account "{owner}" of this ledger, so it is not charged to '
        f'"{account}": one source has one budget. Nothing was run and nothing was charged. Open it as '
        f'account="{owner}" (--account {owner}).'
    )
