"""One text for all ways to write the same query: the key under which a release is stored and found again.

The tree has forgotten white space, comments, case, table aliases and brackets already; here the order of AND,
OR and IN goes too. Names of the answer's columns stay, since the stored answer has them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum

from deniable.sql.functions import FUNCTIONS
from deniable.sql.tree import Call, Query


def normal(query: Query) -> str:
    """
    >>> from deniable.sql.tree import Scan
    >>> normal(Query(Scan("t", ()), (), (), (), ((),)))
    "Query(Scan('t',(),None,()),(),(),(),((),),None,(),None,0)"
    """
    return normal_text(query)


def normal_text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Call):
        args = FUNCTIONS[value.op].laws.arranged([normal_text(arg) for arg in value.args])
        return f"{value.op}[{','.join(args)}]:{normal_text(value.type)}"
    if is_dataclass(value):
        parts = (normal_text(getattr(value, f.name)) for f in fields(value) if "follows" not in f.metadata)
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple):
        return f"({','.join(map(normal_text, value))}{',' if len(value) == 1 else ''})"
    return repr(value)
