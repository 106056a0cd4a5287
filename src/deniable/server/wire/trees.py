"""The syntax tree of a query from the wire: which tables it names, its parameters as literals, and its text
for the curator.

What is handed on is a text that reads back as exactly this tree; one that does not is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from deniable.errors import InvalidQuery

WORDS = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "TABLE", "COLUMN", "DEFAULT", "ORDER", "GROUP", "USER"}
)
"""Keywords that tools name columns after."""
CATALOGS = ("pg_catalog", "information_schema")
PUBLIC = ("public", "main")
CASTS = {
    "INT": 23,
    "BIGINT": 20,
    "SMALLINT": 21,
    "DOUBLE PRECISION": 701,
    "REAL": 700,
    "DECIMAL": 1700,
    "BOOLEAN": 16,
}
CASTS |= {"TEXT": 25, "VARCHAR": 25, "DATE": 1082, "TIMESTAMP": 1114, "OID": 26}


LARGE = 8_000
"""Characters of a text whose tree is not kept: it has some hundred bytes for each of them."""
_READING = threading.RLock()
"""Large texts are read one after the other: the collector of garbage stops everybody for as long as there are
trees to look through."""


def parse_statement(text: str, dialect: str) -> exp.Expr | None:
    """The tree of one statement, or None if it cannot be read so. Whoever changes it changes a copy: a tool
    asks the same again and again."""
    if len(text) <= LARGE:
        return _kept_tree(text, dialect)
    with _READING:
        return _parse(text, dialect)


@lru_cache(maxsize=256)
def _kept_tree(text: str, dialect: str) -> exp.Expr | None:
    return _parse(text, dialect)


def _parse(text: str, dialect: str) -> exp.Expr | None:
    try:
        trees = sqlglot.parse(text, read=dialect)
    except (SqlglotError, RecursionError, LookupError):
        # Names that only PostgreSQL takes are quoted and read once more; what still fails is no statement.
        variant = text
        if dialect == "postgres":
            variant = _quote_names(text)
        if variant != text:
            return parse_statement(variant, dialect)
        return None
    if len(trees) == 1:
        return trees[0]
    return None


def _quote_names(text: str) -> str:
    """PostgreSQL takes any word after AS for a name, SELECT and TABLE too; the parser wants those quoted."""
    try:
        tokens = sqlglot.tokenize(text, read="postgres")
    except SqlglotError:
        return text
    # From the end, so that places before the one that is quoted stay what they are.
    for before, word, after in reversed(list(zip(tokens, tokens[1:], tokens[2:], strict=False))):
        ends = after.token_type in (
            sqlglot.TokenType.COMMA,
            sqlglot.TokenType.FROM,
            sqlglot.TokenType.R_PAREN,
        )
        if before.token_type is sqlglot.TokenType.ALIAS and word.text.upper() in WORDS and ends:
            text = f'{text[: word.start]}"{word.text.lower()}"{text[word.end + 1 :]}'
    return text


def of_catalog(table: exp.Table) -> bool:
    return table.db.lower() in CATALOGS or (not table.db and table.name.lower().startswith("pg_"))


def asks_catalog(tree: exp.Expr) -> bool:
    """Whether a query is about the catalog: it names a table of it, or no table at all. One that names others
    too is a mixture, which the catalog refuses, because it does not have them."""
    tables = list(tree.find_all(exp.Table))
    cte_names = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    real = [table for table in tables if table.db or table.name.lower() not in cte_names]
    return not real or any(of_catalog(table) for table in real)


def places(tree: exp.Expr) -> list[int]:
    """The numbers of the parameters in a tree."""
    return [number for node in tree.find_all(exp.Parameter, exp.Placeholder) if (number := _number(node))]


def _number(node: exp.Expr) -> int | None:
    name = node.name or (node.this.name if isinstance(node.this, exp.Expr) else str(node.this or ""))
    if name.isdigit() and len(name) < 6:
        return int(name)
    return None


def infer_types(tree: exp.Expr, kinds: Mapping[str, int]) -> dict[int, int]:
    """The type of each parameter, by a cast around it or the column beside it."""
    types: dict[int, int] = {}
    for node in tree.find_all(exp.Parameter, exp.Placeholder):
        number, parent = _number(node), node.parent
        if number is None or parent is None or number in types:
            continue
        if isinstance(parent, exp.Cast):
            types[number] = CASTS.get(parent.to.sql(dialect="postgres").upper(), 25)
        elif isinstance(parent, exp.Limit | exp.Offset):
            types[number] = 20
        else:
            column = next((each for each in parent.find_all(exp.Column)), None)
            if column is not None and column.name.lower() in kinds:
                types[number] = kinds[column.name.lower()]
    return types


def substitute(tree: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    """The tree with its parameters as literals. A cast of one stays a cast."""

    def replace_parameter(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Parameter | exp.Placeholder):
            return node
        number = _number(node)
        if number is None or not 1 <= number <= len(values):
            raise InvalidQuery("A parameter of the query has no value. Nothing was charged.")
        # A literal of the tree, never a piece of text: no value can end a quote or begin a statement.
        return values[number - 1].copy()

    return tree.transform(replace_parameter)


def strip_qualifiers(tree: exp.Expr, data: str) -> exp.Expr:
    """The tree without the schema and database that tools write before a name: there is one of each here."""

    def strip_node(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table | exp.Column):
            for part in ("db", "catalog"):
                word = node.text(part)
                if word and word.lower() in (*PUBLIC, data.lower()):
                    node.set(part, None)
        return node

    return tree.transform(strip_node)


def ready(text: str, data: str, values: Sequence[exp.Expr]) -> str:
    """The text that the curator is asked: as it came, where nothing in it had to be replaced."""
    if len(text) > LARGE:
        with _READING:
            return _bound(text, data, values)
    if values:
        return _bound(text, data, values)
    return _ready(text, data)


@lru_cache(maxsize=256)
def _ready(text: str, data: str) -> str:
    return _bound(text, data, ())


def _bound(text: str, data: str, values: Sequence[exp.Expr]) -> str:
    tree = parse_statement(text, "duckdb")
    if tree is None:
        return text  # the curator says what is wrong with it
    query = strip_qualifiers(substitute(tree, values), data)
    if query == tree:
        return text
    return _faithful(query)


def _faithful(tree: exp.Expr) -> str:
    text = tree.sql(dialect="duckdb", comments=False)
    again = parse_statement(text, "duckdb")
    if (
        again is None
        or again.sql(dialect="duckdb", comments=False) != text
        or _literals(again) != _literals(tree)
    ):
        raise InvalidQuery(
            "A parameter cannot be written as a literal here. Nothing was charged. Write it into the query."
        )
    return text


def _literals(tree: exp.Expr) -> list[tuple[bool, str]]:
    return sorted((node.is_string, node.name) for node in tree.find_all(exp.Literal))
