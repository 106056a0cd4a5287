"""Rules for texts: patterns are literals, positions are literals, and what is made is
cut to a stated length."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.read.expressions.coercion import NodeReader, a_text, convert, negation, string, whole
from deniable.sql.read.expressions.patterns import part_pattern, pattern, replacement
from deniable.sql.read.parse import refuse
from deniable.sql.tree import Call, Expr, Kind, Literal
from deniable.sql.types import BOOLEAN, INTEGER, TEXT

Rule = Callable[[NodeReader, exp.Expr], Expr]


def _like(of: NodeReader, node: exp.Expr, escape: str | None = None) -> Expr:
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


def _escape(of: NodeReader, node: exp.Expr) -> Expr:
    sign = string(node.args["expression"], "ESCAPE")
    if len(sign) != 1 or not isinstance(node.this, (exp.Like, exp.ILike)):
        refuse("ESCAPE expects one character after LIKE or ILIKE.")
    return _like(of, node.this, sign)


def _same_text(op: str) -> Callable[[NodeReader, exp.Expr], Expr]:
    def rule(of: NodeReader, node: exp.Expr) -> Expr:
        x = a_text(of(node.this), op.upper())
        return Call(op, (x,), x.type)

    return rule


def _length(of: NodeReader, node: exp.Expr) -> Expr:
    return Call("length", (a_text(of(node.this), "LENGTH"),), INTEGER)


def byte_length(of: NodeReader, args: list[exp.Expr]) -> Expr:
    return Call("byte_length", (a_text(of(args[0]), "STRLEN"),), INTEGER)


def _substring(of: NodeReader, node: exp.Expr) -> Expr:
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
    return _cut("substring", a_text(of(node.this), "SUBSTRING"), start, count)


def _left(of: NodeReader, node: exp.Expr) -> Expr:
    return _cut(
        "substring",
        a_text(of(node.this), "LEFT"),
        1,
        whole(node.args["expression"], "LEFT", 0, types.MAX_TEXT),
    )


def _right(of: NodeReader, node: exp.Expr) -> Expr:
    return _cut(
        "right", a_text(of(node.this), "RIGHT"), whole(node.args["expression"], "RIGHT", 0, types.MAX_TEXT)
    )


def _cut(op: str, x: Expr, *numbers: int) -> Expr:
    length = min(x.type.length, max(1, numbers[-1]))
    return Call(op, (x, *(Literal(n, INTEGER) for n in numbers)), types.text(length))


def _trim(of: NodeReader, node: exp.Expr) -> Expr:
    x, side = a_text(of(node.this), "TRIM"), str(node.args.get("position") or "BOTH").upper()
    characters = node.args.get("expression")
    if characters is not None and string(characters, "TRIM") != " ":
        refuse("TRIM of other characters than spaces is not answered.", "Use replace.")
    return Call("trim", (x, Literal(side, TEXT)), x.type)


def _concat(of: NodeReader, node: exp.Expr) -> Expr:
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


def _as_text(x: Expr, where: str) -> Expr:
    """Whole numbers, dates and booleans beside texts become such."""
    if x.type.kind in (Kind.INTEGER, Kind.DATE, Kind.BOOLEAN):
        return convert(x, types.text(20))
    return a_text(x, where)


def _replace(of: NodeReader, node: exp.Expr) -> Expr:
    x = a_text(of(node.this), "REPLACE")
    old, new = (string(node.args.get(part), "REPLACE") for part in ("expression", "replacement"))
    if not old:
        refuse("REPLACE expects a text to look for that is not empty.")
    length = x.type.length * max(1, len(new))
    literals = (Literal(part, types.text(max(1, len(part)))) for part in (old, new))
    return Call("replace", (x, *literals), types.text(length))


def _find(op: str) -> Callable[[NodeReader, exp.Expr], Expr]:
    def rule(of: NodeReader, node: exp.Expr) -> Expr:
        a, b = (a_text(of(x), op.upper()) for x in (node.this, node.args["expression"]))
        return Call(op, (a, b), BOOLEAN)

    return rule


def _regexp(of: NodeReader, node: exp.Expr) -> Expr:
    """regexp_matches(a, 'p' [, 'i']), a ~ 'p', a ~* 'p': whether the pattern is found in the text."""
    flag = node.args.get("flag")
    if flag is not None and string(flag, "The options of a pattern") not in ("i", "c", ""):
        refuse("The options of a pattern are not answered, 'i' excepted.")
    fold = isinstance(node, exp.RegexpILike) or (flag is not None and str(flag.this) == "i")
    shape = pattern(string(node.args["expression"], "A pattern"), fold=fold).text
    return _found(a_text(of(node.this), "REGEXP_MATCHES"), shape)


def _similar(of: NodeReader, node: exp.Expr) -> Expr:
    """SIMILAR TO, as DuckDB has it: a pattern of the whole text."""
    shape = pattern(f"^({string(node.args['expression'], 'A pattern')})$").text
    return _found(a_text(of(node.this), "SIMILAR TO"), shape)


def full_match(of: NodeReader, args: list[exp.Expr]) -> Expr:
    shape = pattern(f"^({string(args[1], 'A pattern')})$").text
    return _found(a_text(of(args[0]), "REGEXP_FULL_MATCH"), shape)


def _found(x: Expr, shape: str) -> Expr:
    return Call("regexp", (x, Literal(shape, types.text(len(shape)))), BOOLEAN)


def _extract(of: NodeReader, node: exp.Expr) -> Expr:
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


def _replace_pattern(of: NodeReader, node: exp.Expr) -> Expr:
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


def _split(of: NodeReader, node: exp.Expr) -> Expr:
    x, by = a_text(of(node.this), "SPLIT_PART"), string(node.args.get("delimiter"), "SPLIT_PART")
    if not by:
        refuse("SPLIT_PART expects a text to split at that is not empty.")
    at = whole(node.args.get("part_index"), "SPLIT_PART", 1, types.MAX_TEXT)
    return Call("split_part", (x, Literal(by, types.text(len(by))), Literal(at, INTEGER)), x.type)


def _position(of: NodeReader, node: exp.Expr) -> Expr:
    x, part = a_text(of(node.this), "STRPOS"), string(node.args.get("substr"), "STRPOS")
    return Call("position", (x, Literal(part, types.text(max(1, len(part))))), INTEGER)


def _pad(of: NodeReader, node: exp.Expr) -> Expr:
    x, fill = a_text(of(node.this), "LPAD"), node.args.get("fill_pattern")
    with_text = " " if fill is None else string(fill, "LPAD")
    size = whole(node.args.get("expression"), "LPAD", 1, types.MAX_TEXT)
    if not with_text:
        refuse("LPAD expects a text to fill with that is not empty.")
    side = "left" if node.args.get("is_left") else "right"
    literals = (Literal(side, TEXT), Literal(size, INTEGER), Literal(with_text, types.text(len(with_text))))
    return Call("pad", (x, *literals), types.text(size))


RULES: dict[type[exp.Expr], Rule] = {
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.Lower: _same_text("lower"),
    exp.Upper: _same_text("upper"),
    exp.Length: _length,
    exp.Substring: _substring,
    exp.Left: _left,
    exp.Right: _right,
    exp.Trim: _trim,
    exp.DPipe: _concat,
    exp.Concat: _concat,
    exp.Replace: _replace,
    exp.RegexpExtract: _extract,
    exp.RegexpReplace: _replace_pattern,
    exp.RegexpLike: _regexp,
    exp.RegexpILike: _regexp,
    exp.SimilarTo: _similar,
    exp.SplitPart: _split,
    exp.StrPosition: _position,
    exp.Pad: _pad,
    exp.StartsWith: _find("starts_with"),
    exp.EndsWith: _find("ends_with"),
    exp.Contains: _find("contains"),
}
