"""What journal entries mean. One function, `apply`, both writes the accounts and
computes them again from the journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from deniable.accounting.filters import Filter
from deniable.accounting.filters.charges import Charge
from deniable.errors import LedgerError
from deniable.loss import Loss
from deniable.units import Unit


class EntryKind(StrEnum):
    """What an entry does to its account and those above it."""

    CREATE = "create"
    RUN = "run"
    OPEN = "open"
    SETTLE = "settle"
    RAISE = "raise"
    FREEZE = "freeze"
    THAW = "thaw"
    CLOSE = "close"
    BEGIN = "begin"
    CLOCK = "clock"
    BIND = "bind"
    RESET = "reset"
    RENAME = "rename"
    FORGET = "forget"
    HAND = "hand"


class Status(StrEnum):
    """Whether an account runs anything."""

    OPEN = "open"
    FROZEN = "frozen"
    CLOSED = "closed"


class Entry(NamedTuple):
    """One line of the journal. No field depends on data: all of it is fixed before data
    is opened, or is a released answer."""

    seq: int
    time: str
    kind: EntryKind
    account: str
    analyst: str
    description: str
    loss_json: str | None
    unit_json: str
    details_json: str
    mac: str

    @property
    def loss(self) -> Loss | None:
        if self.loss_json is None:
            return None
        return Loss.from_json(self.loss_json)

    @property
    def unit(self) -> Unit:
        return Unit.from_json(self.unit_json)

    @property
    def details(self) -> dict[str, Any]:
        details: dict[str, Any] = json.loads(self.details_json)
        return details

    @property
    def content(self) -> tuple[str | int | None, ...]:
        """All that the seal covers."""
        return self[:-1]

    def to_dict(self) -> dict[str, Any]:
        loss = None
        if self.loss_json is not None:
            loss = json.loads(self.loss_json)
        unit = json.loads(self.unit_json)
        return dict(zip(COLUMNS, (*self[:6], loss, unit, self.details, self.mac), strict=True))


COLUMNS = ("seq", "time", "kind", "account", "analyst", "description", "loss", "unit", "details", "mac")


class Standing(NamedTuple):
    """An account after the entry `seq`: a row of the table `accounts`, but for its seal."""

    name: str
    parent: str | None
    owner: str
    unit_json: str
    filter_json: str
    spent_json: str
    status: Status
    seq: int

    @property
    def filter(self) -> Filter:
        return _filter(self.filter_json)

    @property
    def spent(self) -> Charge:
        return _charge(self.spent_json)

    @property
    def unit(self) -> Unit:
        return Unit.from_json(self.unit_json)


@lru_cache(maxsize=256)
def _filter(text: str) -> Filter:
    return Filter.from_dict(json.loads(text))


@lru_cache(maxsize=1024)
def _charge(text: str) -> Charge:
    return Charge.from_dict(json.loads(text))


_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False).encode


def compact(value: Mapping[str, Any]) -> str:
    """The one JSON text of a value."""
    return _encode(value)


def apply(
    entry: Entry, before: Mapping[str, Standing], known: Mapping[str, Any] | None = None
) -> dict[str, Standing]:
    """The accounts that `entry` changes, after it. What would bring one below nothing is refused.

    `known` are the details of the entry, where they need not be read again.
    """
    details = entry.details if known is None else known
    match entry.kind:
        case EntryKind.CREATE:
            return {entry.account: _created(entry, details)}
        case EntryKind.RUN | EntryKind.OPEN:
            return {
                n: _moved(before[n], Charge.from_dict(c), entry.seq, 1) for n, c in details["charges"].items()
            }
        case EntryKind.SETTLE:
            return {
                n: _moved(before[n], Charge.from_dict(c), entry.seq, -1)
                for n, c in details["returned"].items()
            }
        case EntryKind.RAISE:
            rules = compact(details["filter"])
            return {entry.account: before[entry.account]._replace(filter_json=rules, seq=entry.seq)}
        case EntryKind.FREEZE:
            return {n: before[n]._replace(status=Status.FROZEN, seq=entry.seq) for n in details["accounts"]}
        case EntryKind.THAW:
            return {n: before[n]._replace(status=Status.OPEN, seq=entry.seq) for n in details["accounts"]}
        case EntryKind.CLOSE:
            return {entry.account: before[entry.account]._replace(status=Status.CLOSED, seq=entry.seq)}
        case EntryKind.HAND:
            return {n: before[n]._replace(owner=details["owner"], seq=entry.seq) for n in details["accounts"]}
        case EntryKind.RESET:
            return {entry.account: _reset(entry, before[entry.account], details)}
        case EntryKind.BEGIN | EntryKind.CLOCK | EntryKind.BIND | EntryKind.RENAME | EntryKind.FORGET:
            return {}


def touched(entry: Entry, details: Mapping[str, Any]) -> Iterable[str]:
    """The accounts that `entry` changes: the keys of what `apply` returns."""
    match entry.kind:
        case EntryKind.CREATE | EntryKind.RAISE | EntryKind.CLOSE | EntryKind.RESET:
            return (entry.account,)
        case EntryKind.RUN | EntryKind.OPEN:
            return tuple(details["charges"])
        case EntryKind.SETTLE:
            return tuple(details["returned"])
        case EntryKind.FREEZE | EntryKind.THAW | EntryKind.HAND:
            return tuple(details["accounts"])
        case EntryKind.BEGIN | EntryKind.CLOCK | EntryKind.BIND | EntryKind.RENAME | EntryKind.FORGET:
            return ()


def _created(entry: Entry, details: Mapping[str, Any]) -> Standing:
    limit = Filter.from_dict(details["filter"])
    return Standing(
        entry.account,
        details["parent"],
        details["owner"],
        entry.unit_json,
        compact(details["filter"]),
        compact(limit.nothing.to_dict()),
        Status.OPEN,
        entry.seq,
    )


def _reset(entry: Entry, standing: Standing, details: Mapping[str, Any]) -> Standing:
    """Unit and limit set anew. What was ever charged would be priced by the old ones, so
    there must be nothing."""
    nothing = compact(Filter.from_dict(details["filter"]).nothing.to_dict())
    return standing._replace(
        unit_json=entry.unit_json, filter_json=compact(details["filter"]), spent_json=nothing, seq=entry.seq
    )


def _moved(standing: Standing, change: Charge, seq: int, sign: int) -> Standing:
    total = standing.spent + change if sign > 0 else standing.spent - change
    if total.negative or change.negative:
        raise LedgerError(
            f'Entry {seq} would bring the account "{standing.name}" below nothing. It was not written.'
        )
    return standing._replace(spent_json=compact(total.to_dict()), seq=seq)


def concerns(entry: Entry, name: str) -> bool:
    """Whether an entry of the journal is about the account `name`, or charged it."""
    details = entry.details
    names = details.get("charges") or details.get("returned") or details.get("accounts") or ()
    return entry.account == name or name in names
