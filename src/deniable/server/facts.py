"""What is told of accounts, entries, answers and previews: plain values for JSON. No field depends on data
but a released answer."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from deniable.curator import Answer, Preview
from deniable.ledger import Account, Entry
from deniable.ledger.journal.verify import Verification

Facts = dict[str, Any]


def account(account: Account, *, whole: bool) -> Facts:
    """An account. `whole` is for owner and auditor: it adds the bound that holds at every moment."""
    spending, left, limit = account.spent(), account.remaining(), account.limit
    facts = {
        "account": account.name,
        "owner": account.owner,
        "status": str(account.status),
        "unit": account.unit.to_dict(),
        "limit": {"epsilon": float(limit.epsilon), "delta": float(limit.delta)},
        "spent": {"epsilon": spending.epsilon, "delta": spending.delta, "share": spending.share},
        "left": {"epsilon": left.epsilon, "delta": left.delta},
    }
    if whole:
        reading = account.odometer()
        facts["odometer"] = {"epsilon": reading.epsilon, "delta": reading.delta}
    return facts


def entry(entry: Entry) -> Facts:
    """An entry for owner and auditor: all of it."""
    return entry.to_dict()


def own_entry(entry: Entry) -> Facts:
    """An entry for the analyst whose own it is. What was charged above her part is left out: it would tell
    whether somebody else had paid for the same answer before."""
    facts = entry.to_dict()
    charge = facts.pop("details").get("charges", {}).get(entry.account)
    facts.pop("mac")
    if charge is not None:
        facts["charge"] = charge
    return facts


def problems(verification: Verification, act: int | None) -> list[str]:
    """What is wrong with the journal, and the first act that is not as it was written, if there is one."""
    sentences = list(verification.problems)
    if act is not None:
        sentences.append(f"Act {act} is not as it was written.")
    return sentences


def preview(preview: Preview) -> Facts:
    return {
        "epsilon": preview.epsilon,
        "delta": preview.delta,
        "expected": dict(preview.expected),
        "confidence": preview.confidence,
        "fits": preview.fits,
        "free": preview.free,
        "left": {"epsilon": preview.left.epsilon, "delta": preview.left.delta},
        "refusal": preview.refusal,
        "text": str(preview),
    }


def answer(answer: Answer, *, arrow: bool = False) -> Facts:
    value = answer.value
    facts: Facts = {
        "columns": [{"name": field.name, "type": str(field.type)} for field in value.schema],
        "rows": [list(row) for row in zip(*(column.to_pylist() for column in value.columns), strict=True)],
        "low": {name: answer.low.column(name).to_pylist() for name in answer.low.column_names},
        "high": {name: answer.high.column(name).to_pylist() for name in answer.high.column_names},
        "confidence": answer.confidence,
        "epsilon": answer.epsilon,
        "delta": answer.delta,
        "entry": answer.entry,
        "again": answer.again,
        "bounds": {name: list(pair) for name, pair in answer.bounds.items()},
        "cost": answer.cost,
        "notes": list(answer.notes),
        "loss": answer.loss.to_dict(),
        "unit": answer.unit.to_dict(),
    }
    if arrow:
        facts["arrow"] = {"value": packed(value), "low": packed(answer.low), "high": packed(answer.high)}
    return facts


def packed(table: pa.Table) -> str:
    """A table as an Arrow stream in base64."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def plain(value: Any) -> Any:
    """A value that JSON can hold; infinities are texts, as in certificates.

    >>> plain({"a": math.inf, "b": Decimal("1.50"), "c": (date(2024, 3, 1), None)})
    {'a': 'inf', 'b': '1.50', 'c': ['2024-03-01', None]}
    """
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case Decimal() | Fraction():
            return str(value)
        case date() | datetime():
            return value.isoformat()
        case _:
            return value
