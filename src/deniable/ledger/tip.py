"""The end of the journal as this process has checked it: what the next entry must follow.

A row of the table `accounts` says what is spent, and its seal says that we wrote it, but neither says that it is the *last* that
we wrote: an old row put back has a good seal. Only the chain of entries tells what came last. So every process follows it: it
checks the seal of each entry that it has not seen, and keeps which entry last changed each account: only a row that is sealed to
that entry's seal is good. When nobody else wrote, there is nothing to follow, and a charge costs what it did.

So that a process need not begin at the first entry, the journal is summed up now and then in a *mark*: the tip at an entry,
sealed. An old mark, or none, costs time and nothing else, since what follows it is read in any case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from deniable.errors import TamperedLedger
from deniable.ledger import chain
from deniable.ledger.books import Entry, Kind, touched

EVERY = 500
"""Entries from one mark to the next."""


class Tip(NamedTuple):
    """What the journal comes to at its entry `seq`. A value: following makes a new one.

    `accounts` names for each account the seal of the entry that changed it last. `begun` counts the steps begun of each session
    that is not settled, and of each run whose steps were noted.
    """

    seq: int
    time: str
    mac: str
    accounts: Mapping[str, str]
    begun: Mapping[int, int]

    def to_json(self) -> str:
        state = [self.seq, self.time, self.mac, dict(self.accounts), list(self.begun.items())]
        return json.dumps(state, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Tip:
        seq, time, mac, accounts, begun = json.loads(text)
        return cls(seq, time, mac, accounts, dict(begun))


def start(root: str) -> Tip:
    """Before the first entry."""
    return Tip(0, "", root, {}, {})


def followed(tip: Tip, entries: Iterable[Entry], key: bytes | None) -> Tip:
    """The tip after `entries`, each of which must follow the one before. Without the key only their numbers are checked."""
    seq, time, mac = tip.seq, tip.time, tip.mac
    accounts, begun = dict(tip.accounts), dict(tip.begun)
    for entry in entries:
        if entry.seq != seq + 1 or (key is not None and chain.sealed(key, mac, entry.content) != entry.mac):
            raise broken(entry.seq)
        seq, time, mac = entry.seq, entry.time, entry.mac
        _note(entry, entry.details, accounts, begun)
    return Tip(seq, time, mac, accounts, begun)


def advanced(tip: Tip, entry: Entry, details: Mapping[str, Any]) -> Tip:
    """The tip after an entry that this process has written itself."""
    accounts, begun = dict(tip.accounts), dict(tip.begun)
    _note(entry, details, accounts, begun)
    return Tip(entry.seq, entry.time, entry.mac, accounts, begun)


def _note(entry: Entry, details: Mapping[str, Any], accounts: dict[str, str], begun: dict[int, int]) -> None:
    for name in touched(entry, details):
        accounts[name] = entry.mac
    match entry.kind:
        case Kind.OPEN:
            begun[entry.seq] = 0
        case Kind.SETTLE:
            begun.pop(details["session"], None)
        case Kind.BEGIN:
            begun[details["entry"]] = details["stop"]


def broken(seq: int) -> TamperedLedger:
    return TamperedLedger(
        f"Entry {seq} of the journal is not as it was written, or does not follow the entry before it. "
        "Nothing was charged and nothing was run."
    )


def rolled_back(seq: int) -> TamperedLedger:
    return TamperedLedger(
        f"The journal no longer holds entry {seq} as this process has seen it: its end was cut off, or the ledger was set back "
        "to an earlier state. Nothing was charged and nothing was run. Restore the newest copy."
    )


def sealed_mark(key: bytes, ledger: str, state: str) -> dict[str, Any]:
    return {"state": state, "mac": chain.sealed(key, f"mark of {ledger}", [state])}
