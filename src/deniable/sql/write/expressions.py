"""Operators as SQL of an engine, over operands that are SQL already: total, whatever the operands are."""

from __future__ import annotations

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.tree import Call
from deniable.sql.write import json_fields, numbers, texts
from deniable.sql.write.numbers import by_bytes

_INFIX = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "AND", "or": "OR"}
_RULES = numbers.RULES | texts.RULES | json_fields.RULES


def operation(call: Call, args: list[str], dialect: Dialect) -> str:
    """One operator over its operands."""
    rule = _RULES.get(call.op)
    if rule is None:
        return _common(call, args, dialect)
    return rule(call, args, dialect)


def _common(call: Call, args: list[str], dialect: Dialect) -> str:
    """Operators that are total in every engine as they are."""
    match call.op:
        case "lt" | "le" | "gt" | "ge":
            args = [by_bytes(arg, call, dialect) for arg in args]
            return f"({args[0]} {_INFIX[call.op]} {args[1]})"
        case "eq" | "ne" | "and" | "or":
            return f"({f' {_INFIX[call.op]} '.join(args)})"
        case "not":
            return f"(NOT {args[0]})"
        case "is_null":
            return f"({args[0]} IS NULL)"
        case "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        case "coalesce":
            return f"coalesce({', '.join(args)})"
        case "nullif":
            return dialect.let(args, lambda a, b: f"CASE WHEN {a} = {b} THEN NULL ELSE {a} END")
        case "case":
            whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1::2], strict=True))
            return f"CASE {whens} ELSE {args[-1]} END"
    raise TypeError(f"The operator {call.op!r} is not on the list.")
