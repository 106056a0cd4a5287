"""The rows of the synthetic catalog: what is declared, and nothing else. No size, no statistics, nobody's
activity."""

from __future__ import annotations

from typing import Any

from deniable.server.wire import values
from deniable.sql.schema.declare import Schema, TableInfo

Row = dict[str, Any]

CATALOG, PUBLIC, INFORMATION = 11, 2200, 13000
DATABASE, ROLE, HEAP, COLLATION = 16384, 10, 2, 100
FIRST_TABLE = 20000
TYPES: dict[int, tuple[str, str, int, str, str]] = {
    values.BOOL: ("bool", "boolean", 1, "B", "boolean"),
    values.INT8: ("int8", "bigint", 8, "N", "bigint"),
    values.INT2: ("int2", "smallint", 2, "N", "smallint"),
    values.INT4: ("int4", "integer", 4, "N", "integer"),
    values.TEXT: ("text", "text", -1, "S", "text"),
    values.OID: ("oid", "oid", 4, "N", "oid"),
    values.FLOAT4: ("float4", "real", 4, "N", "real"),
    values.FLOAT8: ("float8", "double precision", 8, "N", "double precision"),
    values.VARCHAR: ("varchar", "character varying", -1, "S", "character varying"),
    values.NAME: ("name", "name", 64, "S", "name"),
    values.DATE: ("date", "date", 4, "D", "date"),
    values.TIMESTAMP: ("timestamp", "timestamp without time zone", 8, "D", "timestamp without time zone"),
    values.NUMERIC: ("numeric", "numeric", -1, "N", "numeric"),
    values.UNKNOWN: ("unknown", "unknown", -2, "X", "unknown"),
}
"""Each type's name, its name in SQL, its length and its category."""
SENDS = {"int8": "int8", "int4": "int4", "int2": "int2", "float8": "float8", "float4": "float4", "oid": "oid"}

SETTINGS = {"max_index_keys": "32", "max_identifier_length": "63", "server_version_num": "160004"}
"""What drivers read before they ask for keys; nothing of this machine."""


def rows(schema: Schema, data: str) -> dict[tuple[str, str], list[Row]]:
    """Rows by schema and name of the catalog's table."""
    rooms = {"pg_catalog": _pg_catalog(schema, data), "information_schema": _information(schema, data)}
    return {(room, name): lines for room, tables in rooms.items() for name, lines in tables.items()}


def _pg_catalog(schema: Schema, data: str) -> dict[str, list[Row]]:
    tables = {FIRST_TABLE + i: table for i, table in enumerate(schema.tables)}
    role = _role(rolname="deniable", rolcanlogin=False)
    return {
        "pg_namespace": [_namespace(*pair) for pair in _namespaces()],
        "pg_database": [_database(data)],
        "pg_roles": [role],
        "pg_authid": [role],
        "pg_user": [{"usename": "deniable", "usesysid": ROLE, "usesuper": False}],
        "pg_settings": [
            {"name": name, "setting": value, "reset_val": value} for name, value in SETTINGS.items()
        ],
        "pg_am": [{"oid": HEAP, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}],
        "pg_collation": [{"oid": COLLATION, "collname": "default", "collnamespace": CATALOG}],
        "pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": ROLE}],
        "pg_language": [],
        "pg_type": [_type(oid, *details) for oid, details in TYPES.items()] + _arrays(),
        "pg_class": [_class(oid, table) for oid, table in tables.items()],
        "pg_attribute": [row for oid, table in tables.items() for row in _attributes(oid, table)],
        "pg_tables": [_table(table.name) for table in schema.tables],
    }


def _information(schema: Schema, data: str) -> dict[str, list[Row]]:
    return {
        "schemata": [
            {"catalog_name": data, "schema_name": name, "schema_owner": "deniable"}
            for _, name in _namespaces()
        ],
        "tables": [_info_table(data, table.name) for table in schema.tables],
        "columns": [row for table in schema.tables for row in _info_columns(data, table)],
    }


