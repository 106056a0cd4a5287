"""pg_catalog and information_schema, from synthetic tables of what is declared: a DuckDB that has no data and
reaches none.

A query comes as a tree. Only tables and functions that are listed here pass; names and functions of
PostgreSQL become those of this engine; whatever else is named is refused. So nothing of the machine (files,
settings, other databases) can be read by this way, and a private table is not there to be mistaken for an
empty one. What is left is run where statements over released tables are run, under the same limits: in a
process that has the tables which are named, and nothing else.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import expressions as exp

from deniable.errors import InvalidQuery
from deniable.server.wire import values
from deniable.server.wire.catalog_rows import TYPES, rows
from deniable.server.wire.messages import ColumnDescription
from deniable.sql.after.closed.connection import SUBJECT, Closed, Tables, quoted
from deniable.sql.schema.declare import Schema

VERSION = "16.4"
MOST_ROWS = 10_000
ROOMS = {"pg_catalog": "cat_", "information_schema": "info_"}
"""How the names of tables begin that are in these schemas."""


def _allows(privilege: str, last: str, previous: str) -> str:
    """Whether a list of privileges, the last argument however many there are, names the one that people have.
    Nobody may grant it on."""
    end, other = (f"CAST({name} AS VARCHAR)" for name in (last, previous))
    wish = f"CASE WHEN {end} = '' THEN {other} ELSE {end} END"
    return f"list_contains(string_split(regexp_replace(upper({wish}), '\\s+', '', 'g'), ','), '{privilege}')"


MACROS = {
    "pg_get_userbyid": "(x) AS 'deniable'",
    "pg_table_is_visible": "(x) AS true",
    "pg_type_is_visible": "(x) AS true",
    "pg_function_is_visible": "(x) AS true",
    "pg_get_expr": "(a, b, c := false) AS CAST(NULL AS VARCHAR)",
    "pg_get_constraintdef": "(a, b := false) AS CAST(NULL AS VARCHAR)",
    "pg_get_indexdef": "(a, b := 0, c := false) AS CAST(NULL AS VARCHAR)",
    "pg_get_viewdef": "(a, b := false) AS CAST(NULL AS VARCHAR)",
    "pg_get_partkeydef": "(a) AS CAST(NULL AS VARCHAR)",
    "pg_get_serial_sequence": "(a, b) AS CAST(NULL AS VARCHAR)",
    "pg_get_statisticsobjdef_columns": "(a) AS CAST(NULL AS VARCHAR)",
    "pg_get_triggerdef": "(a, b := false) AS CAST(NULL AS VARCHAR)",
    "pg_get_ruledef": "(a, b := false) AS CAST(NULL AS VARCHAR)",
    "pg_get_function_identity_arguments": "(a) AS CAST(NULL AS VARCHAR)",
    "pg_is_in_recovery": "() AS false",
    "pg_encoding_to_char": "(x) AS 'UTF8'",
    "pg_backend_pid": "() AS 1",
    "pg_relation_is_publishable": "(x) AS false",
    "pg_table_size": "(x) AS CAST(NULL AS BIGINT)",
    "pg_total_relation_size": "(x) AS CAST(NULL AS BIGINT)",
    "pg_relation_size": "(x) AS CAST(NULL AS BIGINT)",
    "pg_database_size": "(x) AS CAST(NULL AS BIGINT)",
    "pg_size_pretty": "(x) AS CAST(NULL AS VARCHAR)",
    "pg_tablespace_location": "(x) AS ''",
    "pg_my_temp_schema": "() AS 0",
    "pg_is_other_temp_schema": "(x) AS false",
    "obj_description": "(a, b := '') AS CAST(NULL AS VARCHAR)",
    "shobj_description": "(a, b := '') AS CAST(NULL AS VARCHAR)",
    "col_description": "(a, b) AS CAST(NULL AS VARCHAR)",
    "has_table_privilege": f"(a, b, c := '') AS {_allows('SELECT', 'c', 'b')}",
    "has_schema_privilege": f"(a, b, c := '') AS {_allows('USAGE', 'c', 'b')}",
    "has_database_privilege": f"(a, b, c := '') AS {_allows('CONNECT', 'c', 'b')}",
    "has_column_privilege": f"(a, b, c, d := '') AS {_allows('SELECT', 'd', 'c')}",
    "has_any_column_privilege": f"(a, b, c := '') AS {_allows('SELECT', 'c', 'b')}",
    "array_upper": "(a, b) AS len(a)",
    "_pg_expandarray": "(a) AS {'x': CAST(NULL AS BIGINT), 'n': CAST(NULL AS BIGINT)}",
    "pg_collation_is_visible": "(x) AS true",
    "pg_opclass_is_visible": "(x) AS true",
    "pg_operator_is_visible": "(x) AS true",
    "pg_statistics_obj_is_visible": "(x) AS true",
    "pg_partition_ancestors": "(x) AS TRY_CAST(x AS BIGINT)",
    "generate_subscripts": "(a, b) AS unnest(generate_series(1, len(a)))",
    "pg_get_function_arguments": "(x) AS ''",
    "pg_get_function_result": "(x) AS ''",
    "pg_get_acl": "(a, b, c) AS CAST(NULL AS VARCHAR)",
    "acldefault": "(a, b) AS CAST(NULL AS VARCHAR)",
    "quote_ident": "(x) AS x",
    "to_regtype": "(x) AS CAST(NULL AS VARCHAR)",
    "to_regclass": "(x) AS (SELECT CAST(oid AS VARCHAR) FROM cat_pg_class "
    "WHERE relname = replace(x, 'public.', ''))",
    "set_config": "(a, b, c) AS b",
    "current_setting": "(a, b := false) AS CASE a "
    "WHEN 'server_version_num' THEN '160004' WHEN 'server_version' THEN '16.4' "
    "WHEN 'search_path' THEN 'public' WHEN 'max_index_keys' THEN '32' WHEN 'TimeZone' THEN 'UTC' ELSE '' END",
    "txid_current": "() AS 1",
    "format_type": "(x, y) AS CASE x "
    + " ".join(f"WHEN {oid} THEN '{name[1]}'" for oid, name in TYPES.items())
    + " ELSE '???' END",
    "deniable_relname": "(x) AS (SELECT relname FROM cat_pg_class WHERE oid = TRY_CAST(x AS BIGINT))",
}
"""Functions of PostgreSQL, as far as tools ask for them; sizes and activity are nobody's to know."""
MACRO_TEXTS = {f"pgx_{name}": f"CREATE MACRO pgx_{name}{body}" for name, body in MACROS.items()}
PLAIN = (
    *(
        exp.Lower,
        exp.Upper,
        exp.Coalesce,
        exp.Case,
        exp.If,
        exp.Cast,
        exp.Count,
        exp.Max,
        exp.Min,
        exp.Sum,
        exp.ArrayAgg,
    ),
    *(
        exp.Substring,
        exp.Length,
        exp.Concat,
        exp.ConcatWs,
        exp.RegexpLike,
        exp.RegexpILike,
        exp.Nullif,
        exp.ArrayToString,
    ),
    *(
        exp.Array,
        exp.Exists,
        exp.And,
        exp.Or,
        exp.Any,
        exp.StrPosition,
        exp.Trim,
        exp.GroupConcat,
        exp.Replace,
        exp.ArraySize,
    ),
    *(
        exp.RowNumber,
        exp.StringToArray,
        exp.Unnest,
        exp.Abs,
        exp.Left,
        exp.Right,
        exp.LogicalOr,
        exp.LogicalAnd,
        exp.Explode,
    ),
)
"""Functions that this engine has too, and that only look at what they are given."""
SAME = frozenset(
    {
        "array_to_string",
        "array_length",
        "lower",
        "upper",
        "length",
        "substring",
        "concat",
        "replace",
        "string_agg",
    }
)
"""The same by name, where it is written with its schema."""
FUNCTIONS = frozenset(
    {"typreceive", "typsend", "typinput", "typoutput", "typmodin", "typmodout", "typanalyze"}
)
"""Columns that name a function; a tool may compare its number with 0."""
REFUSED = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Lock, exp.Pragma, exp.Attach, exp.Copy)
REG = re.compile(r"(?i)^(reg\w+|oid|name|xid|\"char\"|int2vector|oidvector|char)$")
NUMBERS = re.compile(
    r"ordinal_position|position_in_unique|_length$|numeric_(precision|scale)|datetime_precision$"
)
"""Columns of the information schema that are numbers; the others are texts."""
EARLIER = {"pg_database": ("daticulocale", "daticurules"), "pg_collation": ("colliculocale",)}
"""Columns that later versions of PostgreSQL call otherwise."""
OF_SESSION: dict[type[exp.Expr], str] = {
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentSchema: "current_schema",
    exp.CurrentDatabase: "current_database",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentVersion: "version",
    exp.Version: "version",
}
"""Nodes of their own that ask for a constant of the session, by the name of the function."""
CALLED: dict[type[exp.Expr], str] = {exp.CurrentVersion: "version"}
KINDS = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BIGINT[]": pa.list_(pa.int64()),
    "VARCHAR[]": pa.list_(pa.string()),
}
"""Types of the catalog's columns."""
OIDS = (
    (lambda kind: kind == pa.int32(), values.INT4),
    (pa.types.is_integer, values.INT8),
    (pa.types.is_boolean, values.BOOL),
    (pa.types.is_floating, values.FLOAT8),
    (pa.types.is_decimal, values.NUMERIC),
    (pa.types.is_date, values.DATE),
    (lambda kind: pa.types.is_list(kind) and pa.types.is_integer(kind.value_type), values.INT8S),
    (pa.types.is_list, values.TEXTS),
)
"""The protocol's number for each type of an answer; a text is what is none of these."""


