"""Fields of struct columns, address.city, as the columns "address.city" that the owner declared.

Written address.city, v.address.city, (v.address).city, address['city'] or struct_extract(address, 'city'),
all of them are one name here, before any other is looked at. Where the same words could also mean a column
of a table in sight, nothing is guessed."""

from __future__ import annotations

from sqlglot import expressions as exp

from deniable.sql.read import hints
from deniable.sql.read.names import fold
from deniable.sql.refusals import refuse, shown
from deniable.sql.schema.declare import Schema

_STEPS = (exp.Dot, exp.Bracket, exp.StructExtract)


def with_declared_fields(tree: exp.Expr, schema: Schema) -> exp.Expr:
    """The same query with declared fields as columns, each under the last part of its name where it is
    selected.

    >>> import sqlglot
    >>> from deniable.sql.schema.declare import ColumnInfo, TableInfo
    >>> from deniable.sql.types import TEXT
    >>> schema = Schema((TableInfo("visits", (ColumnInfo("address.city", TEXT),)),))
    >>> text = "SELECT v.address.city FROM visits AS v WHERE (address).city <> 'x'"
    >>> print(with_declared_fields(sqlglot.parse_one(text, read="duckdb"), schema).sql())
    SELECT "v"."address.city" AS "city" FROM visits AS v WHERE "address.city" <> 'x'
    """
    paths = _declared(tree, schema)
    for node in list(tree.find_all(exp.Column, *_STEPS)):
        parts = [] if _is_inside(node) else _parts(node)
        column = None
        if len(parts) > 1:
            column = _resolved(node, parts, paths)
        if column is None and parts and isinstance(node, _STEPS):
            name = ".".join(parts)
            refuse(f"There is no column {shown(name)} here.", hints.of_struct_field(name))
        if column is None:
            continue
        # As engines name it; the name that is declared would need quotes.
        is_item = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        node.replace(exp.alias_(column, parts[-1], quoted=True) if is_item else column)
    return tree


def _declared(tree: exp.Expr, schema: Schema) -> dict[str, str]:
    """The fields that are declared of tables which the query names, by folded name."""
    tables = {fold(str(table.name)) for table in tree.find_all(exp.Table)}
    return {
        fold(column.name): column.name
        for table in schema.tables
        if fold(table.name) in tables
        for column in table.columns
        if "." in column.name
    }


def _is_inside(node: exp.Expr) -> bool:
    """A part of a longer name."""
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return isinstance(above, _STEPS) and _parts(above) != []


def _parts(node: exp.Expr) -> list[str]:
    """The names that are written one after another; none where something else is written."""
    match node:
        case exp.Column():
            if isinstance(node.this, exp.Star):
                return []
            return [str(part.name) for part in node.parts]
        case exp.Paren():
            return _parts(node.this)
        case exp.Dot() if isinstance(node.expression, exp.Identifier):
            return _longer(node.this, node.expression)
        case exp.StructExtract() if node.expression.is_string:
            return _longer(node.this, node.expression)
        case exp.Bracket() if len(node.expressions) == 1 and node.expressions[0].is_string:
            return _longer(node.this, node.expressions[0])
    return []


def _longer(base: exp.Expr, step: exp.Expr) -> list[str]:
    before = _parts(base)
    if before:
        return [*before, str(step.name)]
    return []


def _resolved(node: exp.Expr, parts: list[str], declared: dict[str, str]) -> exp.Column | None:
    name, rest = (declared.get(fold(".".join(each))) for each in (parts, parts[1:]))
    is_qualified = fold(parts[0]) in _in_sight(node)
    if name is not None and is_qualified:
        refuse(
            f"{shown('.'.join(parts))} may be a field of the column {shown(parts[0])}, or a column of the "
            "table of that name.",
            f"Give the table another name, like FROM {parts[0]} AS t.",
        )
    if name is not None:
        return exp.column(exp.to_identifier(name, quoted=True))
    if rest is not None and is_qualified and len(parts) > 2:
        return exp.column(
            exp.to_identifier(rest, quoted=True), table=exp.to_identifier(parts[0], quoted=True)
        )
    return None


def _in_sight(node: exp.Expr) -> set[str]:
    """The names of tables here and around, folded."""
    names: set[str] = set()
    select = node.find_ancestor(exp.Select)
    while select is not None:
        sources = [select.args.get("from_"), *(select.args.get("joins") or [])]
        names |= {fold(str(source.this.alias_or_name)) for source in sources if source is not None}
        select = select.find_ancestor(exp.Select)
    return names
