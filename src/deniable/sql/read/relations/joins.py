"""Joins: two relations become one, each row still of one unit of privacy.

Two private sides meet on the unit. An equality of units says so, and so does one between columns that the
owner declared to lead to the same rows (`orders.id` and `lineitem.order_id`, whose unit lies behind
`orders.id`): the unit is then compared as well, which changes nothing where the declaration is true and
keeps people apart where it is not. A public side is met on columns that identify its rows, so that nothing
multiplies. Rows that an outer join would make of public rows alone carry no unit and are not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.read.names import Field, Scope, fold
from deniable.sql.read.relations.join_sizes import bounded, rarely_repeated
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Column, Expr, Join, JoinKind, JoinSide, Literal, Project
from deniable.sql.types_relations import columns, readings, several
from deniable.units import Unit, UnitKind

MAX_READINGS = 256
"""How often tables may be read in all: a WITH that is named twice, in one that is named twice, … grows
fast."""

Pairs = list[tuple[Field, Field]]


@dataclass(frozen=True)
class Obstacle:
    """Why two sides cannot be joined so, and the way out."""

    what: str
    way_out: str

    def refuse(self) -> NoReturn:
        refuse(self.what, self.way_out)


NO_EQUALITY = Obstacle(
    "A join without an equality between its two sides is not answered.",
    "Use JOIN … ON a.x = b.x; a generate_series(…) or VALUES that the query writes out is joined by any "
    "condition.",
)


# ------------------------------------------------------------------------------------------------ conditions


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that all must hold; of alternatives those that are in every one of them."""
    parts: list[exp.Expr] = []
    waiting = [node] if node is not None else []
    while waiting:
        part = waiting.pop()
        if isinstance(part, (exp.And, exp.Paren)) and not _is_choice(part):
            waiting += [x for x in (part.args.get("expression"), part.this) if x is not None]
        else:
            parts.append(part)
    return [*parts, *_find_shared(parts)]


def _is_choice(node: exp.Expr) -> bool:
    return isinstance(node, exp.Paren) and isinstance(node.unnest(), exp.Or)


def _find_shared(parts: Iterable[exp.Expr]) -> list[exp.Expr]:
    """(a = b AND c) OR (a = b AND d) holds only where a = b does."""
    equalities: list[exp.Expr] = []
    for part in parts:
        inner = part.unnest() if isinstance(part, exp.Paren) else part
        if isinstance(inner, exp.Or):
            first, *others = (conjuncts(choice) for choice in inner.flatten())
            equalities += [x for x in first if isinstance(x, exp.EQ) and all(x in other for other in others)]
    return equalities


def pairs_of(left: Scope, right: Scope, parts: Iterable[exp.Expr]) -> tuple[Pairs, list[exp.Expr]]:
    """The equalities between the two sides, and the other conditions."""
    pairs, rest = [], []
    for part in parts:
        pair = _pair(left, right, part)
        if pair is None:
            rest.append(part)
        else:
            pairs.append(pair)
    return pairs, rest


def _pair(left: Scope, right: Scope, node: exp.Expr) -> tuple[Field, Field] | None:
    sides = (node.this, node.args.get("expression")) if isinstance(node, exp.EQ) else (None, None)
    candidates = [_find_fields(left, right, side) for side in map(_strip_brackets, sides)]
    match candidates:
        case [(Field() as a, None), (None, Field() as b)]:
            return a, b
        case [(None, Field() as b), (Field() as a, None)]:
            return a, b
    return None


def _strip_brackets(node: exp.Expr | None) -> exp.Expr | None:
    if isinstance(node, exp.Paren):
        return node.unnest()
    return node


def _find_fields(left: Scope, right: Scope, node: exp.Expr | None) -> tuple[Field | None, Field | None]:
    """A column as the field that it names on each side; nothing where it is not one of them alone."""
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None, None
    return left.named_by(node), right.named_by(node)


# ------------------------------------------------------------------------------------------------ one join


