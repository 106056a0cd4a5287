"""What to type next: the names that were meant, the quotes that are missing, the words as they were
written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import ParseError

from deniable.sql.functions import FORMS, refused
from deniable.sql.functions.aggregates import AGGREGATES

ALIKE = 0.7
"""How alike two names must be for one to be suggested for the other, from 0 to 1 (Ratcliff, Obershelp)."""
ALIKE_FUNCTIONS = 0.8
"""Short names of functions are alike that mean nothing alike: ASIN, SIGN."""
LISTED = 30
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_IN_QUOTES = re.compile(r"'[^']*'|\"[^\"]*\"")
_BETWEEN = r"[^\w\"',;]{1,3}"
_CALLED = re.compile(r"\b([A-Za-z_][A-Za-z_0-9]*)\(")

# What the parser makes one of, by the name that messages use for it.
_PARTS = (exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek)
_MORE_PARTS = (exp.DayOfWeekIso, exp.DayOfYear, exp.Hour, exp.Minute, exp.Second)
_FAMILIES: dict[str, tuple[type[exp.Expr], ...]] = {"EXTRACT": (*_PARTS, *_MORE_PARTS)}


def known_functions() -> frozenset[str]:
    """Every function that may be called, in small letters."""
    forms = [form.text for form in FORMS] + list(AGGREGATES.values())
    return frozenset(name.lower() for form in forms for name in _CALLED.findall(form))


def similar(name: str, known: Iterable[str], alike: float = ALIKE) -> str | None:
    """The one of the known names that was probably meant.

    >>> similar("lenght", ["length", "lower"]), similar("zzz", ["length"])
    ('length', None)
    """
    by_fold = {each.lower(): each for each in known}
    matches = get_close_matches(name.lower(), by_fold, n=1, cutoff=alike)
    if matches:
        return by_fold[matches[0]]
    return None


def of_function(name: str) -> str:
    """What to do about a function that is not known."""
    hint = refused.REFUSED.get(name.lower())
    if hint is not None:
        return hint
    guess = similar(name, known_functions(), ALIKE_FUNCTIONS)
    if guess:
        return f"Did you mean {guess.upper()}? {refused.UNKNOWN}"
    return refused.UNKNOWN


_TEXTS = (
    (re.compile(r"\bselect\s+top\s+\(?\s*(\d{1,9})", re.I), "Write LIMIT {} at the end."),
    (re.compile(r"[{][{%]"), "Ask with the text that the template becomes."),
    (re.compile(r"\[\s*([A-Za-z_]\w*)\s*\]"), 'Names stand in double quotes: "{}".'),
    (re.compile(r"\bdecode\s*\(", re.I), "Write CASE x WHEN a THEN b ELSE c END."),
    (re.compile(r"\boverlaps\b", re.I), "Write a < d AND c < b."),
)
"""What other dialects write that DuckDB's SQL does not have, and what it has instead."""


def of_text(text: str, names: Iterable[str] = ()) -> str:
    """What to do about a text that cannot be read, where these names of tables and columns are declared.

    >>> of_text("SELECT TOP 10 ward FROM visits")
    "Write LIMIT 10 at the end. Write it in DuckDB's SQL."
    """
    matches = ((pattern.search(text), way_out) for pattern, way_out in _TEXTS)
    hint = next((way_out.format(*match.groups()) for match, way_out in matches if match), "")
    names = tuple(names)
    hint = hint or of_keywords(text, names) or of_names(text, names)
    return " ".join(part for part in (hint, "Write it in DuckDB's SQL.") if part)


def of_keywords(text: str, names: Iterable[str]) -> str:
    """A declared name that SQL reads as a word of its own; nothing, if the text has none without quotes.

    >>> of_keywords("SELECT AVG(Alter) FROM visits", ["Alter", "age"])
    'In SQL alter is a word of its own; a column of that name stands in double quotes: "Alter".'
    """
    words = {word.lower() for word in _WORD.findall(_IN_QUOTES.sub("''", text))}
    keywords = [name for name in sorted(set(names)) if name.lower() in words and _is_keyword(name)]
    if not keywords:
        return ""
    return (
        f"In SQL {keywords[0].lower()} is a word of its own; a column of that name stands in double "
        f'quotes: "{keywords[0]}".'
    )


