"""Which version of the data a release is of: the owner's word, in the details of the entry that paid for it.

Data changes: people come, are corrected, are erased. The entry of a release says which state it was computed
from, by a name that the owner gives it (`Curator.open(version=…)`, `Account.declare_version`). Nothing
depends on it: a charge is what it was, and entries of earlier ledgers, which say nothing, mean what they
meant. A name is never read from data, and an analyst cannot give one."""

from __future__ import annotations

from collections.abc import Iterable

from deniable.errors import InvalidParameter
from deniable.ledger.journal.chain import Head
from deniable.ledger.journal.entries import Entry, EntryKind

DETAIL = "version"
LONGEST = 1000
PAID = (EntryKind.RUN, EntryKind.OPEN)


def check_version(version: object) -> str:
    if not isinstance(version, str) or not 1 <= len(version) <= LONGEST or not version.isprintable():
        raise InvalidParameter(
            f"Expected a version of 1 to {LONGEST:,} characters that can be seen. Nothing was declared."
        )
    return version


def details(version: str | None) -> dict[str, str]:
    """What the entry of a charge says of the data it opens."""
    if version is None:
        return {}
    return {DETAIL: version}


def version_of(entry: Entry) -> str | None:
    version = entry.details.get(DETAIL)
    if isinstance(version, str):
        return version
    return None


def by_version(entries: Iterable[Entry]) -> dict[str | None, tuple[int, ...]]:
    """The entries that released something, by their version, in the order in which versions came into use. A
    release that was read again is of the version of the entry that made it."""
    versions: dict[int, str | None] = {}
    for entry in entries:
        if entry.kind in PAID:
            reads = entry.details.get("reads")
            versions[entry.seq] = (
                version_of(entry) if reads is None else versions.get(Head.parse(reads).count)
            )
    order = dict.fromkeys(versions.values())
    return {name: tuple(seq for seq, version in versions.items() if version == name) for name in order}


def entries_holding(entries: Iterable[Entry]) -> tuple[int, ...]:
    """Entries that opened the data after somebody was forgotten, at a version that was in use before that or
    at none. What was only read again opened nothing."""
    versions: set[str | None] = {None}
    old: set[str | None] = set()
    numbers: list[int] = []
    for entry in entries:
        if entry.kind is EntryKind.FORGET:
            old = set(versions)
        elif entry.kind in PAID and "reads" not in entry.details:
            version = version_of(entry)
            versions.add(version)
            if version in old:
                numbers.append(entry.seq)
    return tuple(numbers)