@dataclass(frozen=True)
class Meeting:
    """Two sides and the equalities between them. `kind` says whose rows stay without a match."""

    left: Scope
    right: Scope
    pairs: Pairs
    kind: JoinKind = JoinKind.INNER
    using: frozenset[str] = frozenset()

    @property
    def on_unit(self) -> bool:
        return any(tied(a, b) for a, b in self.pairs)

    def obstacle(self, unit: Unit) -> Obstacle | None:
        if not self.pairs:
            return NO_EQUALITY
        if self.left.private and self.right.private and not self.on_unit:
            return _mixing(unit)
        public = [side for side in enumerate((self.left, self.right)) if not side[1].private]
        if public and not any(_is_unique(side, [pair[at] for pair in self.pairs]) for at, side in public):
            return Obstacle(
                "A public table is joined on columns that identify its rows, so that a join multiplies "
                "nothing.",
                "Ask the owner to declare them as unique, and join on all of them.",
            )
        return None

    def joined(self, unit: Unit) -> Scope:
        obstacle = self.obstacle(unit)
        if obstacle is not None:
            obstacle.refuse()
        kind = _restrict_kind(self.kind, self.left, self.right)
        if kind is JoinKind.RIGHT:
            return replace(
                self, left=self.right, right=self.left, pairs=_swap_pairs(self.pairs), kind=JoinKind.LEFT
            ).joined(unit)
        return replace(self, kind=kind)._scope()

    def _scope(self) -> Scope:
        on = tuple(_equal(a, b) for a, b in self.pairs if not (a.unit and b.unit))
        left, right, side = self._few_rows(on)
        if self.kind is not JoinKind.INNER:
            right = _mark_presence(right, len(columns(left.relation)))
        join = Join(left.relation, right.relation, on, self.on_unit, self.kind, side)
        return bounded_readings(_merge_scopes(left, right, join, self.using))

    def _few_rows(self, on: tuple[tuple[str, str], ...]) -> tuple[Scope, Scope, JoinSide | None]:
        """Both sides of a join on the unit without the units that would make too many rows of it."""
        left, right = self.left, self.right
        if not (self.on_unit and several(left.relation) and several(right.relation)):
            return left, right, None
        identities = [
            side
            for pair in self.pairs
            for side, field in zip((JoinSide.RIGHT, JoinSide.LEFT), reversed(pair), strict=True)
            if _same_key(*pair) and field.identifies
        ]
        if not identities:
            sides = bounded(left.relation, right.relation)
            return replace(left, relation=sides[0]), replace(right, relation=sides[1]), None
        if identities[0] is JoinSide.RIGHT:
            names = tuple(b for _, b in on)
            return left, replace(right, relation=rarely_repeated(right.relation, names)), JoinSide.RIGHT
        names = tuple(a for a, _ in on)
        return replace(left, relation=rarely_repeated(left.relation, names)), right, JoinSide.LEFT


def _mark_presence(scope: Scope, place: int) -> Scope:
    """A side that may be missing, with a column that says whether it is there, for units that have none."""
    if not any(f.unit and f.column is None for f in scope.fields):
        return scope
    own = columns(scope.relation)
    mark = Column(f"_p{place + len(own)}", types.BOOLEAN)
    items: list[tuple[str, Expr]] = [(c.name, c) for c in own]
    items.append((mark.name, Literal(True, types.BOOLEAN)))
    fields = [replace(f, presence=mark) if f.unit and f.column is None else f for f in scope.fields]
    return replace(scope, relation=Project(scope.relation, tuple(items)), fields=tuple(fields))


def _swap_pairs(pairs: Pairs) -> Pairs:
    return [(b, a) for a, b in pairs]


def tied(a: Field, b: Field) -> bool:
    """Whether equal values are one unit's, by what the owner declared."""
    return (a.unit and b.unit) or _same_key(a, b)


def _same_key(a: Field, b: Field) -> bool:
    return a.key is not None and a.key == b.key


def _restrict_kind(kind: JoinKind, left: Scope, right: Scope) -> JoinKind:
    """Without the rows that would be of public rows alone: they carry no unit."""
    keeps_left = kind in (JoinKind.LEFT, JoinKind.FULL) and bool(left.private or not right.private)
    keeps_right = kind in (JoinKind.RIGHT, JoinKind.FULL) and bool(right.private or not left.private)
    if keeps_left and keeps_right:
        return JoinKind.FULL
    if keeps_left:
        return JoinKind.LEFT
    if keeps_right:
        return JoinKind.RIGHT
    return JoinKind.INNER


