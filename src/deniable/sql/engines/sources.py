"""Where the rows of a declared table lie. What an owner hands in becomes one of these
values, from names and metadata only.

parquet        "visits.parquet", "visits/*.parquet", a folder (also with folders like region=EU/, whose names
become columns) CSV            "visits.csv" or CSV("visits.txt", delimiter=";", header=False); read as text,
never sniffed DuckDB file    "hospital.duckdb", the table by its declared name, or
DuckDBTable("hospital.duckdb", "t") objects        pandas and polars frames, Arrow tables PostgreSQL
"postgresql://…", the table by its declared name, or PostgresTable("postgresql://…", "t", schema="s") Spark
a session (the table by its declared name), a DataFrame, or SparkTable(session, "catalog.schema.t")
"""

from __future__ import annotations

import csv
import glob
import gzip
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from deniable.errors import DataError, InvalidParameter
from deniable.sql.engines.stored.frames import from_pandas

POSTGRES_URLS = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class Parquet:
    """Files with one layout. `hive` reads folders named column=value as columns of text."""

    files: tuple[str, ...]
    hive: bool = False


@dataclass(frozen=True)
class CSV:
    """Text files with one layout, plain or gzipped. Without a header the columns are
    those of the schema, in its order."""

    path: str | Path
    header: bool = True
    delimiter: str = ","
    quote: str = '"'

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote"):
            if len(getattr(self, name)) != 1 or getattr(self, name) in "\r\n":
                raise InvalidParameter(f"Expected {name}={getattr(self, name)!r} to be one character.")

    @property
    def files(self) -> tuple[str, ...]:
        return _files(self.path, (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt"))

    def names(self) -> tuple[str, ...] | None:
        """The columns by the header, which all files must share; None where there is none."""
        if not self.header:
            return None
        first, *others = [self._head(file) for file in self.files]
        if any(other != first for other in others):
            raise DataError(
                f"The files of {self.path} have different headers. Nothing was opened; give one layout."
            )
        if len(set(first)) < len(first):
            raise DataError(
                f"The header of {self.path} names a column twice. Nothing was opened; rename one."
            )
        return first

    def _head(self, file: str) -> tuple[str, ...]:
        opener = gzip.open if file.endswith(".gz") else open
        try:
            # What follows the header may be in any encoding: a decoder reads ahead, and is not to judge.
            with opener(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as stream:
                row: list[str] = next(csv.reader(stream, delimiter=self.delimiter, quotechar=self.quote), [])
                return tuple(row)
        except (OSError, csv.Error) as error:
            raise DataError(f"The header of {file} cannot be read: {error}.") from error


@dataclass(frozen=True)
class DuckDBTable:
    path: str | Path
    table: str
    schema: str = "main"


@dataclass(frozen=True)
class Frame:
    """A table in this process's memory. The types of `loose` columns were taken from values, so a schema must
    declare them, or else the `line` of code."""

    table: pa.Table = field(repr=False)
    loose: frozenset[str] = frozenset()
    line: str = ""


@dataclass(frozen=True)
class PostgresTable:
    """A table of a PostgreSQL server. The address may hold a password, so it is not shown."""

    url: str = field(repr=False)
    table: str
    schema: str = "public"


@dataclass(frozen=True)
class SparkTable:
    """A table or view that a Spark session knows under `name`, like "catalog.schema.visits"."""

    session: Any = field(repr=False)
    name: str


@dataclass(frozen=True)
class SparkFrame:
    frame: Any = field(repr=False)


Source: TypeAlias = "Parquet | CSV | DuckDBTable | Frame | PostgresTable | SparkTable | SparkFrame"
SOURCES = (Parquet, CSV, DuckDBTable, Frame, PostgresTable, SparkTable, SparkFrame)


def recognise(source: Any, name: str) -> Source:
    """The source that the owner means by `source` for the declared table `name`."""
    if isinstance(source, SOURCES):
        return source
    if isinstance(source, str) and source.startswith(POSTGRES_URLS):
        return PostgresTable(source, name)
    if isinstance(source, str | Path):
        return _path(str(source), name)
    return _object(source, name)


def recognised(sources: Any, names: tuple[str, ...]) -> dict[str, Source]:
    """The source of every declared table: from a mapping by name, or one source that holds them all."""
    mapping = sources
    if not isinstance(sources, Mapping):
        mapping = dict.fromkeys(names, sources)
    if missing := [name for name in names if name not in mapping]:
        raise InvalidParameter(f'Expected a source for the declared table "{missing[0]}"; there is none.')
    if extra := [name for name in mapping if name not in names]:
        raise InvalidParameter(
            f'The source "{extra[0]}" belongs to no declared table. Declare it, or leave it out.'
        )
    origins = {name: recognise(mapping[name], name) for name in names}
    several = not isinstance(sources, Mapping) and len(names) > 1
    if several and not isinstance(next(iter(origins.values())), DuckDBTable | PostgresTable | SparkTable):
        raise InvalidParameter(
            f"One file cannot hold the {len(names)} declared tables. Give a source for each: {{table: "
            f"source, …}}."
        )
    return origins


def _path(path: str, name: str) -> Source:
    lower = path.lower()
    if lower.endswith((".duckdb", ".ddb")):
        return DuckDBTable(_existing(path), name)
    if lower.endswith((".tsv", ".tsv.gz")):
        return CSV(path, delimiter="\t")
    if lower.endswith((".csv", ".csv.gz")):
        return CSV(path, delimiter=_delimiter(path))
    files = _files(path, (".parquet", ".pq"))
    if not lower.endswith((".parquet", ".pq")) and not os.path.isdir(path):
        raise InvalidParameter(
            f"What {path} holds cannot be told from its name. Expected .parquet, .csv, .tsv or .duckdb; "
            "for a CSV file of another name give CSV(path, delimiter=…, header=…). Save a spreadsheet as "
            "CSV in UTF-8."
        )
    return Parquet(files, hive=any("=" in part for part in Path(files[0]).parent.parts))


def _delimiter(path: str) -> str:
    """What separates the columns, by the header alone: a spreadsheet writes semicolons where the comma is in
    its numbers."""
    try:
        names = CSV(path).names() or ()
    except DataError:
        return ","  # told where the file is opened
    return next((sign for sign in ";\t" if len(names) == 1 and sign in names[0]), ",")


def _existing(path: str) -> str:
    if not os.path.isfile(path):
        raise DataError(f"There is no file {path}. Nothing was opened.")
    return os.path.abspath(path)


def _files(path: str | Path, endings: tuple[str, ...]) -> tuple[str, ...]:
    """The files a path, pattern or folder means now, in one order; hidden ones and those
    that begin with _ left out."""
    path = str(path)
    if os.path.isdir(path):
        files = [str(file) for file in Path(path).rglob("*") if file.name.lower().endswith(endings)]
        files = [file for file in files if not Path(file).name.startswith(("_", "."))]
    else:
        files = [path] if os.path.isfile(path) else glob.glob(path, recursive=True)
    if not files:
        raise DataError(f"There is no file {path}. Nothing was opened.")
    return tuple(sorted(os.path.abspath(file) for file in files))


def _object(source: Any, name: str) -> Source:
    module = type(source).__module__.split(".")[0]
    kind = type(source).__name__
    if module == "pyspark" and kind == "SparkSession":
        return SparkTable(source, name)
    if module == "pyspark" and kind == "DataFrame":
        return SparkFrame(source)
    if isinstance(source, pa.Table):
        return _arrow(source, "table = table.set_column({index}, {name}, pa.nulls(len(table), pa.string()))")
    if module == "pandas" and kind == "DataFrame":
        return Frame(*from_pandas(source))
    if module == "polars" and kind == "DataFrame":
        return _arrow(source.to_arrow(), "frame = frame.cast({{{name}: pl.String}})")
    raise InvalidParameter(
        f"Expected a file, an address or a table, got {kind}. "
        "Sources are parquet, CSV and DuckDB files, pandas, polars and Arrow tables, postgresql:// and Spark."
    )


def _arrow(table: pa.Table, line: str) -> Frame:
    """A column of nothing but NULL has the type of no value."""
    loose = [field.name for field in table.schema if pa.types.is_null(field.type)]
    if not loose:
        return Frame(table)
    code = line.format(name=json.dumps(loose[0]), index=table.column_names.index(loose[0]))
    return Frame(table, frozenset(loose), code)
