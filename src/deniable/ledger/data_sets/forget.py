"""To be forgotten: what a request to erase a person means for what was released already.

The data is the owner's to erase. What left it before cannot be called back, and need not be: the guarantee
bounds how much any release differs from one that never saw the person. For one person that is the (ε, δ) of
the account, for k people together kε and δ·(e^(kε) − 1)/(e^ε − 1) (Dwork, Roth 2014, theorem 2.2; δ by adding
up its steps). That grows, so a number of people is declared at which everything is made anew; whatever was
not made under a guarantee is made anew at once.

The journal gets a random receipt, and nothing else: a name, a number or a keyed hash of one would be the
person still, in a chain from which nothing can be taken out. Who belongs to a receipt is written down
elsewhere, where it can be erased, or nowhere."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from deniable import numbers
from deniable.errors import InvalidParameter, LedgerError
from deniable.guarantee import Budget
from deniable.ledger.data_sets.versions import by_version
from deniable.ledger.journal import Draft, Journal, Standings
from deniable.ledger.journal.entries import Entry, EntryKind
from deniable.units import Unit

BYTES = 16
"""Of a receipt: two alike are as likely as two random keys."""
NEVER = (0, 0)
"""Of an account: people forgotten, and the number declared; 0 for none yet."""
OUTWARD = 1 + 2.0**-40
MOST_DELTA = 1 - 2.0**-53
DETAILS = {"receipt", "number", "declared"}


@dataclass(frozen=True)
class Forgotten:
    """A request to be forgotten, as it stands in the journal, and what it means.

    `number` people were forgotten by now; at `declared` everything is made anew. `guarantee` bounds, for all
    of them together, how far what was released differs from what would have been without them. `stands` are
    the entries whose releases stand under it, `redo` those that were drawn from a seed and have no guarantee.
    Where the unit is one that is `replaced`, "without" means with somebody else in the person's place.
    `versions` are these entries by the version of the data that they were made from, as the owner declared
    it: versions that held the person."""

    receipt: str
    entry: int
    number: int
    declared: int
    guarantee: Budget
    stands: tuple[int, ...]
    redo: tuple[int, ...]
    replaced: bool = False
    versions: Mapping[str | None, tuple[int, ...]] = field(default_factory=dict)

    @property
    def due(self) -> bool:
        """Whether the declared number is reached: models and tables are to be made anew, from data without
        these people."""
        return self.number >= self.declared

    @property
    def reading(self) -> str:
        people = "1 unit of protection was"
        if self.number != 1:
            people = f"{self.number:,} units of protection were"
        bound = (
            f"ε = {numbers.up(float(self.guarantee.epsilon))}, δ = {numbers.up(float(self.guarantee.delta))}"
        )
        otherwise = "had others stood in their place" if self.replaced else "without them"
        again = ""
        if self.redo:
            again = f" Entries {', '.join(map(str, self.redo))} have no guarantee: make them anew."
        return (
            f"By now {people} forgotten. What {len(self.stands):,} releases say differs from what they would "
            f"say {otherwise} by at most {bound}.{again}{self._version_words} {self._limit_words} What was "
            "trained on the data outside this ledger, without a guarantee, is to be trained anew now. "
            f"Receipt {self.receipt}: nothing in the ledger says whose it is."
        )

    def to_dict(self) -> dict[str, Any]:
        body: dict[str, Any] = {"receipt": self.receipt, "entry": self.entry, "number": self.number}
        body |= {"declared": self.declared, "due": self.due, "stands": self.stands, "redo": self.redo}
        body["versions"] = [
            {"version": version, "entries": entries} for version, entries in self.versions.items()
        ]
        return body | {"epsilon": float(self.guarantee.epsilon), "delta": float(self.guarantee.delta)}

    @property
    def _version_words(self) -> str:
        names = [f'"{version}"' for version in self.versions if version is not None]
        if not names:
            return ""
        return (
            f" They were made from the data as of {', '.join(names)}"
            f"{', and some of no declared version' if None in self.versions else ''}: these hold whoever is "
            "forgotten now, so the data without her gets another version."
        )

    @property
    def _limit_words(self) -> str:
        if not self.due:
            return f"At {self.declared:,} everything is to be made anew."
        return (
            f"The declared number of {self.declared:,} is reached: make models and tables anew from the data "
            "as it is now, under a new account."
        )


@dataclass(frozen=True)
class ForgetRequest:
    """Who asks whom to forget how many units, and the number that is declared with it."""

    account: str
    author: str
    units: int
    declared_number: int | None

    def __post_init__(self) -> None:
        for name, value in (
            ("units", self.units),
            ("declared", 1 if self.declared_number is None else self.declared_number),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidParameter(
                    f"Expected {name}={value!r} to be a whole number, 1 or more. Nothing was written."
                )

    def next_declared(self, earlier_number: int) -> int:
        """The number at which everything is made anew. It is named with the first request, and afterwards
        only lowered: a promise that can be put off is none."""
        if self.declared_number is None and not earlier_number:
            raise InvalidParameter(
                f'Expected declared=…, the number of people at which models and tables of "{self.account}" '
                "are made "
                "anew: k people together are protected by k·ε alone. Nothing was written."
            )
        if earlier_number and self.declared_number is not None and self.declared_number > earlier_number:
            raise LedgerError(
                f'The account "{self.account}" has declared that everything is made anew at '
                f"{earlier_number:,}; that "
                "is not put "
                f"off to {self.declared_number:,}. Nothing was written."
            )
        if self.declared_number is None:
            return earlier_number
        return self.declared_number


def forget(
    journal: Journal, request: ForgetRequest, entries: Iterable[Entry], limit: Budget, unit: Unit
) -> Forgotten:
    """Write a random receipt into the journal, and say what it means for the releases in `entries`."""
    receipt, root = secrets.token_hex(BYTES), request.account

    def decide(standings: Standings) -> Draft:
        number, promise = standings.tip.forgotten.get(root, NEVER)
        at = request.next_declared(promise)
        details = {"receipt": receipt, "number": number + request.units, "declared": at}
        words = f"Forgotten by now: {number + request.units:,}; everything is made anew at {at:,}."
        return Draft(EntryKind.FORGET, root, request.author, words, standings[root].unit_json, details)

    entry = journal.append([root], decide)
    number, at = entry.details["number"], entry.details["declared"]
    payments = list(entries)
    stands, redo = find_releases(payments)
    guarantee, versions = for_people(limit, number), by_version(payments)
    return Forgotten(receipt, entry.seq, number, at, guarantee, stands, redo, unit.replace, versions)


def find_releases(entries: Iterable[Entry]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The entries that released something under a guarantee, and those that did so from a seed."""
    payments = [entry for entry in entries if entry.kind in (EntryKind.RUN, EntryKind.OPEN)]
    return (
        tuple(entry.seq for entry in payments if entry.details.get("private", True)),
        tuple(entry.seq for entry in payments if not entry.details.get("private", True)),
    )


