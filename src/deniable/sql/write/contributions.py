"""How one unit's contributions are bounded inside the engine, as SQL.

By weights: each row of a unit with n rows counts min(1, m/n), as the integer min(W, ⌊W·m/n⌋), so that a
unit's rows weigh at most m·W together, whatever they are: n·⌊W·m/n⌋ ≤ W·m, and n·W ≤ W·m where n ≤ m. n is
counted on the rows that reach the aggregate. A weight depends on that unit's own rows only. Two hash
aggregations and a join, no sort.

By choice, where whole things are needed: at most k of a unit's different (group, value)
pairs, those with the least keyed hash; ties are broken by the values themselves, never by the
order of rows, so the choice depends on that unit's own rows only.

Every sensitivity of a query rests on the numbers below, so they are written here and nowhere else. No sum can
overflow: a weight is at most TOTAL = 2^24 and a grid unit at most 2^(VALUE_BITS − 1) = 2^30, so a product
fits in 64 bits, and fewer than 2^40 of them sum to less than 2^94, which 128 bits and 38 decimal digits hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deniable.sql.dialects.dialect import Dialect, whole
from deniable.sql.tree import Expr, Key, Literal, Relation
from deniable.sql.write import relations

ONE = 1 << 20
"""The weight of a row that counts in full."""
TOTAL = 1 << 24
"""What a unit's rows weigh together where their number is bounded privately: the loss
must not depend on the choice."""
VALUE_BITS = 31
"""Values are put on a grid on which none is beyond ±2^(VALUE_BITS − 1)."""
MOST_ROWS = 1 << 16
"""The largest contribution bound that may be chosen."""
MOST_ROWS_DECLARED = 1 << 40
"""The largest max_rows: no table has more rows, and ONE times it fits in 64 bits on every engine."""
MOST_TOLD = 1 << 30
"""The largest cap up to which rows that a bound leaves out are told: products of two such caps fit in 64
bits."""
LOOKED_UP_FROM = 16
"""From this bound on it is taken that few units are above it: only these are looked up for their rows. It
is a guess about speed by what is declared, and never looks at the data; the integers are the same either
way."""
SIZES = "_sizes"
"""The common table of units with their numbers of rows. No declared table begins with "_"."""
WEIGHT = "_weight"
"""The column that `prepare` adds: what a row counts, in units of 1/ONE."""


def weight(one: int, rows: int, dialect: Dialect) -> str:
    """The weight of each row of a unit, as an aggregate over the unit's rows: min(one,
    ⌊one·rows/n⌋) for n of them.

    n times it is at most one·rows, whatever n is (docs/theory/curator.md, Theorem 1).
    """
    share = f"LEAST({one}, {dialect.quotient(whole(one * rows), 'COUNT(*)')})"
    return dialect.small(share)  # at most 2^24


def excess(rows: int, most: int, dialect: Dialect) -> str:
    """What the bound leaves out of each row of a unit, up to `most` rows of it, as an aggregate over the
    unit's rows: ⌊TOTAL·(min(n, most) − rows)⁺/(n·(most − rows))⌋ for n of them.

    n times it is at most TOTAL, whatever n is (docs/theory/curator.md, Theorem 9).
    """
    row_count = f"LEAST(COUNT(*), {whole(most)})"  # so that no branch overflows, taken or not
    between = dialect.quotient(f"(({row_count} - {rows}) * {TOTAL})", f"({row_count} * {whole(most - rows)})")
    beyond = dialect.quotient(whole(TOTAL), "COUNT(*)")
    share = f"CASE WHEN COUNT(*) <= {rows} THEN 0 WHEN COUNT(*) < {most} THEN {between} ELSE {beyond} END"
    return dialect.small(share)  # at most 2^24


def row_weight(limit: Limit, count: int) -> int:
    """`weight` for a unit of `count` rows, computed here: the same integer."""
    return min(limit.one, limit.total // count)


def row_excess(limit: Limit, count: int) -> int:
    """`excess` for a unit of `count` rows, computed here: the same integer."""
    if not limit.tells or count <= limit.rows:
        return 0
    if count < limit.most:
        return (count - limit.rows) * TOTAL // (count * (limit.most - limit.rows))
    return TOTAL // count


def stored_excess(rows: int, most: int, dialect: Dialect) -> str:
    """The same of a stored weight w: ⌊(min(ONE·rows, w·most) − w·rows)·TOTAL/(ONE·rows·(most − rows))⌋, at
    most TOTAL/ONE·w/rows, so at most TOTAL for all rows of a unit."""
    column = dialect.quote(WEIGHT)
    above = f"LEAST({whole(ONE * rows)}, {column} * {whole(most)}) - {column} * {whole(rows)}"
    share = dialect.quotient(f"(({above}) * {TOTAL // ONE})", whole(rows * (most - rows)))
    return f"(CASE WHEN {column} < {ONE} THEN {share} ELSE 0 END)"


@dataclass(frozen=True)
class Limit:
    """How much of a unit counts: `rows` rows and `groups` groups of it in full, a full row weighing `one`.

    What that leaves out is told up to `most` rows of a unit, where `most` is above `rows`.
    `by_unit` is False where the unit is a row, which may reach the aggregate `rows` times (UNION ALL).
    `stored` weights lie in the column "_weight" of a prepared table. `bounded=False` leaves the bounding out:
    only for audits that must find it.
    """

    by_unit: bool
    rows: int = 1
    groups: int = 1
    one: int = 1
    stored: bool = False
    bounded: bool = True
    most: int = 0

    @property
    def total(self) -> int:
        """What all rows of one unit weigh at most."""
        return self.rows * self.one

    @property
    def tells(self) -> bool:
        """Whether there are weights of what the bound leaves out."""
        return self.by_unit and self.bounded and self.most > self.rows

    @property
    def looks_up(self) -> bool:
        """Whether only units above the bound are looked up: all others' rows count in full."""
        return self.by_unit and self.bounded and not self.stored and self.rows >= LOOKED_UP_FROM


