"""Accounts, the journal, acts and certificates."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from deniable.ledger.journal.export import comma_separated, json_lines
from deniable.server import facts
from deniable.server.http import bodies
from deniable.server.http.data_routes import budget
from deniable.server.http.door import AtDoor, Who
from deniable.server.people.rights import Right

router = APIRouter(prefix="/v1", tags=["ledger"], route_class=bodies.StrictRoute)
Analyst = Annotated[str | None, Query(max_length=200)]
FORMS = {
    "jsonl": (json_lines, "application/jsonl"),
    "csv": (comma_separated, "text/csv; charset=utf-8"),
}
"""How the journal is exported, each with its media type."""


@router.get("/accounts")
async def accounts(caller: Who, door: AtDoor) -> list[dict[str, Any]]:
    """One's own parts; for owner and auditor every account."""

    def look() -> list[dict[str, Any]]:
        service, may_look = door.service, caller.may(Right.LOOK)
        every = service.datasets(caller)
        if not may_look:
            return [facts.account(service.account(caller, name, caller.name), full=False) for name in every]
        ledger_accounts = [
            account
            for name in every
            for account in (service.account(caller, name), *service.parts(caller, name))
        ]
        return [facts.account(account, full=True) for account in ledger_accounts]

    reply: list[dict[str, Any]] = facts.to_json_value(await door.run(look))
    return reply


@router.get("/accounts/{name}")
async def account(name: str, caller: Who, door: AtDoor, analyst: Analyst = None) -> dict[str, Any]:
    """A data set's balance, for owner and auditor; with `analyst`, the balance of her part of it, for herself
    too."""
    may_look = caller.may(Right.LOOK)

    def look() -> dict[str, Any]:
        who = analyst or (None if may_look else caller.name)
        return facts.account(door.service.account(caller, name, who), full=may_look)

    reply: dict[str, Any] = facts.to_json_value(await door.run(look))
    return reply


@router.post("/accounts/{name}/raise")
async def raise_limit(name: str, body: bodies.Raise, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Raise a limit, with a reason. Journaled; where the service asks for a second person, a proposal that
    waits for her."""
    proposal = await door.run(
        door.service.raise_limit, caller, name, body.analyst, budget(body.limit), body.reason
    )
    return {"proposal": proposal}


@router.get("/proposals")
async def proposals(caller: Who, door: AtDoor) -> list[dict[str, Any]]:
    """What waits for a second person, for owner and auditor."""
    return [asdict(proposal) for proposal in await door.run(door.service.waiting, caller)]


@router.post("/proposals/{proposal}/agree")
async def agree(proposal: str, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Another owner agrees: the act is done, in the name of who proposed it. Where it gives somebody a
    one-time password, its second half is shown this once."""
    return {"second_half": await door.run(door.service.agree, caller, proposal)}


@router.delete("/proposals/{proposal}")
async def drop(proposal: str, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Refuse a proposal, or take one's own back."""
    await door.run(door.service.drop, caller, proposal)
    return {}


@router.post("/accounts/{name}/freeze")
async def freeze(name: str, body: bodies.Note, caller: Who, door: AtDoor) -> dict[str, Any]:
    await door.run(door.service.freeze, caller, name, body.analyst, body.reason)
    return {}


@router.post("/accounts/{name}/unfreeze")
async def unfreeze(name: str, body: bodies.Note, caller: Who, door: AtDoor) -> dict[str, Any]:
    return {"proposal": await door.run(door.service.unfreeze, caller, name, body.analyst, body.reason)}


@router.get("/ledger/entries")
async def entries(
    caller: Who,
    door: AtDoor,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    most: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[dict[str, Any]]:
    """The journal in order: one's own entries; all of them for owner and auditor."""
    history = await door.run(door.service.history, caller)
    view = facts.entry if caller.may(Right.LOOK) else facts.own_entry
    reply: list[dict[str, Any]] = facts.to_json_value(
        [view(each) for each in history if each.seq > after][:most]
    )
    return reply


@router.get("/ledger/head")
async def head(caller: Who, door: AtDoor) -> dict[str, Any]:
    """How many entries there are, and the last seal: keep it elsewhere."""
    caller.need(Right.LOOK)
    return {"head": str(await door.run(door.service.ledger.head))}


@router.get("/ledger/verify")
async def verify(
    caller: Who, door: AtDoor, head: Annotated[str | None, Query(max_length=100)] = None
) -> dict[str, Any]:
    """Check every seal, number and sum, against a head kept elsewhere where one is given."""
    verification, act = await door.run(door.service.verify, caller, head)
    problems = facts.problems(verification, act)
    return {
        "ok": not problems,
        "head": str(verification.head),
        "problems": problems,
        "unseen": list(verification.unseen),
    }


@router.get("/ledger/export")
async def export(caller: Who, door: AtDoor, format: Literal["jsonl", "csv"] = "jsonl") -> Response:
    """The whole journal, for owner and auditor."""
    caller.need(Right.LOOK)
    writer, kind = FORMS[format]

    def write() -> str:
        sink = io.StringIO()
        writer(door.service.history(caller), sink)
        return sink.getvalue()

    name = f'attachment; filename="journal.{format}"'
    return Response(await door.run(write), media_type=kind, headers={"content-disposition": name})


@router.get("/acts")
async def acts(caller: Who, door: AtDoor) -> list[dict[str, Any]]:
    """What owners did, for owner and auditor."""
    return [act._asdict() for act in await door.run(door.service.acts, caller)]


@router.get("/certificates/{seq}")
async def certificate(seq: int, caller: Who, door: AtDoor) -> dict[str, Any]:
    """A certificate of one's own release, which `deniable verify` checks."""
    document = await door.run(door.service.certificate, caller, seq)
    reply: dict[str, Any] = json.loads(document.to_json())
    return reply
