"""Parquet files that Spark reads by itself: two kinds of values make its reader fail,
and an error tells of a row.

Times in milliseconds become microseconds, which 64 bits may not hold: such columns are
refused by their type, since a row may come later. Decimals of more than 18 digits lie in
bytes that may hold more digits than Spark has: they are refused where the files' own
statistics do not rule that out. Both are told to the owner, at the opening.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from deniable.errors import DataError
from deniable.sql.engines.stored.fields import heads
from deniable.sql.engines.stored.parquet import folders
from deniable.sql.schema.declare import TableInfo

MILLISECONDS = re.compile(r"int64 .+ \(TIMESTAMP\(MILLIS,")
DECIMAL = re.compile(r"\(DECIMAL\((\d+),")
DIGITS = 18
"""Decimals of so many digits lie in 64 bits, which hold no more than Spark does."""


def check_files(session: Any, frame: Any, table: TableInfo) -> None:
    """Refuse a table over parquet files that hold a declared column so that Spark could fail on it."""
    columns, structs = {column.name.casefold() for column in table.columns}, heads(table)
    for file in frame.inputFiles():
        footer = _footer(session, file)
        if footer is None:
            continue
        leaves = [list(column) for column in footer.getFileMetaData().getSchema().getPaths()]
        paths = {".".join(leaf[:count]).casefold() for leaf in leaves for count in (1, len(leaf))}
        # Where declared columns are made from others, any of the file's may be read.
        is_computed = not columns <= paths | {name.casefold() for name in folders(file)}
        for name, reason in _failing(footer):
            # With one field of a struct its others may be read.
            is_read = name.casefold() in columns or name.casefold().partition(".")[0] in structs
            if is_computed or is_read:
                raise DataError(
                    f'The column "{name}" of "{table.name}" is stored as {reason}, which Spark cannot read '
                    "for every value. Nothing was opened; write it anew, or leave the column out of the "
                    "frame and of the schema."
                )


def _footer(session: Any, file: str) -> Any:
    """The metadata of a parquet file, by Spark's own reader and rights; None for a file of another format."""
    java = session._jvm
    settings = session._jsparkSession.sessionState().newHadoopConf()
    try:
        place = java.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(
            java.org.apache.hadoop.fs.Path(file), settings
        )
        reader = java.org.apache.parquet.hadoop.ParquetFileReader.open(place)
    except Exception:  # what cannot be read so is no parquet, or fails with Spark whoever is in it
        return None
    try:
        return reader.getFooter()
    finally:
        reader.close()


def _failing(footer: Any) -> Iterator[tuple[str, str]]:
    """The columns of a file that Spark may fail on, and how they are stored."""
    for block in footer.getBlocks():
        for column in block.getColumns():
            name, kind = column.getPath().toDotString(), column.getPrimitiveType().toString()
            decimal = DECIMAL.search(kind)
            if MILLISECONDS.search(kind):
                yield name, "a time in milliseconds"
            elif (
                decimal
                and int(decimal[1]) > DIGITS
                and not _within(column.getStatistics(), 10 ** int(decimal[1]))
            ):
                yield name, f"a decimal whose values are not known to have at most {decimal[1]} digits"


def _within(statistics: Any, limit: int) -> bool:
    if statistics is None or statistics.isEmpty():
        return False
    if not statistics.hasNonNullValue():
        return True
    ends = (statistics.getMinBytes(), statistics.getMaxBytes())
    low, high = (int.from_bytes(bytes(end), "big", signed=True) for end in ends)
    return -limit < low <= high < limit
