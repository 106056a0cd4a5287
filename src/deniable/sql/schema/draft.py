"""A schema file that is still to be reviewed: what is declared, and the places where the owner's knowledge
goes."""

from __future__ import annotations

import re

from deniable.sql.schema.declare import ColumnInfo, TableInfo
from deniable.sql.schema.file import inline
from deniable.sql.tree import Kind

HEAD = """\
# What analysts may ask about, and what is public knowledge. Made from the names and types of columns; no row
# was read. Review every line: all that stands here may be seen by analysts, so write down only what is known
# without the data. Raise the version when the data changes: a question that was answered is answered from
# memory within one version.
"""
UNIT = (
    "    # Who is protected: the column whose every value is one person. Without it one row is protected.\n"
)
NOTES = {
    Kind.INTEGER: (
        "bounds: [lower, upper] that hold by knowledge, not by a look at the data; values beyond count as "
        "these"
    ),
    Kind.TEXT: "keys: [a, b] if the values are public; length: the characters that are kept",
    Kind.BOOLEAN: "",
    Kind.DATE: "",
    Kind.TIMESTAMP: "in UTC",
}
YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_PEOPLE = r"(patient|person|user|customer|client|member|employee|student|citizen)"
IDENTITY = re.compile(rf"(?i)(^|[^a-z])(id|uuid|guid)$|^{_PEOPLE}[\W_]*(no|nr|num|number|key|code)?\W*$")


def draft_text(table: TableInfo) -> str:
    """The text of a schema file that declares `table`; what is not declared yet stands in comments."""
    unit = f"    # unit: {yaml_name(likely_unit(table) or 'person_id')}\n"
    if table.unit:
        unit = f"    unit: {yaml_name(table.unit)}\n"
    head = [
        HEAD + 'version: "1"',
        "tables:",
        f"  {yaml_name(table.name)}:",
        UNIT + unit + "    columns:",
    ]
    return "\n".join([*head, *(_line(column, table.unit) for column in table.columns)]) + "\n"


def likely_unit(table: TableInfo) -> str | None:
    """The first column whose name speaks of an identity."""
    return next((column.name for column in table.columns if IDENTITY.search(column.name)), None)


def _line(column: ColumnInfo, unit: str | None) -> str:
    kind = column.type.kind
    is_complete = column.lower is not None or column.keys is not None or column.name == unit
    line = f"      {yaml_name(column.name)}: {inline(column)}"
    if kind in (Kind.DECIMAL, Kind.FLOAT):
        kind = Kind.INTEGER
    if is_complete or not NOTES[kind]:
        return line
    return f"{line}  # {NOTES[kind]}"


def yaml_name(name: str) -> str:
    """A name as YAML reads it back: plain where it can be, else in quotes."""
    is_bare = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in YAML_WORDS
    if is_bare:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