def _mixing(unit: Unit) -> Obstacle:
    """Two private tables beside one another, and not on the unit."""
    if unit.kind is UnitKind.ROW:
        return Obstacle(
            "Two private tables cannot be joined where the unit of privacy is a row.",
            "Join public tables only.",
        )
    return Obstacle(
        "Two private tables are joined on the unit of privacy only.",
        f"If the rows that meet always belong to one {unit.column_name}, join on {unit.column_name} as well. "
        "If not, aggregate each table by itself and join the two results.",
    )


def _is_unique(public: Scope, on: list[Field]) -> bool:
    """Whether the columns of a join name at most one row of a public side."""
    names = {f.column.name for f in on if f.column is not None}
    return bool(public.unique) and public.unique <= names


def _equal(a: Field, b: Field) -> tuple[str, str]:
    here, there = same_types(a, b)
    return here.name, there.name


def same_types(a: Field, b: Field) -> tuple[Column, Column]:
    """The columns of two fields that are equated."""
    if a.column is None or b.column is None:
        refuse(
            f"The unit of privacy {shown((a if a.column is None else b).name)} joins only the unit of the "
            "other side."
        )
    if (a.column.type.kind, a.column.type.scale) != (b.column.type.kind, b.column.type.scale):
        refuse(
            f"The columns {shown(a.name)} and {shown(b.name)} have different types: "
            f"{types.name(a.column.type)} and {types.name(b.column.type)}.",
            "Use CAST in a subquery.",
        )
    return a.column, b.column


def _merge_scopes(left: Scope, right: Scope, join: Join, using: frozenset[str]) -> Scope:
    ours = [replace(f, hidden=f.hidden or fold(f.name) in using) for f in right.fields]
    theirs = list(left.fields)
    if join.kind is not JoinKind.INNER:
        ours = [_missing_too(f) for f in ours]
    if join.kind is JoinKind.FULL:
        theirs = [_take_either(f, using) for f in theirs]
    # Of two public tables the right one was met on its unique columns, or else the left one was.
    on = frozenset(pair[1] for pair in join.on)
    unique = right.unique
    if right.unique and right.unique <= on:
        unique = left.unique
    private = left.private | right.private
    return Scope(join, (*theirs, *ours), private, frozenset() if private else unique)


def _missing_too(f: Field) -> Field:
    """A column of the side that may be missing: beside rows without a match it is NULL, and so is that side's
    unit, which is therefore not the unit of the row."""
    values = f.domain
    if f.domain is not None and None not in f.domain:
        values = (*f.domain, None)
    return replace(f, domain=values, unit=False, key=None)


def _take_either(f: Field, using: frozenset[str]) -> Field:
    """A column of the left side of a FULL JOIN. The unit that both sides are joined by, without a table's
    name before it, is the unit of the row."""
    if f.unit and fold(f.name) in using:
        return replace(f, table="", column=None)
    return _missing_too(f)


def bounded_readings(scope: Scope) -> Scope:
    if readings(scope.relation) > MAX_READINGS:
        refuse(
            f"Expected tables to be read at most {MAX_READINGS} times in one query.", "Ask for less at once."
        )
    return scope


def _rename_field(field: Field, names: Mapping[Column, str]) -> Field:
    if field.column is None:
        return field
    return replace(field, column=Column(names[field.column], field.column.type))


def apart(right: Scope, left: Scope) -> Scope:
    """The right side with its columns renamed where the left has the same names."""
    names = {c.name for c in columns(left.relation)}
    if not names & {c.name for c in columns(right.relation)}:
        return right
    fresh = {c: f"r{len(names)}_{i}" for i, c in enumerate(columns(right.relation))}
    relation = Project(right.relation, tuple((name, column) for column, name in fresh.items()))
    fields = (_rename_field(f, fresh) for f in right.fields)
    unique = frozenset(fresh[c] for c in fresh if c.name in right.unique)
    return replace(right, relation=relation, fields=tuple(fields), unique=unique)
