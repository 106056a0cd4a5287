"""Choices between values: by the first condition that holds, by the first that is not NULL, by size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import expressions as exp

from deniable.sql.coercion import NodeReader, condition, meet, negation
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions.arithmetic import Places, most_places, same_places
from deniable.sql.functions.conditions import absence, by_bytes, conjunction, equality
from deniable.sql.functions.function import (
    BINARY,
    Cell,
    Ends,
    Form,
    Function,
    KeyRules,
    Laws,
    Range,
    Reading,
    ReleasedRule,
    Syntax,
    Values,
    hull_of,
    lifted,
    strict,
    with_arguments,
)
from deniable.sql.intervals import Interval, hull, if_all, if_any
from deniable.sql.tree import Call, Expr, Literal, Type
from deniable.sql.types import BOOLEAN, INTEGER, TEXT


def first_present(to: Type, *args: Expr) -> Expr:
    """The first that is not NULL."""
    return Call("coalesce", args, to)


def largest(*args: Expr) -> Expr:
    """Of whole numbers."""
    return Call("greatest", args, INTEGER)


def choice(to: Type, *args: Expr) -> Expr:
    """Conditions and values in turns, and the value where none of them holds."""
    return Call("case", args, to)


# ------------------------------------------------------------------------------------------------ reading


def _read_same(of: NodeReader, node: exp.Expr) -> Expr:
    """IS NOT DISTINCT FROM: NULL is the same as NULL."""
    (a, b), _ = meet([of(node.this), of(node.args["expression"])], "A comparison")
    return first_present(BOOLEAN, equality(a, b), conjunction(absence(a), absence(b)))


def _read_case(of: NodeReader, node: exp.Expr) -> Expr:
    subject = node.this
    tests = [branch.this for branch in node.args["ifs"]]
    if subject is not None:
        tests = [exp.EQ(this=subject, expression=test) for test in tests]
    return _read_choice(of, tests, [i.args["true"] for i in node.args["ifs"]], node.args.get("default"))


def _read_if(of: NodeReader, node: exp.Expr) -> Expr:
    return _read_choice(of, [node.this], [node.args["true"]], node.args.get("false"))


def _read_choice(
    of: NodeReader, tests: list[exp.Expr], then: list[exp.Expr], default: exp.Expr | None
) -> Expr:
    conditions = [condition(of, test, "CASE WHEN") for test in tests]
    otherwise = of(default) if default is not None else Literal(None, TEXT)
    values, to = meet([*of.all(then), otherwise], "CASE")
    pairs = (x for pair in zip(conditions, values[:-1], strict=True) for x in pair)
    return choice(to, *pairs, values[-1])


def _read_extreme(op: str) -> Reading:
    def rule(of: NodeReader, node: exp.Expr) -> Expr:
        args, to = meet(of.all([node.this, *node.expressions]), op.upper())
        if len(args) == 1:
            return args[0]
        return Call(op, tuple(args), to)

    return rule


def _read_clamp(of: NodeReader, args: Sequence[exp.Expr]) -> Expr:
    (x, low, high), to = meet(of.all(args), "CLAMP")
    return Call("least", (Call("greatest", (x, low), to), high), to)


def _read_coalesce(of: NodeReader, nodes: Sequence[exp.Expr]) -> Expr:
    args, to = meet(of.all(nodes), "COALESCE")
    return first_present(to, *args)


def _read_nullif(of: NodeReader, node: exp.Expr) -> Expr:
    args, to = meet([of(node.this), of(node.args["expression"])], "NULLIF")
    return Call("nullif", tuple(args), to)


def _or_zero(of: NodeReader, node: exp.Expr) -> Expr:
    return _read_coalesce(of, [node, exp.Literal.number(0)])


# ------------------------------------------------------------------------------------------------ words


def _extreme(call: Call, args: list[str], dialect: Dialect) -> str:
    """NULL if any is NULL: engines would leave NULLs out, and a clamped NULL would become a bound."""
    bound = [i for i, arg in enumerate(call.args) if not (isinstance(arg, Literal) and arg.value is not None)]

    def body(*named: str) -> str:
        texts = [named[bound.index(i)] if i in bound else arg for i, arg in enumerate(args)]
        texts = [by_bytes(t, call, dialect) for t in texts]
        missing = " OR ".join(f"{x} IS NULL" for x in named)
        return f"CASE WHEN {missing} THEN NULL ELSE {call.op}({', '.join(texts)}) END"

    if not bound:
        return f"{call.op}({', '.join(by_bytes(t, call, dialect) for t in args)})"
    return dialect.let([args[i] for i in bound], body)


def _nullif(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.let(args, lambda a, b: f"CASE WHEN {a} = {b} THEN NULL ELSE {a} END")


def _case(call: Call, args: list[str], dialect: Dialect) -> str:
    whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1::2], strict=True))
    return f"CASE {whens} ELSE {args[-1]} END"


# ------------------------------------------------------------------------------------------------ ranges


def _branches(args: Sequence[Expr]) -> list[Expr]:
    """Of a CASE (c1, v1, c2, v2, …, else): what it may be."""
    return [*args[1:-1:2], args[-1]]


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def _case_range(args: list[Interval], call: Call) -> Interval:
    branches = zip((*args[1:-1:2], args[-1]), _branches(call.args), strict=True)
    return hull([interval for interval, value in branches if not _is_null(value)])


def _greatest_range(args: list[Interval], call: Call) -> Interval:
    return Interval(if_any(max, [x.lower for x in args]), if_all(max, [x.upper for x in args]))


def _least_range(args: list[Interval], call: Call) -> Interval:
    return Interval(if_all(min, [x.lower for x in args]), if_any(min, [x.upper for x in args]))


# ------------------------------------------------------------------------------------------ after the release


def _case_value(type_: Type, *args: Any) -> Any:
    for test, value in zip(args[0::2], args[1::2], strict=False):
        if test is True:
            return value
    return args[-1] if len(args) % 2 else None


def _case_ends(args: list[Cell], call: Call) -> Ends:
    values = args[1::2]
    if len(args) % 2:
        values = [*values, args[-1]]
    return hull_of(values)


def _nullif_value(type_: Type, a: Any, b: Any) -> Any:
    if a is not None and a == b:
        return None
    return a


def _coalesce_value(type_: Type, *args: Any) -> Any:
    return next((arg for arg in args if arg is not None), None)


# ------------------------------------------------------------------------------------------------ keys


def _one_of(exprs: Sequence[Expr], domain: Callable[[Expr], Values | None]) -> Values | None:
    """What one of several expressions may be, where that is known of each of them."""
    domains = [domain(expr) for expr in exprs]
    values = [value for each in domains if each is not None for value in each]
    if None in domains:
        return None
    return tuple(dict.fromkeys(values))


def _case_domain(call: Call, domain: Callable[[Expr], Values | None]) -> Values | None:
    return _one_of(_branches(call.args), domain)


def _coalesce_domain(call: Call, domain: Callable[[Expr], Values | None]) -> Values | None:
    """Never NULL where one of them is a literal that is not."""
    values = _one_of(call.args, domain)
    if values is None or not any(isinstance(a, Literal) and a.value is not None for a in call.args):
        return values
    return tuple(value for value in values if value is not None)


def _case_places(call: Call, places: Places) -> int | None:
    branches = tuple(value for value in _branches(call.args) if not _is_null(value))
    return most_places(Call(call.op, branches, call.type), places)


def _case_present(call: Call, present: Sequence[bool]) -> bool:
    return all((*present[1:-1:2], present[-1]))


def _extreme_function(
    op: str, forms: tuple[Form, ...], pick: Callable[..., Any], range_rule: Range
) -> Function:
    rule = strict(pick)
    return Function(
        op,
        forms,
        words=_extreme,
        range=range_rule,
        released=ReleasedRule(
            rule, lambda args, call: (pick(a.low for a in args), pick(a.high for a in args))
        ),
        keys=KeyRules(places=most_places, exact=lifted(rule)),
        laws=Laws(present=with_arguments),
    )


FUNCTIONS: tuple[Function, ...] = (
    _extreme_function(
        "greatest",
        (
            Form(
                "greatest(a, b, …)",
                "the largest; NULL if any is NULL (DuckDB would leave NULLs out)",
                (Syntax(exp.Greatest, _read_extreme("greatest"), frozenset({"this", "expressions"})),),
            ),
        ),
        max,
        _greatest_range,
    ),
    _extreme_function(
        "least",
        (
            Form(
                "least(a, b, …)",
                "the smallest; NULL if any is NULL (DuckDB would leave NULLs out)",
                (Syntax(exp.Least, _read_extreme("least"), frozenset({"this", "expressions"})),),
            ),
            Form("clamp(a, low, high)", "least(greatest(a, low), high)", named={("clamp", 3): _read_clamp}),
        ),
        min,
        _least_range,
    ),
    Function(
        "coalesce",
        (
            Form(
                "coalesce(a, b, …), ifnull(a, b)",
                "the first that is not NULL",
                (
                    Syntax(
                        exp.Coalesce,
                        lambda of, node: _read_coalesce(of, [node.this, *node.expressions]),
                        frozenset({"this", "expressions"}),
                    ),
                ),
                {
                    ("zeroifnull", 1): lambda of, args: _or_zero(of, args[0]),
                    ("div0", 2): lambda of, args: _or_zero(of, exp.Div(this=args[0], expression=args[1])),
                },
            ),
            Form(
                "a IS NOT DISTINCT FROM b",
                "equal, NULL being equal to NULL",
                (
                    Syntax(exp.NullSafeEQ, _read_same, BINARY),
                    Syntax(exp.NullSafeNEQ, lambda of, node: negation(_read_same(of, node)), BINARY),
                ),
            ),
        ),
        words=lambda call, args, dialect: f"coalesce({', '.join(args)})",
        range=lambda args, call: hull(args),
        released=ReleasedRule(_coalesce_value, lambda args, call: hull_of(args)),
        keys=KeyRules(_coalesce_domain, most_places, lifted(_coalesce_value)),
        laws=Laws(0, lambda call, present: any(present)),
    ),
    Function(
        "nullif",
        (Form("nullif(a, b)", "NULL where a = b, else a", (Syntax(exp.Nullif, _read_nullif, BINARY),)),),
        words=_nullif,
        range=lambda args, call: args[0],
        released=ReleasedRule(_nullif_value, lambda args, call: (args[0].low, args[0].high)),
        keys=KeyRules(places=same_places, exact=lifted(_nullif_value)),
        laws=Laws(1),
    ),
    Function(
        "case",
        (
            Form(
                "CASE … END, if(c, a, b)",
                "the value of the first condition that holds",
                (
                    Syntax(exp.Case, _read_case, frozenset({"this", "ifs", "default"})),
                    Syntax(exp.If, _read_if, frozenset({"this", "true", "false"})),
                ),
                {("iff", 3): lambda of, args: _read_choice(of, [args[0]], [args[1]], args[2])},
            ),
        ),
        words=_case,
        range=_case_range,
        released=ReleasedRule(_case_value, _case_ends),
        keys=KeyRules(_case_domain, _case_places, lifted(_case_value)),
        laws=Laws(0, _case_present),
    ),
)