def _is_keyword(name: str) -> bool:
    try:
        sqlglot.parse_one(f"SELECT AVG({name}) FROM t", read="duckdb")
    except ParseError:
        return True
    return False


def of_names(text: str, names: Iterable[str]) -> str:
    """The declared name of several words that the text begins to say without quotes; nothing, if there is
    none.

    >>> of_names("SELECT AVG(Length of stay) FROM visits", ["Length of visit", "Length of stay (days)"])
    'Names with other characters than letters, digits and _ stand in double quotes: "Length of stay (days)".'
    >>> of_names("SELECT COUNT(*) FROM ward stays", ["ward_stays"])
    'Did you mean ward_stays?'
    >>> of_names("SELECT COUNT(*) FROM x", ["a b"])
    ''
    """
    bare_text = _IN_QUOTES.sub("''", text)
    matches = [(_words_said(bare_text, name), name) for name in sorted(set(names))]
    most, name = max(matches, default=(0, ""), key=lambda match: match[0])
    if not most:
        return ""
    if _WORD.fullmatch(name):
        return f"Did you mean {name}?"
    return _needs_quotes(name)


def of_call(message: str, text: str, names: Iterable[str]) -> str:
    """A refusal of Bill(…) where a column "Bill (EUR)" was meant; nothing, if none was."""
    name = message.partition(" ")[0].lower()
    calls = [each for each in names if re.match(rf"{re.escape(name)}\s*\(", each, re.I)]
    hint = ""
    if refused.UNKNOWN in message:
        hint = of_names(text, calls)
    if hint:
        return message.replace(refused.UNKNOWN, hint)
    return ""


def _words_said(text: str, name: str) -> int:
    """How many of a name's first words stand in the text one after another, two at least; else 0."""
    words = [re.escape(word) for word in re.findall(r"[^\W_]+", name)]
    counts = range(len(words), 1, -1)
    return next((n for n in counts if re.search(rf"\b{_BETWEEN.join(words[:n])}\b", text, re.I)), 0)


def _needs_quotes(name: str) -> str:
    return f'Names with other characters than letters, digits and _ stand in double quotes: "{name}".'


def of_column(node: exp.Column, names: Iterable[str]) -> str:
    """What to do about a column that is not there: quotes, another name, or the list of them all."""
    name, columns = str(node.name), sorted(set(names))
    full_name = next((column for column in columns if _is_start(name, column)), None)
    if full_name is not None:
        return _needs_quotes(full_name)
    guess = similar(name, columns)
    if guess is not None:
        return f"Did you mean {in_quotes(guess)}? {_list_columns(columns)}"
    if isinstance(node.this, exp.Identifier) and node.this.args.get("quoted") and not node.table:
        text = name.replace("'", "''")
        if len(text) <= 60:
            return f"A text stands in single quotes: '{text}'. {_list_columns(columns)}"
        return _list_columns(columns)
    return _list_columns(columns)


def of_struct_field(name: str) -> str:
    """How a field of a struct column can be asked."""
    line = '"a.b": {type: text}'
    if len(name) <= 60 and name.isprintable():
        line = f'"{name}": {{type: text}}'
    return (
        f"A field of a struct column is declared by the owner as a column of its own, like {line} in the "
        "schema."
    )


def of_table(name: str, names: Iterable[str]) -> str:
    tables = sorted(names)
    guess = similar(name, tables)
    have = ", ".join(tables[:LISTED]) or "none"
    return (f"Did you mean {in_quotes(guess)}? " if guess else "") + f"The tables are: {have}."


def in_quotes(name: str) -> str:
    """A name as it has to be written."""
    if _WORD.fullmatch(name):
        return name
    return f'"{name}"'


def _list_columns(names: list[str]) -> str:
    have = ", ".join(map(in_quotes, names[:LISTED])) or "none"
    if len(names) <= LISTED:
        return f"The columns are: {have}."
    return f"Some of the columns are: {have}."


def _is_start(name: str, known: str) -> bool:
    """Whether an unquoted name was read where a longer one was meant: hours of hours-per-week."""
    words = _WORD.findall(known)
    return len(words) > 1 and not _WORD.fullmatch(known) and name.lower() in (word.lower() for word in words)


# ------------------------------------------------------------------------------------------ as it was written


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
    if words:
        return message.replace(name, words[0], 1)
    return message
