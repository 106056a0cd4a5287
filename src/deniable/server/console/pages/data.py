"""The page of data: what is registered, and a form to register more. Bounds and keys are typed by the owner,
who knows them; nothing on this page is read from a row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import yaml
from fastapi import APIRouter, Response

from deniable.curator.question import read_number
from deniable.errors import DeniableError, InvalidParameter
from deniable.guarantee import Budget
from deniable.server.console.page import Here, PageRoute, Typed, Visit
from deniable.server.data.declaration import Declaration
from deniable.server.http.errors import told
from deniable.server.people.rights import Right
from deniable.sql.tree import Kind
from deniable.units import Unit

router = APIRouter(route_class=PageRoute, include_in_schema=False)
PLAIN = ("name", "source", "table", "protects", "unit", "rows", "epsilon", "delta")
START = {"protects": "column", "epsilon": "3", "delta": "1e-6"}
COLUMN = ("name", "type", "low", "high", "keys", "scale")
MOST_COLUMNS = 500
PROPOSED = "Proposed. Another owner must agree, on the page Budget."
BLANK_ROWS = 3


@dataclass(frozen=True)
class RegisterForm:
    """The form as it was typed."""

    typed: dict[str, str]
    columns: list[dict[str, str]]

    @classmethod
    def of(cls, typed: Typed) -> RegisterForm:
        inputs = {name: START.get(name, "") for name in PLAIN}
        inputs |= {name: typed.clean(name) for name in PLAIN if name in typed}
        cells = [typed.all(f"column_{name}")[:MOST_COLUMNS] for name in COLUMN]
        rows = [dict(zip(COLUMN, row, strict=True)) for row in zip(*cells, strict=False)]
        return cls(inputs, rows)

    def with_columns(self, columns: list[dict[str, str]]) -> RegisterForm:
        return RegisterForm(self.typed, columns)

    @property
    def table(self) -> str:
        return self.typed["table"] or self.typed["name"]

    @property
    def unit(self) -> Unit:
        if self.typed["protects"] == "row":
            return Unit.row()
        rows = self.typed["rows"]
        if not self.typed["unit"]:
            raise InvalidParameter("Expected the column that says whose row it is. Nothing was registered.")
        if not rows.isascii() or not rows.isdigit():
            raise InvalidParameter(
                "Expected how many rows of one person count at most, as a whole number. Nothing was "
                "registered."
            )
        return Unit.column(self.typed["unit"], max_rows=int(rows[:12]))

    @property
    def declaration(self) -> Declaration:
        inputs = self.typed
        limit = Budget(
            read_number("epsilon", inputs["epsilon"]), read_number("delta", inputs["delta"] or "0")
        )
        columns = {c["name"].strip(): _column(c) for c in self.columns if c["name"].strip()}
        if not columns:
            raise InvalidParameter("Expected at least one column. Nothing was registered.")
        table: dict[str, Any] = {"columns": columns}
        if inputs["protects"] != "row":
            table["unit"] = inputs["unit"]
        schema = yaml.safe_dump({"tables": {self.table: table}}, sort_keys=False, allow_unicode=True)
        return Declaration.of(inputs["name"], {self.table: inputs["source"]}, schema, self.unit, limit)


def _column(cells: dict[str, str]) -> dict[str, Any]:
    """A column as a schema file says it."""
    name, kind = cells["name"].strip(), cells["type"]
    declaration: dict[str, Any] = {"type": kind}
    low, high = (cells[side].strip().replace(",", ".") for side in ("low", "high"))
    if bool(low) != bool(high):
        raise InvalidParameter(f"In {name}: expected both bounds, or none. Nothing was registered.")
    if low:
        declaration["bounds"] = [low, high]
    if cells["scale"].strip() and kind == Kind.DECIMAL:
        declaration["scale"] = _typed(name, Kind.INTEGER, cells["scale"])
    if cells["keys"].strip():
        declaration["keys"] = [_typed(name, kind, key) for key in cells["keys"].split(",")]
    return declaration


def _typed(name: str, kind: str, text: str) -> Any:
    """A key as its column's type."""
    text = text.strip()
    try:
        match kind:
            case Kind.INTEGER:
                return int(text)
            case Kind.BOOLEAN if text in ("true", "false"):
                return text == "true"
            case Kind.DATE:
                return date.fromisoformat(text)
            case Kind.TIMESTAMP:
                return datetime.fromisoformat(text)
            case Kind.BOOLEAN:
                raise ValueError
            case _:
                return text
    except ValueError:
        raise InvalidParameter(
            f"In {name}: {text[:40]!r} is not of type {kind}. Nothing was registered."
        ) from None


