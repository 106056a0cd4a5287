"""The page of budgets: how much of each limit is used, what is left of it in plain words, and raising one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Response
from markupsafe import Markup

from deniable.accounting.filters import Filter, Left, Spent
from deniable.accounting.filters.charges import Charge
from deniable.curator.question import read_number
from deniable.errors import DeniableError
from deniable.guarantee import Budget
from deniable.ledger import Account, Entry, EntryKind, names
from deniable.loss import Pure
from deniable.numbers import short_down, short_up
from deniable.plots import svg
from deniable.server.console import spending
from deniable.server.console.page import Here, PageRoute, Visit, trust_picture
from deniable.server.http.errors import describe_error
from deniable.server.people.rights import Right
from deniable.server.service import analyst_of
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema
from deniable.units import Unit

router = APIRouter(route_class=PageRoute, include_in_schema=False)
CLOSE = 50
"""The ± of the counts that a balance is told in."""
MOST_COUNTS = 10**6


@dataclass(frozen=True)
class Balance:
    """An account as the page shows it."""

    data: str
    analyst: str | None
    owner: str
    status: str
    limit: Budget
    spending: Spent
    left: Left
    counts: int | None
    last: str | None

    @property
    def name(self) -> str:
        if self.analyst is None:
            return self.data
        return names.part(self.data, self.analyst)

    @property
    def dial(self) -> Markup:
        words = f"{self.name}: ε {short_up(self.spending.epsilon)} of {float(self.limit.epsilon):g} spent"
        middle, below = short_up(self.spending.epsilon, 3), f"of ε = {float(self.limit.epsilon):g} spent"
        return trust_picture(svg.dial(self.spending.share, middle=middle, caption=below, label=words))

    @property
    def meter(self) -> Markup:
        percent = min(math.ceil(100 * self.spending.share), 100)
        return trust_picture(
            svg.meter(self.spending.share, label=f"{self.name}: {percent} % of the limit used")
        )

    @property
    def words(self) -> str:
        """What is left, as questions that people ask."""
        if self.counts is None:
            return f"left for one charge: ε ≤ {short_down(self.left.epsilon)}"
        if self.counts == 0:
            return f"not one more count of ±\u00a0{CLOSE}"
        many = f"about {self.counts:,}"
        if self.counts >= MOST_COUNTS:
            many = f"more than {MOST_COUNTS:,}"
        return f"{many} more count{'s' * (self.counts != 1)} of ±\u00a0{CLOSE}"


@router.get("/budget")
async def page(visit: Here) -> Response:
    return await _page(visit)


@router.post("/budget/raise")
async def raise_limit(visit: Here) -> Response:
    form = visit.form

    def act() -> str | None:
        limit = Budget(
            read_number("epsilon", form.clean("epsilon")), read_number("delta", form.clean("delta"))
        )
        analyst = form["analyst"] or None
        return visit.door.service.raise_limit(
            visit.caller, form["data"], analyst, limit, form.clean("reason")
        )

    return await _carry_out(visit, act)


@router.post("/budget/freeze")
async def freeze(visit: Here) -> Response:
    form = visit.form
    service = visit.door.service
    act = {"unfreeze": service.unfreeze}.get(form["act"], service.freeze)
    return await _carry_out(
        visit, lambda: act(visit.caller, form["data"], form["analyst"] or None, form.clean("reason"))
    )


@router.post("/budget/agree")
async def agree(visit: Here) -> Response:
    service, number = visit.door.service, visit.form["proposal"]
    if visit.form["act"] == "drop":
        return await _carry_out(visit, lambda: service.drop(visit.caller, number))
    try:
        half = await visit.door.run(service.agree, visit.caller, number)
    except DeniableError as error:
        status, body = describe_error(error)
        return await _page(visit, status, sentence=body["message"])
    if half is None:
        return visit.redirect("/budget")
    return await _page(visit, half=half)


async def _carry_out(visit: Visit, act: Any) -> Response:
    """Do it, and show the page; where it was refused, with what was typed."""
    try:
        proposal = await visit.door.run(act)
    except DeniableError as error:
        status, body = describe_error(error)
        return await _page(visit, status, sentence=body["message"])
    if proposal is not None:
        return await _page(visit, proposal=proposal)
    return visit.redirect("/budget")


async def _page(visit: Visit, status: int = 200, **additions: Any) -> Response:
    service = visit.door.service
    balances, charts = await visit.door.run(_facts, visit)
    sees_all = visit.caller.may(Right.LOOK)
    waiting = []
    if sees_all:
        waiting = await visit.door.run(service.waiting, visit.caller)
    facts = {"sentence": None, "proposal": None, "half": None} | additions
    roots = [each for each in balances if each.analyst is None] or balances
    return visit.draw(
        "budget.html", status, roots=roots, balances=balances, charts=charts, typed=visit.form,
        second=service.settings.second_person, whole=sees_all, waiting=waiting, **facts,
    )  # fmt: skip


def _facts(visit: Visit) -> tuple[list[Balance], list[Markup]]:
    """The balances, and what was spent by when of each data set, or of one's own parts."""
    entries = visit.door.service.history(visit.caller)
    balances = _balances(visit, entries)
    roots = [each for each in balances if each.analyst is None] or balances
    return balances, [
        trust_picture(spending.picture(visit.door.service, entries, each.name)) for each in roots
    ]


