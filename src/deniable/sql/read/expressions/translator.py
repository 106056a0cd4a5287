"""From syntax to typed expressions: a node is read as its function's record says (`sql.functions`), a literal
here. Types meet by `types.common`; nothing is cast silently but numbers to wider numbers, dates to timestamps
and literals to the type beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from sqlglot import expressions as exp

from deniable.sql import functions, types
from deniable.sql.coercion import NodeReader, convert
from deniable.sql.functions.arithmetic import MOST_PLACES
from deniable.sql.functions.function import Reading
from deniable.sql.functions.times.periods import current_day, current_moment
from deniable.sql.read.parse import refuse_node
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Call, Expr, Kind, Literal
from deniable.sql.types import BOOLEAN, FLOAT, INTEGER, TEXT

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


def _literal(of: NodeReader, node: exp.Expr) -> Expr:
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
        return _read_wide_number(given, value)
    scale = max(0, -int(value.as_tuple().exponent))
    if scale == 0:
        return Literal(int(value), INTEGER)
    if scale <= types.MAX_SCALE:
        return Literal(value, types.decimal(scale))
    return _read_wide_number(given, value)


def _read_wide_number(given: str, value: Decimal) -> Literal:
    if given.isdecimal() and value <= types.HIGHEST:
        return Literal(int(value), INTEGER)
    literal = types.literal_as(float(value), FLOAT)
    if literal is None:
        refuse(f"{shown(given)} is beyond the range of a float.")
    return literal


def _anonymous(of: NodeReader, node: exp.Expr) -> Expr:
    """A function that the parser has no node for."""
    name, args = str(node.this).lower(), node.expressions
    if name == "now" and not args:
        return current_moment(node)
    reading = functions.NAMED.get((name, len(args)))
    expr = None if reading is None else reading(of, args)
    if expr is None:
        refuse_node(node)
    return expr


RULES: dict[type[exp.Expr], Reading] = {
    exp.Literal: _literal,
    exp.Boolean: lambda of, node: Literal(bool(node.this), BOOLEAN),
    exp.Null: lambda of, node: Literal(None, TEXT),
    exp.Pi: lambda of, node: Literal(math.pi, FLOAT),
    exp.CurrentDate: lambda of, node: current_day(node),
    exp.CurrentTimestamp: lambda of, node: current_moment(node),
    exp.Paren: lambda of, node: of(node.this),
    exp.Anonymous: _anonymous,
    **{kind: node.read for kind, node in functions.NODES.items()},
}


# ------------------------------------------------------------------------------------- floats as group keys
#
# Those that were rounded are whole numbers or decimals, and become such: floor(x / 20) * 20 has no digits
# behind the point, round(x, 1) has one. As numbers of their own type they are equal on every engine, and
# their bounds may make them public keys. Other floats are not keys.


def as_key(expr: Expr) -> Expr:
    """The expression as a whole number or decimal where it is a float of few decimal places, else itself.

    >>> x = Literal(1.5, FLOAT)
    >>> as_key(Call("floor", (x,), FLOAT)).type.kind
    <Kind.INTEGER: 'integer'>
    >>> as_key(x) is x
    True
    """
    places = None
    if expr.type.kind is Kind.FLOAT:
        places = decimal_places(expr)
    if places is None or places > MOST_PLACES or isinstance(expr, Literal):
        return expr
    return convert(expr, types.decimal(places) if places else INTEGER)


def decimal_places(expr: Expr) -> int | None:
    """How many decimal places the values of an expression have at most; None where that is not known."""
    if expr.type.kind in types.WHOLE:
        return expr.type.scale
    match expr:
        case Literal(value=float() as value):
            return _count_places(value)
        case Call(op=op):
            rule = functions.FUNCTIONS[op].keys.places
            return None if rule is None else rule(expr, decimal_places)
    return None


def _count_places(value: float) -> int | None:
    """The places that a literal prints; None for an infinity."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    if isinstance(exponent, int):
        return max(0, -exponent)
    return None
