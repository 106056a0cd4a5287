"""Texts: letters are folded and texts ordered by rules of our own, so that the engines agree; positions are
literals, and what is made is cut to a stated length."""

from __future__ import annotations

import string as letters
from collections.abc import Sequence

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.coercion import NodeReader, a_text, convert, string, whole
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions.function import (
    BINARY,
    Form,
    Function,
    Laws,
    Reading,
    Syntax,
    Words,
    literal_value,
)
from deniable.sql.intervals import Interval
from deniable.sql.refusals import refuse
from deniable.sql.tree import Call, Expr, Kind, Literal, Type
from deniable.sql.types import BOOLEAN, INTEGER, TEXT

# ------------------------------------------------------------------------------------------------ reading


def _read_same_text(op: str) -> Reading:
    def rule(of: NodeReader, node: exp.Expr) -> Expr:
        x = a_text(of(node.this), op.upper())
        return Call(op, (x,), x.type)

    return rule


def _read_length(of: NodeReader, node: exp.Expr) -> Expr:
    return Call("length", (a_text(of(node.this), "LENGTH"),), INTEGER)


def _read_byte_length(of: NodeReader, args: Sequence[exp.Expr]) -> Expr:
    return Call("byte_length", (a_text(of(args[0]), "STRLEN"),), INTEGER)


def _read_substring(of: NodeReader, node: exp.Expr) -> Expr:
    if not isinstance(node.args.get("start"), (exp.Literal, exp.Neg)):
        refuse(
            "SUBSTRING expects where it begins written as a literal.",
            "What stands after a sign is split_part(x, '@', 2).",
        )
    start = whole(node.args.get("start"), "The start of SUBSTRING", 1, types.MAX_TEXT)
    length = node.args.get("length")
    count = types.MAX_TEXT
    if length is not None:
        count = whole(length, "The count of SUBSTRING", 0, types.MAX_TEXT)
    return _part("substring", a_text(of(node.this), "SUBSTRING"), start, count)


def _read_left(of: NodeReader, node: exp.Expr) -> Expr:
    return _part(
        "substring",
        a_text(of(node.this), "LEFT"),
        1,
        whole(node.args["expression"], "LEFT", 0, types.MAX_TEXT),
    )


def _read_right(of: NodeReader, node: exp.Expr) -> Expr:
    return _part(
        "right", a_text(of(node.this), "RIGHT"), whole(node.args["expression"], "RIGHT", 0, types.MAX_TEXT)
    )


def _part(op: str, x: Expr, *numbers: int) -> Expr:
    length = min(x.type.length, max(1, numbers[-1]))
    return Call(op, (x, *(Literal(n, INTEGER) for n in numbers)), types.text(length))


def _read_trim(of: NodeReader, node: exp.Expr) -> Expr:
    x, side = a_text(of(node.this), "TRIM"), str(node.args.get("position") or "BOTH").upper()
    characters = node.args.get("expression")
    if characters is not None and string(characters, "TRIM") != " ":
        refuse("TRIM of other characters than spaces is not answered.", "Use replace.")
    return Call("trim", (x, Literal(side, TEXT)), x.type)


def _read_concat(of: NodeReader, node: exp.Expr) -> Expr:
    """`||` is NULL if a part is; concat() takes NULL as the empty text, as DuckDB does."""
    if isinstance(node, exp.DPipe):
        parts = [_as_text(of(x), "||") for x in (node.this, node.args["expression"])]
    else:
        empty = Literal("", types.text(1))
        parts = [
            Call("coalesce", (x, empty), x.type)
            for x in (_as_text(of(n), "CONCAT") for n in node.expressions)
        ]
    return Call("concat", tuple(parts), types.text(sum(p.type.length for p in parts)))


def _read_concat_ws(of: NodeReader, node: exp.Expr) -> Expr:
    """concat_ws(', ', a, b): NULLs are left out, with what would stand between."""
    between, *nodes = node.expressions
    sign = string(between, "CONCAT_WS")
    if not nodes:
        refuse("CONCAT_WS expects what it joins.", "Write concat_ws(', ', a, b).")
    parts = [_as_text(of(part), "CONCAT_WS") for part in nodes]
    length = sum(part.type.length for part in parts) + len(sign) * (len(parts) - 1)
    return Call("concat_ws", (Literal(sign, types.text(len(sign))), *parts), types.text(length))


def _read_translate(of: NodeReader, node: exp.Expr) -> Expr:
    """translate(a, '()-', '[]'): signs become others, and those without one go."""
    x = a_text(of(node.this), "TRANSLATE")
    old, new = (string(node.args.get(part), "TRANSLATE") for part in ("from_", "to"))
    # Engines differ about a sign that is there twice, and about signs that nothing becomes.
    if not old or len(set(old)) < len(old) or len(new) > len(old):
        refuse(
            "TRANSLATE expects different characters, and no more that they become.",
            "Write translate(x, '()-', '') or translate(x, 'abc', 'xyz').",
        )
    literals = (Literal(part, types.text(len(part))) for part in (old, new))
    return Call("translate", (x, *literals), x.type)


