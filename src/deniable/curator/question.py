"""A question: the text of a query and its terms. Every door (Python, shell, notebook, REST, `Remote`,
console, PostgreSQL's protocol) takes the terms that are declared here.

>>> text = "SELECT COUNT(*) FROM visits"
>>> Question.read(text, epsilon="0.10") == Question.read(text, epsilon=0.1)
True
>>> TERMS["of"].read("12"), TERMS["bracket"].read("off")
(12, False)
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from fractions import Fraction
from typing import Any, TypedDict

from deniable.errors import InvalidParameter
from deniable.loss import Number
from deniable.sql.plan.request import Terms

MOST_ROWS = 10**12
NOISES = ("auto", "laplace", "gaussian")
ON, OFF = ("on", "true", "1", "yes"), ("off", "false", "0", "no")
DECIMAL = re.compile(r"[+-]?(\d{1,20}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?")
REFUSED = "Nothing was charged and nothing was run."


class AskTerms(TypedDict, total=False):
    """The terms of a `Question` as keywords."""

    epsilon: Number | None
    within: Number | None
    delta: Number | None
    confidence: float
    at_least: int | None
    max_groups: int | None
    noise: str
    discover: bool
    of: int | None
    left_out: bool | None
    most_rows: int | None
    bracket: bool
    nonnegative: bool


class TermKind(Enum):
    """How a term is written: a decimal number that stays exact, a probability, a whole number, a switch, or
    one of a few words."""

    NUMBER = auto()
    PROBABILITY = auto()
    WHOLE = auto()
    SWITCH = auto()
    WORD = auto()


@dataclass(frozen=True)
class Term:
    """A term of a question as people meet it: its label in a form, one sentence of help, and its limits."""

    name: str
    kind: TermKind
    default: Any
    label: str
    help: str
    least: int = 1
    most: int = MOST_ROWS
    choices: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """What a form offers for a switch or a word; "" is the default that nobody sets."""
        if self.choices:
            return self.choices
        unset = ("",) if self.default is None else ()
        return (*unset, "on", "off")

    def read(self, text: str) -> Any:
        """The value that somebody typed; nothing typed is the default."""
        text = text.strip()
        if not text:
            return self.default
        match self.kind:
            case TermKind.NUMBER:
                return read_number(self.name, text)
            case TermKind.PROBABILITY:
                return self._read_probability(text)
            case TermKind.WHOLE:
                return self._read_whole(text)
            case TermKind.SWITCH:
                return self._read_switch(text)
        return self._read_word(text)

    def _read_probability(self, text: str) -> float:
        value = float(read_number(self.name, text))
        if not 0 < value < 1:
            raise self._refusal("a number between 0 and 1, like 0.95", text)
        return value

    def _read_whole(self, text: str) -> int:
        is_short = text.isascii() and text.isdigit() and len(text) <= 20
        if not is_short or not self.least <= int(text) <= self.most:
            raise self._refusal(f"a whole number from {self.least:,} to {self.most:,}", text)
        return int(text)

    def _read_switch(self, text: str) -> bool:
        if text.lower() not in ON + OFF:
            raise self._refusal("on or off", text)
        return text.lower() in ON

    def _read_word(self, text: str) -> str:
        if text not in self.choices:
            raise self._refusal(f"one of {', '.join(self.choices)}", text)
        return text

    def _refusal(self, form: str, text: str) -> InvalidParameter:
        return InvalidParameter(f"Expected {self.name} as {form}, got {text[:40]!r}. {REFUSED}")


def _term(kind: TermKind, default: Any, label: str, text: str, **limits: Any) -> Any:
    return field(default=default, metadata={"kind": kind, "label": label, "help": text, **limits})


@dataclass(frozen=True)
class Question:
    """The text of a query and the terms on which it is asked, as they were given: nothing is checked before
    the question is planned."""

    text: str
    epsilon: Number | None = _term(
        TermKind.NUMBER, None, "Cost (ε)", "What the query may cost in total. Give this or within."
    )
    within: Number | None = _term(
        TermKind.NUMBER,
        None,
        "Every number within ±",
        "How close every number must be; the least ε that gives it is spent.",
    )
    delta: Number | None = _term(
        TermKind.NUMBER,
        None,
        "δ of this query",
        "The query's δ; a hundredth of the limit's δ by default.",
    )
    confidence: float = _term(
        TermKind.PROBABILITY,
        0.95,
        "± holds with probability",
        "How often an interval holds, for example 0.95.",
    )
    at_least: int | None = _term(
        TermKind.WHOLE,
        None,
        "Each group has at least",
        "Smallest group size that is publicly known; a wanted ± needs it for averages and quantiles.",
    )
    max_groups: int | None = _term(
        TermKind.WHOLE,
        None,
        "One person is in at most",
        "How many groups with private keys one person may add to.",
        most=10**6,
    )
    noise: str = _term(
        TermKind.WORD,
        "auto",
        "Noise",
        "The distribution of the noise; auto takes the one with the smaller error.",
        choices=NOISES,
    )
    discover: bool = _term(
        TermKind.SWITCH, False, "Find missing bounds", "Find bounds that are not declared, from a part of ε."
    )
    of: int | None = _term(
        TermKind.WHOLE,
        None,
        "One of so many queries",
        "How many queries like this one share ε, or the whole limit.",
        least=2,
        most=10**6,
    )
    left_out: bool | None = _term(
        TermKind.SWITCH,
        None,
        "Estimate rows beyond the limit per person",
        "Whether a part of ε estimates the rows above the limit per person; by default with a given ε.",
    )
    most_rows: int | None = _term(
        TermKind.WHOLE,
        None,
        "Nobody has more rows than",
        "You know that nobody has more rows than this.",
    )
    bracket: bool = _term(
        TermKind.SWITCH,
        True,
        "± for medians and quantiles",
        "Whether a quarter of the ε of a median or quantile goes to its ±.",
    )
    nonnegative: bool = _term(
        TermKind.SWITCH,
        False,
        "Show no negative counts",
        "Show counts that noise made negative as 0. This costs nothing.",
    )

    @classmethod
    def read(cls, text: str, **terms: Any) -> Question:
        """With terms as a door brings them: decimal numbers stay exact, and None is a term that was left
        out."""
        values = {name: value for name, value in terms.items() if value is not None}
        for name in values:
            if TERMS[name].kind is TermKind.NUMBER:
                values[name] = read_number(name, values[name])
        return cls(text, **values)

    @property
    def terms(self) -> dict[str, Any]:
        """The keyword arguments of `Curator.sql`."""
        return {name: getattr(self, name) for name in TERMS}

    @property
    def changes(self) -> dict[str, Any]:
        """The terms that differ from their defaults."""
        return {name: value for name, value in self.terms.items() if value != TERMS[name].default}

    @property
    def digest(self) -> str:
        """The same for the same question, text by text and term by term. Terms that doors gained later count
        only where they are used: so a request that an earlier version was paid for is found."""
        content = {"text": self.text, **{name: str(self.terms[name]) for name in FIRST_TERMS}}
        content |= {name: str(value) for name, value in self.changes.items()}
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    def plan_terms(self, changes: dict[str, Any]) -> Terms:
        """What a plan is made for: the terms that were asked for, with `changes` that the text itself makes,
        or the account."""
        values = {each.name: getattr(self, each.name) for each in fields(Terms)} | changes
        if self.left_out is None:
            values["left_out"] = self.within is None and self.of is None
        return Terms(**values)


TERMS = {
    each.name: Term(each.name, default=each.default, **each.metadata)
    for each in fields(Question)
    if each.name != "text"
}
"""Every term of a question by its name, in the order in which doors show them."""
FIRST_TERMS = ("epsilon", "within", "delta", "confidence", "at_least", "max_groups", "noise", "discover")
"""The terms that every door of version 0.2 took."""


def read_number(name: str, value: Any) -> Fraction:
    """A number in decimal digits, as it was written: 0.1 is a tenth. Few digits, so that none takes long to
    read."""
    if isinstance(value, Fraction):
        return value
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or DECIMAL.fullmatch(text) is None:
        raise InvalidParameter(f"Expected {name} as a decimal number, got {text[:40]!r}. {REFUSED}")
    return Fraction(text)
