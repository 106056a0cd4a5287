"""From text to a syntax tree of known nodes only: one statement, of bounded length and depth.

Everything is decided by the text. What is not on the list of nodes and of their parts is refused by name, so
that a later version of the parser cannot let a new construct through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

import sqlglot
from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, TokenError

from deniable.sql.functions import NODES as FUNCTION_NODES
from deniable.sql.functions import refused
from deniable.sql.functions.aggregates import NUMERIC
from deniable.sql.read import hints
from deniable.sql.read.rewrites import rewritten
from deniable.sql.refusals import refuse, shown

MAX_BYTES = 64 * 1024
MAX_DEPTH = 120
MAX_TOKENS = 8_000
MAX_NESTING = 40
MAX_READINGS = 4 * MAX_TOKENS

_OPEN, _CLOSE = {"(", "[", "{"}, {")", "]", "}"}
_PREFIX = {"NOT", "-", "+", "~", "@"}
_TWICE = frozenset({*DuckDB.Parser.TYPE_TOKENS, TokenType.LATERAL})


def parse(text: str) -> exp.Query:
    """The syntax tree of one SELECT (or UNION ALL of them), every node and part of it known.

    >>> parse("SELECT COUNT(*) FROM visits; DROP TABLE visits")
    Traceback (most recent call last):
    deniable.errors.InvalidQuery: Expected one statement, got more than one. Ask them one by one. No data was
    read ..."""
    tree = syntax(text)
    check_nodes(tree)
    if not isinstance(tree, (exp.Select, exp.Union, exp.Subquery)):
        refuse(f"{name_of(tree)} is not answered.", "Write a SELECT.")
    return tree


def syntax(text: str, names: Iterable[str] = ()) -> exp.Expr:
    """The syntax tree of one statement of bounded length and depth; its nodes are still to be looked at.
    Declared `names` of tables and columns help to say what was meant."""
    text = _double_quoted(text)
    _check_text(text)
    tree = _read(text, names)
    _check_depth(tree)
    # First, since what a word is rewritten to stands at other places, and those of another text.
    hints.mark(tree, text)
    return rewritten(tree)


_QUOTED = re.compile(
    r"\$\$.*?\$\$|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|`([^`\"\n]{1,128})`", re.S
)


def _double_quoted(text: str) -> str:
    """Names in the quotes of MySQL and BigQuery, which mean nothing else in DuckDB."""
    if "`" not in text:
        return text
    return _QUOTED.sub(lambda found: f'"{found[1]}"' if found[1] is not None else found[0], text)


def check_nodes(tree: exp.Expr) -> None:
    """Every node and part of what reads private tables is known."""
    for node in tree.walk(prune=lambda each: isinstance(each, exp.Window)):
        if isinstance(node, exp.Window):
            _check_window(node, tree)
        else:
            _check_node(node)


def _check_window(window: exp.Expr, tree: exp.Expr) -> None:
    """A window stands in what SELECT lists, or in QUALIFY, of a query inside: there it is read within the
    rows of one unit (`relations.own_windows`)."""
    node = window
    while node.parent is not None and not isinstance(node.parent, exp.Select):
        node = node.parent
    if node.parent in (None, tree) or node.arg_key not in ("expressions", "qualify"):
        refuse_node(window)
    function = window.this
    own = [*function.iter_expressions()] if type(function) in WINDOW_FUNCTIONS else [function]
    for part in (*own, *(child for child in window.iter_expressions() if child is not function)):
        if not isinstance(part, exp.WindowSpec):
            check_nodes(part)


def _check_text(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        refuse("Expected a text in Unicode, got half a surrogate pair.")
    if size > MAX_BYTES:
        refuse(f"Expected a query of at most {MAX_BYTES:,} bytes, got {size:,}.", "Make it shorter.")
    if "\0" in text:
        refuse("Expected a query without the character U+0000.")
    try:
        tokens = sqlglot.tokenize(text, read="duckdb")
    except TokenError:
        refuse("The query could not be read: a quote or comment is not closed, or a character means nothing.")
    _check_tokens(tokens)
    if excess := _excess(tokens):
        name, most, count = excess
        refuse(f"{name} takes at most {most} arguments, got {count}.", "Leave the others out.")


# fmt: off
_MOST_ARGUMENTS = {
    "REGEXP_REPLACE": 4, "REGEXP_EXTRACT": 4, "REGEXP_MATCHES": 3, "DATE_DIFF": 3, "DATEDIFF": 3,
    "DATE_SUB": 3, "SPLIT_PART": 3, "LPAD": 3, "RPAD": 3, "DATE_TRUNC": 2, "ROUND": 2, "SUBSTR": 3,
    "SUBSTRING": 3, "LEFT": 2, "RIGHT": 2, "QUANTILE_CONT": 2, "QUANTILE_DISC": 2, "QUANTILE": 2,
    "STRFTIME": 2, "STRPTIME": 2, "TO_CHAR": 2, "MAKE_DATE": 3,
    "MOD": 2, "LENGTH": 1, "GENERATE_SERIES": 3, "COUNT_IF": 1, "JSON_EXTRACT_STRING": 2,
}
# fmt: on
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def _excess(tokens: Sequence[Token]) -> tuple[str, int, int] | None:
    """The first function that has more arguments than it takes, which the parser would drop: its name, how
    many it takes and how many it has."""
    for name, count in _calls(tokens):
        if count > _MOST_ARGUMENTS.get(name, count):
            return name, _MOST_ARGUMENTS[name], count
    return None


def _calls(tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """Each bracket with the word before it, and how many parts it has."""
    open_brackets: list[tuple[str, int]] = []
    before = ""
    for token in tokens:
        if token.token_type in _OPENING:
            open_brackets.append((before, 1))
        elif token.token_type in _CLOSING and open_brackets:
            yield open_brackets.pop()
        elif token.token_type is TokenType.COMMA and open_brackets:
            name, parts = open_brackets.pop()
            open_brackets.append((name, parts + 1))
        before = "" if token.token_type is TokenType.STRING else token.text.upper()


_INSTEAD = {
    "PIVOT": (
        "Write SELECT a, COUNT(*) FILTER (WHERE b = 'x') AS x, COUNT(*) FILTER (WHERE b = 'y') AS y FROM "
        "… GROUP BY a."
    )
}
"""What to write for a statement that is none of these."""


def _check_tokens(tokens: Sequence[Token]) -> None:
    words = [token.text.upper() for token in tokens]
    while words and words[-1] == ";":
        words.pop()
    if not words:
        refuse("Expected a query, got none.", "Write a SELECT.")
    if too_much := surplus(tokens[: len(words)]):
        refuse(*too_much)
    if ";" in words:
        refuse("Expected one statement, got more than one.", "Ask them one by one.")
    if words[0] not in ("SELECT", "WITH", "(", "FROM"):
        way_out = _INSTEAD.get(words[0], "")
        refuse(
            f"{shown(words[0])} is not answered: only a query that begins with SELECT or WITH is.", way_out
        )


# ------------------------------------------------------------------------------------------------ size
#
# How much there is to read, told by the words alone: before a tree is built, and in linear time. A parser
# that tries one reading and then another may read the inside of a bracket twice, and what is in a bracket
# inside of it four times: forty names of types in one another, 240 characters, would be read for years.


def surplus(tokens: Sequence[Token]) -> tuple[str, str] | None:
    """What is too much of a text, and the way out; None where it can be read."""
    if len(tokens) > MAX_TOKENS:
        return f"Expected a query of at most {MAX_TOKENS:,} words, got {len(tokens):,}.", "Make it shorter."
    if nesting(tokens) > MAX_NESTING:
        return f"Expected a query nested at most {MAX_NESTING} deep.", "Use WITH to name its parts."
    if readings(tokens) > MAX_READINGS:
        return "Types with brackets, or IFs without, stand too deep in one another.", "Use CAST and CASE."
    return None


def nesting(tokens: Sequence[Token]) -> int:
    """An upper bound on how deep a recursive parser goes: by brackets, by CASE, by runs of prefixes."""
    depth = deepest = run = 0
    for token in tokens:
        word = token.text.upper()
        run = run + 1 if word in _PREFIX else 0
        depth += (word in _OPEN or word == "CASE") - (word in _CLOSE or word == "END")
        deepest = max(deepest, depth + run)
    return deepest


def readings(tokens: Sequence[Token]) -> int:
    """How often words are read in all: those in brackets after the name of a type (or LATERAL) twice, as
    arguments of the type and as those of a function of its name; those after an IF without brackets twice,
    as its condition and without it.

    >>> import sqlglot
    >>> readings(sqlglot.tokenize("SELECT DATE(DATE(x))"))
    17
    """
    total, depth = 0, 0
    brackets: list[bool] = []
    before: TokenType | None = None
    before_word = ""
    for token in tokens:
        if before_word == "IF" and token.text != "(":
            depth += 1
        before_word = token.text.upper()
        total += 1 << min(depth, 63)
        if token.text in _OPEN and token.token_type is not TokenType.STRING:
            brackets.append(before in _TWICE)
            depth += brackets[-1]
        elif token.text in _CLOSE and token.token_type is not TokenType.STRING and brackets:
            depth -= brackets.pop()
        before = token.token_type
    return total


# ------------------------------------------------------------------------------------------------ tree


def _read(text: str, names: Iterable[str]) -> exp.Expr:
    try:
        statements = sqlglot.parse(text, read="duckdb")
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        where = ""
        if first.get("line"):
            where = f" near line {first.get('line')}, column {first.get('col')}"
        word = str(first.get("highlight") or "").strip()
        at = ""
        if word and word.isprintable():
            at = f", at {shown(word)}"
        refuse(f"The query could not be read{where}{at}.", hints.of_text(text, names))
    except RecursionError:
        refuse("The query is nested too deep to be read.", "Use WITH to name its parts.")
    except LookupError:  # the parser misses an argument: VAR_MAP(1)
        refuse("The query could not be read.", hints.of_text(text, names))
    return _check_single(statements)


def _check_single(statements: Sequence[exp.Expr | None]) -> exp.Expr:
    trees = [tree for tree in statements if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(trees) != 1:
        refuse("Expected one statement, got more than one.", "Ask them one by one.")
    return trees[0]


def _check_depth(tree: exp.Expr) -> None:
    """Without recursion. A chain of AND or OR counts once: `check` flattens it."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            refuse(f"Expected expressions nested at most {MAX_DEPTH} deep.", "Use WITH to name their parts.")
        for child in node.iter_expressions():
            same = type(child) is type(node) and isinstance(node, (exp.And, exp.Or))
            waiting.append((child, depth + (not same)))


