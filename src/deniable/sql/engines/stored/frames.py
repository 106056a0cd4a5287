"""Arrow columns in which every value can be read: DuckDB raises on some that a column
may hold, and an error tells of a row.

What the canonical reading makes NULL anyway is NULL before DuckDB sees it: text that is not UTF-8, dates and
times outside the years 1 to 9999. A column without such values stays as it is, without a copy.

Types of a pandas column that numpy holds are moved by rows: one NULL makes floats of whole numbers, one text
makes objects of all. Such columns are loose: their objects become text, and a schema must say what they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deniable.errors import DataError
from deniable.sql.dialects import DUCKDB
from deniable.sql.dialects.storage import Physical
from deniable.sql.engines.engine import named
from deniable.sql.engines.stored.fields import arrow_column, arrow_fields, field_paths
from deniable.sql.schema.declare import TableInfo
from deniable.sql.write.columns import reads

FIRST_DAY, LAST_DAY = (day.toordinal() - date(1970, 1, 1).toordinal() for day in (date.min, date.max))
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def readable(table: pa.Table, declared: TableInfo, loose: Collection[str] = ()) -> pa.Table:
    """The declared columns of a frame, with nothing in them that DuckDB could fail on."""
    names, columns = dict.fromkeys(table.column_names, ""), {}
    paths = field_paths(declared, names, arrow_fields(table.schema))
    for info in declared.columns:
        name = info.name
        if info.name not in paths:
            name = named(declared, info.name, names)
        column = safe(arrow_column(table, paths.get(name, (name,))))
        if name in loose and not reads(_stored(column.type), info.type):
            column = _chunked([_texts(column.to_pylist())], pa.string())
        columns[name] = column
    return pa.table(columns)


def _stored(of: pa.DataType) -> Physical:
    """The storage of a loose column, which numpy's types and text are all there is of."""
    names = {pa.bool_(): "BOOLEAN", pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR"}
    return DUCKDB.physical(names.get(of, str(of).upper()))


def safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with NULL for every value that DuckDB could fail on."""
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    if pa.types.is_run_end_encoded(kind):
        return safe(_chunked([pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type))
    if pa.types.is_dictionary(kind):
        return _dictionary(column)
    if pa.types.is_timestamp(kind):
        ticks = TICKS[kind.unit]
        return _between(column, FIRST_DAY * 86_400 * ticks, (LAST_DAY + 1) * 86_400 * ticks - 1)
    if pa.types.is_date(kind):
        ticks = 1 if pa.types.is_date32(kind) else 86_400_000
        return _between(column, FIRST_DAY * ticks, (LAST_DAY + 1) * ticks - 1)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return _mapped(column, _utf8)
    if pa.types.is_decimal128(kind):
        return _mapped(column, _precise)
    return column


def _mapped(column: pa.ChunkedArray, change: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    chunks = [change(chunk) for chunk in column.chunks]
    same = all(new is old for new, old in zip(chunks, column.chunks, strict=True))
    if same:
        return column
    return _chunked(chunks, column.type)


def _chunked(chunks: Iterable[pa.Array], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(list(chunks), kind)


def _dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Few values for many rows: as it is where they are text or numbers that can be read, else row by row."""
    kind = column.type.value_type
    is_simple = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)
    values = [_chunked([chunk.dictionary], kind) for chunk in column.chunks]
    if is_simple and all(safe(each) is each for each in values):
        return column
    return safe(_chunked([chunk.dictionary_decode() for chunk in column.chunks], kind))


def _between(column: pa.ChunkedArray, low: int, high: int) -> pa.ChunkedArray:
    kind = column.type
    integer_type = pa.int32() if kind.bit_width == 32 else pa.int64()
    low, high = (
        max(-(2 ** (kind.bit_width - 1)), min(2 ** (kind.bit_width - 1) - 1, end)) for end in (low, high)
    )

    def change(chunk: pa.Array) -> pa.Array:
        numbers = chunk.view(integer_type)
        ends = pc.min_max(numbers)
        if not ends["min"].is_valid or (ends["min"].as_py() >= low and ends["max"].as_py() <= high):
            return chunk
        inside = pc.and_(
            pc.greater_equal(numbers, pa.scalar(low, integer_type)),
            pc.less_equal(numbers, pa.scalar(high, integer_type)),
        )
        return pc.if_else(inside, numbers, pa.scalar(None, integer_type)).view(kind)

    return _mapped(column, change)


