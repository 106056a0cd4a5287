"""What a text asks for: statements apart, each of one known kind. What is not named here is refused.

Decided by tokens, not by patterns: a quote, a comment or a dollar sign hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlglot
from sqlglot.errors import SqlglotError

from deniable.errors import InvalidQuery
from deniable.sql.read.parse import surplus

LONGEST = 64 * 1024
MOST_STATEMENTS = 100
TRANSACTION = {
    *(
        "BEGIN",
        "START",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
        "DISCARD",
        "DEALLOCATE",
        "RESET",
        "CLOSE",
    ),
}
HINT = re.compile(r"\bepsilon\s*=\s*([0-9][0-9.eE+-]{0,30})")


class StatementKind(StrEnum):
    EMPTY = "empty"
    QUERY = "query"
    EXPLAIN = "explain"
    COPY = "copy"
    SET = "set"
    SHOW = "show"
    CONTROL = "control"


@dataclass(frozen=True)
class WireStatement:
    """One statement: its kind, its words, and for EXPLAIN and COPY the query inside. `hint` is an ε in a
    comment."""

    kind: StatementKind
    text: str
    words: tuple[str, ...]
    query: str = ""
    hint: str | None = None

    @property
    def tag(self) -> str:
        first = ""
        if self.words:
            first = self.words[0]
        return {"START": "START TRANSACTION", "END": "COMMIT", "ABORT": "ROLLBACK"}.get(first, first)


def statements(text: str) -> list[WireStatement]:
    """The statements of a text, in order; one that is empty if there is none."""
    if len(text) > LONGEST:
        raise InvalidQuery(
            f"Expected a query of at most {LONGEST:,} characters. Nothing was charged. Make it shorter."
        )
    tokens = _tokens(text)
    parts: list[list[sqlglot.Token]] = [[]]
    for token in tokens:
        if token.token_type is sqlglot.TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    # Each may be a charge of its own: one text is not to empty an account in a single message.
    if sum(map(bool, parts)) > MOST_STATEMENTS:
        raise InvalidQuery(
            f"Expected at most {MOST_STATEMENTS} statements in one text. Nothing was charged. Send them one "
            "by one."
        )
    for part in parts:
        _check_size(part)
    wire_statements = [_statement(text, part) for part in parts if part]
    return wire_statements or [WireStatement(StatementKind.EMPTY, "", ())]


def _check_size(tokens: Sequence[sqlglot.Token]) -> None:
    """Before any tree is built: one of a text that is refused anyway would be large, and looking through it
    for garbage stops everybody."""
    if too_much := surplus(tokens):
        raise InvalidQuery(" ".join((too_much[0], "Nothing was charged.", too_much[1])))


def _tokens(text: str) -> Sequence[sqlglot.Token]:
    # Tools write PostgreSQL's quotes ($$, E''), analysts DuckDB's: whoever reads it cuts it in statements.
    for dialect in ("postgres", "duckdb"):
        try:
            return sqlglot.tokenize(text, read=dialect)
        except SqlglotError:
            continue
    raise InvalidQuery(
        "The query could not be read: a quote or comment is not closed, or a character means nothing. "
        "Nothing was charged."
    )


def _statement(text: str, tokens: list[sqlglot.Token]) -> WireStatement:
    words = tuple(token.text.upper() for token in tokens)
    own = text[tokens[0].start : tokens[-1].end + 1]
    hint = _hint(tokens)
    first = words[0]
    if first in ("SELECT", "WITH", "(", "VALUES", "TABLE"):
        return WireStatement(StatementKind.QUERY, own, words, own, hint)
    if first == "EXPLAIN":
        return _read_explain(own, text[tokens[0].end + 1 : tokens[-1].end + 1])
    if first == "COPY":
        return WireStatement(StatementKind.COPY, own, words, _copy_query(text, tokens, words), hint)
    if first in ("SET", "SHOW"):
        return WireStatement(StatementKind(first.lower()), own, words)
    if first in TRANSACTION:
        return WireStatement(StatementKind.CONTROL, own, words)
    raise InvalidQuery(f"{first[:40]} is not answered. Nothing was charged. Write a SELECT.")


def _hint(tokens: Sequence[sqlglot.Token]) -> str | None:
    comments = (comment for token in tokens for comment in token.comments)
    hints = [match[1] for comment in comments if (match := HINT.search(comment))]
    # The last one: an ORM puts its own comment first, and the analyst's stands beside her query.
    if hints:
        return hints[-1]
    return None


def _read_explain(text: str, rest: str) -> WireStatement:
    """The tokenizer takes all after EXPLAIN for one word, so it is read anew."""
    tokens = _tokens(rest)
    _check_size(tokens)
    if not tokens or tokens[0].text.upper() not in ("SELECT", "WITH"):
        raise InvalidQuery(
            "EXPLAIN tells what a query would cost, and takes no options: EXPLAIN SELECT …. EXPLAIN ANALYZE "
            "would run it, and tell its time. Nothing was charged."
        )
    return WireStatement(StatementKind.EXPLAIN, text, ("EXPLAIN",), rest.strip(), _hint(tokens))


def _copy_query(text: str, tokens: list[sqlglot.Token], words: tuple[str, ...]) -> str:
    # By brackets and not by a pattern: TO STDOUT inside the query (as a text or an alias) ends nothing.
    i, depth = 1, int(words[1:2] == ("(",))
    while depth and i + 1 < len(words):
        i += 1
        depth += (words[i] == "(") - (words[i] == ")")
    if len(words) < 4 or words[1] != "(" or words[i + 1 : i + 3] != ("TO", "STDOUT"):
        raise InvalidQuery(
            "COPY is answered as COPY (SELECT …) TO STDOUT only: rows never leave, and nothing is written "
            "here. Nothing was charged."
        )
    return text[tokens[2].start : tokens[i - 1].end + 1]


@dataclass(frozen=True)
class CopyForm:
    """How an answer is copied."""

    form: str = "text"
    header: bool = False
    delimiter: str = "\t"


COPY_OPTIONS: dict[tuple[str, ...], dict[str, Any]] = {
    ("FORMAT", "TEXT"): {"form": "text"},
    ("FORMAT", "CSV"): {"form": "csv"},
    ("FORMAT", "BINARY"): {"form": "binary"},
    ("CSV",): {"form": "csv"},
    ("BINARY",): {"form": "binary"},
    ("HEADER",): {"header": True},
    **{("HEADER", word): {"header": True} for word in ("TRUE", "ON", "1")},
    **{("HEADER", word): {"header": False} for word in ("FALSE", "OFF", "0")},
}
"""What may stand after STDOUT, in one word or two, and what it means; DELIMITER takes any character."""


def copy_form(statement: WireStatement) -> CopyForm:
    """What stands after STDOUT: FORMAT, HEADER, DELIMITER; anything else is refused."""
    rest = list(statement.words)
    rest = rest[len(rest) - 1 - rest[::-1].index("STDOUT") + 1 :]
    rest = [word for word in rest if word not in ("WITH", "(", ")", ",")]
    form: dict[str, Any] = {}
    while rest:
        pair = tuple(rest[:2])
        if pair in COPY_OPTIONS:
            form |= COPY_OPTIONS[pair]
            del rest[:2]
        elif pair[:1] in COPY_OPTIONS:
            form |= COPY_OPTIONS[pair[:1]]
            del rest[:1]
        elif pair[0] == "DELIMITER" and len(pair[1:]) == len("".join(pair[1:])) == 1:
            form["delimiter"] = pair[1]
            del rest[:2]
        else:
            raise InvalidQuery(
                f"The option {pair[0][:40]} of COPY is not answered. Nothing was charged. Take FORMAT, "
                "HEADER or DELIMITER."
            )
    if form.get("form") == "csv":
        form.setdefault("delimiter", ",")
    return CopyForm(**form)
