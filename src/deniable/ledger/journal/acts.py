"""What is done to an account other than charging it: its limit raised, frozen, running again, closed. Each is
one entry.

`path` names the account itself and those above it, in that order.
"""

from __future__ import annotations

from collections.abc import Sequence

from deniable.guarantee import Budget
from deniable.ledger.journal.entries import EntryKind, Status
from deniable.ledger.journal.journal import Draft, Journal, Standings


def raise_limit(journal: Journal, name: str, limit: Budget, by: str) -> None:
    def decide(before: Standings) -> Draft:
        standing = before[name]
        rules = standing.filter.raised(limit)
        words = f"Limit raised from {standing.filter.limit} to {limit}."
        return Draft(EntryKind.RAISE, name, by, words, standing.unit_json, {"filter": rules.to_dict()})

    journal.append([name], decide)


def freeze(journal: Journal, path: Sequence[str], names: Sequence[str], reason: str, by: str) -> None:
    """Freeze those of `names` that are open."""

    def decide(before: Standings) -> Draft:
        accounts = [name for name in names if before[name].status is Status.OPEN]
        return Draft(EntryKind.FREEZE, path[0], by, reason, before[path[0]].unit_json, {"accounts": accounts})

    journal.append(path, decide)


def thaw(journal: Journal, path: Sequence[str], note: str, by: str) -> None:
    """Those on the path that are frozen run again."""

    def decide(before: Standings) -> Draft:
        accounts = [name for name in path if before[name].status is Status.FROZEN]
        return Draft(EntryKind.THAW, path[0], by, note, before[path[0]].unit_json, {"accounts": accounts})

    journal.append(path, decide)


def close(journal: Journal, name: str, by: str) -> None:
    def decide(before: Standings) -> Draft:
        return Draft(EntryKind.CLOSE, name, by, "Closed.", before[name].unit_json)

    journal.append([name], decide)