# ------------------------------------------------------------------------------------------------ the page


@router.get("/data")
async def page(here: Here) -> Response:
    return await _page(here)


@router.post("/data")
async def register(here: Here) -> Response:
    """Fill in names and types, add a row, test, or register: each keeps what was typed."""
    here.caller.need(Right.MANAGE)
    form, service, door = RegisterForm.of(here.typed), here.door.service, here.door
    try:
        match here.typed["act"]:
            case "more":
                return await _page(here, form=form.with_columns([*form.columns, *_blank(BLANK_ROWS)]))
            case "read":
                description = await door.run(service.describe, here.caller, form.typed["source"], form.table)
                columns = [
                    _blank(1)[0] | {"name": c.name, "type": c.type.kind.value} for c in description.columns
                ]
                return await _page(
                    here,
                    form=form.with_columns(columns),
                    good="Names and types were read from the file's head; no row was.",
                )
            case "test":
                await door.run(service.test, here.caller, form.declaration)
                return await _page(here, form=form, good="It opens as declared. Nothing was registered yet.")
            case _:
                warning = await door.run(service.warning, here.caller, form.declaration)
                if await door.run(service.register, here.caller, form.declaration) is not None:
                    return await _page(here, good=PROPOSED, sentence=warning)
                if warning is not None:
                    return await _page(here, good="It is registered.", sentence=warning)
    except DeniableError as error:
        status, body = told(error)
        return await _page(here, status, form=form, sentence=body["message"])
    return here.redirect("/data")


@router.post("/data/version")
async def version(here: Here) -> Response:
    form = here.typed
    try:
        service, new_version = here.door.service, form.clean("version")
        if await here.door.run(service.set_version, here.caller, form["data"], new_version) is not None:
            return await _page(here, good=PROPOSED)
    except DeniableError as error:
        status, body = told(error)
        return await _page(here, status, sentence=body["message"])
    return here.redirect("/data")


def _blank(count: int) -> list[dict[str, str]]:
    return [dict.fromkeys(COLUMN, "") for _ in range(count)]


async def _page(
    here: Visit, status: int = 200, *, form: RegisterForm | None = None, sentence: str | None = None,
    good: str | None = None,
) -> Response:  # fmt: skip
    sets = await here.door.run(_sets, here)
    manage = here.caller.may(Right.MANAGE)
    form = form or RegisterForm.of(Typed([]))
    if not form.columns:
        form = form.with_columns(_blank(BLANK_ROWS))
    files = []
    if manage:
        files = await here.door.run(here.door.service.files, here.caller)
    return here.draw(
        "data.html", status, sets=sets, form=form, files=files, manage=manage, sentence=sentence, good=good,
        kinds=[kind.value for kind in Kind], opened=bool(form.typed["name"] or sentence or good or not sets),
        typed=here.typed,
    )  # fmt: skip


def _sets(here: Visit) -> list[dict[str, Any]]:
    service, caller = here.door.service, here.caller
    sets = []
    for name in service.datasets(caller):
        listing = service.schema(caller, name)
        versions = []
        if caller.may(Right.LOOK):
            versions = [a for a in service.acts(caller) if a.act == "new version" and a.about == name]
        sets.append(
            {
                "name": name,
                "schema": listing.schema,
                "unit": listing.unit,
                "owner": listing.owner,
                "mine": listing.owner == caller.name and caller.may(Right.MANAGE),
                "problem": listing.problem,
                "versions": versions[::-1],
            }
        )
    return sets
