"""Regular expressions that every engine matches alike and none slowly: literal patterns of a small grammar.

DuckDB matches in linear time (RE2), PostgreSQL and Spark may go back and try again. So repetition is of
single characters, and what a repetition may match must not begin what follows it, once in each alternative
excepted: then at most the place where a match begins and one length are tried, whatever the text. What the
engines read differently is written out: `.` is any character but a line break, `\\d` is [0-9], `$` is the end
of the text.

>>> pattern("^a.*b$").text
'^a[^\\\\n]*b$'
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from deniable.sql.refusals import refuse

MOST = 255
"""The largest number of a repetition, and the number of pieces of a pattern."""
_SETS = {"d": "0-9", "w": "0-9A-Za-z_", "s": " \\t\\n\\r\\f"}
_SIGNS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_TIMES: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_REPETITION = re.compile(r"[*+?]|\{(0|[1-9][0-9]{0,2})(,(0|[1-9][0-9]{0,2})?)?\}")
"""Without leading zeros: RE2 reads x{03} as five characters, the others as three times x."""
_MOST_BRACKETS = 8
"""So that a number of one digit means a bracket in all engines, one more in front of it included."""
_ALL = frozenset(range(256))
_OTHER = 255
"""Stands for every character beyond Latin-1."""


@dataclass(frozen=True)
class Pattern:
    """`text` is the pattern as every engine reads it."""

    text: str


@dataclass(frozen=True)
class _Piece:
    """A part of a sequence: the characters that it may begin with, whether it may be empty, and whether it is
    repeated without an end."""

    text: str
    first: frozenset[int]
    empty: bool = False
    endless: bool = False
    loose: frozenset[int] = frozenset()
    """The characters of what may match more or less of a text."""


def part_pattern(given: str, group: int) -> tuple[str, int]:
    """A pattern that matches a text in one way only, and the number of the bracket `group` of it, 0 for all
    of the match.

    RE2 and Java take the first way to match, PostgreSQL the longest. Here these are one from each place:
    there are no alternatives, and what may match more or less of a text cannot begin what follows it. So as
    many as can be are taken, for with fewer the next character is one that nothing which follows begins
    with. Or only one part may match more or less: then the first way, which takes as much of it as it can,
    is the longest. Or only one part, of a few characters at most, may end where the next one begins, and the
    pattern is of a whole text (`^…$`): how much of that part is taken then says all the rest; RE2 and Java
    take as much of it as they can, and so does PostgreSQL: its matches are all of one length, and among these
    an earlier part is longest first (its manual, 9.7.3.5)."""
    if len(given) > 256:
        refuse("A pattern has at most 256 characters.")
    reader = _Reader(given, fold=False, one_way=True)
    piece = reader.one_way_piece()
    if group > len(reader.brackets):
        refuse(f"The pattern has {len(reader.brackets)} brackets, and number {group} is asked for.")
    return piece.text, 0 if group == 0 else reader.brackets[group - 1]


def replacement(given: str, by: str, *, fold: bool) -> tuple[str, str]:
    """A pattern that matches in one way only, and never nothing (engines go on from there by different
    rules), and what stands for a match: `\\1` is what its first bracket holds, `\\\\` a backslash."""
    if max(len(given), len(by)) > 256:
        refuse("A pattern and what replaces it have at most 256 characters.")
    reader = _Reader(given, fold=fold, one_way=True)
    piece = reader.one_way_piece()
    if piece.empty:
        _refuse("nothing that must be there, where its place is to be filled,")
    if reader.opened > _MOST_BRACKETS:
        _refuse(f"more than {_MOST_BRACKETS} brackets, where its place is to be filled,")
    return piece.text, re.sub(r"\\(.?)", lambda part: _reference(part[1], reader.brackets), by, flags=re.S)


def _reference(sign: str, brackets: Sequence[int]) -> str:
    if sign == "\\":
        return "\\\\"
    if not sign or sign not in string.digits[1 : len(brackets) + 1]:
        refuse(
            f"\\{sign} in what replaces a pattern is not answered.",
            f"It has {len(brackets)} brackets: \\1 is the first. A backslash is written twice.",
        )
    return f"\\{brackets[int(sign) - 1]}"


def pattern(given: str, *, fold: bool = False) -> Pattern:
    if len(given) > 256:
        refuse("A pattern has at most 256 characters.")
    bare = given.removeprefix("(?i)")
    reader = _Reader(bare, fold or bare != given)
    text = reader.choice(outer=True)
    if reader.rest:
        _refuse("a bracket that is not opened")
    return Pattern(text.text)


def _refuse(what: str) -> NoReturn:
    refuse(
        f"A pattern with {what} is not answered: not every engine would match it alike, or quickly.",
        "Use single characters, [a-z], \\d, \\w, \\s, ., *, +, ?, {2,3}, (a|b), ^ and $, or LIKE.",
    )


def _times(repetition: re.Match[str]) -> tuple[int, int | None]:
    """How often at least and at most; None without an end."""
    low, comma, high = repetition.groups()
    if low is None:
        return _TIMES[repetition[0]]
    if comma is None:
        return int(low), int(low)
    return int(low), int(high) if high else None


class _Reader:
    """Reads a pattern from left to right, and writes it anew."""

    def __init__(self, given: str, fold: bool, *, one_way: bool = False) -> None:
        self.rest, self.fold, self.pieces, self.one_way = given, fold, 0, one_way
        self.opened, self.varying = 0, 0
        self.sharing, self.shares_endlessly, self.ends = 0, False, set[str]()
        self.brackets: list[int] = []
        """The numbers, among all that are written anew, of those that the pattern counts."""

    def one_way_piece(self) -> _Piece:
        """The whole pattern."""
        piece = self.choice(outer=True)
        if self.rest:
            _refuse("a bracket that is not opened")
        whole_text = self.ends == {"^", "$"} and self.sharing == 1 and not self.shares_endlessly
        if self.sharing and self.varying > 1 and not whole_text:
            _refuse("a part that may end where the next one begins, of which a part is to be taken,")
        return piece

    def take(self) -> str:
        sign, self.rest = self.rest[:1], self.rest[1:]
        return sign

    def choice(self, *, outer: bool = False) -> _Piece:
        """a|b|c"""
        parts = [self.sequence(outer=outer)]
        while self.rest.startswith("|"):
            if self.one_way:
                _refuse("alternatives, of which a part is to be taken,")
            self.take()
            parts.append(self.sequence(outer=outer))
        first = frozenset().union(*(part.first for part in parts))
        text = "|".join(part.text for part in parts)
        loose = frozenset().union(*(part.loose for part in parts))
        return _Piece(text, first, any(p.empty for p in parts), any(p.endless for p in parts), loose)

    def sequence(self, *, outer: bool) -> _Piece:
        pieces: list[_Piece] = []
        varying = []
        while self.rest and self.rest[0] not in "|)":
            before = self.varying
            pieces.append(self.piece(first=not pieces, outer=outer))
            varying.append(self.varying - before)
            self.pieces += 1
            if self.pieces > MOST:
                _refuse("so many pieces")
        if self.one_way:
            for at in _shared(pieces):
                self.sharing += varying[at]
                self.shares_endlessly |= pieces[at].endless
        else:
            _check_repetitions(pieces)
        return _Piece(
            "".join(piece.text for piece in pieces),
            _following(pieces),
            all(p.empty for p in pieces),
            any(p.endless for p in pieces),
            frozenset().union(*(p.loose for p in pieces)),
        )

    def piece(self, *, first: bool, outer: bool) -> _Piece:
        sign = self.take()
        match sign:
            case "^" if first and outer:
                self.ends.add(sign)
                return _Piece("^", frozenset(), empty=True)
            case "$" if outer and self.rest[:1] in ("", "|"):
                self.ends.add(sign)
                return _Piece("$", frozenset(), empty=True)
            case "^" | "$":
                _refuse(f"{sign} inside it")
            case "(":
                return self.group()
            case "*" | "+" | "?" | "{" | ")" | "]" | "}":
                _refuse(f"{sign} where nothing is repeated or opened")
        return self.repeated(self.single(sign))

    def group(self) -> _Piece:
        self.opened += 1
        if self.rest.startswith("?:"):
            self.rest = self.rest[2:]
        elif not self.rest.startswith("?"):
            self.brackets.append(self.opened)
        if self.rest.startswith("?"):
            _refuse("(?")
        inside = self.choice()
        if self.take() != ")":
            _refuse("a bracket that is not closed")
        if self.rest[:1] == "?":
            self.take()
            if inside.endless:
                _refuse("a repetition of a repetition")
            self.varying += 1
            inside = _Piece(f"({inside.text})?", inside.first, empty=True, loose=inside.loose | inside.first)
        else:
            inside = replace(inside, text=f"({inside.text})")
        if self.rest[:1] in ("*", "+", "{", "?"):
            _refuse("a repeated bracket")
        return inside

    def single(self, sign: str) -> _Piece:
        if sign == ".":
            return _Piece("[^\\n]", _ALL - {10})
        if sign == "[":
            return self.characters()
        if sign == "\\":
            sign = self.take()
            if sign in _SETS:
                return _Piece(f"[{_SETS[sign]}]", _members(f"[{_SETS[sign]}]"))
            if sign in _SIGNS:
                return _Piece(f"\\{sign}", frozenset({ord(_SIGNS[sign])}))
            if not sign or sign.isalnum():
                _refuse(f"\\{sign}")
        return self.letter(sign)

    def letter(self, sign: str) -> _Piece:
        if self.fold and sign.isascii() and sign.isalpha():
            return _Piece(
                f"[{sign.lower()}{sign.upper()}]", frozenset({ord(sign.lower()), ord(sign.upper())})
            )
        return _Piece(_escaped(sign), frozenset({min(ord(sign), _OTHER)}))

    def characters(self) -> _Piece:
        match = re.match(r"\^?(?:[^\]\[\\]|\\.)+\]", self.rest, re.S)
        if match is None or "[:" in self.rest[: match.end()]:
            _refuse("these square brackets")
        body, self.rest = match[0][:-1], self.rest[match.end() :]
        negative, body = body.startswith("^"), body.removeprefix("^")
        inside = "".join(self._members(re.findall(r"\\.|[^\\]", body, re.S)))
        text = f"[{'^' if negative else ''}{inside}]"
        try:
            return _Piece(text, _members(text))
        except re.error:
            _refuse("these square brackets")

    def _members(self, signs: list[str]) -> Iterator[str]:
        """Single characters, sets and ranges. PostgreSQL raises at a hyphen beside a set or a range, and not
        before it looks at a row; so a hyphen by itself stands first or last, and is escaped."""
        while signs:
            if len(signs) > 2 and signs[1] == "-":
                ends, signs = (signs[0], signs[2]), signs[3:]
                if any(end[1:] in _SETS for end in ends) or (len(signs) > 1 and signs[0] == "-"):
                    _refuse("a hyphen beside a range in these square brackets")
                yield self._with_other_case("-".join(map(_member, ends)), ends)
            else:
                sign, signs = signs[0], signs[1:]
                yield self._with_other_case(_member(sign), (sign,))

    def _with_other_case(self, written: str, signs: Sequence[str]) -> str:
        is_letter = all(len(sign) == 1 and sign.isascii() and sign.isalpha() for sign in signs)
        if self.fold and len(signs) == 2 and not is_letter and not "".join(signs).isdigit():
            _refuse("such a range without regard to case")
        if self.fold and is_letter:
            return written + _other_case(written)
        return written

    def repeated(self, of: _Piece) -> _Piece:
        match = _REPETITION.match(self.rest)
        if match is None:
            return of
        self.rest = self.rest[match.end() :]
        if self.rest[:1] in ("?", "+", "*", "{"):
            _refuse("a repetition of a repetition")
        low, high = _times(match)
        if max(low, high or 0) > MOST or (high is not None and low > high):
            _refuse("such a repetition")
        varies = high is None or (low < high and high > 8)
        loose = of.first if low != high else frozenset()
        self.varying += low != high
        return _Piece(of.text + match[0], of.first, low == 0, varies, loose)


def _following(pieces: list[_Piece]) -> frozenset[int]:
    """What the next piece that is not empty may begin with."""
    first: frozenset[int] = frozenset()
    for piece in pieces:
        first |= piece.first
        if not piece.empty:
            break
    return first


def _shared(pieces: list[_Piece]) -> list[int]:
    """The parts that may end where the next one begins. If none does, nothing is tried twice from one
    place, so that the repetitions may be many."""
    return [at for at, piece in enumerate(pieces) if piece.loose & _following(pieces[at + 1 :])]


def _check_repetitions(pieces: list[_Piece]) -> None:
    """At most one repetition that goes on into what may follow it."""
    unsure = 0
    for at, piece in enumerate(pieces):
        if not piece.endless:
            continue
        unsure += bool(piece.first & _following(pieces[at + 1 :])) or piece.text.startswith("(")
    if unsure > 1:
        _refuse("two repetitions that may share characters")


def _members(text: str) -> frozenset[int]:
    """The characters of a class; those beyond Latin-1 stand together."""
    matcher = re.compile(text)
    inside = frozenset(code for code in range(255) if matcher.fullmatch(chr(code)))
    beyond = not text.isascii() or matcher.fullmatch("\u4e2d") is not None
    if beyond:
        return inside | {_OTHER}
    return inside


def _member(sign: str) -> str:
    """A character or an escape, as it is written between square brackets."""
    escape = sign[1:]
    if escape in _SETS:
        return _SETS[escape]
    if escape in _SIGNS or (len(sign) == 1 and (sign.isalnum() or sign == " " or not sign.isascii())):
        return sign
    if escape.isalnum():
        _refuse(sign)
    return _escaped(sign[-1])


def _other_case(part: str) -> str:
    ends = part.split("-")
    if len(ends) == 2 and ends[0].islower() != ends[1].islower():
        _refuse("such a range without regard to case")
    return part.swapcase()


def _escaped(sign: str) -> str:
    if sign.isalnum() or sign in " _" or not sign.isascii():
        return sign
    return f"\\{sign}"