def _check_node(node: exp.Expr) -> None:
    parts = ALLOWED.get(type(node))
    if parts is None:
        refuse_node(node)
    for part, value in node.args.items():
        if value and part not in parts:
            what, way_out = PARTS.get(
                part, (f"{part.upper().strip('_')} of {name_of(node)}", refused.UNKNOWN)
            )
            refuse(f"{what} is not answered.", way_out)


def refuse_node(node: exp.Expr) -> NoReturn:
    name = name_of(node)
    for kind, way_out in NODES.items():
        if isinstance(node, kind):
            refuse(f"{name} is not answered.", way_out)
    node_name = _parsed_name(node).lower()
    hint = hints.of_function(name) if isinstance(node, exp.Func) else refused.REFUSED.get(name.lower())
    refuse(f"{name} is not answered.", refused.REFUSED.get(node_name) or hint or refused.UNKNOWN)


def name_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        if str(node.this).isascii():
            return shown(str(node.this).upper())[1:-1]
        return shown(str(node.this))
    if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        return name_of(node.this)
    if isinstance(node, exp.Window) and isinstance(node.this, exp.Expr):
        return f"{name_of(node.this)} OVER (…)"
    if "written" in node.meta:
        return str(node.meta["written"])
    return _parsed_name(node)


def _parsed_name(node: exp.Expr) -> str:
    """As the parser calls it."""
    name = node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()
    return SAID.get(name, name)


