"""The schema that lies beside the data and is remembered there: `visits.csv` and `visits.csv.schema.yaml`.

A schema says what is public, so one that somebody else put there would be a way to weaken what is protected.
It is taken only if it belongs to who owns the data, who runs this process or the superuser, if not everybody
may write to it, and it cannot make the data public. `schema=` names any other. A schema that is there and
cannot be trusted or read is refused and never passed over: without it other questions would be answered.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from deniable.errors import DataError, InvalidParameter
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.file import load

ENDING = ".schema.yaml"


def schema_place(data: Path) -> Path:
    """Where the schema of a file or folder lies.

    >>> schema_place(Path("data/visits.csv")).name
    'visits.csv.schema.yaml'
    """
    return data.with_name(data.name + ENDING)


def remembered(data: Path) -> Schema | None:
    """The schema that lies beside the data, None if there is none."""
    place = schema_place(data)
    if not os.path.lexists(place):
        return None
    _check_owner(place, data)
    schema = load(place)
    if any(table.public for table in schema.tables):
        raise InvalidParameter(
            f"The schema {place} was found beside the data and says that a table is public. Nothing was "
            "opened: what lies there by itself cannot end anybody's protection. Name it, schema= (--schema), "
            "if you mean it."
        )
    return schema


def _check_owner(place: Path, data: Path) -> None:
    try:
        link, target = place.lstat(), place.stat()
        owners = {0, os.geteuid()} | ({data.stat().st_uid} if data.exists() else set())
    except AttributeError:  # no owners on this system: whoever may write into the folder is trusted with it
        return
    except OSError as error:
        raise DataError(f"The schema {place} cannot be read: {error}.") from error
    if {link.st_uid, target.st_uid} <= owners and not target.st_mode & stat.S_IWOTH:
        return
    raise InvalidParameter(
        f"The schema {place} lies beside the data, but belongs to another user or may be written by "
        "everybody. Nothing was opened. Make it yours (chmod o-w, chown), or name the schema you mean: "
        "schema= (--schema)."
    )