def rows(
    relation: Relation,
    columns: Sequence[tuple[str, Expr]],
    dialect: Dialect,
    *,
    by_unit: bool,
    stored: bool = False,
) -> str:
    """The rows that reach the aggregate: the named expressions over `relation`, with the
    unit where it is a column."""
    names = [f"{relations.expression(of, dialect)} AS {dialect.quote(name)}" for name, of in columns]
    extras = [dialect.quote("_unit")] if by_unit else []
    extras += [dialect.quote(WEIGHT)] if stored else []
    return (
        f"SELECT {', '.join(extras + names) or '1 AS ' + dialect.quote('_one')} "
        f"FROM ({relations.relation(relation, dialect)}) AS {dialect.quote('_relation')}"
    )


def inside(keys: Sequence[tuple[str, Key]], dialect: Dialect) -> str:
    """A condition on key columns: those with a public list of values are on it. Empty where no key has
    one."""
    return " AND ".join(_on_list(name, key, dialect) for name, key in keys if key.domain is not None)


def _on_list(name: str, key: Key, dialect: Dialect) -> str:
    column = dialect.quote(name)
    literals = [
        relations.expression(Literal(v, key.of.type), dialect) for v in key.domain or () if v is not None
    ]
    tests = [dialect.one_of(column, literals)] if literals else []
    tests += [f"{column} IS NULL"] if None in (key.domain or ()) else []
    return f"({' OR '.join(tests) or '1 = 0'})"


def weighted(text: str, limit: Limit, condition: str, dialect: Dialect) -> tuple[str, str]:
    """What to put after FROM so that each row of `text` has its weight, and the weight's name there.

    Only the rows that meet `condition` count towards n; the caller drops the groups of other rows, and those
    of units of which no row meets it are dropped here or count for nothing else. Written twice rather than as
    a common table: engines then scan twice and store nothing.

    Where few units are above the bound, only these are joined: the weight of all others is LEAST(one, …) =
    one, as n ≤ rows, and nothing is left out of them. That rests on every row of `text` having a unit, which
    `relations` sees to: a row without one would count here and be in nobody's bound.
    """

    q = dialect.quote

    if not limit.by_unit or not limit.bounded or limit.stored:
        name = q(WEIGHT) if limit.stored else str(limit.one)
        return f"({text}) AS {q('_rows')}", name
    weights = f"{weight(limit.one, limit.rows, dialect)} AS {q('_w')}"
    if limit.tells:
        weights += f", {excess(limit.rows, limit.most, dialect)} AS {q('_e')}"
    if not limit.looks_up:
        return _with_units(text, weights, condition, dialect), q("_w")
    above = f" HAVING COUNT(*) > {whole(limit.rows)}"
    source = _with_units(text, weights, condition, dialect, "LEFT JOIN", above)
    return source, f"COALESCE({q('_w')}, {limit.one})"


