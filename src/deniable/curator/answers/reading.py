"""How an answer is to be read: what its least and largest values are, what NULL among its keys means, and
which of its numbers cannot be negative. All of it follows from the query, its plan and the released
table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from deniable.curator.answers.answer import Answer
from deniable.sql.after.afterwards import Afterwards
from deniable.sql.answer.evaluate import aggregates_in
from deniable.sql.answer.table import column_names, rank_error
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.request import Terms
from deniable.sql.tree import (
    AggregateRef,
    Call,
    Column,
    Expr,
    Filter,
    Join,
    KeyRef,
    Literal,
    PerUnit,
    Project,
    Query,
    Relation,
    Statistic,
    Union,
)

_COUNTS = (Statistic.COUNT, Statistic.COUNT_DISTINCT, Statistic.COUNT_UNITS)
_CUT = (Statistic.COUNT, Statistic.COUNT_DISTINCT, Statistic.SUM)
_PARTIAL = ("ln", "log10", "sqrt")
_ENDS = {Statistic.MIN: ("least", "below"), Statistic.MAX: ("largest", "above")}


def explain(
    answer: Answer, query: Query, terms: Terms, make_plan: Callable[[], Plan], *, nonnegative: bool
) -> Answer:
    """The answer to a query with what is to be known of it, and, if the reader wants that, without negative
    counts. Only what MIN and MAX are is read from the plan."""
    ends = []
    if any(aggregate.statistic in _ENDS for aggregate in query.aggregates):
        ends = _note_ends(make_plan())
    notes = (*ends, *_note_points(query, terms), *_note_undefined(query), *_note_nulls(query, answer.value))
    notes += (*_note_last_classes(query), *_note_caps(query, make_plan))
    answer = replace(answer, remarks=notes)
    if nonnegative:
        return cut(answer, not_negative(query))
    return answer


# ------------------------------------------------------------------------------------ what cannot be negative


def not_negative(query: Query) -> frozenset[str]:
    """The columns of an answer that are counts, or sums of values whose lower bound is not negative."""
    outputs = zip(column_names(query.outputs), query.outputs, strict=True)
    return frozenset(
        name
        for name, output in outputs
        if isinstance(output.of, AggregateRef) and _is_count(query, output.of.index)
    )


def _is_count(query: Query, index: int) -> bool:
    aggregate = query.aggregates[index]
    if aggregate.statistic in _COUNTS:
        return True
    return aggregate.statistic is Statistic.SUM and aggregate.bounds is not None and aggregate.bounds[0] >= 0


def not_negative_over(after: Afterwards) -> frozenset[str]:
    """Of what is said over released tables, such numbers that are shown as they were released."""
    return frozenset(
        name for name, (block, column) in after.direct.items() if column in not_negative(after.blocks[block])
    )


def cut(answer: Answer, columns: frozenset[str]) -> Answer:
    """The same answer with these numbers, and the ends of their intervals, at 0 where they are less.

    The true number is not negative: an interval that holds it still does when both ends are moved up to 0."""
    return replace(
        answer,
        value=_cut_table(answer.value, columns),
        low=_cut_table(answer.low, columns),
        high=_cut_table(answer.high, columns),
    )


def _cut_table(table: pa.Table, columns: frozenset[str]) -> pa.Table:
    for position, name in enumerate(table.column_names):
        if name in columns:
            column = table.column(position)
            zero = pa.scalar(0, pa.int64()).cast(column.type)
            at_least_zero = pc.if_else(pc.less(column, zero), zero, column)
            table = table.set_column(position, table.schema.field(position), at_least_zero)
    return table


# --------------------------------------------------------------------------------------------------- in words


def _note_ends(plan: Plan) -> list[str]:
    """What MIN and MAX are."""
    notes = []
    for name, index in _list_aggregates(plan.query):
        statistic = plan.query.aggregates[index].statistic
        if statistic not in _ENDS:
            continue
        word, side = _ENDS[statistic]
        rows = None
        if not plan.chooses:
            rows = rank_error(plan, index, float(plan.terms.beta))
        few = "a few rows"
        if rows is not None:
            few = f"{rows:,.0f} rows"
        notes.append(
            f"{statistic.upper()} in {name} is nobody's own value: no more than {few} lie {side} it "
            "(probability "
            f"{plan.terms.confidence:.6g}), and the {word} one lies between it and the bound of the values."
        )
    return notes


def _note_points(query: Query, terms: Terms) -> list[str]:
    """Quantiles without a bracket."""
    pairs = [] if terms.bracket else _list_aggregates(query)
    names = [name for name, i in pairs if query.aggregates[i].statistic is Statistic.QUANTILE]
    if names:
        return [f"{', '.join(names)}: all of ε went to the number (bracket=False), so it has no ±."]
    return []


def _note_last_classes(query: Query) -> list[str]:
    """Keys that are cut at a number, as those of a person's rows are."""
    notes = []
    for name, output in zip(column_names(query.outputs), query.outputs, strict=True):
        match output.of:
            case KeyRef(index, _):
                match query.keys[index].of:
                    case Call("least", (Column(), Literal(value, _)), _):
                        notes.append(f"{name} = {value} stands for {value} and more.")
    return notes