def for_people(limit: Budget, people: int) -> Budget:
    """What (ε, δ) for one says of so many together: kε, and δ·(1 + e^ε + … + e^((k−1)ε)), rounded up, 1 at
    most.

    >>> for_people(Budget(1, 1e-6), 1) == Budget(1, 1e-6), for_people(Budget(1), 3).epsilon
    (True, 3)
    """
    epsilon, delta = float(limit.epsilon), float(limit.delta)
    if people == 1:
        return limit
    exact = (
        limit.epsilon * people if isinstance(limit.epsilon, int | Fraction) else epsilon * people * OUTWARD
    )
    if not delta:
        return Budget(exact, 0)
    # In logarithms: e^(kε) need not be a float.
    if epsilon:
        log = (
            (people - 1) * epsilon
            + math.log1p(-math.exp(-people * epsilon))
            - math.log1p(-math.exp(-epsilon))
        )
    else:
        log = math.log(people)
    total = math.log(delta) + log
    return Budget(exact, min(math.exp(min(total, 0.0)) * OUTWARD, MOST_DELTA))


def find_fault(entry: Entry, details: Mapping[str, Any], earlier: tuple[int, int]) -> str | None:
    """What is wrong with an entry that says a person was forgotten, after `earlier`; None if nothing is."""
    number, promise = earlier
    fair = details.keys() == DETAILS and details["number"] > number
    fair = fair and 1 <= details["declared"] <= (promise or details["declared"])
    fair = fair and len(bytes.fromhex(details["receipt"])) == BYTES
    if fair:
        return None
    return f"Entry {entry.seq} counts the people that were forgotten wrongly, or says more than that."