_BINARY = {"this", "expression"}
_FLAGS = {
    "safe",
    "typed",
    "coalesce",
    "big_int",
    "ignore_nulls",
    "value_constructor",
    "date_part_boundary",
    "negate",
}
_UNARY = {"this"}

# Every node that may occur, with the parts of it that may be set.
WINDOW_FUNCTIONS = (
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.Lag,
    exp.Lead,
    exp.FirstValue,
    exp.LastValue,
)
"""Of which only a window makes sense."""

ALLOWED: dict[type[exp.Expr], set[str]] = {
    exp.Select: {
        "with_",
        "expressions",
        "distinct",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
        "qualify",
    },
    exp.Qualify: _UNARY,
    exp.Values: {"expressions", "alias"},
    exp.Union: {"with_", "this", "expression", "order", "limit", "offset", "distinct"},
    exp.Intersect: {"with_", "this", "expression", "order", "limit", "offset", "distinct"},
    exp.Except: {"with_", "this", "expression", "order", "limit", "offset", "distinct"},
    exp.Subquery: {"this", "alias", "with_"},
    exp.With: {"expressions"},
    exp.CTE: {"this", "alias"},
    exp.TableAlias: {"this", "columns"},
    exp.From: _UNARY,
    exp.Table: {"this", "alias", "db", "catalog"},
    exp.Join: {"this", "side", "kind", "on", "using", "method"},
    exp.Where: _UNARY,
    exp.Group: {"expressions", "all", "grouping_sets", "cube", "rollup"},
    exp.Rollup: {"expressions"},
    exp.Cube: {"expressions"},
    exp.GroupingSets: {"expressions"},
    exp.Grouping: {"expressions"},
    exp.GroupingId: {"expressions"},
    exp.Having: _UNARY,
    exp.Order: {"expressions"},
    exp.Ordered: {"this", "desc", "nulls_first"},
    exp.Limit: {"expression"},
    exp.Offset: {"expression"},
    exp.Distinct: {"expressions"},
    exp.Alias: {"this", "alias"},
    exp.Column: {"this", "table", "db"},
    exp.Identifier: {"this", "quoted"},
    exp.Literal: {"this", "is_string"},
    exp.Boolean: _UNARY,
    exp.Null: set(),
    exp.Star: {"except_"},
    exp.Var: _UNARY,
    exp.Paren: _UNARY,
    exp.Tuple: {"expressions"},
    exp.Array: {"expressions"},
    exp.DataType: {"this", "expressions", "nested"},
    exp.DataTypeParam: _UNARY,
    exp.Anonymous: {"this", "expressions"},
    exp.Filter: _BINARY,
    exp.WithinGroup: _BINARY,
    exp.PercentileCont: _BINARY,
    exp.PercentileDisc: _BINARY,
    exp.Exists: _UNARY,
    exp.LimitOptions: {"rows"},
    exp.Any: _UNARY,
    exp.All: _UNARY,
    exp.GenerateSeries: {"start", "end", "step", "is_end_exclusive"},
    exp.Fetch: {"count", "direction", "limit_options"},
    exp.ApproxQuantile: {"this", "quantile"},
    exp.Pi: set(),
    exp.Interval: {"this", "unit", "fraction_in_string"},
    exp.CurrentDate: set(),
    exp.CurrentTimestamp: set(),
    exp.Count: _UNARY,
    exp.JSONPath: {"expressions"},
    exp.JSONPathRoot: set(),
    exp.JSONPathKey: _UNARY,
    exp.JSONPathSubscript: _UNARY,
}
_AGGREGATES: tuple[type[exp.Expr], ...] = (
    *NUMERIC,
    exp.Median,
    exp.CountIf,
    exp.ApproxDistinct,
    exp.LogicalOr,
    exp.LogicalAnd,
)
ALLOWED |= dict.fromkeys(_AGGREGATES, _UNARY) | {
    kind: set(node.parts) for kind, node in FUNCTION_NODES.items()
}
ALLOWED = {kind: parts | _FLAGS for kind, parts in ALLOWED.items()}

