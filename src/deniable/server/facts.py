"""What is told of accounts and entries: plain values for JSON. No field depends on data
but a released answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from deniable.ledger import Account, Entry
from deniable.ledger.journal.verify import Verification

Facts = dict[str, Any]


def account(account: Account, *, full: bool) -> Facts:
    """An account. `full` is for owner and auditor: it adds the bound that holds at every moment."""
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
    if full:
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


def to_json_value(value: Any) -> Any:
    """A value that JSON can hold; infinities are texts, as in certificates.

    >>> to_json_value({"a": math.inf, "b": Decimal("1.50"), "c": (date(2024, 3, 1), None)})
    {'a': 'inf', 'b': '1.50', 'c': ['2024-03-01', None]}
    """
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {str(key): to_json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [to_json_value(item) for item in value]
        case Decimal() | Fraction():
            return str(value)
        case date() | datetime():
            return value.isoformat()
        case _:
            return value
