"""One form for all blocks that release the same, and one text for all ways to write it: the key under
which a release is stored and found again.

What a block is called, how its columns are named and ordered, and what is said over it afterwards do not
change what it releases; so they do not change the key. The tree has forgotten white space, comments,
case, table aliases and brackets already; in `normal` the order of AND, OR and IN goes too."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cached_property

from deniable.sql.answer.evaluate import aggregates_in
from deniable.sql.functions import FUNCTIONS
from deniable.sql.tree import AggregateRef, Call, Expr, KeyRef, Kind, Output, Query, Statistic
from deniable.sql.types_relations import aggregate_type

_RANKED = (Statistic.QUANTILE, Statistic.MIN, Statistic.MAX)


@dataclass(frozen=True)
class OwnBlock:
    """What a text that is one block by itself releases, as a block of any other text: `keys` and `aggregates`
    say which of the text's stands at each place of the block's."""

    query: Query
    keys: tuple[int, ...]
    aggregates: tuple[int, ...]

    @cached_property
    def form(self) -> str:
        """The text that all blocks have that release the same."""
        return normal(self.query)


def own_block(query: Query) -> OwnBlock | None:
    """None where another text's block is not planned alike: an output of several quantiles divides their ε
    otherwise; days that are made of aggregates are released as such."""
    reads = [*(output.of for output in query.outputs), query.having, *(order.by for order in query.order)]
    if any(expr is not None and (_has_days(expr) or _shares_ranks(query, expr)) for expr in reads):
        return None
    form, _ = canonical(replace(query, outputs=()))
    return OwnBlock(form, tuple(_key_order(query)), tuple(_aggregate_order(query)))


def _has_days(expr: Expr) -> bool:
    if not isinstance(expr, Call):
        return False
    is_day = expr.type.kind in (Kind.DATE, Kind.TIMESTAMP)
    return (is_day and bool(aggregates_in(expr))) or any(_has_days(arg) for arg in expr.args)


def _shares_ranks(query: Query, expr: Expr) -> bool:
    indices = aggregates_in(expr)
    return len(indices) > 1 and any(query.aggregates[i].statistic in _RANKED for i in indices)


def _key_order(query: Query) -> list[int]:
    return sorted(range(len(query.keys)), key=lambda i: normal_text(query.keys[i].of))


def _aggregate_order(query: Query) -> list[int]:
    return sorted(range(len(query.aggregates)), key=lambda i: normal_text(query.aggregates[i]))


def canonical(query: Query) -> tuple[Query, list[str]]:
    """The same release, and for each output of `query` its column there: keys, aggregates, and what else a
    block releases, the first and last day, which are made of aggregates."""
    keys, aggregates = _key_order(query), _aggregate_order(query)
    outputs = [Output(f"k{at}", KeyRef(at, query.keys[i].of.type)) for at, i in enumerate(keys)]
    types = [aggregate_type(each) for each in query.aggregates]
    outputs += [Output(f"a{at}", AggregateRef(at, types[i])) for at, i in enumerate(aggregates)]
    calls = [
        _move_refs(output.of, keys, aggregates) for output in query.outputs if isinstance(output.of, Call)
    ]
    others = sorted(dict.fromkeys(calls), key=normal_text)
    outputs += [Output(f"d{at}", each) for at, each in enumerate(others)]
    form = Query(
        query.relation,
        tuple(replace(query.keys[i], name=f"k{at}") for at, i in enumerate(keys)),
        tuple(query.aggregates[i] for i in aggregates),
        tuple(outputs),
        tuple(tuple(sorted(keys.index(i) for i in group)) for group in query.sets),
    )
    return form, [_find_place(output, keys, aggregates, others) for output in query.outputs]


def _move_refs(expr: Expr, keys: list[int], aggregates: list[int]) -> Expr:
    """The same expression over keys and aggregates in their new places."""
    match expr:
        case KeyRef(index, type_):
            return KeyRef(keys.index(index), type_)
        case AggregateRef(index, type_):
            return AggregateRef(aggregates.index(index), type_)
        case Call():
            return replace(expr, args=tuple(_move_refs(arg, keys, aggregates) for arg in expr.args))
    return expr


def _find_place(output: Output, keys: list[int], aggregates: list[int], others: list[Expr]) -> str:
    match output.of:
        case KeyRef(index, _):
            return f"k{keys.index(index)}"
        case AggregateRef(index, _):
            return f"a{aggregates.index(index)}"
        case Call():
            return f"d{others.index(_move_refs(output.of, keys, aggregates))}"
    raise AssertionError("A block releases keys and aggregates only.")


def normal(query: Query) -> str:
    """
    >>> from deniable.sql.tree import Scan
    >>> normal(Query(Scan("t", ()), (), (), (), ((),)))
    "Query(Scan('t',(),None,()),(),(),(),((),),None,(),None,0)"
    """
    return normal_text(query)


def normal_text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Call):
        args = FUNCTIONS[value.op].laws.arranged([normal_text(arg) for arg in value.args])
        return f"{value.op}[{','.join(args)}]:{normal_text(value.type)}"
    if is_dataclass(value):
        parts = (normal_text(getattr(value, f.name)) for f in fields(value) if "follows" not in f.metadata)
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple):
        return f"({','.join(map(normal_text, value))}{',' if len(value) == 1 else ''})"
    return repr(value)
