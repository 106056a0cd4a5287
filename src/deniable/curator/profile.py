"""The profile of a data set: bought part by part out of an allowance that its owner has set, kept in the
ledger, and shown to all who ask.

The allowance is a part of the data set's account, like an analyst's, whose limit it is. So each purchase is a
charge to both: journaled, limited, and never twice for the same part, whoever asks for it at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable.errors import AlreadyPaid, DeniableError, InvalidParameter, LedgerError
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger, names
from deniable.ledger.requests import paid_once
from deniable.loss import Number, exact
from deniable.mechanism import Mechanism, Random
from deniable.numbers import plain, short_up
from deniable.sql.profile.knowledge import Knowledge, Known
from deniable.sql.profile.mechanism import ProfileMechanism
from deniable.sql.profile.part import PartKind, PartName
from deniable.sql.profile.rows import PeopleByRows, RowClasses
from deniable.sql.profile.spread import ValueSizes, ValueSpread
from deniable.sql.profile.tables import read_table, with_column
from deniable.sql.profile.totals import PeopleByTotals, TotalClasses
from deniable.sql.schema.declare import ColumnInfo, Schema
from deniable.sql.tree import Column, Kind
from deniable.sql.types import WHOLE
from deniable.units import Unit, UnitKind

ALLOWANCE = "(profile)"
"""The name of the part of an account that pays for the profile. No analyst has it."""
SHARE = Fraction(1, 10)
"""Of the limit's ε: the allowance where the owner says none."""
FORMAT = 1
Run = Callable[[Mechanism[Any]], Mechanism[Any]]


@dataclass(frozen=True)
class KnownPart:
    """A part that was bought: what it says, of which version of the data, what it cost, and the entry that
    paid for it."""

    name: PartName
    value: Known
    version: str
    epsilon: float
    entry: str

    def to_text(self) -> str:
        content = {
            "format": FORMAT,
            "kind": self.name.kind.value,
            "version": self.version,
            "epsilon": self.epsilon,
            "released": self.value.to_dict(),
        }
        return json.dumps(content)

    @classmethod
    def from_text(cls, name: PartName, entry: str, text: str) -> KnownPart:
        content = json.loads(text)
        value = RELEASED[name.kind].from_dict(content["released"])
        return cls(name, value, content["version"], content["epsilon"], entry)

    def lines(self, version: str) -> list[str]:
        """What is known of it, in words."""
        age = "" if version == self.version else f" (of version {self.version} of the data)"
        cost = f"ε = {short_up(self.epsilon)}, paid by entry {self.entry.partition(':')[0]}"
        return [
            f"{str(self.name).capitalize()}{age}: {cost}.",
            *(f"  {line}" for line in describe(self.value)),
        ]


RELEASED: Mapping[PartKind, type[RowClasses] | type[ValueSizes] | type[TotalClasses]] = {
    PartKind.ROWS: RowClasses,
    PartKind.SPREAD: ValueSizes,
    PartKind.TOTALS: TotalClasses,
}


def describe(value: Known) -> list[str]:
    """The released numbers, one line for each class of rows; of a column where its values end."""
    match value:
        case RowClasses():
            lines = [f"{value.people:,} people, ± {value.people_within:,}."]
            hidden_people = value.hidden_people(value.most)
            return [
                *lines,
                f"Nobody was seen above {value.most:,} rows (fewer than {hidden_people:,} people, 95 %).",
            ]
        case ValueSizes():
            most = value.largest()
            if most is None:
                return ["No value stands out of the noise."]
            return [f"Values beyond ± {float(most):,.6g} were not seen."]
        case TotalClasses():
            return [f"Totals of a person above {float(value.largest()):,.6g} were not seen."]


@dataclass(frozen=True)
class TableProfile:
    """What is known of a data set before a question is asked: the parts of its profile that were bought, what
    is left of the allowance, and the version of the data now."""

    parts: tuple[KnownPart, ...]
    allowance: float
    left: float
    version: str

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        if not self.allowance:
            return ["This data set has no profile: its account was made without an allowance for one."]
        head = f"Allowance for the profile: ε = {short_up(self.allowance)}, of which {self.left:.3g} is left."
        if not self.parts:
            return [head, "Nothing has been bought yet."]
        return [head, *(line for part in self.parts for line in part.lines(self.version))]

    def to_dict(self) -> dict[str, Any]:
        parts = [
            json.loads(part.to_text()) | {"name": str(part.name), "entry": part.entry} for part in self.parts
        ]
        return {
            "allowance": self.allowance,
            "left": self.left,
            "version": self.version,
            "parts": parts,
            "text": str(self),
        }


