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
from deniable.server.console.page import Here, PageRoute, Visit, trust_picture
from deniable.server.http.errors import describe_error

router = APIRouter(route_class=PageRoute, include_in_schema=False)
START = {"what": "question", "data": "", "sql": "", "epsilon": "0.5", "delta": "1e-8"}


@router.get("/audits")
async def page(visit: Here) -> Response:
    return await _page(visit)


@router.post("/audits")
async def run(visit: Here) -> Response:
    form, service = visit.form, visit.door.service

    def act() -> int:
        epsilon = read_number("epsilon", form.clean("epsilon"))
        delta = read_number("delta", form.clean("delta") or "0")
        if form["what"] == "question":
            return audits.run(service, visit.caller, form["data"], form["sql"], epsilon, delta)
        return audits.run_mechanism(service, visit.caller, form["what"], epsilon, delta)

    try:
        done = await visit.door.run(act)
    except DeniableError as error:
        status, body = describe_error(error)
        return await _page(visit, status, sentence=body["message"])
    return visit.redirect(f"/audits/{done}")


@router.get("/audits/{audit}")
async def show_audit(visit: Here, audit: int) -> Response:
    record = await visit.door.run(audits.look, visit.door.service, visit.caller, audit)
    return visit.draw("audit.html", **_facts(record), again=None)


@router.post("/audits/{audit}/replay")
async def replay(visit: Here, audit: int) -> Response:
    service = visit.door.service
    record = await visit.door.run(audits.look, service, visit.caller, audit)
    again = await visit.door.run(audits.run_again, service, visit.caller, audit)
    return visit.draw("audit.html", **_facts(record), again=again)


@router.get("/audits/{audit}/finding.json")
async def finding(visit: Here, audit: int) -> Response:
    record = await visit.door.run(audits.look, visit.door.service, visit.caller, audit)
    name = f'attachment; filename="finding-{audit}.json"'
    return Response(
        record.finding.to_json(), media_type="application/json", headers={"content-disposition": name}
    )


async def _page(visit: Visit, status: int = 200, *, sentence: str | None = None) -> Response:
    service = visit.door.service
    records = await visit.door.run(audits.list_audits, service, visit.caller)
    data = await visit.door.run(service.datasets, visit.caller)
    fields = {name: visit.form.get(name, value) for name, value in START.items()}
    return visit.draw(
        "audits.html", status, listed=records, data=data, typed=fields, sentence=sentence,
        mechanisms=audits.MECHANISMS, broken=audits.BROKEN,
    )  # fmt: skip


def _facts(record: audits.Audited) -> dict[str, Any]:
    bare = replace(record.finding, witness=None)
    return {"audited": record, "finding": record.finding, "roc": roc(record.finding), "lines": str(bare)}


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
    return trust_picture(picture)
