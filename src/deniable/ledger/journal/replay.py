"""The journal read from its first entry: the accounts it comes to, and every entry that
has no right to what it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deniable.accounting.filters.charges import Charge
from deniable.errors import DeniableError
from deniable.ledger.data_sets import forget
from deniable.ledger.journal.entries import Entry, EntryKind, Standing, apply, touched

Charges = Mapping[str, Charge]
UNREADABLE = (DeniableError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


class Replay:
    """The state after the entries entered so far.

    An entry that gives back what it may not (a second SETTLE, more than was charged, of a session never
    opened) gives back nothing here: the balance is then what the releases cost.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, Standing] = {}
        self.seals: dict[str, str] = {}
        """Of each account, the seal of the entry that changed it last."""
        self._sessions: dict[int, Charges] = {}
        self._settled: dict[int, int] = {}
        self._paid: dict[int, str] = {}
        self._begun: dict[int, int] = {}
        self._sources: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._charged: set[str] = set()
        self._forgotten: dict[str, tuple[int, int]] = {}

    def enter(self, entry: Entry) -> list[str]:
        """Take one more entry in; returns what is wrong with it."""
        try:
            details = entry.details
            problems = list(self._wrong(entry, details))
            standings = self._void(entry, details) if problems else apply(entry, self.accounts)
            self.accounts |= standings
            self.seals |= dict.fromkeys(standings, entry.mac)
            self._remember(entry, details)
        except UNREADABLE:
            return [f"Entry {entry.seq} cannot be read, or speaks of an account that was never made."]
        if entry.kind in (EntryKind.RUN, EntryKind.OPEN):
            over = [
                name for name, standing in standings.items() if not standing.filter.admits(standing.spent)
            ]
            problems += [f'Entry {entry.seq} brings the account "{name}" over its limit.' for name in over]
        return problems

    def _wrong(self, entry: Entry, details: Mapping[str, Any]) -> Iterator[str]:
        match entry.kind:
            case EntryKind.SETTLE:
                yield from self._wrong_settle(entry, details["session"], _charges(details["returned"]))
            case EntryKind.RUN | EntryKind.OPEN:
                yield from self._wrong_charges(entry, _charges(details["charges"]))
            case EntryKind.BEGIN:
                yield from self._wrong_begin(entry, details["entry"], details["start"], details["stop"])
            case EntryKind.RESET if entry.account in self._charged:
                yield (
                    f'Entry {entry.seq} sets unit and limit of the account "{entry.account}" anew, which was '
                    "charged before."
                )
            case EntryKind.BIND | EntryKind.CREATE:
                yield from self._wrong_bind(entry, details.get("sources", []))
            case EntryKind.RENAME if details["name"] in self.accounts or details["name"] in self._aliases:
                yield (
                    f'Entry {entry.seq} gives the account "{entry.account}" the name of another, '
                    f'"{details["name"]}".'
                )
            case EntryKind.FORGET:
                if problem := forget.find_fault(
                    entry, details, self._forgotten.get(entry.account, forget.NEVER)
                ):
                    yield problem

    def _wrong_charges(self, entry: Entry, charges: Charges) -> Iterator[str]:
        for name, charge in charges.items():
            if charge.negative:
                yield f'Entry {entry.seq} charges the account "{name}" less than nothing.'

    def _wrong_settle(self, entry: Entry, session: int, returned: Charges) -> Iterator[str]:
        if session in self._settled:
            yield (
                f"Entry {entry.seq} settles the session of entry {session} of the account "
                f'"{entry.account}" a second time: entry {self._settled[session]} did so before.'
            )
        elif session not in self._sessions:
            yield (
                f'Entry {entry.seq} of the account "{entry.account}" settles a session that was never opened.'
            )
        elif not _within(returned, self._sessions[session]):
            yield (
                f'Entry {entry.seq} gives back to the account "{entry.account}" more than entry {session} '
                "charged."
            )

    def _wrong_begin(self, entry: Entry, paid: int, start: int, stop: int) -> Iterator[str]:
        if self._paid.get(paid) != entry.account or paid in self._settled:
            yield f"Entry {entry.seq} begins steps of entry {paid}, which did not pay for them or is settled."
        elif not self._begun.get(paid, 0) <= start < stop:
            yield f"Entry {entry.seq} begins steps of entry {paid} a second time, or none."

    def _wrong_bind(self, entry: Entry, sources: list[str]) -> Iterator[str]:
        for source in sources:
            if self._sources.get(source, entry.account) != entry.account:
                yield (
                    f'Entry {entry.seq} gives data of the account "{self._sources[source]}" to the account '
                    f'"{entry.account}".'
                )

    def _void(self, entry: Entry, details: Mapping[str, Any]) -> dict[str, Standing]:
        return {name: self.accounts[name]._replace(seq=entry.seq) for name in touched(entry, details)}

    def _remember(self, entry: Entry, details: Mapping[str, Any]) -> None:
        if entry.kind in (EntryKind.RUN, EntryKind.OPEN):
            self._charged.update(details["charges"])
        match entry.kind:
            case EntryKind.OPEN:
                self._sessions[entry.seq] = _charges(details["charges"])
                self._paid[entry.seq] = entry.account
            case EntryKind.RUN:
                self._paid[entry.seq] = entry.account
            case EntryKind.BIND | EntryKind.CREATE:
                sources = details.get("sources", [])
                self._sources |= {source: entry.account for source in sources if source not in self._sources}
            case EntryKind.RENAME:
                self._aliases.setdefault(details["name"], entry.account)
            case EntryKind.FORGET:
                self._forgotten[entry.account] = (details["number"], details["declared"])
            case EntryKind.SETTLE:
                self._settled.setdefault(details["session"], entry.seq)
                self._sessions.pop(details["session"], None)
            case EntryKind.BEGIN:
                self._begun[details["entry"]] = max(self._begun.get(details["entry"], 0), details["stop"])


def _charges(listed: Mapping[str, Any]) -> Charges:
    return {name: Charge.from_dict(charge) for name, charge in listed.items()}


def _within(returned: Charges, charged: Charges) -> bool:
    return all(
        name in charged and not charge.negative and charge.fits_into(charged[name])
        for name, charge in returned.items()
    )
