"""Errors as HTTP says them: a status and one sentence. Only errors that Deniable raises on purpose are
worded; of others, nothing is told."""

from __future__ import annotations

import logging
import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from deniable.errors import (
    AccountFrozen,
    AlreadyPaid,
    BudgetExceeded,
    DataError,
    DeniableError,
    Forbidden,
    InvalidParameter,
    InvalidQuery,
    LedgerError,
    NotFound,
    NotLoggedIn,
    Stopped,
    TooMany,
    Unaccountable,
    UnitMismatch,
)

log = logging.getLogger("deniable.server")
PLACE = re.compile(r"(?<![\w.])[/~]\S|\w+:/|\b[A-Za-z]:\\|\.(?:db|key|toml|parquet|csv)\b")
"""A path, an address, or the name of a file."""
STATUS: tuple[tuple[type[DeniableError], int], ...] = (
    (NotLoggedIn, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (BudgetExceeded, 409),
    (AlreadyPaid, 409),
    (Stopped, 409),
    (InvalidQuery, 422),
    (InvalidParameter, 422),
    (Unaccountable, 422),
    (UnitMismatch, 422),
    (AccountFrozen, 423),
    (TooMany, 429),
    (LedgerError, 503),
)
BUG = {
    "error": "Internal",
    "message": "This failed inside the server. What was charged stays charged; the reason is not told.",
}
AWAY = "The ledger or the service's database cannot be used now. Nothing was released. Tell the operator."
UNTOLD = "This failed for a reason that is the data owner's to see. Nothing was released."


def public(error: DeniableError) -> str:
    """The sentence of an error, without where things lie on the server: of a failing ledger or database only
    that it fails. (What analysts type is in other errors, and may hold strokes.)

    >>> public(LedgerError("The disk is full. The ledger is sqlite:////srv/private/privacy.db."))[:22]
    'The ledger or the serv'
    """
    sentence = str(error)
    words = isinstance(error, AccountFrozen | AlreadyPaid)  # ours, about an account whose name people choose
    if isinstance(error, LedgerError) and not words and PLACE.search(sentence):
        log.error("%s", sentence)  # for the operator
        return AWAY
    return sentence


def describe_error(error: DeniableError) -> tuple[int, dict[str, Any]]:
    """The status and the body of an error."""
    if isinstance(error, DataError):
        return 500, {"error": "DataError", "message": UNTOLD}
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    body: dict[str, Any] = {"error": type(error).__name__, "message": public(error)}
    if isinstance(error, AlreadyPaid):
        body["entry"] = error.entry
    return status, body


def install(app: FastAPI) -> None:
    app.add_exception_handler(DeniableError, _answer_deniable_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _bug)


async def _answer_deniable_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DeniableError)
    status, body = describe_error(error)
    return JSONResponse(body, status)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Which field, and why; never its value, which may be a password."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"] if part != "body")
    place = "In the request"
    if field:
        place = f"In the request, field {field}"
    sentence = f"{place}: {first['msg']}. Nothing was done and nothing was charged."
    return JSONResponse({"error": "InvalidRequest", "message": sentence}, 422)


async def _answer_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    words = {404: "There is nothing at this address.", 405: "This address does not take this method."}
    sentence = words.get(
        error.status_code, "The request could not be read. Nothing was done and nothing was charged."
    )
    return JSONResponse({"error": "HTTP", "message": sentence}, error.status_code)


async def _bug(_: Request, error: Exception) -> JSONResponse:
    """Whatever else is raised goes on to `Guard`, which writes down where it was."""
    return JSONResponse(BUG, 500)
