"""How engines store columns, by their own names of types."""

from __future__ import annotations

import re
from enum import StrEnum


class Physical(StrEnum):
    """How an engine stores a column, as far as it matters here. WIDE are whole numbers
    that 64 bits may not hold."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    WIDE = "wide integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    ZONED = "timestamp with time zone"
    VOID = "nothing"
    OTHER = "other"


_NAMES = {
    Physical.BOOLEAN: "BOOLEAN BOOL",
    Physical.INTEGER: "TINYINT SMALLINT INTEGER INT BIGINT UTINYINT USMALLINT UINTEGER",
    Physical.WIDE: "UBIGINT HUGEINT UHUGEINT",
    Physical.DECIMAL: "DECIMAL NUMERIC",
    Physical.FLOAT: "FLOAT DOUBLE REAL|DOUBLE PRECISION",
    Physical.TEXT: "VARCHAR TEXT STRING CHAR CHARACTER ENUM UUID NAME|CHARACTER VARYING",
    Physical.DATE: "DATE",
    Physical.TIMESTAMP: (
        "TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_NTZ|TIMESTAMP WITHOUT TIME ZONE"
    ),
    Physical.ZONED: "TIMESTAMPTZ TIMESTAMPTZ_NS TIMESTAMP_LTZ|TIMESTAMP WITH TIME ZONE",
    Physical.VOID: 'VOID "NULL"',
}
_PHYSICAL = {
    name: storage
    for storage, text in _NAMES.items()
    for name in [*text.split("|")[0].split(), *text.split("|")[1:]]
}


def bare(name: str) -> str:
    """An engine's name of a type without its sizes.

    >>> bare("timestamp(3) with time zone")
    'TIMESTAMP WITH TIME ZONE'
    """
    return re.sub(r"\(.*\)", "", name.upper())


def physical(name: str) -> Physical:
    """The kind of storage behind a name of a type."""
    return _PHYSICAL.get(bare(name), Physical.OTHER)