# Kinds of nodes with a way out of their own; the first that fits.
NODES: dict[type[exp.Expr], str] = {
    exp.Window: "Over private rows it would look at other people's. " + refused.WINDOW + " " + refused.LATEST,
    exp.IgnoreNulls: refused.ONE,
    exp.Any: "Use IN, or compare with (SELECT MAX(x) FROM …) of a public table.",
    exp.All: "Use NOT IN, or compare with (SELECT MAX(x) FROM …) of a public table.",
    exp.Lateral: refused.LATERAL,
    exp.Tuple: "Of several columns make one text: a || '-' || b.",
    exp.Placeholder: "Write the value as a literal.",
    exp.Parameter: "Write the value as a literal.",
    exp.Columns: "Name the columns.",
}

# What the parser calls otherwise than an analyst does.
SAID = {
    "STR_TO_TIME": "STRPTIME",
    "TIME_TO_STR": "STRFTIME",
    "GENERATE_SERIES": "RANGE",
    "GROUP_CONCAT": "STRING_AGG",
    "ARRAY_AGG": "LIST",
    "PAD": "LPAD",
    "SIMILARTO": "SIMILAR TO",
    "BITWISELEFTSHIFT": "<<",
    "BITWISERIGHTSHIFT": ">>",
    "BITWISEAND": "&",
    "BITWISEOR": "|",
    "BITWISENOT": "~",
    "RAND": "RANDOM",
    "DATE_FROM_PARTS": "MAKE_DATE",
}

