"""What is opened: sources by the names of their tables, their columns, and what it all
is called in a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from deniable.errors import DataError, InvalidParameter
from deniable.ledger.data_sets.beside import ledger_of
from deniable.sql.engines.identity import keys as source_keys
from deniable.sql.engines.sources import CSV
from deniable.sql.schema.beside import remembered, schema_place
from deniable.sql.schema.declare import Schema, TableInfo
from deniable.sql.schema.infer import describe
from deniable.units import Unit


def name_sources(source: Any, name: str | None, schema: Schema | None) -> dict[str, Any]:
    """The sources by the names of their tables. One source holds all tables of a schema, where there is one;
    else a file is named after itself, and a folder or pattern after the folder."""
    if isinstance(source, Mapping):
        if not source or not all(isinstance(table, str) and table for table in source):
            raise InvalidParameter(
                'Expected sources by the names of their tables, like {"visits": "visits.parquet"}.'
            )
        return dict(source)
    if schema is not None:
        return {table.name: source for table in schema.tables}
    if name is not None:
        return {name: source}
    path = as_path(source)
    if path is None:
        raise InvalidParameter(
            f"Expected a name for the table in this {type(source).__name__}, like name='visits'. Nothing was "
            "opened."
        )
    return {(path.parent.name if "*" in path.name else path.stem) or "data": source}


def data_name(schema: Schema) -> str:
    """What the account of a data set is called where no name is given: after its private tables."""
    return "+".join(sorted(table.name for table in schema.tables if not table.public)) or "data"


def as_path(source: Any) -> Path | None:
    """The file that a source is, if it is one."""
    if isinstance(source, Path):
        return source
    if isinstance(source, str) and "://" not in source:
        return Path(source)
    return None


def files(sources: Mapping[str, Any]) -> list[Path]:
    paths = (as_path(source) for source in sources.values())
    return list(dict.fromkeys(_file_or_folder(path) for path in paths if path is not None))


def _file_or_folder(path: Path) -> Path:
    """Of a pattern the folder that it looks in."""
    if "*" in path.name:
        return path.parent
    return path


def address(sources: Mapping[str, Any]) -> str:
    """The ledger beside the data. Data that is no file has nothing beside it."""
    ledgers = {ledger_of(path) for path in files(sources)}
    if len(ledgers) == 1:
        return ledgers.pop()
    if ledgers:
        raise InvalidParameter(
            f"Expected ledger=: these sources lie beside several: {', '.join(sorted(ledgers))}."
        )
    raise InvalidParameter(
        "Expected ledger=: data that is no file has no place beside it where what is spent could be "
        "remembered. Nothing was "
        'opened. For example ledger="sqlite:///privacy.db", or ledger="sqlite://" for a test that forgets.'
    )


@dataclass(frozen=True)
class DataSet:
    """Sources by the names of their tables, what their columns are, and what it all is called in a ledger;
    `keys` tell the private sources from all others, `explicit` says that the name was given. `schema_files`
    lay beside the data and were taken because no schema was named."""

    sources: dict[str, Any]
    schema: Schema
    name: str
    explicit: bool
    keys: tuple[str, ...]
    schema_files: tuple[Path, ...] = ()

    @classmethod
    def describe(cls, source: Any, table: str | None, schema: Schema | None, name: str | None) -> DataSet:
        places: tuple[Path, ...] = ()
        alone = table is None and not isinstance(source, Mapping)
        if schema is None and alone and (memory := _find_schema(source)) is not None:
            schema, places = memory[0], (memory[1],)
        sources = name_sources(source, table, schema)
        declaration = schema
        if declaration is None:
            declaration, places = _describe_sources(sources)
        private = frozenset(table.name for table in declaration.tables if not table.public)
        keys = source_keys(sources, private)
        return cls(sources, declaration, name or data_name(declaration), name is not None, keys, places)

    @property
    def unit(self) -> Unit | None:
        """Whom the schema says its private tables protect, where they all name one column."""
        names = {table.unit for table in self.schema.tables if not table.public and not table.path}
        if len(names) == 1 and (name := names.pop()):
            return Unit.column(name)
        return None


def _find_schema(source: Any) -> tuple[Schema, Path] | None:
    """The schema beside a source that is a file or a folder of them, and where it lies."""
    path = Path(source.path) if isinstance(source, CSV) else as_path(source)
    if path is None:
        return None
    data = _file_or_folder(path).absolute()
    schema = remembered(data)
    if schema is None:
        return None
    return (schema, schema_place(data))


def _describe_sources(sources: Mapping[str, Any]) -> tuple[Schema, tuple[Path, ...]]:
    """Each table by the schema beside its source, else by what the source says of itself."""
    tables, versions, places = [], [], []
    for name, source in sources.items():
        memory = _find_schema(source)
        if memory is None:
            tables.append(_describe_source(name, source))
            continue
        schema, place = memory
        if len(schema.tables) > 1:
            raise InvalidParameter(
                f'The schema {place} declares {len(schema.tables)} tables, so it cannot be that of "{name}" '
                "alone. Nothing was opened. Name a schema: schema= (--schema)."
            )
        tables.append(replace(schema.tables[0], name=name))
        versions.append(schema.version)
        places.append(place)
    return Schema(tuple(tables), "+".join(versions) or "1"), tuple(places)


def _describe_source(table: str, source: Any) -> TableInfo:
    """The columns that a source says it has. What it cannot say is told to the owner, who is the one who
    opens it."""
    try:
        return describe(table, source)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f'The source of "{table}" cannot be read: {error} Nothing was opened.') from error
