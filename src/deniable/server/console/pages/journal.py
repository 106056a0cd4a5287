"""The page of the ledger: every entry with its ε, what owners did, whether the seals hold, and the head to
keep elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Response

from deniable.accounting.filters import above
from deniable.errors import DeniableError
from deniable.ledger import Entry, EntryKind
from deniable.server import facts
from deniable.server.console.page import Here, PageRoute, Visit
from deniable.server.console.spending import find_change
from deniable.server.http.errors import describe_error
from deniable.server.people.rights import Right

router = APIRouter(route_class=PageRoute, include_in_schema=False)
PAGE = 50
WORDS = {
    EntryKind.CREATE: "account made",
    EntryKind.RUN: "answer",
    EntryKind.OPEN: "conversation opened",
    EntryKind.SETTLE: "conversation settled",
    EntryKind.RAISE: "limit raised",
    EntryKind.FREEZE: "frozen",
    EntryKind.THAW: "thawed",
    EntryKind.CLOSE: "closed",
    EntryKind.BEGIN: "ledger begun",
    EntryKind.CLOCK: "clock",
    EntryKind.BIND: "data bound",
    EntryKind.RESET: "set anew",
    EntryKind.RENAME: "renamed",
    EntryKind.FORGET: "forgotten",
    EntryKind.HAND: "handed over",
}


@dataclass(frozen=True)
class EntryLine:
    """An entry as the page shows it."""

    seq: int
    time: str
    words: str
    account: str
    analyst: str
    text: str
    epsilon: float | None
    has_certificate: bool

    @classmethod
    def from_entry(cls, entry: Entry) -> EntryLine:
        change = find_change(entry, entry.account)
        cost = None
        if change is not None:
            cost = change[0] * _epsilon(change[1])
        private = entry.kind in (EntryKind.RUN, EntryKind.OPEN) and bool(entry.details.get("private"))
        return cls(
            entry.seq, entry.time, WORDS[entry.kind], entry.account, entry.analyst, entry.description, cost,
            private,
        )  # fmt: skip


def _epsilon(charge: Any) -> float:
    if charge.impure:
        return math.inf
    return above(charge.epsilon)


@router.get("/ledger")
async def page(visit: Here, before: int = 0, account: str = "") -> Response:
    return await _page(visit, before=before, account=account)


@router.post("/ledger/verify")
async def verify(visit: Here) -> Response:
    """Read everything and check every seal. It changes nothing; it is no GET because it is work."""
    head = visit.form.clean("head")
    try:
        visit.door.service.throttle.hit("requests", visit.caller.name)
        verification, act = await visit.door.run(visit.door.service.verify, visit.caller, head or None)
    except DeniableError as error:
        status, body = describe_error(error)
        return await _page(visit, status, sentence=body["message"], typed_head=head)
    problems = facts.problems(verification, act)
    now = datetime.now(UTC).strftime("%H:%M:%S UTC")
    report = {
        "problems": problems,
        "unseen": verification.unseen,
        "when": now,
        "count": verification.head.count,
    }
    return await _page(visit, verified=report, typed_head=head)


async def _page(
    visit: Visit, status: int = 200, *, before: int = 0, account: str = "", **additions: Any
) -> Response:
    service, may_look = visit.door.service, visit.caller.may(Right.LOOK)
    entries = await visit.door.run(service.history, visit.caller)
    accounts = sorted({entry.account for entry in entries if entry.account})
    if account:
        entries = [entry for entry in entries if entry.account == account]
    older = [entry for entry in entries if not before or entry.seq < before]
    lines = [EntryLine.from_entry(entry) for entry in reversed(older[-PAGE:])]
    acts, head = [], ""
    if may_look:
        acts = (await visit.door.run(service.acts, visit.caller))[-PAGE:][::-1]
        head = str(await visit.door.run(service.ledger.head))
    next_page = 0
    if len(older) > PAGE:
        next_page = lines[-1].seq
    extras = {"sentence": None, "verified": None, "typed_head": ""} | additions
    return visit.draw(
        "ledger.html", status, lines=lines, acts=acts, head=head, whole=may_look, account=account,
        accounts=accounts, total=len(entries), more=next_page, **extras,
    )  # fmt: skip