class Catalogs:
    """The catalogs of this process: one for each data set, made anew when its declaration is another."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._catalogs: dict[str, tuple[Schema, Catalog]] = {}

    def get(self, schema: Schema, data: str) -> Catalog:
        with self._turn:
            entry = self._catalogs.get(data)
            if entry is None or entry[0] != schema:
                entry = self._catalogs[data] = (schema, Catalog(schema, data))
            return entry[1]


@dataclass(frozen=True)
class Identity:
    """Who asks, for `current_user` and its like."""

    person: str
    data: str


class LookUp(Protocol):
    """Answers a SELECT over tables of the catalog, after the statements of `setup`."""

    def __call__(self, tables: Tables, text: str, setup: Sequence[str]) -> pa.Table: ...


def look_up_here(tables: Tables, text: str, setup: Sequence[str]) -> pa.Table:
    with Closed() as connection:
        connection.fill(tables, setup)
        return connection.answer(text, lists=True)


class Catalog:
    """The catalog of one data set, at one version of its declaration."""

    def __init__(self, schema: Schema, data: str) -> None:
        self._kinds = _columns()
        self._classes = {table.name.lower(): 20000 + i for i, table in enumerate(schema.tables)}
        self._rows = rows(schema, data)
        self._tables: dict[str, pa.Table] = {}

    def run(
        self, tree: exp.Expr, identity: Identity, look_up: LookUp = look_up_here
    ) -> tuple[list[ColumnDescription], list[tuple[Any, ...]]]:
        """What the catalog says. Its errors may be told: there is no data behind it."""
        query = self.rewritten(tree, identity)
        macros = {str(node.this) for node in query.find_all(exp.Anonymous)} & MACRO_TEXTS.keys()
        tables = {node.name for node in query.find_all(exp.Table)} & self._names()
        if any("cat_pg_class" in MACRO_TEXTS[name] for name in macros):
            tables.add("cat_pg_class")
        try:
            table = look_up(
                {quoted(name): self._table_named(name) for name in sorted(tables)},
                query.sql(dialect="duckdb", comments=False),
                [MACRO_TEXTS[name] for name in sorted(macros)],
            ).slice(0, MOST_ROWS)
        except (InvalidQuery, RecursionError) as error:
            raise InvalidQuery(
                f"The catalog does not answer this: {_first(error)} Nothing was charged."
            ) from None
        columns = [ColumnDescription(each.name, _oid(each.type)) for each in table.schema]
        return columns, list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def _names(self) -> set[str]:
        return {ROOMS[schema] + name for schema, tables in self._kinds.items() for name in tables}

    def _table_named(self, name: str) -> pa.Table:
        """One of its tables, made when it is first asked for."""
        if name not in self._tables:
            schema = next(schema for schema, prefix in ROOMS.items() if name.startswith(prefix))
            table = name.removeprefix(ROOMS[schema])
            lines = self._rows.get((schema, table), [])
            kinds = self._kinds[schema][table]
            self._tables[name] = pa.table(
                {
                    column: pa.array([_store_value(row.get(column), kind) for row in lines], KINDS[kind])
                    for column, kind in kinds.items()
                }
            )
        return self._tables[name]

    # -------------------------------------------------------------------------------------------- rewriting

    def rewritten(self, tree: exp.Expr, identity: Identity) -> exp.Expr:
        """The same question to this engine. Every node is looked at: one that is not known is refused by
        name."""
        if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery | exp.Values):
            raise InvalidQuery("The catalog answers SELECT only. Nothing was charged.")
        cte_names = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
        root = _name_columns(tree.copy())
        for node in reversed(
            list(root.walk())
        ):  # from the leaves up, so that no part of what is replaced goes unseen
            replacement = self._node(node, identity, cte_names)
            if replacement is not node:
                node.replace(replacement)
        return root

    def _node(self, node: exp.Expr, identity: Identity, cte_names: set[str]) -> exp.Expr:
        match node:
            case exp.Table():
                return self._table(node, cte_names)
            case exp.Dot() | exp.Column():
                return _without_room(node)
            case exp.EQ() | exp.NEQ():
                return _comparison(node)
            case exp.Operator():
                return _operator(node)
            case exp.Collate():
                operand: exp.Expr = node.this
                return operand
            case exp.Cast():
                return self._cast(node)
            case exp.ExplodingGenerateSeries() | exp.GenerateSeries():
                return _series(node)
            case exp.Anonymous():
                return _rewrite_call(node, identity)
            case _ if type(node) in OF_SESSION:
                return _function(OF_SESSION[type(node)], node, identity)
            case exp.Func() if not isinstance(node, PLAIN):
                return _function(node.sql_name().lower(), node, identity)
            case _ if isinstance(node, REFUSED):
                raise _name_error(type(node).__name__.upper())
        return node

    def _table(self, node: exp.Table, cte_names: set[str]) -> exp.Expr:
        if isinstance(node.this, exp.Func):
            return _rewrite_list(node)
        name, schema = node.name.lower(), node.db.lower()
        if not schema and name in cte_names:
            return node
        if schema not in ROOMS and schema:
            raise _mixture(node)
        home = schema or "pg_catalog"
        if name not in self._kinds[home]:
            raise _mixture(node)
        table = exp.Table(this=exp.to_identifier(ROOMS[home] + name, quoted=True))
        for part in ("alias", "joins", "laterals", "sample"):
            if node.args.get(part):
                table.set(part, node.args[part])
        if not node.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        return table

    def _cast(self, node: exp.Cast) -> exp.Expr:
        kind = node.to.sql(dialect="postgres").lower().removeprefix("pg_catalog.").strip('"')
        inner = node.this
        if REG.match(kind) is None:
            return _ordinary_cast(node, kind)
        if kind == "regclass":
            return self._relation(inner)
        if kind == "regtype" and not (isinstance(inner, exp.Literal) and inner.is_string):
            return exp.Anonymous(this="pgx_format_type", expressions=[inner, exp.null()])
        if kind not in ("oid", "xid"):
            return exp.cast(inner, "VARCHAR")
        if isinstance(inner, exp.Anonymous):
            return inner
        return exp.TryCast(this=inner, to=exp.DataType.build("BIGINT"))

    def _relation(self, inner: exp.Expr) -> exp.Expr:
        """A table by its number: of a literal it is known now."""
        if not isinstance(inner, exp.Literal):
            return exp.Anonymous(this="pgx_deniable_relname", expressions=[inner])
        if inner.name.isdigit():
            return exp.Literal.number(inner.name)
        return self._class(inner.name)

    def _class(self, text: str) -> exp.Expr:
        name = text.replace('"', "").lower().rpartition(".")[2]
        if name in self._kinds["pg_catalog"]:
            return exp.Literal.number(1000 + sorted(self._kinds["pg_catalog"]).index(name))
        if name not in self._classes:
            raise InvalidQuery(f'relation "{name[:60]}" does not exist')
        return exp.Literal.number(self._classes[name])


def _without_room(node: exp.Expr) -> exp.Expr:
    """What a room's name stands before: its names are the only ones there are."""
    if isinstance(node, exp.Dot) and node.this.name.lower() in ROOMS:
        function: exp.Expr = node.expression
        return function
    if isinstance(node, exp.Column) and node.text("db").lower() in ROOMS:
        return exp.column(node.this.copy(), table=node.args["table"].copy())
    return node


