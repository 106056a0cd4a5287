"""Data sets, previews, queries and jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import JSONResponse

from deniable.curator import Answer
from deniable.curator.question import read_number
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.server import facts
from deniable.server.data.declaration import Declaration
from deniable.server.http import bodies
from deniable.server.http.door import AtDoor, Who
from deniable.server.http.jobs import Jobs
from deniable.server.people.rights import Caller, Right
from deniable.sql.schema.file import save
from deniable.units import Unit

router = APIRouter(prefix="/v1", tags=["data"], route_class=bodies.StrictRoute)


async def jobs_of(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


Running = Annotated[Jobs, Depends(jobs_of)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]


def budget(limit: bodies.LimitBody) -> Budget:
    return Budget(read_number("epsilon", limit.epsilon), read_number("delta", limit.delta))


@router.get("/datasets")
async def datasets(caller: Who, door: AtDoor) -> list[str]:
    return await door.run(door.service.datasets, caller)


@router.post("/datasets", status_code=201)
async def register(body: bodies.NewData, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Register a data set: its sources, its schema as YAML, whom it protects and its limit."""
    caller.need(Right.MANAGE)
    try:
        unit = Unit.from_dict(body.unit)
    except (KeyError, TypeError, ValueError):
        raise InvalidParameter(
            'Expected a unit like {"kind": "column", …}, as `Unit.to_dict` writes it.'
        ) from None
    declaration = Declaration.declare(body.name, body.sources, body.schema_, unit, budget(body.limit))
    warning = await door.run(door.service.warning, caller, declaration)
    proposal = await door.run(door.service.register, caller, declaration)
    return {"name": body.name, "proposal": proposal, "warning": warning}


@router.get("/datasets/{name}")
async def dataset(name: str, caller: Who, door: AtDoor) -> dict[str, Any]:
    """What is declared about a data set: tables, columns, types, bounds, public keys. Never where it lies or
    how large it is. `problem` says that it cannot be opened now; to its owner, also why."""
    listing = await door.run(door.service.schema, caller, name)
    return {
        "name": name,
        "version": listing.schema.version,
        "schema": save(listing.schema),
        "unit": listing.unit.to_dict(),
        "problem": listing.problem,
    }


@router.put("/datasets/{name}/version")
async def version(name: str, body: bodies.Version, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Declare that the data is another from now on: kept answers are of the past."""
    proposal = await door.run(door.service.set_version, caller, name, body.version)
    return {"name": name, "version": body.version, "proposal": proposal}


@router.put("/datasets/{name}/owner")
async def hand_over(name: str, body: bodies.NewOwner, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Hand a data set over to another owner."""
    proposal = await door.run(door.service.hand_over, caller, name, body.owner)
    return {"name": name, "owner": body.owner, "proposal": proposal}


@router.post("/datasets/{name}/analysts", status_code=201)
async def grant(name: str, body: bodies.Grant, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Give an analyst a part of the budget."""
    account = await door.run(door.service.grant, caller, name, body.analyst, budget(body.limit))
    return {"account": account.name}


@router.post("/datasets/{name}/preview", response_model=dict[str, Any])
async def preview(name: str, body: bodies.QueryBody, caller: Who, door: AtDoor) -> Response:
    """What a query would cost and how far it may be off. Free: no data is opened."""

    def look() -> Response:
        return JSONResponse(facts.to_json_value(door.service.preview(caller, name, body.question).to_dict()))

    return await door.run(look)


@router.post("/datasets/{name}/queries", response_model=dict[str, Any])
async def query(name: str, body: bodies.QueryBody, caller: Who, door: AtDoor, key: Key = None) -> Response:
    """Ask. With an `Idempotency-Key`, the same request is charged at most once, however often it is sent."""

    def to_response(answer: Answer) -> Response:
        return JSONResponse(facts.to_json_value(answer.to_dict(arrow=body.form == "arrow")))

    return await door.ask(caller, name, body.question, key, finish=to_response)


# ------------------------------------------------------------------------------------------------ jobs


@router.post("/datasets/{name}/jobs", status_code=202)
async def start(
    name: str, body: bodies.QueryBody, caller: Who, door: AtDoor, jobs: Running, key: Key = None
) -> dict[str, Any]:
    """Ask, and fetch the answer later. A job says that it runs or that it has ended, and nothing in
    between."""
    curator = await door.run(door.service.curator, caller, name)
    asking = door.service.asking(caller, curator, name, body.question, key=key)
    return {"job": await jobs.start(caller, asking, arrow=body.form == "arrow"), "state": "running"}


@router.get("/jobs/{job}")
async def job(job: str, caller: Who, jobs: Running) -> dict[str, Any]:
    return await jobs.look(_asking(caller), job)


@router.delete("/jobs/{job}")
async def stop(job: str, caller: Who, jobs: Running) -> dict[str, Any]:
    """Stop a job. What was charged stays charged, whether the engine had finished or not."""
    await jobs.stop(_asking(caller), job)
    return {}


def _asking(caller: Caller) -> Caller:
    caller.need(Right.ASK)
    return caller
