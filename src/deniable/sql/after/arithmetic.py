"""Interval arithmetic as SQL: from the ends of released numbers to those of what is computed from them.

Ends are doubles. Where a quotient's divisor may be 0 they are infinite. What is monotone in each of its noisy
arguments is computed at their ends; anything else has no interval."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import expressions as exp

from deniable.sql.after.allowed import RESERVED
from deniable.sql.after.reach import EXACT, Reach
from deniable.sql.read.names import fold


@dataclass(frozen=True)
class OwnNoise:
    """Of a column in which every row has a cell of its own, with a noise of its own: the `table` that says
    how far sums of these are off, and all keys of the release, which tell its rows apart."""

    table: str
    keys: frozenset[str]


@dataclass(frozen=True)
class Ends:
    """The two ends of a number, as expressions, and which released cells they stand on."""

    low: exp.Expr
    high: exp.Expr
    reach: Reach
    noise: OwnNoise | None = None


MOST_IN_ENDS = 5_000
MOST_POINTS = 1_000
"""How large the ends of one number may be, and how many cells they may stand on one by one: a product has
four times the nodes of its factors, so n * n * … * n would fill any memory."""


class TooLong(Exception):
    """The ends of a query would be longer than a text may be. It is answered without intervals."""


@dataclass
class NodeAllowance:
    """How many nodes may still be written for the ends of a query. Whatever its text says, that is all the
    work that is done for them."""

    left: int = 30_000

    def take(self, node: exp.Expr) -> int:
        """The nodes below `node`, which are fewer from now on."""
        nodes = sum(1 for _ in itertools.islice(node.walk(), self.left + 1))
        self.left -= nodes
        if self.left < 0:
            raise TooLong
        return nodes


Noisy = Ends
Seen = Mapping[tuple[str, str], "Noisy | None"]
"""Columns by table and name; None for those without noise."""
Nested = Callable[[exp.Expr], "Noisy | None"]
ByKeys = Callable[[exp.Expr, OwnNoise], bool]

NOISE, SLOPE, START = (f"{RESERVED}{part}" for part in ("noise_", "slope", "start"))
"""Tables of one row: sums of n cells are off by no more than slope·√n + start."""

_OVER_MANY = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median)
_OF_ONE_ROW = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)


def ends(
    node: exp.Expr,
    seen: Seen,
    *,
    grouped: bool,
    nested: Nested,
    space: NodeAllowance,
    by_keys: ByKeys = lambda *_: False,
) -> Ends | None:
    """The ends of an expression; None where they do not follow, or would be too large. `by_keys` says of a
    function over rows that keys alone choose these."""
    return _Arithmetic(seen, grouped, nested, by_keys, space).find(node)


@dataclass(frozen=True)
class _Arithmetic:
    seen: Seen
    grouped: bool
    nested: Nested
    by_keys: ByKeys
    space: NodeAllowance

    def find(self, node: exp.Expr) -> Ends | None:
        if isinstance(node, exp.Paren):
            return self.find(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Query):
            return self._check_size(self.nested(node))
        if not self._noisy(node):
            return _exact(node)
        return self._check_size(self._read_ends(node))

    def _check_size(self, interval: Ends | None) -> Ends | None:
        """An interval that is small enough. Every step makes it a few times larger at most, so that none is
        ever much larger than that."""
        if interval is None:
            return None
        nodes = self.space.take(interval.low) + self.space.take(interval.high)
        if nodes > MOST_IN_ENDS or len(interval.reach.points) > MOST_POINTS:
            return None
        return interval

    def _read_ends(self, node: exp.Expr) -> Ends | None:
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, (exp.Filter, *_OVER_MANY)):
            return self._aggregate(node)
        return self._compute_ends(node)

    def _column(self, node: exp.Column) -> Ends | None:
        interval = self._find_ends(node)
        if interval is None:
            return _exact(node)
        return None if self.grouped else interval

    def _find_ends(self, node: exp.Column) -> Ends | None:
        return self.seen.get((fold(str(node.table)), fold(str(node.name))))

    def _noisy(self, node: exp.Expr) -> bool:
        """Whether there is a noisy number in it; a query inside counts as one."""
        return any(
            isinstance(part, exp.Query)
            or (isinstance(part, exp.Column) and self._find_ends(part) is not None)
            for part in node.walk()
        )

    # -------------------------------------------------------------------------------------------- numbers

    def _compute_ends(self, node: exp.Expr) -> Ends | None:
        match node:
            case exp.Case() | exp.If():
                return self._choose_ends(node)
            case exp.Nullif() if not self._noisy(node.expression):
                inner = self.find(node.this)
                if inner is None:
                    return None
                return _keep_nulls(node, inner)
            case exp.Neg() | exp.Cast() | exp.TryCast() | exp.Round() | exp.Floor() | exp.Ceil():
                return self._read_unary(node)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
                left, right = self.find(node.this), self.find(node.expression)
                if left is None or right is None:
                    return None
                return _combine(node, left, right)
            case exp.Coalesce() | exp.Greatest() | exp.Least():
                return self._read_growing(node, [node.this, *node.expressions])
        return None

    def _read_unary(self, node: exp.Expr) -> Ends | None:
        inner = self.find(node.this)
        if inner is None:
            return None
        match node:
            case exp.Neg():
                return Ends(
                    exp.Neg(this=inner.high.copy()), exp.Neg(this=inner.low.copy()), inner.reach.computed
                )
            case exp.Cast() | exp.TryCast():
                return _cast(node, inner)
        return Ends(_set_argument(node, inner.low), _set_argument(node, inner.high), inner.reach.computed)

    def _read_growing(self, node: exp.Expr, args: list[exp.Expr]) -> Ends | None:
        """What grows with each of its arguments."""
        candidates = [self.find(arg) for arg in args]
        intervals = [each for each in candidates if each is not None]
        if len(intervals) < len(candidates):
            return None
        sides = [
            type(node)(this=side[0].copy(), expressions=[end.copy() for end in side[1:]])
            for side in ([each.low for each in intervals], [each.high for each in intervals])
        ]
        return Ends(sides[0], sides[1], sum((each.reach for each in intervals), EXACT))

    def _choose_ends(self, node: exp.Expr) -> Ends | None:
        """CASE: by conditions without noise, since another number might choose another branch."""
        branches, last = node.args.get("ifs") or [node], "default" if isinstance(node, exp.Case) else "false"
        conditions = [node, *branches]
        if any(each.this is not None and self._noisy(each.this) for each in conditions):
            return None
        low, high, reach = node.copy(), node.copy(), EXACT
        values: list[tuple[int | None, str]] = [(i, "true") for i in range(len(branches))]
        if node.args.get(last) is not None:
            values.append((None, last))
        for branch, part in values:
            interval = self.find(_branch(node, branch).args[part])
            if interval is None:
                return None
            reach += interval.reach
            _branch(low, branch).set(part, interval.low.copy())
            _branch(high, branch).set(part, interval.high.copy())
        return Ends(low, high, reach)

    # ----------------------------------------------------------------------------------------- over many rows

    def _window(self, node: exp.Window) -> Ends | None:
        if self.grouped:
            return None
        interval = self._sum_ends(node)
        if interval is not None:
            return interval
        inner = _Arithmetic(self.seen, False, self.nested, self.by_keys, self.space)
        interval = inner._function(node.this, (*_OVER_MANY, *_OF_ONE_ROW))
        if interval is None:
            return None
        sides = []
        for end in (interval.low, interval.high):
            window = node.copy()
            window.set("this", end)
            sides.append(window)
        return Ends(sides[0], sides[1], interval.reach)

    def _aggregate(self, node: exp.Expr) -> Ends | None:
        interval = self._sum_ends(node)
        if interval is not None:
            return interval
        return _Arithmetic(self.seen, False, self.nested, self.by_keys, self.space)._function(
            node, _OVER_MANY
        )

    def _sum_ends(self, node: exp.Expr) -> Ends | None:
        """SUM or AVG of cells with independent noises, of rows that are chosen by keys alone: not each noise
        at its end, but as far as their sum reaches. It is a number with an interval of its own, as a cell
        is."""
        rest = node.copy()
        function = rest
        while isinstance(function, (exp.Window, exp.Filter)):
            function = function.this
        if not isinstance(function, (exp.Sum, exp.Avg)) or not isinstance(function.this, exp.Column):
            return None
        cell = self._find_ends(function.this)
        if cell is None or cell.noise is None:
            return None
        middle = _binary(exp.Div, _binary(exp.Add, cell.low, cell.high), exp.Literal.number(2))
        function.set("this", exp.Null())
        if not self.by_keys(rest, cell.noise):
            return None
        value, many = (_swap_function(rest, kind(this=middle.copy())) for kind in (type(function), exp.Count))
        margin = _margin(cell.noise.table, many)
        if isinstance(function, exp.Avg):
            zero = exp.Literal.number(0)
            margin = _binary(exp.Div, margin, exp.Nullif(this=many.copy(), expression=zero))
        [(table, name, _)] = cell.reach.points
        reach = Reach(((table, name, next(_SUMS)),))
        return Ends(_binary(exp.Sub, value, margin), _binary(exp.Add, value, margin), reach)

    def _function(self, node: exp.Expr, known: tuple[type[exp.Expr], ...]) -> Ends | None:
        """A function over rows, at both ends of its argument: it grows with each of them."""
        if isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
            if isinstance(node, exp.Filter) and self._noisy(node.expression):
                return None
            interval = self._function(node.this, known)
            if interval is None:
                return None
            return _set_ends(node, interval, interval.reach)
        if not isinstance(node, known) or isinstance(node.this, exp.Distinct):
            return None
        if self._has_noisy_options(node):
            return None
        interval = self.find(node.this)
        if interval is None:
            return None
        reach = interval.reach.spread
        if isinstance(node, _OF_ONE_ROW):
            reach = interval.reach.computed
        return _set_ends(node, interval, reach)

    def _has_noisy_options(self, node: exp.Expr) -> bool:
        """Whether anything but its first argument is noisy: an offset, a default, an order."""
        others = [value for part, value in node.args.items() if part != "this"]
        return any(self._noisy(other) for other in others if isinstance(other, exp.Expr))


# ------------------------------------------------------------------------------------------------ ends in SQL


_SUMS = itertools.count(1)


def _swap_function(outer: exp.Expr, function: exp.Expr) -> exp.Expr:
    """Another function over the same rows."""
    if isinstance(outer, (exp.Window, exp.Filter)):
        return _set_argument(outer, _swap_function(outer.this, function))
    return function


def _margin(noise: str, many: exp.Expr) -> exp.Expr:
    slope, start = (
        exp.Subquery(this=exp.select(exp.column(part)).from_(exp.to_table(noise))) for part in (SLOPE, START)
    )
    return _binary(exp.Add, _binary(exp.Mul, slope, exp.Sqrt(this=many.copy())), start)


def _double(node: exp.Expr) -> exp.Expr:
    return exp.cast(exp.Paren(this=node.copy()), "DOUBLE")


def _exact(node: exp.Expr) -> Ends:
    return Ends(_double(node), _double(node), EXACT)


def _branch(node: exp.Expr, at: int | None) -> exp.Expr:
    """One WHEN of a CASE; IF (a, b, c) is its own branch, and so is what has no condition."""
    branches: list[exp.Expr] = node.args.get("ifs") or []
    if at is None or not branches:
        return node
    return branches[at]


def _set_ends(node: exp.Expr, interval: Ends, reach: Reach) -> Ends:
    return Ends(_set_argument(node, interval.low), _set_argument(node, interval.high), reach)


def _set_argument(node: exp.Expr, argument: exp.Expr) -> exp.Expr:
    clone = node.copy()
    clone.set("this", argument.copy())
    return clone


def _keep_nulls(node: exp.Expr, inner: Ends) -> Ends:
    """The ends of `inner` where the expression has a value."""
    missing = exp.Is(this=exp.Paren(this=node.copy()), expression=exp.Null())
    low, high = (
        exp.Case(ifs=[exp.If(this=missing.copy(), true=exp.Null())], default=end.copy())
        for end in (inner.low, inner.high)
    )
    return Ends(low, high, inner.reach.computed)


def _cast(node: exp.Expr, inner: Ends) -> Ends | None:
    kind = node.args["to"]
    if kind.is_type(*exp.DataType.INTEGER_TYPES):
        sides = [exp.Round(this=end.copy()) for end in (inner.low, inner.high)]
        return Ends(sides[0], sides[1], inner.reach.computed)
    if kind.is_type(exp.DType.DOUBLE):
        return Ends(inner.low, inner.high, inner.reach.computed)
    return None


def _combine(node: exp.Expr, left: Ends, right: Ends) -> Ends:
    reach = left.reach + right.reach
    match node:
        case exp.Add():
            return Ends(_binary(exp.Add, left.low, right.low), _binary(exp.Add, left.high, right.high), reach)
        case exp.Sub():
            return Ends(_binary(exp.Sub, left.low, right.high), _binary(exp.Sub, left.high, right.low), reach)
    corners = [_binary(type(node), a, b) for a in _list_ends(left) for b in _list_ends(right)]
    if len(corners) == 1:
        return Ends(corners[0], corners[0], reach)
    ends_of: list[exp.Expr] = [
        kind(this=corners[0].copy(), expressions=[c.copy() for c in corners[1:]])
        for kind in (exp.Least, exp.Greatest)
    ]
    low, high = ends_of
    if isinstance(node, exp.Div) and right.reach.bases:
        low, high = _divide_end(low, right, "-Infinity"), _divide_end(high, right, "Infinity")
    return Ends(low, high, reach)


def _list_ends(interval: Ends) -> tuple[exp.Expr, ...]:
    """Its two ends, or the one that both are."""
    if interval.reach.bases:
        return interval.low, interval.high
    return (interval.low,)


def _divide_end(end: exp.Expr, divisor: Ends, otherwise: str) -> exp.Expr:
    """An end of a quotient, where the divisor cannot be 0."""
    above = exp.GT(this=divisor.low.copy(), expression=exp.Literal.number(0))
    below = exp.LT(this=divisor.high.copy(), expression=exp.Literal.number(0))
    infinite = exp.cast(exp.Literal.string(otherwise), "DOUBLE")
    return exp.Case(ifs=[exp.If(this=exp.Or(this=above, expression=below), true=end)], default=infinite)


def _binary(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=kind(this=exp.Paren(this=left.copy()), expression=exp.Paren(this=right.copy())))
