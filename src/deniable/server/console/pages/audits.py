"""The page of audits: what was claimed, what an attack found, the picture of it, and the same once more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from fastapi import APIRouter, Response
from markupsafe import Markup

from deniable.accounting.meaning import attacker_power
from deniable.accounting.proportion import lower, upper
from deniable.audit import Finding
from deniable.curator.question import read_number
from deniable.errors import DeniableError
from deniable.plots import svg
from deniable.server import audits
from deniable.server.console.page import Here, PageRoute, Visit, safe
from deniable.server.http.errors import told

router = APIRouter(route_class=PageRoute, include_in_schema=False)
START = {"what": "question", "data": "", "sql": "", "epsilon": "0.5", "delta": "1e-8"}


@router.get("/audits")
async def page(here: Here) -> Response:
    return await _page(here)


@router.post("/audits")
async def run(here: Here) -> Response:
    form, service = here.typed, here.door.service

    def act() -> int:
        epsilon = read_number("epsilon", form.clean("epsilon"))
        delta = read_number("delta", form.clean("delta") or "0")
        if form["what"] == "question":
            return audits.run(service, here.caller, form["data"], form["sql"], epsilon, delta)
        return audits.run_mechanism(service, here.caller, form["what"], epsilon, delta)

    try:
        done = await here.door.run(act)
    except DeniableError as error:
        status, body = told(error)
        return await _page(here, status, sentence=body["message"])
    return here.redirect(f"/audits/{done}")


@router.get("/audits/{audit}")
async def one(here: Here, audit: int) -> Response:
    record = await here.door.run(audits.look, here.door.service, here.caller, audit)
    return here.draw("audit.html", **_facts(record), again=None)


@router.post("/audits/{audit}/replay")
async def replay(here: Here, audit: int) -> Response:
    service = here.door.service
    record = await here.door.run(audits.look, service, here.caller, audit)
    again = await here.door.run(audits.run_again, service, here.caller, audit)
    return here.draw("audit.html", **_facts(record), again=again)


@router.get("/audits/{audit}/finding.json")
async def finding(here: Here, audit: int) -> Response:
    record = await here.door.run(audits.look, here.door.service, here.caller, audit)
    name = f'attachment; filename="finding-{audit}.json"'
    return Response(
        record.finding.to_json(), media_type="application/json", headers={"content-disposition": name}
    )


async def _page(here: Visit, status: int = 200, *, sentence: str | None = None) -> Response:
    service = here.door.service
    records = await here.door.run(audits.listed, service, here.caller)
    data = await here.door.run(service.datasets, here.caller)
    fields = {name: here.typed.get(name, value) for name, value in START.items()}
    return here.draw(
        "audits.html", status, listed=records, data=data, typed=fields, sentence=sentence,
        mechanisms=audits.MECHANISMS, broken=audits.BROKEN,
    )  # fmt: skip


def _facts(audited: audits.Audited) -> dict[str, Any]:
    bare = replace(audited.finding, witness=None)
    return {"audited": audited, "finding": audited.finding, "roc": roc(audited.finding), "lines": str(bare)}


def roc(finding: Finding) -> Markup | None:
    """Guesses of the witness by every threshold, with exact intervals, in the region that the claim
    allows."""
    witness = finding.witness
    if witness is None or not witness.counts:
        return None
    counts = np.array(witness.counts, np.int64)
    hits, totals = np.cumsum(counts[::-1], axis=0)[::-1], np.maximum(counts.sum(axis=0), 1)
    middle, low, high = hits / totals, lower(hits, totals, 0.025), upper(hits, totals, 0.025)
    sides = np.stack([middle, low, high], axis=1)
    points = [svg.Reached(*map(float, row[:, 1]), *map(float, row[:, 0])) for row in sides]
    claim = finding.claim
    picture = svg.region(
        lambda rate: attacker_power(rate, claim.epsilon, claim.delta),
        points,
        bound=f"allowed by {claim}",
        label=f"True against false positives of the attack on {finding.target}: "
        f"certified ε ≥ {finding.epsilon:.3g}, claimed {claim}",
    )
    return safe(picture)