def choose_allowance(limit: Budget, unit: Unit, asked: Number | None) -> Fraction:
    """The ε that the profile of a new account may cost: what its owner says. Else it is a tenth of the
    limit's where queries need to know how many rows people have, and nothing where that is declared."""
    if asked is None:
        if unit.kind is UnitKind.COLUMN and unit.max_rows is None:
            return exact(limit.epsilon) * SHARE
        return Fraction(0)
    allowance = exact(asked)
    if not 0 <= allowance <= exact(limit.epsilon):
        raise InvalidParameter(
            f"Expected profile={float(allowance):g} to be an ε from 0 (no profile) to the limit's "
            f"{float(limit.epsilon):g}. Nothing was opened."
        )
    if allowance and unit.kind not in (UnitKind.COLUMN, UnitKind.ROW):
        raise InvalidParameter(f"A profile is of rows or people, not of {unit}. Nothing was opened.")
    return allowance


def make_allowance(ledger: Ledger, root: str, allowance: Fraction) -> None:
    """The part of the account `root` that pays for its profile."""
    if allowance:
        ledger.create(names.part(root, ALLOWANCE), limit=Budget(plain(allowance)), parent=root)


def check_analyst(name: str) -> None:
    if name == ALLOWANCE:
        raise InvalidParameter(
            f'The name "{ALLOWANCE}" stands for what pays for the profile. Nothing was opened. Give the '
            "analyst another name."
        )