def _namespaces() -> tuple[tuple[int, str], ...]:
    return ((CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema"))


def _namespace(oid: int, name: str) -> Row:
    return {"oid": oid, "nspname": name, "nspowner": ROLE}


def _database(name: str) -> Row:
    return {
        "oid": DATABASE,
        "datname": name,
        "datdba": ROLE,
        "encoding": 6,
        "datlocprovider": "c",
        "datistemplate": False,
        "datallowconn": True,
        "datconnlimit": -1,
        "dattablespace": 1663,
        "datcollate": "C.UTF-8",
        "datctype": "C.UTF-8",
    }


def _role(**columns: Any) -> Row:
    no = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls")
    return {"oid": ROLE, "rolinherit": True, "rolconnlimit": -1, **dict.fromkeys(no, False), **columns}


def _type(oid: int, name: str, _: str, length: int, category: str, __: str) -> Row:
    sends = SENDS.get(name, name)
    return {
        "oid": oid,
        "typname": name,
        "typnamespace": CATALOG,
        "typowner": ROLE,
        "typlen": length,
        "typbyval": 0 < length <= 8,
        "typtype": "b",
        "typcategory": category,
        "typispreferred": False,
        "typisdefined": True,
        "typdelim": ",",
        "typrelid": 0,
        "typelem": 0,
        "typarray": {values.TEXT: values.TEXTS, values.INT8: values.INT8S}.get(oid, 0),
        "typinput": f"{sends}in",
        "typoutput": f"{sends}out",
        "typreceive": f"{sends}recv",
        "typsend": f"{sends}send",
        "typnotnull": False,
        "typbasetype": 0,
        "typtypmod": -1,
        "typndims": 0,
        "typcollation": COLLATION if category == "S" else 0,
    }


def _arrays() -> list[Row]:
    pairs = ((values.TEXTS, "_text", values.TEXT), (values.INT8S, "_int8", values.INT8))
    array_rows = []
    for oid, name, element in pairs:
        row = _type(oid, name, "", -1, "A", "")
        sends = {
            "typinput": "array_in",
            "typoutput": "array_out",
            "typreceive": "array_recv",
            "typsend": "array_send",
        }
        array_rows.append(row | sends | {"typelem": element})
    return array_rows


def _class(oid: int, table: TableInfo) -> Row:
    no = ("relhasindex", "relisshared", "relhasrules", "relhastriggers", "relhassubclass", "relrowsecurity")
    more = ("relforcerowsecurity", "relispartition")
    return {
        "oid": oid,
        "relname": table.name,
        "relnamespace": PUBLIC,
        "reltype": 0,
        "reloftype": 0,
        "relowner": ROLE,
        "relam": HEAP,
        "relfilenode": 0,
        "reltablespace": 0,
        "relpages": 0,
        "reltuples": -1.0,
        "relallvisible": 0,
        "reltoastrelid": 0,
        "relpersistence": "p",
        "relkind": "r",
        "relnatts": len(table.columns),
        "relchecks": 0,
        "relispopulated": True,
        "relreplident": "d",
        "relrewrite": 0,
        **dict.fromkeys((*no, *more), False),
    }


def _attributes(oid: int, table: TableInfo) -> list[Row]:
    return [
        _attribute(oid, i, c.name, values.KINDS[c.type.kind.value]) for i, c in enumerate(table.columns, 1)
    ]


def _attribute(table: int, number: int, name: str, oid: int) -> Row:
    no = ("attnotnull", "atthasdef", "atthasmissing", "attisdropped")
    return {
        "attrelid": table,
        "attname": name,
        "atttypid": oid,
        "attlen": TYPES[oid][2],
        "attnum": number,
        "atttypmod": -1,
        "attndims": 0,
        "attbyval": 0 < TYPES[oid][2] <= 8,
        "attstorage": "p",
        "attcompression": "",
        "attidentity": "",
        "attgenerated": "",
        "attislocal": True,
        "attinhcount": 0,
        "attcollation": COLLATION if oid == values.TEXT else 0,
        "attstattarget": -1,
        **dict.fromkeys(no, False),
    }


def _table(name: str) -> Row:
    no = ("hasindexes", "hasrules", "hastriggers", "rowsecurity")
    return {"schemaname": "public", "tablename": name, "tableowner": "deniable", **dict.fromkeys(no, False)}


def _info_table(data: str, name: str) -> Row:
    place = {"table_catalog": data, "table_schema": "public", "table_name": name, "table_type": "BASE TABLE"}
    return {**place, "is_insertable_into": "NO", "is_typed": "NO"}


def _info_columns(data: str, table: TableInfo) -> list[Row]:
    place = {"table_catalog": data, "table_schema": "public", "table_name": table.name}
    column_rows = []
    for i, column in enumerate(table.columns, 1):
        oid = values.KINDS[column.type.kind.value]
        own = {"column_name": column.name, "ordinal_position": i, "is_nullable": "YES", "is_updatable": "NO"}
        types = {
            "data_type": TYPES[oid][4],
            "udt_schema": "pg_catalog",
            "udt_name": TYPES[oid][0],
            "udt_catalog": data,
        }
        column_rows.append(place | own | types | {"is_identity": "NO", "is_generated": "NEVER"})
    return column_rows