def _utf8(chunk: pa.Array) -> pa.Array:
    try:
        chunk.validate(full=True)
    except pa.ArrowInvalid:
        binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(
            chunk.type, pa.binary_view()
        )
        return pa.array([_decoded(value) for value in chunk.view(binary).to_pylist()], chunk.type)
    return chunk


def _precise(chunk: pa.Array) -> pa.Array:
    """Decimals that keep to their precision: 128 bits hold others, and DuckDB dies of the least."""
    most, ends = Decimal(10) ** (chunk.type.precision - chunk.type.scale), pc.min_max(chunk)
    if not ends["min"].is_valid or -most < ends["min"].as_py() <= ends["max"].as_py() < most:
        return chunk
    return pa.array(
        [x if x is not None and -most < x < most else None for x in chunk.to_pylist()], chunk.type
    )


def _decoded(value: bytes | None) -> str | None:
    try:
        if value is None:
            return None
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


# ------------------------------------------------------------------------------------------------ pandas


def from_pandas(frame: Any) -> tuple[pa.Table, frozenset[str], str]:
    """A frame as an Arrow table, its loose columns, and the line of code that declares them."""
    names, columns, loose = [str(label) for label in frame.columns], [], {}
    for i, name in enumerate(names):
        series = frame.iloc[:, i]
        is_fixed = _fixed(series.dtype)
        if not is_fixed:
            loose[name] = _NULLABLE.get(getattr(series.dtype, "kind", "O"), "string")
        columns.append(_column(name, series, is_fixed))
    return pa.table(columns, names=names), frozenset(loose), f"frame = frame.astype({json.dumps(loose)})"


_NULLABLE = {"i": "Int64", "u": "UInt64", "f": "Float64", "b": "boolean"}


def _fixed(dtype: Any) -> bool:
    """Whether no row moves the type: those with a NULL of their own, and times, which have one."""
    if type(dtype).__name__ == "StringDtype":
        return str(dtype) == "string" or str(dtype).startswith("string[")
    if isinstance(dtype, np.dtype):
        return dtype.kind == "M"
    return type(dtype).__name__ != "CategoricalDtype"


def _column(name: str, series: Any, fixed: bool) -> pa.ChunkedArray:
    try:
        if not fixed and not (isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufb"):
            return _chunked([_texts(series.tolist())], pa.string())
        array = pa.array(series, from_pandas=True)
        if isinstance(array, pa.ChunkedArray):
            return array
        return pa.chunked_array([array])
    except (pa.ArrowException, TypeError, ValueError):
        raise DataError(
            f'The column "{name}" is of a type that cannot be read here. Nothing was opened; leave it out, '
            "or make it text."
        ) from None


def _texts(values: Iterable[Any]) -> pa.Array:
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    """One object as the text that the grammar of `canonical` reads back; NULL for what has no such text."""
    value = value.item() if isinstance(value, np.generic) else value
    match value:
        case bool():
            return str(value).lower()
        case str():
            if any("\ud800" <= sign <= "\udfff" for sign in value):
                return None
            return value
        case int() | float() | Decimal():
            return _number(value)
        case datetime() if value == value:  # NaT is not equal to itself
            return value.isoformat(timespec="microseconds")
        case date() if value == value:
            return value.isoformat()
    return None


def _number(value: int | float | Decimal) -> str | None:
    """NULL for what is not finite, and for what no column holds."""
    match value:
        case int():
            if abs(value) < 10**40:
                return str(value)
            return None
        case Decimal():
            if value.is_finite() and abs(value.adjusted()) < 40:
                return format(value, "f")
            return None
    if not math.isfinite(value):
        return None
    if value.is_integer() and abs(value) < 1e38:
        return str(int(value))
    return repr(value)