def _balances(visit: Visit, entries: list[Entry]) -> list[Balance]:
    service, caller = visit.door.service, visit.caller
    last = _last_times(entries)
    rows = []
    for name in service.datasets(caller):
        schema = service.schema(caller, name).schema
        if not caller.may(Right.LOOK):
            rows.append(_balance(service.account(caller, name, caller.name), name, caller.name, schema, last))
            continue
        rows.append(_balance(service.account(caller, name), name, None, schema, last))
        for part in service.parts(caller, name):
            rows.append(_balance(part, name, analyst_of(part), schema, last))
    return rows


def _last_times(entries: list[Entry]) -> dict[str, str]:
    """When each account was charged last, by itself or by one of its parts."""
    times: dict[str, str] = {}
    for entry in entries:
        if entry.kind in (EntryKind.RUN, EntryKind.OPEN):
            times[entry.account] = times[entry.account.partition(names.STROKE)[0]] = entry.time
    return times


def _balance(
    account: Account, data: str, analyst: str | None, schema: Schema, last: dict[str, str]
) -> Balance:
    standing = account.standing()
    limit = standing.filter
    price = count_price(schema, account.unit)
    counts = None
    if price is not None:
        counts = count_charges(limit, standing.spent, price)
    return Balance(
        data, analyst, standing.owner, str(standing.status), limit.limit, limit.spent(standing.spent),
        limit.left(standing.spent), counts, last.get(account.name),
    )  # fmt: skip


@lru_cache(maxsize=256)
def count_price(schema: Schema, unit: Unit) -> float | None:
    """The ε of one count within ± CLOSE; None where a plain count is not answered. From metadata alone."""
    private = [table.name for table in schema.tables if not table.public]
    table = private[0].replace('"', '""')
    try:
        query = check(f'SELECT COUNT(*) FROM "{table}"', schema, unit)
        return float(plan(query, unit, Terms(None, within=CLOSE)).epsilon)
    except DeniableError:
        return None


def count_charges(limit: Filter, total: Charge, epsilon: float) -> int:
    """How many more charges of ε fit, one after the other.

    >>> limit = Filter.of(Budget(3))
    >>> count_charges(limit, limit.nothing, 0.125)
    24
    """
    each = limit.charge(Pure(epsilon))
    low, high = 0, 1
    while high <= MOST_COUNTS and limit.admits(total + each * high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if limit.admits(total + each * middle):
            low = middle
        else:
            high = middle
    return min(low, MOST_COUNTS)
