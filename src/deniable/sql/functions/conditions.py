"""Comparisons, and conditions that are made of conditions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from sqlglot import expressions as exp

from deniable.sql.coercion import NodeReader, boolean, condition, meet, negation
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions.function import (
    BINARY,
    Connective,
    Form,
    Function,
    KeyRules,
    Laws,
    Reading,
    ReleasedRule,
    Syntax,
    Words,
    lifted,
    strict,
    with_arguments,
)
from deniable.sql.functions.refused import UNKNOWN
from deniable.sql.functions.times import dates
from deniable.sql.refusals import refuse
from deniable.sql.tree import Call, Expr, Kind, Literal, Type
from deniable.sql.types import BOOLEAN

MAX_LIST = 1_000

# --------------------------------------------------------------------------------------------- made elsewhere


def equality(a: Expr, b: Expr) -> Expr:
    return Call("eq", (a, b), BOOLEAN)


def less(a: Expr, b: Expr) -> Expr:
    return Call("lt", (a, b), BOOLEAN)


def at_most(a: Expr, b: Expr) -> Expr:
    return Call("le", (a, b), BOOLEAN)


def more(a: Expr, b: Expr) -> Expr:
    return Call("gt", (a, b), BOOLEAN)


def absence(x: Expr) -> Expr:
    """Whether it is NULL."""
    return Call("is_null", (x,), BOOLEAN)


def conjunction(*parts: Expr) -> Expr:
    return Call("and", parts, BOOLEAN)


def disjunction(*parts: Expr) -> Expr:
    return Call("or", parts, BOOLEAN)


def not_missing(where: Expr) -> Expr | None:
    """What a condition says not to be NULL, where it says nothing else."""
    match where:
        case Call(op="not", args=(Call(op="is_null", args=(of,)),)):
            return of
    return None


# ------------------------------------------------------------------------------------------------ reading


def _read_compare(op: str) -> Reading:
    def rule(of: NodeReader, node: exp.Expr) -> Expr:
        if isinstance(node.args["expression"], (exp.Any, exp.All)):
            return _read_any(of, node, op)
        times = dates.compared(of, node)
        args, _ = meet(times or [of(node.this), of(node.args["expression"])], "A comparison")
        return Call(op, tuple(args), BOOLEAN)

    return rule


def _read_any(of: NodeReader, node: exp.Expr, op: str) -> Expr:
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
    member = _read_in(of, exp.In(this=node.this, expressions=values.expressions))
    if comparison == "eq":
        return member
    return negation(member)


def _read_between(of: NodeReader, node: exp.Expr) -> Expr:
    low, high = node.args["low"], node.args["high"]
    if isinstance(low, exp.Interval) and isinstance(high, exp.Interval):
        return of(
            exp.And(
                this=exp.GTE(this=node.this, expression=low),
                expression=exp.LTE(this=node.this, expression=high),
            )
        )
    (x, low, high), _ = meet(of.all([node.this, node.args["low"], node.args["high"]]), "BETWEEN")
    return conjunction(Call("ge", (x, low), BOOLEAN), at_most(x, high))


def _read_in(of: NodeReader, node: exp.Expr) -> Expr:
    if len(node.expressions) > MAX_LIST:
        refuse(f"Expected at most {MAX_LIST:,} values in IN, got {len(node.expressions):,}.")
    if isinstance(node.this, exp.Tuple) and node.expressions:
        return _read_tuples(of, node)
    values = of.all(node.expressions)
    members = [v for v in values if not (isinstance(v, Literal) and v.value is None)]
    args, _ = meet([of(node.this), *members], "IN")
    membership: Expr
    if all(isinstance(v, Literal) for v in args[1:]):
        membership = Call("in", tuple(args), BOOLEAN) if members else Literal(None, BOOLEAN)
    else:
        membership = disjunction(*(equality(args[0], v) for v in args[1:]))
    # Beside NULL, what is not found is not known to be missing.
    if len(members) == len(values):
        return membership
    return disjunction(membership, Literal(None, BOOLEAN))


def _read_tuples(of: NodeReader, node: exp.Expr) -> Expr:
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


def _read_chain(op: str) -> Reading:
    def rule(of: NodeReader, node: exp.Expr) -> Expr:
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


def _read_is(of: NodeReader, node: exp.Expr) -> Expr:
    x, what = of(node.this), node.args["expression"]
    if isinstance(what, exp.Null):
        return absence(x)
    if not isinstance(what, exp.Boolean):
        refuse("IS is not answered.", UNKNOWN)
    x = boolean(x, "IS TRUE")
    truth = x if what.this else negation(x)
    return Call("coalesce", (truth, Literal(False, BOOLEAN)), BOOLEAN)


# ------------------------------------------------------------------------------------------------ words


def _infix(sign: str) -> Words:
    return lambda call, args, dialect: f"({f' {sign} '.join(args)})"


def _ordered(sign: str) -> Words:
    def words(call: Call, args: list[str], dialect: Dialect) -> str:
        a, b = (by_bytes(arg, call, dialect) for arg in args)
        return f"({a} {sign} {b})"

    return words


def by_bytes(part: str, call: Call, dialect: Dialect) -> str:
    if call.args[0].type.kind is Kind.TEXT:
        return dialect.by_bytes(part)
    return part


# ------------------------------------------------------------------------------------------ after the release


def _and_value(type_: Type, *args: Any) -> bool | None:
    if any(a is False for a in args):
        return False
    if any(a is None for a in args):
        return None
    return True


def _or_value(type_: Type, *args: Any) -> bool | None:
    if any(a is True for a in args):
        return True
    if any(a is None for a in args):
        return None
    return False


def _in_value(type_: Type, a: Any, *rest: Any) -> bool | None:
    if a is None:
        return None
    if a in rest:
        return True
    if None in rest:
        return None
    return False


_COMPARISON = Laws(present=with_arguments, compares=True)
_EQUALITY = Laws(present=with_arguments, compares=True, arranged=sorted)
_TOTAL = Laws(present=with_arguments)


def _first_then_set(args: list[str]) -> list[str]:
    return [args[0], *sorted(set(args[1:]))]


def _comparison(
    op: str, sign: str, form: Form, value: Callable[[Any, Any], Any], laws: Laws = _COMPARISON
) -> Function:
    words = _infix(sign) if laws is _EQUALITY else _ordered(sign)
    rule = strict(value)
    return Function(
        op, (form,), words=words, released=ReleasedRule(rule), keys=KeyRules(exact=lifted(rule)), laws=laws
    )


FUNCTIONS: tuple[Function, ...] = (
    _comparison(
        "eq",
        "=",
        Form("a = b", "equal", (Syntax(exp.EQ, _read_compare("eq"), BINARY),)),
        operator.eq,
        _EQUALITY,
    ),
    _comparison(
        "ne",
        "<>",
        Form("a <> b", "not equal", (Syntax(exp.NEQ, _read_compare("ne"), BINARY),)),
        operator.ne,
        _EQUALITY,
    ),
    _comparison(
        "lt",
        "<",
        Form("a < b", "less; texts by their bytes", (Syntax(exp.LT, _read_compare("lt"), BINARY),)),
        operator.lt,
    ),
    _comparison(
        "le",
        "<=",
        Form(
            "a <= b, a BETWEEN b AND c",
            "less or equal",
            (
                Syntax(exp.LTE, _read_compare("le"), BINARY),
                Syntax(exp.Between, _read_between, frozenset({"this", "low", "high"})),
            ),
        ),
        operator.le,
    ),
    _comparison(
        "gt", ">", Form("a > b", "greater", (Syntax(exp.GT, _read_compare("gt"), BINARY),)), operator.gt
    ),
    _comparison(
        "ge",
        ">=",
        Form("a >= b", "greater or equal", (Syntax(exp.GTE, _read_compare("ge"), BINARY),)),
        operator.ge,
    ),
    Function(
        "and",
        (Form("a AND b", "both", (Syntax(exp.And, _read_chain("and"), BINARY),)),),
        words=_infix("AND"),
        released=ReleasedRule(_and_value),
        keys=KeyRules(exact=lifted(_and_value)),
        laws=Laws(0, with_arguments, connective=Connective.EVERY, arranged=sorted),
    ),
    Function(
        "or",
        (Form("a OR b", "one of them", (Syntax(exp.Or, _read_chain("or"), BINARY),)),),
        words=_infix("OR"),
        released=ReleasedRule(_or_value),
        keys=KeyRules(exact=lifted(_or_value)),
        laws=Laws(0, with_arguments, connective=Connective.SOME, arranged=sorted),
    ),
    Function(
        "not",
        (
            Form(
                "NOT a",
                "not",
                (Syntax(exp.Not, lambda of, node: negation(condition(of, node.this, "NOT"))),),
            ),
        ),
        words=lambda call, args, dialect: f"(NOT {args[0]})",
        released=ReleasedRule(strict(operator.not_)),
        keys=KeyRules(exact=lifted(strict(operator.not_))),
        laws=_TOTAL,
    ),
    Function(
        "is_null",
        (
            Form(
                "a IS NULL, a IS TRUE, a IS FALSE",
                "never NULL itself",
                (Syntax(exp.Is, _read_is, BINARY),),
                {("isnull", 1): lambda of, args: absence(of(args[0]))},
            ),
        ),
        words=lambda call, args, dialect: f"({args[0]} IS NULL)",
        released=ReleasedRule(lambda type_, a: a is None),
        keys=KeyRules(
            domain=lambda call, domain: (False, True), exact=lambda call, values: values[0] is None
        ),
        laws=Laws(0, lambda call, present: True),
    ),
    Function(
        "in",
        (
            Form(
                "a IN (1, 2, …)",
                "one of the values",
                (Syntax(exp.In, _read_in, frozenset({"this", "expressions", "query"})),),
            ),
        ),
        words=lambda call, args, dialect: f"({args[0]} IN ({', '.join(args[1:])}))",
        released=ReleasedRule(_in_value),
        keys=KeyRules(exact=lifted(_in_value)),
        laws=Laws(1, with_arguments, compares=True, arranged=_first_then_set),
    ),
)
