"""In a notebook: what curators and previews look like, and the cell magic `%%deniable`.

%load_ext deniable
%%deniable hospital epsilon=0.5
SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from deniable.curator.question import TERMS, Term, TermKind
from deniable.errors import InvalidParameter
from deniable.numbers import short_down, short_up
from deniable.sql import types

if TYPE_CHECKING:
    from deniable.curator.curator import Curator
    from deniable.curator.preview import Preview
    from deniable.sql.schema.declare import ColumnInfo

KEYS = 5
"""Public keys of a column that are listed."""
USAGE = "Write %%deniable NAME epsilon=0.5, NAME that of a curator, then the query in the lines below."


# ------------------------------------------------------------------------------------------------ views


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Everything that stands in it is escaped."""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def curator_view(curator: Curator) -> str:
    """Whom it protects, what is spent and left, and what may be asked about; nothing of it is read from
    data."""
    account = curator.account
    expenditure, left, limit = account.spent(), account.remaining(), account.limit
    head = (
        f"<p><b>{html.escape(account.name)}</b> protects {html.escape(str(account.unit))}. Spent: ε = "
        f"{short_up(expenditure.epsilon)} of {html.escape(str(limit))}. Left for one charge: ε ≤ "
        f"{short_down(left.epsilon)}.</p>"
    )
    columns = [
        [declaration.name, *_describe_column(column, declaration.unit)]
        for declaration in curator.schema.tables
        for column in declaration.columns
    ]
    return head + table(["table", "column", "type", "bounds", "public keys"], columns)


def _describe_column(column: ColumnInfo, unit: str | None) -> list[str]:
    ends = (column.lower, column.upper)
    bounds = ""
    if None not in ends:
        bounds = f"{float(ends[0] or 0):g} … {float(ends[1] or 0):g}"
    keys = ""
    if column.keys is not None:
        keys = ", ".join(map(str, column.keys[:KEYS]))
    more = "" if column.keys is None or len(column.keys) <= KEYS else f", … ({len(column.keys)})"
    name = column.name
    if column.name == unit:
        name = f"{column.name} (unit of privacy)"
    return [name, types.name(column.type), bounds, keys + more]


def preview_view(preview: Preview) -> str:
    cost, *others = preview.lines()
    remarks = [line for line in others if not line.startswith(("  ", "Expected"))]
    rows = [[name, error] for name, error in preview.expected.items()]
    head = ["number", f"expected, with probability {preview.confidence:.6g}"]
    lines = "".join(f"<p><small>{html.escape(line)}</small></p>" for line in remarks)
    return f"<p>{html.escape(cost)}</p>" + (table(head, rows) if rows else "") + lines


# ------------------------------------------------------------------------------------------------ the magic


def ask(line: str, text: str, names: dict[str, Any]) -> Any:
    """What `%%deniable LINE` gives for the query in the cell: an answer, or a preview if `preview` stands in
    the line. `as=NAME` keeps it under that name too."""
    words = shlex.split(line)
    curator: Any = names.get(words[0]) if words else None
    if not words or not hasattr(curator, "sql") or not hasattr(curator, "preview"):
        raise InvalidParameter(f"Expected the name of a curator after %%deniable, got {line!r}. {USAGE}")
    terms, flags = _options(words[1:])
    name = terms.pop("as", None)
    ask = curator.preview if "preview" in flags else curator.sql
    reply = ask(text, **terms)
    if name is not None:
        names[str(name)] = reply
    return reply


def _options(words: Sequence[str]) -> tuple[dict[str, Any], set[str]]:
    terms: dict[str, Any] = {}
    flags: set[str] = set()
    for word in words:
        name, separator, value = word.removeprefix("--").partition("=")
        is_switch = name in TERMS and TERMS[name].kind is TermKind.SWITCH
        if not separator and (name == "preview" or is_switch):
            flags.add(name)
        elif separator and name in TERMS:
            terms[name] = _value(TERMS[name], value)
        elif separator and name == "as":
            terms[name] = value
        else:
            raise InvalidParameter(
                f"Expected preview, as=NAME or one of {', '.join(TERMS)}, got {word!r}. {USAGE}"
            )
    return dict.fromkeys(flags - {"preview"}, True) | terms, flags


def _value(term: Term, text: str) -> Any:
    """A number as it would be typed in Python, so that both are one question."""
    try:
        value = term.read(text)
    except InvalidParameter as refusal:
        raise InvalidParameter(f"{refusal} {USAGE}") from None
    if isinstance(value, Fraction):
        return float(value)
    return value


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext deniable`."""

    def deniable(line: str, cell: str) -> Any:
        """Ask a curator in SQL: %%deniable NAME epsilon=0.5 [preview] [as=answer]."""
        return ask(line, cell, shell.user_ns)

    shell.register_magic_function(deniable, magic_kind="cell", magic_name="deniable")