def _as_text(x: Expr, where: str) -> Expr:
    """Whole numbers, dates and booleans beside texts become such."""
    if x.type.kind in (Kind.INTEGER, Kind.DATE, Kind.BOOLEAN):
        return convert(x, types.text(20))
    return a_text(x, where)


def _read_replace(of: NodeReader, node: exp.Expr) -> Expr:
    x = a_text(of(node.this), "REPLACE")
    old, new = (string(node.args.get(part), "REPLACE") for part in ("expression", "replacement"))
    if not old:
        refuse("REPLACE expects a text to look for that is not empty.")
    length = x.type.length * max(1, len(new))
    literals = (Literal(part, types.text(max(1, len(part)))) for part in (old, new))
    return Call("replace", (x, *literals), types.text(length))


def _read_find(op: str) -> Reading:
    def rule(of: NodeReader, node: exp.Expr) -> Expr:
        a, b = (a_text(of(x), op.upper()) for x in (node.this, node.args["expression"]))
        return Call(op, (a, b), BOOLEAN)

    return rule


def _read_split(of: NodeReader, node: exp.Expr) -> Expr:
    x, by = a_text(of(node.this), "SPLIT_PART"), string(node.args.get("delimiter"), "SPLIT_PART")
    if not by:
        refuse("SPLIT_PART expects a text to split at that is not empty.")
    at = whole(node.args.get("part_index"), "SPLIT_PART", 1, types.MAX_TEXT)
    return Call("split_part", (x, Literal(by, types.text(len(by))), Literal(at, INTEGER)), x.type)


def _read_position(of: NodeReader, node: exp.Expr) -> Expr:
    x, part = a_text(of(node.this), "STRPOS"), string(node.args.get("substr"), "STRPOS")
    return Call("position", (x, Literal(part, types.text(max(1, len(part))))), INTEGER)


def _read_pad(of: NodeReader, node: exp.Expr) -> Expr:
    x, fill = a_text(of(node.this), "LPAD"), node.args.get("fill_pattern")
    with_text = " " if fill is None else string(fill, "LPAD")
    size = whole(node.args.get("expression"), "LPAD", 1, types.MAX_TEXT)
    if not with_text:
        refuse("LPAD expects a text to fill with that is not empty.")
    side = "left" if node.args.get("is_left") else "right"
    literals = (Literal(side, TEXT), Literal(size, INTEGER), Literal(with_text, types.text(len(with_text))))
    return Call("pad", (x, *literals), types.text(size))


# ------------------------------------------------------------------------------------------------ words


def _fold(source: str, target: str) -> Words:
    return lambda call, args, dialect: f"translate({args[0]}, '{source}', '{target}')"


