"""What requests bring. Unknown fields are refused, texts are bounded, and no value is ever echoed back in an
error."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.exceptions import HTTPException

from deniable import strict_json
from deniable.curator.question import TERMS, Question, Term, TermKind
from deniable.errors import InvalidParameter

Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=65_536)]
Secret = Annotated[str, Field(min_length=1, max_length=300)]
Subject = Annotated[str, Field(min_length=1, max_length=255)]
Reason = Annotated[str, Field(min_length=1, max_length=1000)]
Number = Annotated[int | float | str, Field(union_mode="smart")]
"""A decimal number, or its digits as a text where they should not pass through binary."""


class StrictRequest(Request):
    """A request whose JSON has one meaning: no key stands twice in an object."""

    async def json(self) -> Any:
        return strict_json.parse(await self.body(), InvalidParameter, "a request")


class StrictRoute(APIRoute):
    """Every route that takes JSON reads it so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(StrictRequest(request.scope, request.receive))
            except HTTPException as error:  # what was wrong with a body is behind it
                if isinstance(error.__cause__, InvalidParameter):
                    raise InvalidParameter(f"{error.__cause__} Nothing was done.") from None
                raise

        return handle


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Login(Body):
    name: Name
    password: Secret


class NewPassword(Body):
    new: Secret
    old: Secret | None = None


class NewToken(Body):
    label: Annotated[str, Field(max_length=100)] = ""
    scope: Annotated[list[Literal["ask", "look", "manage"]], Field(min_length=1, max_length=3)] = ["ask"]
    days: Annotated[float, Field(gt=0, le=366)] = 30.0


class NewPerson(Body):
    name: Name
    roles: Annotated[list[Literal["owner", "analyst", "auditor"]], Field(min_length=1, max_length=3)]
    subject: Subject | None = None


class Link(Body):
    subject: Subject | None


class Change(Body):
    roles: (
        Annotated[list[Literal["owner", "analyst", "auditor"]], Field(min_length=1, max_length=3)] | None
    ) = None
    disabled: bool | None = None


class LimitBody(Body):
    epsilon: Number
    delta: Number = 0


class NewData(Body):
    name: Name
    sources: Annotated[dict[Name, Annotated[str, Field(max_length=1000)]], Field(min_length=1, max_length=50)]
    schema_: Annotated[str, Field(alias="schema", max_length=262_144)]
    unit: dict[str, Any]
    limit: LimitBody


class Version(Body):
    version: Annotated[str, Field(min_length=1, max_length=100)]


class NewOwner(Body):
    owner: Name


class Grant(Body):
    analyst: Name
    limit: LimitBody


class Raise(Body):
    limit: LimitBody
    reason: Reason
    analyst: Name | None = None


class Note(Body):
    reason: Reason
    analyst: Name | None = None


class NewAudit(Body):
    epsilon: Number
    delta: Number = 0
    data: Name | None = None
    sql: Text | None = None
    mechanism: Name | None = None


class TextBody(Body):
    """The text of a query. `form` "arrow" adds the answer as Arrow streams in base64."""

    sql: Text
    form: Literal["json", "arrow"] = "json"

    @property
    def question(self) -> Question:
        return Question.read(self.sql, **{name: getattr(self, name) for name in TERMS})


def _field_type(term: Term) -> Any:
    """What a term may be in JSON, so that the schema of the service tells its limits."""
    match term.kind:
        case TermKind.NUMBER:
            kind: Any = Number
        case TermKind.PROBABILITY:
            kind = Annotated[float, Field(gt=0, lt=1)]
        case TermKind.WHOLE:
            kind = Annotated[int, Field(ge=term.least, le=term.most)]
        case TermKind.SWITCH:
            kind = bool
        case TermKind.WORD:
            kind = Literal[term.choices]
    if term.default is None:
        kind = kind | None
    return Annotated[kind, Field(description=term.help)]


if TYPE_CHECKING:
    QueryBody = TextBody  # all that routes look at
else:
    QueryBody = create_model(
        "QueryBody",
        __base__=TextBody,
        __doc__="A query and its terms, as `Curator.sql` takes them.",
        **{name: (_field_type(term), term.default) for name, term in TERMS.items()},
    )