def by_units(text: str, limit: Limit, dialect: Dialect) -> tuple[str, str]:
    """The same where each unit counts as one, for limit.total, its n rows by equal shares: n·⌊total/n⌋, or,
    of what would not fit in a weight, n·⌊one/n⌋·rows; both are at most the total. Stored weights stay: they
    sum to no more."""
    if not limit.by_unit or limit.stored:
        return weighted(text, limit, "", dialect)
    person, times = (limit.total, 1) if limit.total <= TOTAL else (limit.one, limit.rows)
    source, share = weighted(text, replace(limit, rows=1, one=person, most=0), "", dialect)
    return source, f"{share} * {whole(times)}"


def sized(text: str, condition: str, dialect: Dialect) -> tuple[str, str]:
    """What to put after FROM so that each row of `text` has the number of rows of its unit that meet
    `condition`, and that number's name there."""
    size = dialect.quote("_n")
    return _with_units(text, f"COUNT(*) AS {size}", condition, dialect), size


def summed(text: str, totals: Mapping[str, str], dialect: Dialect) -> tuple[str, str]:
    """What to put after FROM for one row of each unit of `text`, with the number of its rows and `totals` of
    them, by their names there, and that number's name."""
    unit, size = dialect.quote("_unit"), dialect.quote("_n")
    columns = ", ".join([f"COUNT(*) AS {size}", *(f"{total} AS {name}" for name, total in totals.items())])
    rows = f"({text}) AS {dialect.quote('_rows')} WHERE {unit} IS NOT NULL"
    return f"(SELECT {columns} FROM {rows} GROUP BY {unit}) AS {dialect.quote('_person')}", size


def _with_units(
    text: str, numbers: str, condition: str, dialect: Dialect, join: str = "JOIN", having: str = ""
) -> str:
    """The rows of `text` beside `numbers`, which are aggregates over the rows of their unit.

    By an inner join a row without them is dropped. (An outer one of all units took 5 % less for people of 63
    bits, and half as much again for those that are joined by position.)"""
    q = dialect.quote
    unit = _units(text, numbers, condition, dialect) + having
    return f"({text}) AS {q('_rows')} {join} ({unit}) AS {q('_person')} ON {q('_unit')} = {q('_id')}"


def _units(text: str, numbers: str, condition: str, dialect: Dialect) -> str:
    q = dialect.quote
    return (
        f"SELECT {q('_unit')} AS {q('_id')}, {numbers} FROM ({text}) AS "
        f"{q('_counted')}{_where(condition)} GROUP BY {q('_unit')}"
    )


def parted(
    text: str, keys: Sequence[str], totals: Sequence[str], bound: int, condition: str, dialect: Dialect
) -> tuple[tuple[str, str], str]:
    """A common table and a SELECT from it, for `keys` of groups, a number n, and `totals`.

    Three kinds of lines, which n tells apart: n > bound, `totals` over the rows of units with n rows; n = 0,
    over all rows that meet `condition`; n < 0, without keys, the number of units with −n rows, at most the
    bound, in place of the first total. One statement, so that all three see the same rows: the rows of units
    at or below the bound are all but those above, and none is there twice."""
    q = dialect.quote
    name, size = q(SIZES), q("_n")
    columns = ", ".join([*keys, size, *map(dialect.as_text, totals)])
    rows = f"({text}) AS {q('_rows')}"
    many = f"(SELECT * FROM {name} WHERE {size} > {whole(bound)}) AS {q('_person')}"
    above = f"{rows} JOIN {many} ON {q('_unit')} = {q('_id')}"
    every = ", ".join([*keys, f"{whole(0)} AS {size}", *map(dialect.as_text, totals)])
    nothing = ["NULL"] * len(keys), [dialect.as_text("0")] * (len(totals) - 1)
    few = ", ".join([*nothing[0], f"-{size}", dialect.as_text("COUNT(*)"), *nothing[1]])
    select = (
        f"SELECT {columns} FROM {above} GROUP BY {', '.join([*keys, size])} UNION ALL "
        f"SELECT {every} FROM {rows}{_where(condition)} GROUP BY {', '.join(keys)} UNION ALL "
        f"SELECT {few} FROM {name} WHERE {size} <= {whole(bound)} GROUP BY {size}"
    )
    return (SIZES, _units(text, f"COUNT(*) AS {size}", condition, dialect)), select