class Profile:
    """The parts of a data set's profile, bought and read. What was read once is remembered: released numbers
    do not change.

    `ledger` is where the account `root` is, or will be once `begin` has made it."""

    def __init__(
        self, ledger: Ledger, root: str, unit: Unit, schema: Schema, begin: Callable[[], None]
    ) -> None:
        self._ledger = ledger
        self._root = root
        self._unit = unit
        self._schema = schema
        self._begin = begin
        self._proposed: Fraction | None = None
        self._known: dict[PartName, KnownPart] = {}
        self._account: Account | None = None
        self._is_absent = False

    def propose(self, allowance: Fraction) -> None:
        """The account is still to be made, with this allowance."""
        self._proposed = allowance

    def settle(self) -> None:
        """The account has been made."""
        self._proposed = None

    # ----------------------------------------------------------------------------------------- what is known

    def account(self) -> Account | None:
        """What pays; None where the account has no allowance, or is still to be made."""
        if self._account is None and self._proposed is None and not self._is_absent:
            self._is_absent = True  # an allowance is made with the account, and never later
            with suppress(LedgerError):
                self._account = self._ledger.account(names.part(self._root, ALLOWANCE))
        return self._account

    @property
    def allowance(self) -> Fraction:
        if self._proposed is not None:
            return self._proposed
        account = self.account()
        return Fraction(0) if account is None else exact(account.limit.epsilon)

    def price(self, part: PartName) -> Fraction:
        return self.allowance * part.share

    def find(self, part: PartName) -> KnownPart | None:
        """The part as it was bought last; None where it never was."""
        if part not in self._known:
            self._read(part)
        return self._known.get(part)

    def _read(self, part: PartName) -> int:
        """Look it up, and count how often it was bought."""
        account, count = self.account(), 0
        while account is not None and (record := account.view(self._key(part, count)).kept) is not None:
            self._known[part] = KnownPart.from_text(part, record.entry, record.content)
            count += 1
        return count

    def know(self, parts: Iterable[PartName]) -> Knowledge:
        pairs = [(part, self.find(part)) for part in parts]
        return Knowledge({part: each.value for part, each in pairs if each is not None})

    def list_missing(self, parts: Iterable[PartName]) -> list[PartName]:
        """Those that are not known and that the next question that needs them buys, in this order: as far as
        the allowance reaches, and the limit. One that was paid for and lost is left to the owner."""
        return [part for part in parts if self.find(part) is None and self._is_for_sale(part)]

    def _is_for_sale(self, part: PartName) -> bool:
        mechanism = self.mechanism(part)
        if mechanism is None or not self.allowance:
            return False
        account = self.account()
        if account is None:
            return True
        return self._ledger.paid(self._key(part, 0)) is None and account.preview(mechanism.loss).fits

    def show(self) -> TableProfile:
        """All that is known: what was bought of tables and columns that are declared."""
        account = self.account()
        parts = [part for part in self._all_parts() if self._read(part) or part in self._known]
        left = self.allowance if account is None else exact(account.remaining().epsilon)
        bought_parts = tuple(self._known[part] for part in parts)
        return TableProfile(bought_parts, float(self.allowance), float(left), self._schema.version)

    def _all_parts(self) -> list[PartName]:
        tables = [table for table in self._schema.tables if not table.public]
        columns = [
            PartName(kind, table.name, column.name)
            for table in tables
            for column in table.columns
            for kind in (PartKind.SPREAD, PartKind.TOTALS)
            if is_number(column)
        ]
        return [*(PartName(PartKind.ROWS, table.name) for table in tables), *columns]

    def name_parts(self, texts: Sequence[str]) -> list[PartName]:
        """The rows of all private tables where nothing is named."""
        rows = [PartName(PartKind.ROWS, table.name) for table in self._schema.tables if not table.public]
        if not texts:
            return rows
        parts = [part for text in texts for part in (rows if text == "rows" else [self._name_spread(text)])]
        return list(dict.fromkeys(parts))

    def _name_spread(self, text: str) -> PartName:
        """`cost` or `visits.cost` as the spread of that column."""
        tables = [table for table in self._schema.tables if not table.public]
        places = [
            (name, PartName(PartKind.SPREAD, table.name, column.name))
            for table in tables
            for column in table.columns
            for name in (column.name, f"{table.name}.{column.name}")
            if is_number(column)
        ]
        matches = {part for name, part in places if name == text}
        if len(matches) != 1:
            raise InvalidParameter(
                f'Expected a part of the profile: "rows", or a column of numbers of one table like "cost" or '
                f'"visits.cost"; got {text[:60]!r}. Nothing was bought.'
            )
        return matches.pop()

    # -------------------------------------------------------------------------------------------- buying

    def mechanism(self, part: PartName) -> ProfileMechanism | None:
        """What measures the part at its price; None for what this unit has none of."""
        epsilon, unit = self.price(part), self._unit
        is_person = unit.kind is UnitKind.COLUMN
        if not epsilon or (part.kind is not PartKind.SPREAD and not is_person):
            return None
        scan = read_table(self._schema, unit, part.table)
        if part.kind is PartKind.ROWS:
            return PeopleByRows(scan, unit, epsilon)
        info = self._column(part)
        column = Column(info.name, info.type)
        scan = with_column(scan, column)
        if part.kind is PartKind.SPREAD:
            return ValueSpread(scan, unit, epsilon, column)
        if info.lower is None or info.upper is None:
            return None
        return PeopleByTotals(scan, unit, epsilon, column, (info.lower, info.upper))

    def _column(self, part: PartName) -> ColumnInfo:
        table = self._schema.table(part.table)
        assert table is not None
        return next(column for column in table.columns if column.name == part.column)

    def buy(
        self,
        part: PartName,
        engine: Any,
        wrap: Run,
        rng: Random | None,
        analyst: str | None,
        *,
        again: bool = False,
        fair: tuple[type[DeniableError], ...] = (),
    ) -> KnownPart:
        """Charge the allowance for the part, measure it and keep it. Who is later than another buys nothing
        and reads what that one bought. With `again` the owner buys it anew, or one that was lost."""
        self._begin()
        account, mechanism = self.account(), self.mechanism(part)
        if account is None or mechanism is None:
            raise InvalidParameter(f"There is nothing to buy the {part} from. Nothing was charged.")
        count = self._read(part)
        if count and not again:
            return self._known[part]
        key = self._key(part, count)
        request = self._free_request(key) if again else key
        words = f"Profile: {part}."
        try:
            with paid_once(request, request):
                release = account.run(
                    wrap(mechanism), engine, rng=rng, analyst=analyst, description=words, fair=fair
                )
        except AlreadyPaid:
            if self._read(part) > count:
                return self._known[part]
            raise
        purchase = KnownPart(
            part, release.value, self._schema.version, float(mechanism.epsilon), str(release.entry)
        )
        self._known[part] = purchase
        with suppress(LedgerError):  # it is paid for and stands; for other processes it is lost
            account.keep(key, release, purchase.to_text())
        return purchase

    def _free_request(self, key: str) -> str:
        """The first request for this purchase that was not paid: those before were lost."""
        attempt, request = 0, key
        while self._ledger.paid(request) is not None:
            attempt += 1
            request = f"{key} {attempt}"
        return request

    def _key(self, part: PartName, number: int) -> str:
        """Of the purchase of this number. No version of the data is in it: a new one keeps the old numbers
        until the owner buys anew."""
        kind = "" if part.column is None else repr(self._column(part).type)
        words = (f"deniable profile {FORMAT}", self._root, self._unit.to_json(), str(part), kind, str(number))
        return hashlib.sha256("\0".join(words).encode(errors="surrogatepass")).hexdigest()


def is_number(column: ColumnInfo) -> bool:
    """Whether it can be summed."""
    return column.type.kind in (*WHOLE, Kind.FLOAT)
