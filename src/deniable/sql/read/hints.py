"""What to type next: the names that were meant, the quotes that are missing, the words as they were written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from sqlglot import expressions as exp

from deniable.sql import functions

ALIKE = 0.7
"""How alike two names must be for one to be suggested for the other, from 0 to 1 (Ratcliff, Obershelp)."""
ALIKE_FUNCTIONS = 0.8
"""Short names of functions are alike that mean nothing alike: ASIN, SIGN."""
LISTED = 30
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_CALLED = re.compile(r"\b([A-Za-z_][A-Za-z_0-9]*)\(")

# What the parser makes one of, by the name that messages use for it.
_PARTS = (exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek)
_MORE_PARTS = (exp.DayOfWeekIso, exp.DayOfYear, exp.Hour, exp.Minute, exp.Second)
_FAMILIES: dict[str, tuple[type[exp.Expr], ...]] = {"EXTRACT": (*_PARTS, *_MORE_PARTS)}


def known_functions() -> frozenset[str]:
    """Every function that may be called, in small letters."""
    forms = [f.form for f in functions.SCALARS] + list(functions.AGGREGATES.values())
    return frozenset(name.lower() for form in forms for name in _CALLED.findall(form))


def similar(name: str, known: Iterable[str], alike: float = ALIKE) -> str | None:
    """The one of the known names that was probably meant.

    >>> similar("lenght", ["length", "lower"]), similar("zzz", ["length"])
    ('length', None)
    """
    by_fold = {each.lower(): each for each in known}
    matches = get_close_matches(name.lower(), by_fold, n=1, cutoff=alike)
    return by_fold[matches[0]] if matches else None


def of_function(name: str) -> str:
    """What to do about a function that is not known."""
    hint = functions.REFUSED.get(name.lower())
    if hint is not None:
        return hint
    guess = similar(name, known_functions(), ALIKE_FUNCTIONS)
    return f"Did you mean {guess.upper()}? {functions.UNKNOWN}" if guess else functions.UNKNOWN


def of_column(node: exp.Column, names: Iterable[str]) -> str:
    """What to do about a column that is not there: quotes, another name, or the list of them all."""
    name, columns = str(node.name), sorted(set(names))
    full_name = next((column for column in columns if _is_start(name, column)), None)
    if full_name is not None:
        return (
            f'Names with other characters than letters, digits and _ stand in double quotes: "{full_name}".'
        )
    guess = similar(name, columns)
    if guess is not None:
        return f"Did you mean {in_quotes(guess)}? {_all(columns)}"
    if isinstance(node.this, exp.Identifier) and node.this.args.get("quoted") and not node.table:
        text = name.replace("'", "''")
        return (
            f"A text stands in single quotes: '{text}'. {_all(columns)}" if len(text) <= 60 else _all(columns)
        )
    return _all(columns)


def of_table(name: str, names: Iterable[str]) -> str:
    tables = sorted(names)
    guess = similar(name, tables)
    have = ", ".join(tables[:LISTED]) or "none"
    return (f"Did you mean {in_quotes(guess)}? " if guess else "") + f"The tables are: {have}."


def in_quotes(name: str) -> str:
    """A name as it has to be written."""
    return name if _WORD.fullmatch(name) else f'"{name}"'


def _all(names: list[str]) -> str:
    have = ", ".join(map(in_quotes, names[:LISTED])) or "none"
    return f"The columns are: {have}." if len(names) <= LISTED else f"Some of the columns are: {have}."


def _is_start(name: str, known: str) -> bool:
    """Whether an unquoted name was read where a longer one was meant: hours of hours-per-week."""
    words = _WORD.findall(known)
    return len(words) > 1 and not _WORD.fullmatch(known) and name.lower() in (word.lower() for word in words)


# ------------------------------------------------------------------------------------------------ as it was written


def mark(tree: exp.Expr, text: str) -> None:
    """Note on every function how it was written: the parser knows many by another name."""
    for node in tree.walk():
        start, end = node.meta.get("start"), node.meta.get("end")
        if isinstance(node, exp.Func) and isinstance(start, int) and isinstance(end, int):
            word = text[start : end + 1]
            if _WORD.fullmatch(word):
                node.meta["written"] = word.upper()


def reworded(message: str, tree: exp.Expr) -> str:
    """A message in the words of the query: MONTH, where that was written, and not EXTRACT."""
    name = message.partition(" ")[0]
    kinds = _FAMILIES.get(name)
    if kinds is None or tree.find(exp.Extract) is not None:
        return message
    words = [str(n.meta["written"]) for n in tree.find_all(*kinds) if "written" in n.meta]
    return message.replace(name, words[0], 1) if words else message
