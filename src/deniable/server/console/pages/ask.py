"""The page of questions: what it would cost while it is typed, the answer with its ±, and the way out of a
refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastapi import APIRouter, Response

from deniable.curator import Answer
from deniable.curator.question import TERMS, Question
from deniable.errors import AlreadyPaid, DeniableError, InvalidParameter, NotFound
from deniable.server.console import exports, recent
from deniable.server.console.page import Here, PageRoute, Typed, Visit
from deniable.server.console.pictures import pictures
from deniable.server.data.shelf import UNKNOWN, DeclaredData
from deniable.server.http.errors import describe_error
from deniable.server.people.rights import Right
from deniable.sql.schema.declare import ColumnInfo

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _write_default(value: Any) -> str:
    """A default as it is typed."""
    if value is True:
        return "on"
    return str(value)


PRICES = ("epsilon", "within")
"""The two terms of which one is chosen; the form shows the others below them."""
OTHERS = [term for name, term in TERMS.items() if name not in PRICES]
START = {"sql": "", "by": "epsilon", "epsilon": "0.1", "within": "100"} | {
    term.name: "" if term.default in (None, False) else _write_default(term.default) for term in OTHERS
}
LONGEST_QUERY = 65_536
MOST_ROWS = 500
WITHIN_LIMIT = re.compile(r"Ask with ε ≤ ([0-9.]+)")


class WayOut(NamedTuple):
    """A way out of a refusal: the words on a button, and the field that it sets. A field without a value is
    one to fill in."""

    words: str
    field: str
    value: str = ""


@dataclass(frozen=True)
class AskForm:
    """A form as it was typed."""

    data: str
    fields: dict[str, str]

    @classmethod
    def read(cls, form: Typed) -> AskForm:
        values = START | {name: form[name] for name in START if name in form}
        field, _, value = form["way"].partition("=")
        if field in START:
            values[field] = value
        return cls(form["data"], values)

    @property
    def question(self) -> Question:
        """What is asked. The half of "± or ε" that was not chosen does not count."""
        fields = self.fields
        if not fields["sql"].strip():
            raise InvalidParameter("Expected a question in SQL. Nothing was charged and nothing was run.")
        if len(fields["sql"]) > LONGEST_QUERY:
            raise InvalidParameter(
                f"Expected a question of at most {LONGEST_QUERY:,} characters. Nothing was run."
            )
        by = "within" if fields["by"] == "within" else "epsilon"
        terms = {term.name: term.read(_decimal(fields[term.name])) for term in OTHERS}
        return Question.read(fields["sql"], **{by: _decimal(fields[by])}, **terms)

    @property
    def has_more(self) -> bool:
        """Whether any of the other terms is not as it was at first."""
        return any(self.fields[term.name] != START[term.name] for term in OTHERS)


def _decimal(text: str) -> str:
    return text.strip().replace(",", ".")


# ------------------------------------------------------------------------------------------------ the page


@router.get("/ask")
async def page(visit: Here, data: str = "") -> Response:
    return await _page(visit, AskForm(data, dict(START)))


@router.post("/ask/preview")
async def preview(visit: Here) -> Response:
    """What the question would cost. Free: no data is opened."""
    asking = AskForm.read(visit.form)
    if not visit.fragment:
        return await _page(visit, asking, with_preview=True)
    return visit.draw("parts/preview.html", **await _preview(visit, asking))


@router.post("/ask")
async def ask(visit: Here) -> Response:
    """The one route here that charges."""
    asking = AskForm.read(visit.form)
    facts = await _answer(visit, asking)
    if visit.fragment:
        return visit.draw("parts/answer.html", facts.pop("status", 200), asking=asking, **facts)
    return await _page(visit, asking, with_preview=True, **facts)


@router.post("/ask/export")
async def export(visit: Here) -> Response:
    """A paid answer as a file; what was not paid for is not asked here."""
    asking, kind = AskForm.read(visit.form), visit.form["kind"]
    if kind not in exports.KINDS:
        raise NotFound("There is no such kind of file. Nothing was done.")
    question = asking.question
    answer = await visit.door.run(visit.door.service.find_kept_answer, visit.caller, asking.data, question)
    if answer is None:
        raise NotFound(
            "This answer is not kept any more: the owner has declared a new version of the data. Nothing was "
            "charged. Ask anew."
        )
    match kind:
        case "csv":
            body = exports.comma_separated(answer)
        case "parquet":
            body = exports.parquet(answer)
        case _:
            body = exports.program(question, asking.data, visit.door.origin(visit.request)).encode()
    entry = (answer.entry or "").partition(":")[0]
    name = f'attachment; filename="answer-{entry}.{kind}"'
    return Response(body, media_type=exports.KINDS[kind], headers={"content-disposition": name})


async def _page(visit: Visit, asking: AskForm, *, with_preview: bool = False, **facts: Any) -> Response:
    names = await visit.door.run(visit.door.service.datasets, visit.caller)
    visit.caller.need(Right.ASK)
    service = visit.door.service
    own = [service.schema(visit.caller, name) for name in names if service.may_ask(visit.caller, name)]
    if not own:
        return visit.draw("ask_nothing.html")
    first = next((each for each in own if each.problem is None), own[0])
    data = asking.data or first.name
    listing = next((each for each in own if each.name == data), None)
    if listing is None:
        raise NotFound(UNKNOWN)
    asking = AskForm(data, asking.fields)
    examples = _examples(listing)
    if not asking.fields["sql"] and not visit.form["data"]:
        asking.fields["sql"] = examples[0][1]
    told_before = await _preview(visit, asking)
    earlier = await visit.door.run(recent.recent, visit.door.service.state, visit.caller.name, data)
    return visit.draw(
        "ask.html", facts.pop("status", 200), asking=asking, own=own, schema=listing.schema,
        broken=listing.problem, unit=listing.unit, completion=_completion(listing),
        examples=examples, earlier=earlier, others=OTHERS,
        **told_before, **({"answer": None, "refusal": None, "ways": []} | facts),
    )  # fmt: skip


def _completion(listing: DeclaredData) -> str:
    """Tables and columns for the editor, with what is declared of each."""
    tables = {
        table.name: [{"name": column.name, "type": _describe_column(column)} for column in table.columns]
        for table in listing.schema.tables
    }
    return json.dumps(tables)


def _describe_column(column: Any) -> str:
    bounds = ""
    if column.lower is not None:
        bounds = f", {float(column.lower):g} to {float(column.upper):g}"
    keys = ""
    if column.keys is not None:
        keys = f", {len(column.keys)} public keys"
    return f"{column.type.kind.value}{bounds}{keys}"


def _examples(listing: DeclaredData) -> list[tuple[str, str]]:
    """Questions that this data set can answer, from what is declared."""
    table = next(t for t in listing.schema.tables if not t.public)
    hidden = listing.schema.identities(table.name)
    columns = [c for c in table.columns if c.name not in hidden]
    groups = [c for c in columns if c.keys] or [c for c in columns if c.type.kind.value == "text"]
    name = _quote_name(table.name)
    questions = [("How many rows", f"SELECT COUNT(*) AS n\nFROM {name}")]
    for group in groups[:1]:
        questions += _by_group(name, group, columns)
    return questions


def _by_group(table: str, group: ColumnInfo, columns: list[ColumnInfo]) -> Iterator[tuple[str, str]]:
    key = _quote_name(group.name)
    yield f"How many by {group.name}", f"SELECT {key}, COUNT(*) AS n\nFROM {table}\nGROUP BY {key}"
    quantities = [c for c in columns if c.lower is not None]
    for quantity in quantities[:1]:
        text = f"SELECT {key}, AVG({_quote_name(quantity.name)}) AS average\nFROM {table}\nGROUP BY {key}"
        yield f"Average {quantity.name} by {group.name}", text


def _quote_name(name: str) -> str:
    match = re.fullmatch(r"[a-z_][a-z0-9_]*", name)
    if match:
        return name
    return '"' + name.replace('"', '""') + '"'


# ------------------------------------------------------------------------------------ before and after paying


async def _preview(visit: Visit, asking: AskForm) -> dict[str, Any]:
    none: dict[str, Any] = {"preview": None, "problem": None, "preview_ways": []}
    if not asking.fields["sql"].strip():
        return none
    try:
        service = visit.door.service
        reply = await visit.door.run(service.preview, visit.caller, asking.data, asking.question)
    except DeniableError as error:
        sentence = describe_error(error)[1]["message"]
        return none | {"problem": sentence, "preview_ways": ways(sentence, asking)}
    return none | {"preview": reply, "preview_ways": ways(reply.refusal or "", asking)}


async def _answer(visit: Visit, asking: AskForm) -> dict[str, Any]:
    """The answer, or the sentence that refuses it with its ways out."""
    try:
        question = asking.question
        answer = await visit.door.ask(visit.caller, asking.data, question, finish=lambda answer: answer)
    except DeniableError as error:
        status, body = describe_error(error)
        sentence = body["message"]
        return {"status": status, "answer": None, "refusal": sentence, "ways": ways(sentence, asking, error)}
    entry = int((answer.entry or "0").partition(":")[0])
    await visit.door.run(
        recent.remember,
        visit.door.service.state,
        visit.caller.name,
        asking.data,
        question,
        asking.fields,
        entry,
        answer.epsilon,
    )
    return {"answer": describe_answer(answer), "refusal": None, "ways": []}


def describe_answer(answer: Answer) -> dict[str, Any]:
    rows = list(answer.rows())
    return {
        "columns": [(name, name in answer.numbers) for name in answer.value.column_names],
        "rows": rows[:MOST_ROWS],
        "more": max(len(rows) - MOST_ROWS, 0),
        "pictures": pictures(answer),
        "answer": answer,
        "entry": (answer.entry or "").partition(":")[0],
    }


def ways(sentence: str, asking: AskForm, error: DeniableError | None = None) -> list[WayOut]:
    """Buttons for what a refusal says in words."""
    buttons = []
    if limit := WITHIN_LIMIT.search(sentence):
        buttons.append(WayOut(f"Ask for ε = {limit[1]} instead", "epsilon", limit[1]))
    if "discover=True" in sentence and asking.fields["discover"] != "on":
        buttons.append(WayOut("Find the bounds privately, from part of ε", "discover", "on"))
    if "epsilon= instead" in sentence and asking.fields["by"] == "within":
        buttons.append(WayOut("Say what it may cost instead", "by", "epsilon"))
    if "at_least=" in sentence:
        buttons.append(WayOut("Say how large each group is at least", "at_least"))
    if "max_groups" in sentence:
        buttons.append(WayOut("Say how many groups one person may be in", "max_groups"))
    if isinstance(error, AlreadyPaid):
        buttons.append(WayOut("Ask anew, as a new charge", "sql", asking.fields["sql"]))
    return buttons
