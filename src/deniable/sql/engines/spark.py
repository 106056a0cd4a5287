"""Spark: the statement is planned and run by the owner's session, in ANSI mode and UTC,
and a small table comes back."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from deniable.errors import DataError, InvalidParameter
from deniable.process import Home, abandon
from deniable.sql.dialects import SPARK
from deniable.sql.engines.engine import Engine, Statement, TimeLimit, guarded, text, view, within
from deniable.sql.engines.sources import Source, SparkFrame, SparkTable
from deniable.sql.engines.stored.fields import Path, with_fields
from deniable.sql.engines.stored.spark_files import check_files
from deniable.sql.schema.declare import Schema, TableInfo

VERSIONS = ((4,), (5,))
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
}
"""What the meaning of a statement depends on. Set for its time and put back, since the
session is the owner's."""


class SparkEngine(Engine):
    """One Spark session. Each statement is a job group of its own, cancelled after `seconds`.

    The declared tables stand in front of the statement as queries that Spark folds into it. Of a DataFrame
    the session keeps a temporary view with a random name until `close`.
    """

    dialect = SPARK

    def __init__(
        self, sources: Mapping[str, Source], schema: Schema, *, seconds: float | None = None
    ) -> None:
        self._limit = TimeLimit(seconds)
        self._group: str | None = None
        self._home = Home()
        self._lock = threading.Lock()
        self._session = _session(sources)
        self._made: list[str] = []
        within(tuple(int(part) for part in self._session.version.split(".")[:2]), *VERSIONS, "Spark")
        try:
            self._tables = tuple(
                (table.name, self._view(table, sources[table.name], schema.identities(table.name)))
                for table in schema.tables
            )
        except BaseException:  # whatever it is goes on to the owner; no session stays open behind it
            self.close()
            raise

    def _view(self, table: TableInfo, source: Source, identities: frozenset[str]) -> str:
        frame, origin = self._frame(source)
        check_files(self._session, frame, table)
        rows, types = with_fields(table, origin, stored(frame, table.name), stored_fields(frame), SPARK)
        return view(table, types, rows, SPARK, identities)

    def _frame(self, source: Source) -> tuple[Any, str]:
        """The stored table as a DataFrame, and SQL that stands for it."""
        if isinstance(source, SparkTable):
            return found(source), ".".join(SPARK.quote(part) for part in source.name.split("."))
        assert isinstance(source, SparkFrame)
        name = f"_deniable_{uuid.uuid4().hex}"
        source.frame.createOrReplaceTempView(name)
        self._made.append(name)
        return source.frame, SPARK.quote(name)

    def run(self, statement: Statement) -> pa.Table:
        self.check_process()
        sql = text(statement, SPARK, self._tables)
        context, group = self._session.sparkContext, f"deniable-{uuid.uuid4().hex}"
        limit = self._limit(lambda: context.cancelJobGroup(group))
        with guarded(), self._lock, _settings(self._session), _job_group(context, group), limit:
            self._group = group
            try:
                return self._session.sql(sql).toArrow()
            finally:
                self._group = None

    @property
    def overran(self) -> bool:
        return self._limit.reached

    def cancel(self) -> None:
        if (group := self._group) is not None:
            self._session.sparkContext.cancelJobGroup(group)

    def close(self) -> None:
        if not self.at_home:
            abandon(self._session)
            return
        for name in self._made:
            self._session.catalog.dropTempView(name)
        self._made.clear()


def found(source: SparkTable) -> Any:
    try:
        return source.session.table(source.name)
    except Exception as error:  # Py4J raises many kinds; no row is read yet, and the owner alone is told
        raise DataError(
            f'The Spark session has no table "{source.name}", or cannot read it. Nothing was opened.'
        ) from error


def stored(frame: Any, name: str) -> dict[str, str]:
    """The columns and Spark's names of their types; two that differ in upper and lower
    case only are one to Spark."""
    columns = dict(frame.dtypes)
    if len({column.casefold() for column in columns}) < len(frame.dtypes):
        raise DataError(f'The table "{name}" has two columns of one name. Nothing was opened; rename one.')
    return columns


def stored_columns(source: SparkTable | SparkFrame) -> tuple[dict[str, str], dict[Path, str]]:
    """The columns and fields of a table or a frame, and Spark's names of their types."""
    frame = source.frame if isinstance(source, SparkFrame) else found(source)
    return stored(frame, "data"), stored_fields(frame)


def stored_fields(frame: Any) -> dict[Path, str]:
    """All fields inside structs, and Spark's names of their types."""
    return {path: of for field in frame.schema.fields for path, of in _inside((field.name,), field.dataType)}


def _inside(path: Path, kind: Any) -> list[tuple[Path, str]]:
    """Two fields that differ in upper and lower case only are one to Spark, which then finds neither."""
    inner = getattr(kind, "fields", ())
    names = Counter(field.name.casefold() for field in inner)
    places = [((*path, field.name), field.dataType) for field in inner if names[field.name.casefold()] == 1]
    return [each for place, of in places for each in ((place, of.simpleString()), *_inside(place, of))]


def _session_of(source: Source) -> Any:
    if isinstance(source, SparkFrame):
        return source.frame.sparkSession
    return getattr(source, "session", None)


def _session(sources: Mapping[str, Source]) -> Any:
    sessions = {id(session): session for session in map(_session_of, sources.values())}
    (session,) = sessions.values() if len(sessions) == 1 else (None,)
    if not hasattr(session, "_jsparkSession"):
        raise InvalidParameter(
            "Expected all tables in one session of Spark itself: Spark Connect gives no way to limit a "
            "statement's time. Nothing was opened."
        )
    return session


@contextmanager
def _settings(session: Any) -> Iterator[None]:
    before = {name: session.conf.get(name) for name in SETTINGS}
    try:
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


@contextmanager
def _job_group(context: Any, group: str) -> Iterator[None]:
    context.setJobGroup(group, "a statement of Deniable", interruptOnCancel=True)
    try:
        yield
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(name, None)
