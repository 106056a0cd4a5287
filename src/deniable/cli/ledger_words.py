"""How accounts, entries and verdicts of a ledger are said at a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from deniable import accounting, numbers
from deniable.cli import show
from deniable.errors import DeniableError, TamperedLedger
from deniable.guarantee import Budget
from deniable.ledger import Account, Entry, Left, Verification
from deniable.ledger.data_sets.versions import version_of

WIDTH = 20
"""Characters of a bar."""


def facts(account: Account) -> dict[str, Any]:
    expenditure, left, running = account.spent(), account.remaining(), account.odometer()
    return {
        "account": account.name,
        "parent": account.parent,
        "owner": account.owner,
        "unit": account.unit.to_dict(),
        "status": str(account.status),
        "limit": {"epsilon": float(account.limit.epsilon), "delta": float(account.limit.delta)},
        "spent": {
            "epsilon": expenditure.epsilon,
            "delta": expenditure.delta,
            "method": expenditure.method,
            "share": expenditure.share,
        },
        "remaining": {"epsilon": left.epsilon, "rho": left.rho, "delta": left.delta},
        "odometer": {"epsilon": running.epsilon, "delta": running.delta, "method": running.method},
    }


def line(account: Account) -> tuple[str, ...]:
    expenditure = account.spent()
    return (
        account.name,
        bar(expenditure.share),
        percent(expenditure.share),
        str(account.limit),
        str(account.status),
    )


SMALLER = 0.95
"""A share this much below that of the summed ε is explained."""


def bar(share: float) -> str:
    """How much is spent, never drawn as less.

    >>> bar(0.0), bar(0.26), bar(1.0)
    ('····················', '██████··············', '████████████████████')
    """
    full = math.ceil(min(share, 1) * WIDTH)
    return "█" * full + "·" * (WIDTH - full)


def percent(share: float) -> str:
    """A share in whole percent, rounded up.

    >>> percent(0.0), percent(0.7501), percent(1.0)
    ('0 %', '76 %', '100 %')
    """
    if share > 1:
        return "over"
    return f"{math.ceil(100 * share)} %"


def tell(account: Account, json: bool) -> None:
    if json:
        show.as_json(facts(account))
        return
    expenditure, running = account.spent(), account.odometer()
    part = ""
    if account.parent:
        part = f", part of {account.parent}"
    show.heading(f"{account.name}{part} ({account.status})")
    show.say(f"{bar(expenditure.share)} {percent(expenditure.share)} of {account.limit}")
    if expenditure.share < SMALLER * expenditure.epsilon / float(account.limit.epsilon):
        show.say(
            "(Many small charges cost less together than their sum, so the bar is shorter than ε below.)"
        )
    show.say(f"Protects {account.unit}. Owner: {account.owner}.")
    show.say(
        f"Spent: ε = {numbers.up(expenditure.epsilon)}{_at_delta(expenditure.delta)} ({expenditure.method})."
    )
    show.say(f"Left for one charge: {_left(account.remaining())}.")
    show.say(
        "A bound on the ε of all releases so far, valid at every moment: ε ≤ "
        f"{numbers.up(running.epsilon)}{_at_delta(running.delta)}."
    )


def _at_delta(delta: float) -> str:
    if delta:
        return f" at δ = {numbers.up(delta)}"
    return ""


def _left(left: Left) -> str:
    rho = ""
    if left.rho:
        rho = f", or ρ ≤ {numbers.down(left.rho)} of zCDP"
    if left.mu and not left.rho:
        rho = f", or Gaussian noise of μ ≤ {numbers.down(left.mu)} (the sensitivity over the noise)"
    delta = ""
    if left.delta:
        delta = f"; δ ≤ {numbers.down(left.delta)} for those charged at a δ"
    return f"ε ≤ {numbers.down(left.epsilon)}{rho}{delta}"


def row(entry: Entry, limits: Mapping[str, Budget]) -> tuple[str, ...]:
    version = version_of(entry)
    what = str(entry.description or entry.loss or "")
    if version is not None:
        what += f" (data: {version})"
    cost = _cost(entry, limits.get(entry.account))
    return str(entry.seq), entry.time[:19], entry.kind, entry.account, entry.analyst, cost, what


def tell_in_lines(rows: Iterable[tuple[str, ...]]) -> None:
    """A journal where seven columns do not fit: a line for each entry, and what it was for below it."""
    for seq, time, kind, account, analyst, cost, what in rows:
        line = f"{seq}  {time}  {kind} · {account} · {analyst}"
        if cost:
            line += f" · ε = {cost}"
        show.heading(line)
        show.say_indented(what)


def _cost(entry: Entry, limit: Budget | None) -> str:
    """The ε of one charge by itself; nothing where an entry charges nothing."""
    if entry.loss is None or limit is None:
        return ""
    try:
        return numbers.up(accounting.epsilon(entry.loss, float(limit.delta)).upper)
    except DeniableError:
        return "–"


def tell_verdict(verification: Verification) -> None:
    if verification.problems:
        raise TamperedLedger(" ".join(verification.problems))
    show.heading(f"Good: {verification.head.count:,} entries, every one as it was written.")
    show.say(f"Head: {verification.head}", *verification.unseen)
