"""Patterns: LIKE and regular expressions, always literals, matched alike and in linear time by every
engine."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.coercion import NodeReader, a_text, negation, string, whole
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions.function import (
    BINARY,
    Form,
    Function,
    Laws,
    Syntax,
    literal_value,
    with_arguments,
)
from deniable.sql.functions.texts import cut_words
from deniable.sql.refusals import refuse
from deniable.sql.regular_expressions import part_pattern, pattern, replacement
from deniable.sql.tree import Call, Expr, Literal
from deniable.sql.types import BOOLEAN, INTEGER

# ------------------------------------------------------------------------------------------------ reading


def _read_like(of: NodeReader, node: exp.Expr, escape: str | None = None) -> Expr:
    x = a_text(of(node.this), "LIKE")
    pattern = node.args["expression"]
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        refuse(
            "LIKE expects a pattern written as a literal.",
            "Use starts_with, ends_with or contains for columns.",
        )
    shape = like_pattern(str(pattern.this), escape)
    if isinstance(node, exp.ILike):
        x, shape = Call("lower", (x,), x.type), "".join(c.lower() if c.isascii() else c for c in shape)
    test = Call("like", (x, Literal(shape, types.text(len(shape)))), BOOLEAN)
    if node.args.get("negate"):
        return negation(test)
    return test


def like_pattern(given: str, escape: str | None) -> str:
    """The pattern with `!` as its escape sign, runs of % made one. Few %, because
    matching may try every place for each.

    >>> like_pattern("50!%%", None), like_pattern("50!%", "!")
    ('50!!%', '50!%')
    """
    parts: list[str] = []
    signs = iter(given)
    for sign in signs:
        if sign == escape:
            sign = next(signs, "")
            if sign not in ("%", "_", escape):
                refuse("In LIKE the ESCAPE character must stand before %, _ or itself.")
            parts.append("!" + sign if sign in "%_!" else sign)
        elif not (sign == "%" and parts and parts[-1] == "%"):
            parts.append("!!" if sign == "!" else sign)
    if parts.count("%") > 3 or len(given) > 256:
        refuse(
            "LIKE expects a pattern of at most 256 characters with at most 3 runs of %.",
            "Use AND between patterns.",
        )
    return "".join(parts)


def _read_escape(of: NodeReader, node: exp.Expr) -> Expr:
    sign = string(node.args["expression"], "ESCAPE")
    if len(sign) != 1 or not isinstance(node.this, (exp.Like, exp.ILike)):
        refuse("ESCAPE expects one character after LIKE or ILIKE.")
    return _read_like(of, node.this, sign)


def _read_regexp(of: NodeReader, node: exp.Expr) -> Expr:
    """regexp_matches(a, 'p' [, 'i']), a ~ 'p', a ~* 'p': whether the pattern is found in the text."""
    flag = node.args.get("flag")
    if flag is not None and string(flag, "The options of a pattern") not in ("i", "c", ""):
        refuse("The options of a pattern are not answered, 'i' excepted.")
    fold = isinstance(node, exp.RegexpILike) or (flag is not None and str(flag.this) == "i")
    shape = pattern(string(node.args["expression"], "A pattern"), fold=fold).text
    return _matched(a_text(of(node.this), "REGEXP_MATCHES"), shape)


def _read_similar(of: NodeReader, node: exp.Expr) -> Expr:
    """SIMILAR TO, as DuckDB has it: a pattern of the whole text."""
    shape = pattern(f"^({string(node.args['expression'], 'A pattern')})$").text
    return _matched(a_text(of(node.this), "SIMILAR TO"), shape)


def _read_full_match(of: NodeReader, args: Sequence[exp.Expr]) -> Expr:
    shape = pattern(f"^({string(args[1], 'A pattern')})$").text
    return _matched(a_text(of(args[0]), "REGEXP_FULL_MATCH"), shape)


def _matched(x: Expr, shape: str) -> Expr:
    return Call("regexp", (x, Literal(shape, types.text(len(shape)))), BOOLEAN)


def _read_extract(of: NodeReader, node: exp.Expr) -> Expr:
    """regexp_extract(a, 'p' [, 1]): the first match, or what a bracket of it holds; '' where there is
    none."""
    x = a_text(of(node.this), "REGEXP_EXTRACT")
    group = node.args.get("group")
    number = 0
    if group is not None:
        number = whole(group, "REGEXP_EXTRACT", 0, 9)
    shape, bracket = part_pattern(string(node.args["expression"], "A pattern"), number)
    return Call(
        "regexp_extract",
        (x, Literal(shape, types.text(max(1, len(shape)))), Literal(bracket, INTEGER)),
        x.type,
    )


def _read_replace(of: NodeReader, node: exp.Expr) -> Expr:
    """regexp_replace(a, 'p', 'b' [, 'g']): the first place where a pattern is found, or with 'g' every
    one."""
    x = a_text(of(node.this), "REGEXP_REPLACE")
    modifiers = node.args.get("modifiers")
    flags = "" if modifiers is None else string(modifiers, "The options of a pattern")
    if not set(flags) <= set("gic") or {"i", "c"} <= set(flags):  # of these two the last would count
        refuse("The options of a pattern are not answered, 'g' and 'i' excepted.")
    pattern = string(node.args["expression"], "A pattern")
    shape, by = replacement(
        pattern, string(node.args.get("replacement"), "REGEXP_REPLACE"), fold="i" in flags
    )
    literals = (Literal(part, types.text(max(1, len(part)))) for part in (shape, by, flags.strip("ic")))
    return Call("regexp_replace", (x, *literals), types.text(x.type.length * max(1, len(by))))


# ------------------------------------------------------------------------------------------------ words


def _regexp(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.found(args[0], literal_value(call, 1))


def _extract(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.extracted(args[0], literal_value(call, 1), int(literal_value(call, 2)))


def _replace(call: Call, args: list[str], dialect: Dialect) -> str:
    by = literal_value(call, 2)
    text = dialect.replaced(args[0], literal_value(call, 1), by, first="g" not in literal_value(call, 3))
    # A bracket's number stands for at most the length of the match.
    return cut_words(text, call.args[0].type.length * max(1, len(by)), call.type)


_FLAG = frozenset({"this", "expression", "flag"})

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "like",
        (
            Form(
                "a LIKE 'p%', a ILIKE 'p%'",
                "a literal pattern with at most 3 runs of %; ILIKE folds ASCII letters",
                (
                    Syntax(exp.Like, _read_like, BINARY),
                    Syntax(exp.ILike, _read_like, BINARY),
                    Syntax(exp.Escape, _read_escape, BINARY),
                ),
            ),
        ),
        words=lambda call, args, dialect: f"({args[0]} LIKE {args[1]} ESCAPE '!')",
        laws=Laws(present=with_arguments, compares=True),
    ),
    Function(
        "regexp",
        (
            Form(
                "regexp_matches(a, 'p'), a ~ 'p', a ~* 'p', a SIMILAR TO 'p'",
                "a literal pattern without going back: characters, `[a-z]`, `\\d`, `\\w`, `\\s`, "
                "`.`, `*`, `+`, `?`, `{2,3}`, alternatives, `^`, `$`",
                (
                    Syntax(exp.RegexpLike, _read_regexp, _FLAG),
                    Syntax(exp.RegexpILike, _read_regexp, _FLAG),
                    Syntax(exp.SimilarTo, _read_similar, BINARY),
                ),
                {("regexp_full_match", 2): _read_full_match},
            ),
        ),
        words=_regexp,
    ),
    Function(
        "regexp_extract",
        (
            Form(
                "regexp_extract(a, 'p' [, 1])",
                "the first match of a literal pattern that matches in one way only, or what its n-th bracket "
                "holds; '' where "
                "there is none",
                (
                    Syntax(
                        exp.RegexpExtract,
                        _read_extract,
                        frozenset({"this", "expression", "group", "null_if_pos_overflow"}),
                    ),
                ),
            ),
        ),
        words=_extract,
    ),
    Function(
        "regexp_replace",
        (
            Form(
                "regexp_replace(a, 'p', 'b' [, 'g'])",
                "the first match of such a pattern (with 'g' every one) replaced, `\\\\1` being what its "
                "first bracket holds, then cut to 1,024 characters; 'i' folds ASCII letters",
                (
                    Syntax(
                        exp.RegexpReplace,
                        _read_replace,
                        frozenset({"this", "expression", "replacement", "modifiers", "single_replace"}),
                    ),
                ),
            ),
        ),
        words=_replace,
    ),
)