def _substring(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"substring({args[0]}, {literal_value(call, 1)}, {literal_value(call, 2)})"


def _concat(call: Call, args: list[str], dialect: Dialect) -> str:
    return cut_words(f"({' || '.join(args)})", sum(a.type.length for a in call.args), call.type)


def _concat_ws(call: Call, args: list[str], dialect: Dialect) -> str:
    between = len(literal_value(call, 0)) * (len(call.args) - 2)
    longest = sum(a.type.length for a in call.args[1:]) + between
    return cut_words(f"concat_ws({', '.join(args)})", longest, call.type)


def _replace(call: Call, args: list[str], dialect: Dialect) -> str:
    grown = call.args[0].type.length * max(1, len(literal_value(call, 2)))
    return cut_words(f"replace({', '.join(args)})", grown, call.type)


def cut_words(part: str, longest: int, to: Type) -> str:
    """A text that may be longer than its type holds, cut to that."""
    if longest <= to.length:
        return part
    return f"left({part}, {to.length})"


def _pad(call: Call, args: list[str], dialect: Dialect) -> str:
    name = "lpad" if literal_value(call, 1) == "left" else "rpad"
    return f"{name}({args[0]}, {literal_value(call, 2)}, {args[3]})"


def _length_range(args: list[Interval], call: Call) -> Interval:
    return Interval.of(0, call.args[0].type.length)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "lower",
        (Form("lower(a)", "ASCII letters made small", (Syntax(exp.Lower, _read_same_text("lower")),)),),
        words=_fold(letters.ascii_uppercase, letters.ascii_lowercase),
    ),
    Function(
        "upper",
        (Form("upper(a)", "ASCII letters made large", (Syntax(exp.Upper, _read_same_text("upper")),)),),
        words=_fold(letters.ascii_lowercase, letters.ascii_uppercase),
    ),
    Function(
        "length",
        (
            Form(
                "length(a), len(a)", "number of characters (code points)", (Syntax(exp.Length, _read_length),)
            ),
        ),
        words=lambda call, args, dialect: dialect.length(args[0]),
        range=_length_range,
    ),
    Function(
        "byte_length",
        (Form("strlen(a)", "number of bytes in UTF-8", named={("strlen", 1): _read_byte_length}),),
        words=lambda call, args, dialect: f"CAST({dialect.octets(args[0])} AS BIGINT)",
        range=lambda args, call: Interval.of(0, 4 * call.args[0].type.length),
    ),
    Function(
        "substring",
        (
            Form(
                "substring(a, from [, count]), left(a, n)",
                "literal positions from 1",
                (
                    Syntax(exp.Substring, _read_substring, frozenset({"this", "start", "length"})),
                    Syntax(exp.Left, _read_left, BINARY),
                ),
            ),
        ),
        words=_substring,
    ),
    Function(
        "right",
        (
            Form(
                "right(a, n)", "the last n characters; n a literal", (Syntax(exp.Right, _read_right, BINARY),)
            ),
        ),
        words=lambda call, args, dialect: f"right({args[0]}, {literal_value(call, 1)})",
    ),
    Function(
        "trim",
        (
            Form(
                "trim(a), ltrim(a), rtrim(a)",
                "spaces removed at the ends",
                (Syntax(exp.Trim, _read_trim, frozenset({"this", "position", "expression"})),),
            ),
        ),
        words=lambda call, args, dialect: dialect.stripped(args[0], literal_value(call, 1)),
    ),
    Function(
        "concat",
        (
            Form(
                "a || b, concat(a, b, …)",
                "joined and cut to 1,024 characters; concat takes NULL as ''",
                (
                    Syntax(exp.DPipe, _read_concat, BINARY),
                    Syntax(exp.Concat, _read_concat, frozenset({"expressions"})),
                ),
            ),
        ),
        words=_concat,
    ),
    Function(
        "concat_ws",
        (
            Form(
                "concat_ws(', ', a, b, …)",
                "joined with a literal between them, NULLs left out, and cut to 1,024 characters; never NULL",
                (Syntax(exp.ConcatWs, _read_concat_ws, frozenset({"expressions"})),),
            ),
        ),
        words=_concat_ws,
        laws=Laws(0, lambda call, present: True),
    ),
    Function(
        "translate",
        (
            Form(
                "translate(a, '()-', '')",
                "each of some literal characters becomes the one at its place, or goes where there is none",
                (Syntax(exp.Translate, _read_translate, frozenset({"this", "from_", "to"})),),
            ),
        ),
        words=lambda call, args, dialect: f"translate({', '.join(args)})",
    ),
    Function(
        "replace",
        (
            Form(
                "replace(a, 'x', 'y')",
                "literals replaced, then cut to 1,024 characters",
                (Syntax(exp.Replace, _read_replace, frozenset({"this", "expression", "replacement"})),),
            ),
        ),
        words=_replace,
    ),
    Function(
        "split_part",
        (
            Form(
                "split_part(a, '/', 3)",
                "the literal n-th part, from 1; '' where there is none",
                (Syntax(exp.SplitPart, _read_split, frozenset({"this", "delimiter", "part_index"})),),
            ),
        ),
        words=lambda call, args, dialect: f"split_part({args[0]}, {args[1]}, {literal_value(call, 2)})",
    ),
    Function(
        "position",
        (
            Form(
                "strpos(a, 'x'), instr(a, 'x')",
                "where a literal begins, from 1; 0 where it is not in a",
                (Syntax(exp.StrPosition, _read_position, frozenset({"this", "substr"})),),
            ),
        ),
        words=lambda call, args, dialect: f"CAST({dialect.position(args[0], args[1])} AS BIGINT)",
        range=_length_range,
    ),
    Function(
        "pad",
        (
            Form(
                "lpad(a, 5, '0'), rpad(a, 5, ' ')",
                "filled up or cut to a literal number of characters",
                (Syntax(exp.Pad, _read_pad, frozenset({"this", "expression", "fill_pattern", "is_left"})),),
            ),
        ),
        words=_pad,
    ),
    Function(
        "starts_with",
        (
            Form(
                "starts_with(a, b)",
                "whether a begins with b",
                (Syntax(exp.StartsWith, _read_find("starts_with"), BINARY),),
                {("prefix", 2): lambda of, args: of(exp.StartsWith(this=args[0], expression=args[1]))},
            ),
        ),
        words=lambda call, args, dialect: dialect.starts_with(*args),
    ),
    Function(
        "ends_with",
        (
            Form(
                "ends_with(a, b)",
                "whether a ends with b",
                (Syntax(exp.EndsWith, _read_find("ends_with"), BINARY),),
                {("suffix", 2): lambda of, args: of(exp.EndsWith(this=args[0], expression=args[1]))},
            ),
        ),
        words=lambda call, args, dialect: dialect.ends_with(*args),
    ),
    Function(
        "contains",
        (
            Form(
                "contains(a, b)", "whether b is in a", (Syntax(exp.Contains, _read_find("contains"), BINARY),)
            ),
        ),
        words=lambda call, args, dialect: dialect.contains(*args),
    ),
)
