"""From syntax to typed expressions: one small function per node; types meet by `types.common`, nothing is
cast silently but numbers to wider numbers, dates to timestamps and literals to the type beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from itertools import pairwise

from sqlglot import expressions as exp

from deniable.sql import functions, types
from deniable.sql.read.expressions import json_fields, texts
from deniable.sql.read.expressions.coercion import (
    boolean,
    condition,
    convert,
    meet,
    negation,
    number,
    string,
    whole,
)
from deniable.sql.read.parse import refuse, refuse_node, shown
from deniable.sql.read.times import dates
from deniable.sql.read.times.date_formats import by_strftime
from deniable.sql.read.times.dates import date_part, moved_by_days, part_name
from deniable.sql.read.times.periods import current_moment, moved, period
from deniable.sql.tree import Call, Expr, Kind, Literal, Type
from deniable.sql.types import BOOLEAN, DATE, FLOAT, INTEGER, TEXT, TIMES, WHOLE

MAX_LIST = 1_000
MAX_EDGES = 257

# Asked first about every node: what a column, key or aggregate is where this expression stands.
Leaf = Callable[[exp.Expr], "Expr | None"]


@dataclass(frozen=True)
class Translator:
    """`leaf` gives meaning to names; `allowed` are the operators that may stand here
    (all, or those over noisy results)."""

    leaf: Leaf
    allowed: frozenset[str] = functions.OPS

    def __call__(self, node: exp.Expr) -> Expr:
        leaf = self.leaf(node)
        if leaf is not None:
            return leaf
        rule = RULES.get(type(node))
        if rule is None:
            refuse_node(node)
        expr = rule(self, node)
        if isinstance(expr, Call) and expr.op not in self.allowed:
            refuse(
                f"{expr.op.upper()} is not computed from released results.",
                "Put it into the query's groups or aggregates, or compute it from the answer.",
            )
        return expr

    def all(self, nodes: Sequence[exp.Expr]) -> list[Expr]:
        return [self(node) for node in nodes]


# ------------------------------------------------------------------------------------------------ rules


def _literal(of: Translator, node: exp.Expr) -> Expr:
    text = str(node.this)
    if node.args.get("is_string"):
        if len(text) > types.MAX_TEXT:
            refuse(f"Expected texts of at most {types.MAX_TEXT:,} characters, got one of {len(text):,}.")
        return Literal(text, types.text(max(1, len(text))))
    return _numeral(text)


def _numeral(given: str) -> Expr:
    try:
        value = Decimal(given)
    except InvalidOperation:
        refuse(f"{shown(given)} is not a number that can be read.")
    if not value.is_finite() or "e" in given.lower() or len(value.as_tuple().digits) > 18:
        return _wide(given, value)
    scale = max(0, -int(value.as_tuple().exponent))
    if scale == 0:
        return Literal(int(value), INTEGER)
    if scale <= types.MAX_SCALE:
        return Literal(value, types.decimal(scale))
    return _wide(given, value)


def _wide(given: str, value: Decimal) -> Literal:
    if given.isdecimal() and value <= types.HIGHEST:
        return Literal(int(value), INTEGER)
    literal = types.literal_as(float(value), FLOAT)
    if literal is None:
        refuse(f"{shown(given)} is beyond the range of a float.")
    return literal


def _negate(of: Translator, node: exp.Expr) -> Expr:
    x = number(of(node.this), "Minus")
    if isinstance(x, Literal) and isinstance(x.value, (int, float, Decimal)):
        return Literal(-x.value, x.type)
    return Call("negate", (x,), x.type)


def _arithmetic(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    def rule(of: Translator, node: exp.Expr) -> Expr:
        if op in ("add", "subtract") and (later := _moved(of, node, op)) is not None:
            return later
        a, b = of(node.this), of(node.args["expression"])
        if a.type.kind in TIMES or b.type.kind in TIMES:
            return moved_by_days(op, a, b)
        a, b = number(a, op.capitalize()), number(b, op.capitalize())
        if (
            op == "multiply"
            and {a.type.kind, b.type.kind} <= WHOLE
            and a.type.scale + b.type.scale <= types.MAX_SCALE
        ):
            scale = a.type.scale + b.type.scale
            return Call(op, (a, b), types.decimal(scale) if scale else INTEGER)
        if op == "multiply" and Kind.DECIMAL in (a.type.kind, b.type.kind):
            return Call(op, (convert(a, FLOAT), convert(b, FLOAT)), FLOAT)
        (a, b), to = meet([a, b], op.capitalize())
        return Call(op, (a, b), to)

    return rule


def _moved(of: Translator, node: exp.Expr, op: str) -> Expr | None:
    """A date and a literal INTERVAL; None for other sums."""
    left, right = node.this, node.args["expression"]
    by = period(right)
    if by is not None and period(left) is None:
        return moved(of(left), by.times(1 if op == "add" else -1))
    if op != "add":
        return None
    by = period(left)
    if by is None:
        return None
    return moved(of(right), by)


def _divide(of: Translator, node: exp.Expr) -> Expr:
    a, b = (number(of(x), "Division") for x in (node.this, node.args["expression"]))
    return Call("divide", (convert(a, FLOAT), convert(b, FLOAT)), FLOAT)


def _whole_division(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    sign = {"int_divide": "//", "modulo": "%"}[op]

    def rule(of: Translator, node: exp.Expr) -> Expr:
        operands = [number(of(x), sign, WHOLE) for x in (node.this, node.args["expression"])]
        (a, b), to = meet(operands, sign)
        if op == "int_divide":
            to = INTEGER
        return Call(op, (a, b), to)

    return rule


def _keep(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    def rule(of: Translator, node: exp.Expr) -> Expr:
        x = number(of(node.this), op.upper())
        return Call(op, (x,), INTEGER if op == "sign" else x.type)

    return rule


def _whole_part(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    def rule(of: Translator, node: exp.Expr) -> Expr:
        x = number(of(node.this), op.upper())
        if x.type.kind is Kind.INTEGER:
            return x
        return Call(op, (x,), FLOAT if x.type.kind is Kind.FLOAT else INTEGER)

    return rule


def _round(of: Translator, node: exp.Expr) -> Expr:
    x = number(of(node.this), "ROUND")
    decimals = node.args.get("decimals")
    digits = 0
    if decimals is not None:
        digits = whole(decimals, "The number of digits of ROUND", -15, 15)
    if digits < 0:
        width = Literal(float(10**-digits), FLOAT)
        units = Call("round", (Call("divide", (convert(x, FLOAT), width), FLOAT), Literal(0, INTEGER)), FLOAT)
        return Call("multiply", (units, width), FLOAT)
    if x.type.kind is Kind.INTEGER or (x.type.kind is Kind.DECIMAL and digits >= x.type.scale):
        return x
    to = types.decimal(digits) if digits else INTEGER
    if x.type.kind is Kind.FLOAT:
        to = FLOAT
    return Call("round", (x, Literal(digits, INTEGER)), to)


def _real(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    def rule(of: Translator, node: exp.Expr) -> Expr:
        return Call(op, (convert(number(of(node.this), op.upper()), FLOAT),), FLOAT)

    return rule


def _log(of: Translator, node: exp.Expr) -> Expr:
    base, x = node.this, node.args.get("expression")
    if x is None:
        x = base
    elif not (isinstance(base, exp.Literal) and base.this == "10"):
        number_of = whole(base, "The base of a logarithm", 2, 10**6)
        natural = Call("ln", (convert(number(of(x), "LOG"), FLOAT),), FLOAT)
        return Call("divide", (natural, Literal(math.log(number_of), FLOAT)), FLOAT)
    return Call("log10", (convert(number(of(x), "LOG10"), FLOAT),), FLOAT)


def _power(of: Translator, node: exp.Expr) -> Expr:
    a, b = (convert(number(of(x), "POWER"), FLOAT) for x in (node.this, node.args["expression"]))
    return Call("power", (a, b), FLOAT)


def _extreme(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    def rule(of: Translator, node: exp.Expr) -> Expr:
        args, to = meet(of.all([node.this, *node.expressions]), op.upper())
        if len(args) == 1:
            return args[0]
        return Call(op, tuple(args), to)

    return rule


def _coalesce(of: Translator, node: exp.Expr) -> Expr:
    return _coalesced(of, [node.this, *node.expressions])


def _coalesced(of: Translator, nodes: list[exp.Expr]) -> Expr:
    args, to = meet(of.all(nodes), "COALESCE")
    return Call("coalesce", tuple(args), to)


def _nullif(of: Translator, node: exp.Expr) -> Expr:
    args, to = meet([of(node.this), of(node.args["expression"])], "NULLIF")
    return Call("nullif", tuple(args), to)


def _case(of: Translator, node: exp.Expr) -> Expr:
    subject = node.this
    tests = [branch.this for branch in node.args["ifs"]]
    if subject is not None:
        tests = [exp.EQ(this=subject, expression=test) for test in tests]
    return _choice(of, tests, [i.args["true"] for i in node.args["ifs"]], node.args.get("default"))


def _if(of: Translator, node: exp.Expr) -> Expr:
    return _choice(of, [node.this], [node.args["true"]], node.args.get("false"))


def _choice(of: Translator, tests: list[exp.Expr], then: list[exp.Expr], default: exp.Expr | None) -> Expr:
    conditions = [condition(of, test, "CASE WHEN") for test in tests]
    otherwise = of(default) if default is not None else Literal(None, TEXT)
    values, to = meet([*of.all(then), otherwise], "CASE")
    pairs = (x for pair in zip(conditions, values[:-1], strict=True) for x in pair)
    return Call("case", (*pairs, values[-1]), to)


def _compare(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    def rule(of: Translator, node: exp.Expr) -> Expr:
        if isinstance(node.args["expression"], (exp.Any, exp.All)):
            return _any(of, node, op)
        times = dates.compared(of, node)
        args, _ = meet(times or [of(node.this), of(node.args["expression"])], "A comparison")
        return Call(op, tuple(args), BOOLEAN)

    return rule


def _any(of: Translator, node: exp.Expr, op: str) -> Expr:
    """x = ANY (ARRAY[…]) and x <> ALL (ARRAY[…]), which are IN and NOT IN."""
    quantifier = node.args["expression"]
    values = quantifier.this
    while isinstance(values, exp.Paren):
        values = values.this
    comparison = "eq" if isinstance(quantifier, exp.Any) else "ne"
    if not isinstance(values, exp.Array) or op != comparison:
        refuse(
            "ANY and ALL are answered as = ANY (ARRAY[…]) and <> ALL (ARRAY[…]).",
            "Use IN, or OR between comparisons.",
        )
    member = _in(of, exp.In(this=node.this, expressions=values.expressions))
    if comparison == "eq":
        return member
    return negation(member)


def _tuples(of: Translator, node: exp.Expr) -> Expr:
    """(a, b) IN ((1, 2), (3, 4))."""
    names, choices = node.this.expressions, []
    for row in node.expressions:
        if not isinstance(row, exp.Tuple) or len(row.expressions) != len(names):
            refuse(
                "IN of several columns expects lists of as many values.", "Write (a, b) IN ((1, 2), (3, 4))."
            )
        pairs = zip(names, row.expressions, strict=True)
        choices.append(exp.and_(*(exp.EQ(this=a.copy(), expression=b.copy()) for a, b in pairs)))
    return of(exp.or_(*choices))


def _same(of: Translator, node: exp.Expr) -> Expr:
    """IS NOT DISTINCT FROM: NULL is the same as NULL."""
    (a, b), _ = meet([of(node.this), of(node.args["expression"])], "A comparison")
    nulls = Call("and", (Call("is_null", (a,), BOOLEAN), Call("is_null", (b,), BOOLEAN)), BOOLEAN)
    return Call("coalesce", (Call("eq", (a, b), BOOLEAN), nulls), BOOLEAN)


def _trunc(of: Translator, node: exp.Expr) -> Expr:
    argument = node.args.get("decimals")
    if isinstance(argument, exp.Literal) and argument.is_string:
        return dates.truncated(of(node.this), str(argument.this))
    if argument is not None and str(argument.this) != "0":
        refuse("TRUNC to decimal places is not answered.", "Use round(x, 2), or floor.")
    x = number(of(node.this), "TRUNC")
    if x.type.kind is Kind.INTEGER:
        return x
    to = FLOAT if x.type.kind is Kind.FLOAT else INTEGER
    negative = Call("lt", (x, convert(Literal(0, INTEGER), x.type)), BOOLEAN)
    return Call("case", (negative, Call("ceil", (x,), to), Call("floor", (x,), to)), to)


def _width_bucket(of: Translator, node: exp.Expr) -> Expr:
    """From 0, below the first of equal parts, to one more than there are parts."""
    x = convert(number(of(node.this), "WIDTH_BUCKET"), FLOAT)
    ends = [convert(number(of(node.args[end]), "WIDTH_BUCKET"), FLOAT) for end in ("min_value", "max_value")]
    parts = whole(node.args.get("num_buckets"), "The number of parts of WIDTH_BUCKET", 1, MAX_LIST)
    edges = [end.value for end in ends if isinstance(end, Literal) and isinstance(end.value, float)]
    if len(edges) != 2 or edges[0] >= edges[1]:
        refuse(
            "WIDTH_BUCKET expects two rising bounds, written as literals.",
            "Write width_bucket(x, 0, 100, 10).",
        )
    low, high = ends
    width = Literal((edges[1] - edges[0]) / parts, FLOAT)
    steps = Call("floor", (Call("divide", (Call("subtract", (x, low), FLOAT), width), FLOAT),), FLOAT)
    at = Call("add", (convert(steps, INTEGER), Literal(1, INTEGER)), INTEGER)
    inside = Call(
        "greatest", (Call("least", (at, Literal(parts, INTEGER)), INTEGER), Literal(1, INTEGER)), INTEGER
    )
    below, above = Call("lt", (x, low), BOOLEAN), Call("ge", (x, high), BOOLEAN)
    return Call("case", (below, Literal(0, INTEGER), above, Literal(parts + 1, INTEGER), inside), INTEGER)


def _between(of: Translator, node: exp.Expr) -> Expr:
    low, high = node.args["low"], node.args["high"]
    if isinstance(low, exp.Interval) and isinstance(high, exp.Interval):
        return of(
            exp.And(
                this=exp.GTE(this=node.this, expression=low),
                expression=exp.LTE(this=node.this, expression=high),
            )
        )
    (x, low, high), _ = meet(of.all([node.this, node.args["low"], node.args["high"]]), "BETWEEN")
    return Call("and", (Call("ge", (x, low), BOOLEAN), Call("le", (x, high), BOOLEAN)), BOOLEAN)


def _in(of: Translator, node: exp.Expr) -> Expr:
    if len(node.expressions) > MAX_LIST:
        refuse(f"Expected at most {MAX_LIST:,} values in IN, got {len(node.expressions):,}.")
    if isinstance(node.this, exp.Tuple) and node.expressions:
        return _tuples(of, node)
    values = of.all(node.expressions)
    members = [v for v in values if not (isinstance(v, Literal) and v.value is None)]
    args, _ = meet([of(node.this), *members], "IN")
    if all(isinstance(v, Literal) for v in args[1:]):
        membership = Call("in", tuple(args), BOOLEAN) if members else Literal(None, BOOLEAN)
    else:
        membership = Call("or", tuple(Call("eq", (args[0], v), BOOLEAN) for v in args[1:]), BOOLEAN)
    # Beside NULL, what is not found is not known to be missing.
    if len(members) == len(values):
        return membership
    return Call("or", (membership, Literal(None, BOOLEAN)), BOOLEAN)


def _chain(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    def rule(of: Translator, node: exp.Expr) -> Expr:
        """Flat and without recursion along the chain: a OR b OR c … may be long."""
        kind, waiting, parts = type(node), [node], []
        while waiting:
            link = waiting.pop()
            if type(link) is kind:
                waiting += [link.args["expression"], link.this]
            else:
                parts.append(link)
        return Call(op, tuple(condition(of, part, op.upper()) for part in parts), BOOLEAN)

    return rule


def _not(of: Translator, node: exp.Expr) -> Expr:
    return negation(condition(of, node.this, "NOT"))


def _is(of: Translator, node: exp.Expr) -> Expr:
    x, what = of(node.this), node.args["expression"]
    if isinstance(what, exp.Null):
        return Call("is_null", (x,), BOOLEAN)
    if not isinstance(what, exp.Boolean):
        refuse_node(node)
    x = boolean(x, "IS TRUE")
    truth = x if what.this else negation(x)
    return Call("coalesce", (truth, Literal(False, BOOLEAN)), BOOLEAN)


def _clamped(of: Translator, args: list[exp.Expr]) -> Expr:
    (x, low, high), to = meet(of.all(args), "CLAMP")
    return Call("least", (Call("greatest", (x, low), to), high), to)


def _anonymous(of: Translator, node: exp.Expr) -> Expr:
    name, args = str(node.this).lower(), node.expressions
    if name == "now" and not args:
        return current_moment(node)
    if name == "bucket" and len(args) == 2 and isinstance(args[1], exp.Array):
        return _bucket(of(args[0]), of.all(args[1].expressions))
    if name in json_fields.NAMED and len(args) == 2:
        return json_fields.field(of, node)
    rule = NAMED.get((name, len(args)))
    if rule is not None:
        return rule(of, args)
    refuse_node(node)


def _bucket(x: Expr, edges: list[Expr]) -> Expr:
    edges, to = _edges(edges, dates=x.type.kind is Kind.DATE)
    if to.kind in WHOLE:
        x = number(x, "BUCKET")
        if x.type.kind is not Kind.FLOAT:
            (x, *edges), to = meet([x, *edges], "BUCKET")
    elif x.type.kind is not Kind.DATE:
        refuse(f"BUCKET with dates expects a DATE, got {types.name(x.type)}.", "Use CAST(x AS DATE).")
    return Call("bucket", (x, *edges), to)


def _edges(edges: list[Expr], *, dates: bool) -> tuple[list[Expr], Type]:
    """Of a bucket: rising literals of one type."""
    if not 2 <= len(edges) <= MAX_EDGES or not all(isinstance(e, Literal) for e in edges):
        refuse(f"BUCKET expects from 2 to {MAX_EDGES} edges, written as literals.")
    if dates:
        edges = [convert(e, DATE) for e in edges]
    edges, to = meet(edges, "BUCKET")
    values = [e.value for e in edges if isinstance(e, Literal)]
    is_rising = all(a < b for a, b in pairwise(values))  # type: ignore[operator]
    if to.kind not in WHOLE | {Kind.DATE} or not is_rising:
        refuse("BUCKET expects rising edges: whole or decimal numbers, or dates.")
    return edges, to


def _julian(of: Translator, args: list[exp.Expr]) -> Expr:
    days = dates.difference("day", Literal(date(2000, 1, 1), DATE), of(args[0]))
    return Call("add", (days, Literal(2_451_545, INTEGER)), INTEGER)


def _weekday(of: Translator, args: list[exp.Expr]) -> Expr:
    return date_part(of, "dow", args[0])


# Functions that the parser has no node for, by name and number of arguments.
NAMED: dict[tuple[str, int], Callable[[Translator, list[exp.Expr]], Expr]] = {
    ("clamp", 3): _clamped,
    ("date_part", 2): lambda of, args: date_part(of, part_name(args[0]), args[1]),
    ("datepart", 2): lambda of, args: date_part(of, part_name(args[0]), args[1]),
    ("dateadd", 3): dates.added,
    ("datetrunc", 2): lambda of, args: dates.truncated(of(args[1]), part_name(args[0])),
    ("to_date", 1): lambda of, args: dates.read_as(of, args[0], None, DATE),
    ("to_date", 2): lambda of, args: dates.read_as(of, args[0], args[1], DATE),
    ("date_format", 2): lambda of, args: dates.formatted(
        of(args[0]), by_strftime(string(args[1], "DATE_FORMAT"))
    ),
    ("format_date", 2): lambda of, args: dates.formatted(
        of(args[1]), by_strftime(string(args[0], "FORMAT_DATE"))
    ),
    ("regexp_full_match", 2): texts.full_match,
    ("strlen", 1): texts.byte_length,
    ("isoyear", 1): lambda of, args: date_part(of, "isoyear", args[0]),
    ("weekday", 1): _weekday,
    ("julian", 1): _julian,
    ("iff", 3): lambda of, args: _choice(of, [args[0]], [args[1]], args[2]),
    ("isnull", 1): lambda of, args: Call("is_null", (of(args[0]),), BOOLEAN),
    ("zeroifnull", 1): lambda of, args: _coalesced(of, [args[0], exp.Literal.number(0)]),
    ("square", 1): lambda of, args: of(exp.Mul(this=args[0], expression=args[0])),
    ("prefix", 2): lambda of, args: of(exp.StartsWith(this=args[0], expression=args[1])),
    ("suffix", 2): lambda of, args: of(exp.EndsWith(this=args[0], expression=args[1])),
    ("div0", 2): lambda of, args: _coalesced(
        of, [exp.Div(this=args[0], expression=args[1]), exp.Literal.number(0)]
    ),
    ("try_divide", 2): lambda of, args: of(exp.Div(this=args[0], expression=args[1])),
}


RULES: dict[type[exp.Expr], Callable[[Translator, exp.Expr], Expr]] = {
    exp.Literal: _literal,
    exp.Boolean: lambda of, node: Literal(bool(node.this), BOOLEAN),
    exp.Null: lambda of, node: Literal(None, TEXT),
    exp.Paren: lambda of, node: of(node.this),
    exp.Neg: _negate,
    exp.Add: _arithmetic("add"),
    exp.Sub: _arithmetic("subtract"),
    exp.Mul: _arithmetic("multiply"),
    exp.Div: _divide,
    exp.IntDiv: _whole_division("int_divide"),
    exp.Mod: _whole_division("modulo"),
    exp.Abs: _keep("abs"),
    exp.Sign: _keep("sign"),
    exp.Floor: _whole_part("floor"),
    exp.Ceil: _whole_part("ceil"),
    exp.Round: _round,
    exp.Sqrt: _real("sqrt"),
    exp.Ln: _real("ln"),
    exp.Exp: _real("exp"),
    exp.Log: _log,
    exp.Pow: _power,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Case: _case,
    exp.If: _if,
    exp.EQ: _compare("eq"),
    exp.NEQ: _compare("ne"),
    exp.LT: _compare("lt"),
    exp.LTE: _compare("le"),
    exp.GT: _compare("gt"),
    exp.GTE: _compare("ge"),
    exp.NullSafeEQ: _same,
    exp.NullSafeNEQ: lambda of, node: negation(_same(of, node)),
    exp.Trunc: _trunc,
    exp.WidthBucket: _width_bucket,
    exp.SafeDivide: _divide,
    exp.Pi: lambda of, node: Literal(math.pi, FLOAT),
    exp.Between: _between,
    exp.In: _in,
    exp.And: _chain("and"),
    exp.Or: _chain("or"),
    exp.Not: _not,
    exp.Is: _is,
    exp.Anonymous: _anonymous,
    **texts.RULES,
    **dates.RULES,
    **json_fields.RULES,
    exp.Cast: json_fields.cast(dates.RULES[exp.Cast], dates.data_type),
    exp.TryCast: json_fields.cast(dates.RULES[exp.TryCast], dates.data_type),
}