# Parts of allowed nodes that are refused by name.
PARTS: dict[str, tuple[str, str]] = {
    "limit": ("LIMIT inside a subquery", "Put it at the end."),
    "offset": ("OFFSET inside a subquery", "Put it at the end."),
    "order": ("ORDER BY inside a subquery", "Put it at the end."),
    "recursive": ("A recursive WITH", refused.RECURSIVE),
    "qualify": ("QUALIFY", refused.WINDOW),
    "windows": ("WINDOW", refused.WINDOW),
    "laterals": ("LATERAL", refused.LATERAL),
    "sample": ("SAMPLE", "Sampling spends privacy's benefit on nothing here; ask about all rows."),
    "pivots": (
        "PIVOT of private rows",
        "Count first: WITH t AS (SELECT a, b, COUNT(*) AS n FROM … GROUP BY a, b) SELECT * FROM t PIVOT "
        "(SUM(n) FOR b IN (…)).",
    ),
    "into": ("INTO", "Answers come back; nothing is written."),
    "locks": ("FOR UPDATE", "Nothing is locked."),
    "on": ("DISTINCT ON", "Use GROUP BY, or a subquery that groups by the unit."),
    "db": ("A name in another schema or catalog", refused.FILE),
    "catalog": ("A name in another schema or catalog", refused.FILE),
    "unnest": ("UNNEST", refused.LIST),
    "method": ("An ASOF or POSITIONAL join is not answered.", "Write JOIN … USING (…) or ON a.x = b.x."),
    "by_name": ("UNION BY NAME", "Write the columns in the same order and use UNION ALL."),
    "limit_options": ("LIMIT with a percentage or ties", "Write LIMIT with a whole number."),
    "except_": ("SELECT *", "Name the columns."),
    "replace": ("SELECT *", "Name the columns."),
    "rename": ("SELECT *", "Name the columns."),
    "kind": ("SELECT AS", "Name the columns."),
    "hint": ("A hint", "Leave it out."),
    "db_": ("A name in another schema or catalog", refused.FILE),
    "trim_chars": ("TRIM of other characters than spaces", "Use replace."),
    "format": ("CAST with FORMAT", "Use CAST(x AS DATE)."),
    "parameters": ("A function with two lists of arguments", refused.UNKNOWN),
    "materialized": ("MATERIALIZED", "Leave it out."),
    "expression": ("This form of the function", refused.UNKNOWN),
}
