"""Audits: attacks on how the service would answer, on tables made up from what is declared. For owner and
auditor; nothing is charged."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path

from deniable.curator.question import read_number
from deniable.errors import InvalidParameter
from deniable.server import audits
from deniable.server.http import bodies
from deniable.server.http.door import AtDoor, Who

router = APIRouter(prefix="/v1", tags=["audits"], route_class=bodies.StrictRoute)
Number = Annotated[int, Path(ge=1, le=2**31)]


@router.get("/audits")
async def listed(caller: Who, door: AtDoor) -> list[dict[str, Any]]:
    """What was found, newest first."""
    return [_to_dict(each) for each in await door.run(audits.list_audits, door.service, caller)]


@router.post("/audits", status_code=201)
async def run(body: bodies.NewAudit, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Attack a question about a data set (`data` and `sql`), or a mechanism by its name."""
    epsilon, delta = read_number("epsilon", body.epsilon), read_number("delta", body.delta)
    if body.mechanism is not None and body.data is None and body.sql is None:
        done = await door.run(audits.run_mechanism, door.service, caller, body.mechanism, epsilon, delta)
    elif body.mechanism is None and body.data is not None and body.sql is not None:
        done = await door.run(audits.run, door.service, caller, body.data, body.sql, epsilon, delta)
    else:
        raise InvalidParameter("Expected data and sql, or mechanism. Nothing was run.")
    return {"audit": done}


@router.get("/audits/{audit}")
async def look(audit: Number, caller: Who, door: AtDoor) -> dict[str, Any]:
    """One finding, with its witness."""
    return _to_dict(await door.run(audits.look, door.service, caller, audit))


@router.post("/audits/{audit}/replay")
async def replay(audit: Number, caller: Who, door: AtDoor) -> dict[str, Any]:
    """The decisive part of a finding once more, from the same seed."""
    finding = await door.run(audits.run_again, door.service, caller, audit)
    reply: dict[str, Any] = json.loads(finding.to_json())
    return reply


def _to_dict(record: audits.Audited) -> dict[str, Any]:
    finding = json.loads(record.finding.to_json())
    summary = {"audit": record.id, "person": record.person, "time": record.time, "about": record.subject}
    return summary | {"finding": finding}
