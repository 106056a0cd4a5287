"""One form for all blocks that release the same: keys, then aggregates, each under a name of its own.

What a block is called, how its columns are named and ordered, and what is said over it afterwards do not change
what it releases; so they do not change the key under which the release is kept."""

from __future__ import annotations

from dataclasses import replace

from deniable.sql.answer.cache_key import normal_text
from deniable.sql.tree import AggregateRef, KeyRef, Output, Query


def canonical(query: Query) -> tuple[Query, list[str]]:
    """The same release, and for each output of `query`, all of which are keys or aggregates, its column there."""
    keys = sorted(range(len(query.keys)), key=lambda i: normal_text(query.keys[i].of))
    aggregates = sorted(range(len(query.aggregates)), key=lambda i: normal_text(query.aggregates[i]))
    outputs = [Output(f"k{at}", KeyRef(at, query.keys[i].of.type)) for at, i in enumerate(keys)]
    types = {
        output.of.index: output.of.type for output in query.outputs if isinstance(output.of, AggregateRef)
    }
    outputs += [Output(f"a{at}", AggregateRef(at, types[i])) for at, i in enumerate(aggregates)]
    form = Query(
        query.relation,
        tuple(replace(query.keys[i], name=f"k{at}") for at, i in enumerate(keys)),
        tuple(query.aggregates[i] for i in aggregates),
        tuple(outputs),
        tuple(tuple(sorted(keys.index(i) for i in group)) for group in query.sets),
    )
    return form, [_place(output, keys, aggregates) for output in query.outputs]


def _place(output: Output, keys: list[int], aggregates: list[int]) -> str:
    match output.of:
        case KeyRef(index, _):
            return f"k{keys.index(index)}"
        case AggregateRef(index, _):
            return f"a{aggregates.index(index)}"
    raise AssertionError("A block releases keys and aggregates only.")
