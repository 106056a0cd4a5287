"""The end of the journal as this process has checked it: what the next entry must follow.

A row of the table `accounts` says what is spent, and its seal says that we wrote it, but neither says that it
is the *last* that we wrote: an old row put back has a good seal. Only the chain of entries tells what came
last. So every process follows it: it checks the seal of each entry that it has not seen, and keeps which
entry last changed each account: only a row that is sealed to that entry's seal is good. When nobody else
wrote, there is nothing to follow, and a charge costs what it did.

So that a process need not begin at the first entry, the journal is summed up now and
then in a *mark*: the tip at an entry, sealed. An old mark, or none, costs time and
nothing else, since what follows it is read in any case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from deniable.errors import TamperedLedger
from deniable.ledger.journal import chain
from deniable.ledger.journal.entries import Entry, EntryKind, touched

EVERY = 500
"""Entries from one mark to the next."""


class Tip(NamedTuple):
    """What the journal comes to at its entry `seq`. A value: following makes a new one.

    `accounts` names for each account the seal of the entry that changed it last. `begun` counts the steps
    begun of each session that is not settled, and of each run whose steps were noted. `sources` names the
    account that each source of data belongs to, `aliases` the account behind each new name, and `charged` has
    every account that was ever charged, refunds or not. `forgotten` counts for each account the people that
    were forgotten, beside the number at which everything is made anew.
    """

    seq: int
    time: str
    mac: str
    accounts: Mapping[str, str]
    begun: Mapping[int, int]
    sources: Mapping[str, str]
    aliases: Mapping[str, str]
    charged: frozenset[str]
    forgotten: Mapping[str, tuple[int, int]] = MappingProxyType({})

    def to_json(self) -> str:
        state = [
            self.seq,
            self.time,
            self.mac,
            dict(self.accounts),
            list(self.begun.items()),
            dict(self.sources),
            dict(self.aliases),
            sorted(self.charged),
            *(
                [dict(self.forgotten)] if self.forgotten else []
            ),  # a mark without any reads as it did before there were some
        ]
        return json.dumps(state, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Tip:
        seq, time, mac, accounts, begun, sources, aliases, payers, *later = json.loads(text)
        forgotten = {name: (number, at) for name, (number, at) in (later[0] if later else {}).items()}
        return cls(seq, time, mac, accounts, dict(begun), sources, aliases, frozenset(payers), forgotten)


def start(root: str) -> Tip:
    """Before the first entry."""
    return Tip(0, "", root, {}, {}, {}, {}, frozenset())


def followed(tip: Tip, entries: Iterable[Entry], key: bytes | None) -> Tip:
    """The tip after `entries`, each of which must follow the one before. Without the key
    only their numbers are checked."""
    seq, time, mac, state = tip.seq, tip.time, tip.mac, _State(tip)
    for entry in entries:
        if entry.seq != seq + 1 or (key is not None and chain.sealed(key, mac, entry.content) != entry.mac):
            raise broken(entry.seq)
        seq, time, mac = entry.seq, entry.time, entry.mac
        state.note(entry, entry.details)
    return state.tip(seq, time, mac)


def advanced(tip: Tip, entry: Entry, details: Mapping[str, Any]) -> Tip:
    """The tip after an entry that this process has written itself."""
    state = _State(tip)
    state.note(entry, details)
    return state.tip(entry.seq, entry.time, entry.mac)


class _State:
    """A tip in the making. What an entry does not change is shared with the tip before it."""

    def __init__(self, tip: Tip) -> None:
        self.accounts, self.begun = dict(tip.accounts), dict(tip.begun)
        self.sources, self.aliases, self.charged = tip.sources, tip.aliases, tip.charged
        self.forgotten = tip.forgotten

    def note(self, entry: Entry, details: Mapping[str, Any]) -> None:
        accounts = tuple(touched(entry, details))
        for name in accounts:
            self.accounts[name] = entry.mac
        match entry.kind:
            case EntryKind.OPEN | EntryKind.RUN:
                self._charge(entry, accounts)
            case EntryKind.SETTLE:
                self.begun.pop(details["session"], None)
            case EntryKind.BEGIN:
                self.begun[details["entry"]] = details["stop"]
            case EntryKind.BIND | EntryKind.CREATE:
                self.sources = {**self.sources, **dict.fromkeys(details.get("sources", ()), entry.account)}
            case EntryKind.RENAME:
                self.aliases = {**self.aliases, details["name"]: entry.account}
            case EntryKind.FORGET:
                self.forgotten = {**self.forgotten, entry.account: (details["number"], details["declared"])}

    def _charge(self, entry: Entry, changed: tuple[str, ...]) -> None:
        if not self.charged.issuperset(changed):
            self.charged = self.charged.union(changed)
        if entry.kind is EntryKind.OPEN:
            self.begun[entry.seq] = 0

    def tip(self, seq: int, time: str, mac: str) -> Tip:
        parts = (self.accounts, self.begun, self.sources, self.aliases, self.charged, self.forgotten)
        return Tip(seq, time, mac, *parts)


def broken(seq: int) -> TamperedLedger:
    return TamperedLedger(
        f"Entry {seq} of the journal is not as it was written, or does not follow the entry before it. "
        "Nothing was charged and nothing was run."
    )


def rolled_back(seq: int) -> TamperedLedger:
    return TamperedLedger(
        f"The journal no longer holds entry {seq} as this process has seen it: its end was cut off, or the "
        "ledger was set back to an earlier state. Nothing was charged and nothing was run. Restore the "
        "newest copy."
    )


def sealed_mark(key: bytes, ledger: str, state: str) -> dict[str, Any]:
    return {"state": state, "mac": chain.sealed(key, f"mark of {ledger}", [state])}