def _note_caps(query: Query, make_plan: Callable[[], Plan]) -> list[str]:
    """What is counted or summed of each person is cut at what the rows that count give."""
    reads_values = any(each.of is not None for each in query.aggregates)
    if not reads_values or not _counts_for_each_unit(query.relation):
        return []
    most = make_plan().unit.max_rows
    if most is None:
        return []
    rows = "1 row" if most == 1 else f"{most:,} rows"
    return [
        f"What the subquery counts or sums for each person is cut at what {rows} can give (max_rows). "
        "A larger value counts as that, and ± does not include the difference."
    ]


def _counts_for_each_unit(relation: Relation) -> bool:
    match relation:
        case PerUnit(of, _, aggregates):
            counts = any(each.statistic in _CUT for _, each in aggregates)
            return counts or _counts_for_each_unit(of)
        case Project(of) | Filter(of):
            return _counts_for_each_unit(of)
        case Join(left, right):
            return _counts_for_each_unit(left) or _counts_for_each_unit(right)
        case Union(parts):
            return any(map(_counts_for_each_unit, parts))
    return False


def _note_undefined(query: Query) -> list[str]:
    """What is taken of a logarithm or a root has no value where that has none."""
    names = [name for name, i in _list_aggregates(query) if _has_partial(query.aggregates[i].of)]
    if names:
        columns = ", ".join(dict.fromkeys(names))
        return [
            f"{columns}: rows where a logarithm (of 0 or less) or a root (of less than 0) is not defined "
            "are left out."
        ]
    return []


def _has_partial(of: Expr | None) -> bool:
    match of:
        case Call(op=op, args=args):
            return op in _PARTIAL or any(map(_has_partial, args))
    return False


def _list_aggregates(query: Query) -> list[tuple[str, int]]:
    """The columns of the answer, each with every aggregate in it."""
    outputs = zip(column_names(query.outputs), query.outputs, strict=True)
    return [(name, index) for name, output in outputs for index in sorted(aggregates_in(output.of))]


def _note_nulls(query: Query, table: pa.Table) -> list[str]:
    """What NULL means as a key, where it stands in the answer."""
    notes = []
    for name, output in zip(column_names(query.outputs), query.outputs, strict=True):
        if isinstance(output.of, KeyRef) and table.column(name).null_count:
            notes.append(f"NULL in {name}: {_explain_null(query, output.of.index)}.")
    return notes


def _explain_null(query: Query, index: int) -> str:
    own = "the rows that have no value there, a group like any other"
    domain = query.keys[index].domain
    if all(index in group for group in query.sets):
        return own
    total = "the total over all its values"
    if domain is not None:
        total += " that are on its public list (rows with any other are left out)"
    if domain is not None and None not in domain:
        return total
    return f"{total}, or {own}"
