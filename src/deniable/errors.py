"""Everything Deniable raises, as one tree.

    DeniableError
    ├── InvalidParameter      a parameter outside its range; raised before data is opened (also a ValueError)
    │   ├── InvalidLoss       a loss that means nothing, or that cannot be combined so
    │   └── InvalidBudget     a limit that is none
    ├── Unaccountable         no valid bound is known for this loss by this method
    ├── BudgetExceeded        the charge does not fit; nothing was run, nothing was charged
    ├── UnitMismatch          a loss for one unit of privacy, an account for another
    ├── InvalidQuery          a query that is not answered, for a reason in its text or the declared schema
    │   └── NotComputed       what follows a release could not be computed; that is paid for, and kept
    ├── Stopped               whoever asked has stopped it; what was charged stays charged
    ├── LedgerError           the journal could not be read or written; nothing was released
    │   ├── AccountFrozen     an earlier failure waits for the owner
    │   ├── AlreadyPaid       this request was paid for, its answer is gone; nothing is charged or run twice
    │   ├── Uncopyable        a copy or a pickle of what there is only one of (also a TypeError)
    │   └── TamperedLedger    the journal is not what was written
    ├── InvalidCertificate    a certificate that does not check
    ├── ProtocolError         a message that a protocol does not allow; the round is over for who got it
    ├── Forbidden             who asks may not do this; nothing was done
    │   └── NotLoggedIn       who asks has not proved who she is
    ├── NotFound              what is named is not there, or not for whoever asks
    ├── TooMany               more than the limit of requests in so much time; nothing was done
    ├── MissingExtra          an optional package is not installed
    └── DataError             what the owner may see about the data; never forwarded to an analyst

A message is a sentence: the value, the limit, what was and was not done, the way out.
Numbers are attributes too.
"""

from __future__ import annotations


class DeniableError(Exception):
    """Root of all errors that Deniable raises on purpose."""


class InvalidParameter(DeniableError, ValueError):
    """A parameter lies outside its range. Raised before any data is opened or anything is charged."""


class InvalidLoss(InvalidParameter):
    """A loss node that has no meaning, or a combination that has none."""


class InvalidBudget(InvalidParameter):
    """A limit that is not a limit."""


class Unaccountable(DeniableError):
    """No valid bound is known for this loss by the method asked for."""


class BudgetExceeded(DeniableError):
    """The charge does not fit under the limit. Nothing was run and nothing was charged.

    `asked`, `spent` and `limit` are the ε of the charge, of the account before it and of its limit; `total`
    is where the charge would have brought the account.
    """

    def __init__(self, message: str, *, asked: float, spent: float, total: float, limit: float) -> None:
        super().__init__(message)
        self.asked = asked
        self.spent = spent
        self.total = total
        self.limit = limit


class UnitMismatch(DeniableError):
    """A loss stated for one unit of privacy was to be charged to an account of another."""


class InvalidQuery(DeniableError):
    """A query that is refused for a reason found in its text or in the declared schema, never in the data."""


class NotComputed(InvalidQuery):
    """What is said over a release could not be computed. The release is charged and kept: asked again, it is
    free."""


class Stopped(DeniableError):
    """Whoever asked has stopped it. What was charged stays charged, nothing was released, nothing is
    frozen."""


class LedgerError(DeniableError):
    """The journal could not be read or written. Nothing was released."""


class AccountFrozen(LedgerError):
    """An earlier failure on this account waits for its owner to look."""


class AlreadyPaid(LedgerError):
    """A request that was paid for by `entry`, and whose answer is not kept. Nothing was
    charged again and nothing was run."""

    def __init__(self, message: str, *, entry: int) -> None:
        super().__init__(message)
        self.entry = entry


class Uncopyable(LedgerError, TypeError):
    """What there is only one of (a session, a connection, a generator's state) was to be copied or
    pickled."""


class TamperedLedger(LedgerError):
    """The journal is not the one that was written."""


class InvalidCertificate(DeniableError):
    """A certificate that is malformed or whose numbers do not come out when computed again."""


class ProtocolError(DeniableError):
    """A message that a protocol between parties does not allow. Whoever raises this
    takes no further part in the round."""


class Forbidden(DeniableError):
    """Who asks has proved who she is, and may not do this. Nothing was done."""


class NotLoggedIn(Forbidden):
    """Who asks has not proved who she is. Nothing was done."""


class NotFound(DeniableError):
    """What is named is not there, or is not for whoever asks: the two look the same."""


class TooMany(DeniableError):
    """More requests than the limit in so much time. Nothing was done."""


class MissingExtra(DeniableError):
    """An optional package is not installed; the message names the extra that brings it."""


class DataError(DeniableError):
    """What the owner of the data may see about it. Never forwarded to an analyst."""