def class_edges(declared: int | None) -> tuple[int, ...]:
    """Up to how many rows the units of each class have: powers of two; with a declared bound those below it,
    the bound itself, and its doubles."""
    if declared is None:
        return tuple(1 << i for i in range(MOST_ROWS.bit_length()))
    below = tuple(1 << i for i in range((declared - 1).bit_length()))
    doubles = (declared << i for i in range(MOST_ROWS.bit_length()))
    return (*below, declared, *(edge for edge in doubles if declared < edge <= MOST_TOLD))


def classes(text: str, unit: str, edges: Sequence[int], dialect: Dialect) -> str:
    """The class of each number of rows of a unit of `text`, which is its column `unit` (SQL), the last for
    whatever is more, and how many units are in it: a unit is in one class."""
    q = dialect.quote
    size, label = q("_n"), q("_class")
    sizes = f"SELECT COUNT(*) AS {size} FROM ({text}) AS {q('_r')} GROUP BY {unit}"
    steps = " ".join(f"WHEN {size} <= {edge} THEN {i}" for i, edge in enumerate(edges[:-1]))
    which = f"CASE {steps} ELSE {len(edges) - 1} END" if steps else "0"
    labels = f"SELECT {which} AS {label} FROM ({sizes}) AS {q('_s')}"
    return f"SELECT {label}, COUNT(*) FROM ({labels}) AS {q('_c')} GROUP BY {label}"


def excess_weight(limit: Limit, dialect: Dialect) -> str:
    """What the bound leaves out of a row of `weighted`, in units of (most − rows)/TOTAL rows."""
    if not limit.tells:
        return "0"
    if limit.stored:
        return stored_excess(limit.rows, limit.most, dialect)
    return f"COALESCE({dialect.quote('_e')}, 0)" if limit.looks_up else dialect.quote("_e")


def meeting(text: str, condition: str, dialect: Dialect) -> str:
    """The rows of `text` that meet `condition`."""
    return f"SELECT * FROM ({text}) AS {dialect.quote('_listed')}{_where(condition)}" if condition else text


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def chosen(text: str, names: Sequence[str], most: int, salt: str, dialect: Dialect) -> str:
    """The rows of `text` that hold one of the `most` values of `names` with the least keyed hash for their
    unit.

    One ranking of the rows, in which those of equal values share a rank: what is ranked alike is one value to
    DISTINCT too, so at most `most` different ones are left. The salt keeps an analyst from knowing whose
    value stays; any salt keeps the bound.
    """

    q = dialect.quote

    columns = ", ".join(q(name) for name in names)
    order = f"{dialect.scrambled(salt, q('_unit'), [q(name) for name in names])}, {columns}"
    rank = f"DENSE_RANK() OVER (PARTITION BY {q('_unit')} ORDER BY {order}) AS {q('_rank')}"
    ranking = f"SELECT {columns}, {rank} FROM ({text}) AS {q('_all')}"
    return f"SELECT {columns} FROM ({ranking}) AS {q('_ranked')} WHERE {q('_rank')} <= {most}"


def stored(table: str, unit: str, columns: Sequence[str], rows: int, dialect: Dialect) -> str:
    """The rows of a table that have a unit, each with what it counts as WEIGHT, for
    `rows` rows of a unit that count.

    A function of that unit's own rows: the weights of one unit sum to at most rows·ONE,
    and no filter can make that more.
    """
    name, who, mark = dialect.quote(table), dialect.unit(table, unit), dialect.quote(WEIGHT)
    own = f"{weight(ONE, rows, dialect)} AS {mark}"
    person = f"SELECT {who}, {own} FROM {name} WHERE {who} IS NOT NULL GROUP BY {who}"
    items = ", ".join([*(f"t.{dialect.quote(column)}" for column in columns), f"person.{mark}"])
    return f"WITH person AS ({person}) SELECT {items} FROM {name} AS t JOIN person ON t.{who} = person.{who}"
