"""What an account has spent by when: every charge, added up as the account's own rules do.

A journal only grows, so what was added up is kept by each process, and a page adds what is new.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from weakref import WeakKeyDictionary

from deniable.accounting.filters import Filter
from deniable.accounting.filters.charges import Charge
from deniable.ledger import Entry, EntryKind
from deniable.numbers import short_up
from deniable.plots import svg
from deniable.server.service import Service

MOST_STEPS = 200
_SUMS: WeakKeyDictionary[Service, dict[str, SpendingSums]] = WeakKeyDictionary()
_TURN = threading.Lock()


class Level(NamedTuple):
    """ε after one entry."""

    time: str
    epsilon: float


@dataclass
class SpendingSums:
    """The charges of an account up to the entry `seq`."""

    rules: Filter
    total: Charge
    seq: int = 0
    levels: list[Level] = field(default_factory=list)

    def add(self, entries: list[Entry], account: str) -> None:
        for entry in entries:
            if entry.seq <= self.seq:
                continue
            self.seq = entry.seq
            move = find_change(entry, account)
            if move is not None:
                sign, change = move
                self.total = self.total + change if sign > 0 else self.total - change
                self.levels.append(Level(entry.time, self.rules.spent(self.total).epsilon))


def levels(service: Service, entries: list[Entry], account: str) -> list[Level]:
    """Each level of an account, from the journal that is for whoever looks."""
    standing = service.ledger.account(account).standing()
    rules = standing.filter
    with _TURN:
        sums_by_account = _SUMS.setdefault(service, {})
        sums = sums_by_account.get(account)
        if sums is None or sums.rules != rules:
            sums = sums_by_account[account] = SpendingSums(rules, rules.nothing)
        sums.add(entries, account)
        return list(sums.levels)


def find_change(entry: Entry, account: str) -> tuple[int, Charge] | None:
    """What an entry adds to an account (+1) or gives back (−1)."""
    match entry.kind:
        case EntryKind.RUN | EntryKind.OPEN:
            sign, changes = 1, entry.details["charges"]
        case EntryKind.SETTLE:
            sign, changes = -1, entry.details["returned"]
        case _:
            return None
    if account in changes:
        return (sign, Charge.from_dict(changes[account]))
    return None


def picture(service: Service, entries: list[Entry], account: str) -> str:
    """Steps below the limit; "" where nothing was spent."""
    charges = levels(service, entries, account)
    if not charges:
        return ""
    step = max(len(charges) // MOST_STEPS, 1)
    points = charges[::-1][::step][::-1]
    limit = service.ledger.account(account).standing().filter.limit
    return svg.steps(
        [datetime.fromisoformat(level.time).timestamp() for level in points],
        [level.epsilon for level in points],
        [level.time[:16].replace("T", " ") for level in points],
        limit=float(limit.epsilon),
        name=f"{account}: ε spent over time",
        label=f"ε spent by {account} over time: {len(charges)} charges, now {short_up(charges[-1].epsilon)}",
    )