def _comparison(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.NEQ(expression=exp.Anonymous(this="ALL", expressions=[words])):
            return exp.Not(this=exp.Anonymous(this="list_contains", expressions=[words, node.this]))
        case _ if _is_function_column(node.this) and node.expression.is_number:
            return type(node)(this=node.this.copy(), expression=exp.Literal.string("-"))
    return node


def _rewrite_call(node: exp.Anonymous, identity: Identity) -> exp.Expr:
    name = node.name.lower()
    if isinstance(node.parent, exp.NEQ | exp.Table) and name in ("all", "pg_get_keywords"):
        return node  # the comparison, or the table, is rewritten as a whole
    return _function(name, node, identity)


def _ordinary_cast(node: exp.Cast, kind: str) -> exp.Expr:
    inner = node.this
    if kind == "text[]" and isinstance(inner, exp.Literal):
        return _texts(inner.name)
    if kind.split(".")[0] != "information_schema":
        return node
    if "number" in kind:
        return exp.cast(inner, "BIGINT")
    return exp.cast(inner, "VARCHAR")


def _is_function_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() in FUNCTIONS


def _name_columns(tree: exp.Expr) -> exp.Expr:
    """Columns are called as PostgreSQL calls them: a function's result after the function."""
    for select in tree.find_all(exp.Select):
        for node in select.expressions:
            inner = node
            if isinstance(node, exp.Dot):
                inner = node.expression
            if isinstance(inner, exp.Func) and not isinstance(inner, exp.Cast | exp.Case):
                name = CALLED.get(type(inner), inner.sql_name())
                if isinstance(inner, exp.Anonymous):
                    name = inner.name
                node.replace(exp.alias_(node.copy(), name.lower(), quoted=True))
            elif isinstance(inner, exp.Literal | exp.Boolean | exp.Null):
                node.replace(exp.alias_(node.copy(), "?column?", quoted=True))
    return tree


def _function(name: str, node: exp.Expr, identity: Identity) -> exp.Expr:
    name = name.removeprefix("pg_catalog.")
    constants = {
        "version": f"PostgreSQL {VERSION} (Deniable)",
        "current_schema": "public",
        "current_catalog": identity.data,
        "current_database": identity.data,
        "current_role": identity.person,
        "current_user": identity.person,
        "session_user": identity.person,
        "user": identity.person,
    }
    if name in constants:
        return exp.Literal.string(constants[name])
    if name == "current_schemas":
        return exp.Array(expressions=[exp.Literal.string("public")])
    if name in ("json_build_object", "jsonb_build_object"):
        return exp.null()
    if name in SAME:
        return exp.Anonymous(this=name, expressions=list(node.expressions))
    if name not in MACROS or name.startswith("deniable"):
        raise _name_error(name)
    return exp.Anonymous(
        this=f"pgx_{name}", expressions=list(node.expressions) or list(node.iter_expressions())
    )


def _texts(literal: str) -> exp.Expr:
    """An array as PostgreSQL writes it: {a,b}. Quoted words are not asked for by any tool."""
    words = literal.strip("{}").split(",")
    return exp.Array(expressions=[exp.Literal.string(word.strip()) for word in words])


def _rewrite_list(node: exp.Table) -> exp.Expr:
    """A function in FROM that makes rows of a list: unnest, or a series. Of keywords, one stands for all."""
    function = node.this
    if isinstance(function, exp.Anonymous) and function.name.lower() == "pg_get_keywords":
        return exp.select(exp.alias_(exp.Literal.string("vacuum"), "word")).subquery("keywords")
    if isinstance(function, exp.Explode | exp.Unnest):
        function = exp.Anonymous(
            this="unnest", expressions=[(function.this or function.expressions[0]).copy()]
        )
    elif not (isinstance(function, exp.Anonymous) and function.name == "unnest"):
        raise _name_error(function.sql_name())
    alias = node.alias or "unnest"
    column = alias
    if node.args.get("alias") and node.args["alias"].columns:
        column = node.args["alias"].columns[0].name
    return exp.select(exp.alias_(function.copy(), column, quoted=True)).subquery(alias)


def _series(node: exp.Expr) -> exp.Expr:
    """A series in a row each, of a length that cannot grow: tools count columns by it."""
    start, end = node.args["start"], node.args["end"]
    most = exp.Add(this=start.copy(), expression=exp.Literal.number(MOST_ROWS))
    stop = exp.Anonymous(this="least", expressions=[end.copy(), most])
    series = exp.Anonymous(this="generate_series", expressions=[start.copy(), stop])
    return exp.Anonymous(this="unnest", expressions=[series])


def _operator(node: exp.Operator) -> exp.Expr:
    sign = str(node.args["operator"]).rpartition(".")[2]
    left, right = node.this, node.expression
    operators: dict[str, exp.Expr] = {
        "~": exp.RegexpLike(this=left, expression=right),
        "~*": exp.RegexpILike(this=left, expression=right),
        "=": exp.EQ(this=left, expression=right),
        "<>": exp.NEQ(this=left, expression=right),
        "~~": exp.Like(this=left, expression=right),
        "!~": exp.Not(this=exp.RegexpLike(this=left.copy(), expression=right.copy())),
    }
    if sign not in operators:
        raise _name_error(f"OPERATOR({sign})")
    return operators[sign]


def _name_error(name: str) -> InvalidQuery:
    return InvalidQuery(f"The catalog has no {name[:60]} here. Nothing was charged.")


def _mixture(node: exp.Table) -> InvalidQuery:
    return InvalidQuery(
        f'relation "{node.name[:60]}" does not exist in the catalog, which is asked apart from private '
        "tables. "
        "Nothing was charged."
    )


def _columns() -> dict[str, dict[str, dict[str, str]]]:
    text = resources.files(__package__).joinpath("catalog_columns.json").read_text(encoding="utf-8")
    schemas: dict[str, dict[str, dict[str, str]]] = json.loads(text)
    for kinds in schemas["information_schema"].values():
        kinds |= dict.fromkeys(filter(NUMBERS.search, kinds), "INTEGER")
    for table, columns in EARLIER.items():
        schemas["pg_catalog"][table] |= dict.fromkeys(columns, "VARCHAR")
    return schemas


def _store_value(value: Any, kind: str) -> Any:
    if kind == "VARCHAR" and value is not None and not isinstance(value, str):
        return str(value).lower()
    return value


def _oid(kind: pa.DataType) -> int:
    return next((oid for is_one, oid in OIDS if is_one(kind)), values.TEXT)


def _first(error: BaseException) -> str:
    line = (str(error).removeprefix(f"{SUBJECT} ").splitlines() or [""])[0][:200]
    if line.endswith("."):
        return line
    return f"{line}."
