"""SQLSTATEs: what tools branch on. The sentence is the error's own; of errors that are not Deniable's,
nothing is told."""

from __future__ import annotations

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
    ProtocolError,
    Stopped,
    TooMany,
    Unaccountable,
)
from deniable.server.http.errors import public

STATES: tuple[tuple[type[DeniableError], str], ...] = (
    (NotLoggedIn, "28000"),
    (Forbidden, "42501"),
    (NotFound, "3D000"),
    (BudgetExceeded, "53400"),
    (AlreadyPaid, "55000"),
    (AccountFrozen, "55006"),
    (Stopped, "57014"),
    (TooMany, "53300"),
    (InvalidQuery, "42601"),
    (InvalidParameter, "22023"),
    (Unaccountable, "22023"),
    (ProtocolError, "08P01"),
    (LedgerError, "58000"),
)
BUG = "This failed inside the server. What was charged stays charged; the reason is not told."
ABORTED = "25P02"


def describe_error(error: BaseException) -> tuple[str, str]:
    """The state and the sentence of an error."""
    # A DataError is the owner's: its sentence may tell of a row.
    if not isinstance(error, DeniableError) or isinstance(error, DataError):
        return "XX000", BUG
    sentence = public(error)
    if sentence.startswith("current transaction is aborted"):
        return ABORTED, sentence
    if isinstance(error, InvalidQuery) and sentence.startswith("relation "):
        return "42P01", sentence
    return next((state for kind, state in STATES if isinstance(error, kind)), "XX000"), sentence
