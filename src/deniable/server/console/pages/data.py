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
from deniable.server.http.errors import describe_error
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

    fields: dict[str, str]
    columns: list[dict[str, str]]

    @classmethod
    def read(cls, form: Typed) -> RegisterForm:
        inputs = {name: START.get(name, "") for name in PLAIN}
        inputs |= {name: form.clean(name) for name in PLAIN if name in form}
        cells = [form.list_values(f"column_{name}")[:MOST_COLUMNS] for name in COLUMN]
        rows = [dict(zip(COLUMN, row, strict=True)) for row in zip(*cells, strict=False)]
        return cls(inputs, rows)

    def with_columns(self, columns: list[dict[str, str]]) -> RegisterForm:
        return RegisterForm(self.fields, columns)

    @property
    def table(self) -> str:
        return self.fields["table"] or self.fields["name"]

    @property
    def unit(self) -> Unit:
        if self.fields["protects"] == "row":
            return Unit.row()
        rows = self.fields["rows"]
        if not self.fields["unit"]:
            raise InvalidParameter("Expected the column that says whose row it is. Nothing was registered.")
        if not rows.isascii() or not rows.isdigit():
            raise InvalidParameter(
                "Expected how many rows of one person count at most, as a whole number. Nothing was "
                "registered."
            )
        return Unit.column(self.fields["unit"], max_rows=int(rows[:12]))

    @property
    def declaration(self) -> Declaration:
        inputs = self.fields
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
        return Declaration.declare(inputs["name"], {self.table: inputs["source"]}, schema, self.unit, limit)


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
        declaration["scale"] = _read_key(name, Kind.INTEGER, cells["scale"])
    if cells["keys"].strip():
        declaration["keys"] = [_read_key(name, kind, key) for key in cells["keys"].split(",")]
    return declaration


def _read_key(name: str, kind: str, text: str) -> Any:
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
async def page(visit: Here) -> Response:
    return await _page(visit)


@router.post("/data")
async def register(visit: Here) -> Response:
    """Fill in names and types, add a row, test, or register: each keeps what was typed."""
    visit.caller.need(Right.MANAGE)
    form, service, door = RegisterForm.read(visit.form), visit.door.service, visit.door
    try:
        match visit.form["act"]:
            case "more":
                return await _page(visit, form=form.with_columns([*form.columns, *_blank(BLANK_ROWS)]))
            case "read":
                description = await door.run(
                    service.describe, visit.caller, form.fields["source"], form.table
                )
                columns = [
                    _blank(1)[0] | {"name": c.name, "type": c.type.kind.value} for c in description.columns
                ]
                return await _page(
                    visit,
                    form=form.with_columns(columns),
                    good="Names and types were read from the file's head; no row was.",
                )
            case "test":
                await door.run(service.test, visit.caller, form.declaration)
                return await _page(visit, form=form, good="It opens as declared. Nothing was registered yet.")
            case _:
                warning = await door.run(service.warning, visit.caller, form.declaration)
                if await door.run(service.register, visit.caller, form.declaration) is not None:
                    return await _page(visit, good=PROPOSED, sentence=warning)
                if warning is not None:
                    return await _page(visit, good="It is registered.", sentence=warning)
    except DeniableError as error:
        status, body = describe_error(error)
        return await _page(visit, status, form=form, sentence=body["message"])
    return visit.redirect("/data")


@router.post("/data/version")
async def version(visit: Here) -> Response:
    form = visit.form
    try:
        service, new_version = visit.door.service, form.clean("version")
        if await visit.door.run(service.set_version, visit.caller, form["data"], new_version) is not None:
            return await _page(visit, good=PROPOSED)
    except DeniableError as error:
        status, body = describe_error(error)
        return await _page(visit, status, sentence=body["message"])
    return visit.redirect("/data")


def _blank(count: int) -> list[dict[str, str]]:
    return [dict.fromkeys(COLUMN, "") for _ in range(count)]


async def _page(
    visit: Visit, status: int = 200, *, form: RegisterForm | None = None, sentence: str | None = None,
    good: str | None = None,
) -> Response:  # fmt: skip
    sets = await visit.door.run(_sets, visit)
    manage = visit.caller.may(Right.MANAGE)
    form = form or RegisterForm.read(Typed([]))
    if not form.columns:
        form = form.with_columns(_blank(BLANK_ROWS))
    files = []
    if manage:
        files = await visit.door.run(visit.door.service.files, visit.caller)
    return visit.draw(
        "data.html", status, sets=sets, form=form, files=files, manage=manage, sentence=sentence, good=good,
        kinds=[kind.value for kind in Kind], opened=bool(form.fields["name"] or sentence or good or not sets),
        typed=visit.form,
    )  # fmt: skip


def _sets(visit: Visit) -> list[dict[str, Any]]:
    service, caller = visit.door.service, visit.caller
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
