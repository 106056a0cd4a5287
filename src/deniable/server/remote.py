"""A data set of a service, asked from Python as if it lay here: `deniable.Remote`."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import threading
from fractions import Fraction
from html import escape
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote, urlsplit

from deniable import errors
from deniable.curator import Answer, Preview, Question
from deniable.curator.question import AskTerms
from deniable.errors import AlreadyPaid, BudgetExceeded, DeniableError, InvalidParameter, LedgerError
from deniable.guarantee import Certificate
from deniable.process import Original

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TRIES = 3
PORTS = {"http": 80, "https": 443}


class Remote(Original):
    """A data set behind a service, with the curator's methods: `Remote("https://…", token="dnb_…",
    data="visits")`.

    Each query is sent with a key of its own, so that one whose answer was lost on the way is sent again and
    charged once. The token goes to this address alone: no redirect is followed, and over plain HTTP only to
    this machine.
    """

    WAY_OUT = "Open the service there with Remote."

    def __init__(
        self,
        url: str,
        *,
        token: str,
        data: str | None = None,
        timeout: float = 300.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise InvalidParameter(
                f"Expected the address of a service like https://stats.example.org, got {url!r}."
            )
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise InvalidParameter(
                "Expected https: over plain http, the token and the answers would be read on the way."
            )
        self._address = (parts.hostname, parts.port or PORTS[parts.scheme])
        self._context = None
        if parts.scheme == "https":
            self._context = context or ssl.create_default_context()
        self._token = token
        self._data = data
        self._timeout = timeout
        self._turn = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None

    def __repr__(self) -> str:
        return f"Remote({self._address[0]}:{self._address[1]}, data={self._data!r})"

    def _repr_html_(self) -> str:
        """Show in a notebook the data set, and what is left of one's part of it."""
        if self._data is None:
            rows = "".join(f"<li>{escape(name)}</li>" for name in self.datasets())
            return f"<p><b>{escape(self._address[0])}</b>: the data sets that are for you</p><ul>{rows}</ul>"
        account = self.account()
        spending, limit, left = (_float(account[name]["epsilon"]) for name in ("spent", "limit", "left"))
        return (
            f"<p><b>{escape(self._data)}</b> at {escape(self._address[0])}: spent ε = {spending:.4g} of "
            f"{limit:.4g}, left for one query ε ≤ {left:.4g}</p>"
        )

    # -------------------------------------------------------------------------------------------- asking

    def sql(self, text: str, **terms: Unpack[AskTerms]) -> Answer:
        """Answer a query as `Curator.sql` does."""
        body = _body(Question(text, **terms)) | {"form": "arrow"}
        reply = self._call("POST", self._path("queries"), body, key=secrets.token_urlsafe(24))
        return Answer.from_dict(reply)

    def preview(self, text: str, **terms: Unpack[AskTerms]) -> Preview:
        """Price a query as `Curator.preview` does: free."""
        return Preview.from_dict(self._call("POST", self._path("preview"), _body(Question(text, **terms))))

    # -------------------------------------------------------------------------------------------- looking

    def datasets(self) -> list[str]:
        """The data sets that are for you."""
        return list(self._call("GET", "/v1/datasets"))

    def data(self, name: str) -> Remote:
        """The same service, another data set."""
        twin = Remote.__new__(Remote)
        twin.__dict__.update(self.__dict__, _data=name, _turn=threading.Lock(), _connection=None)
        return twin

    def schema(self) -> str:
        """What is declared about the data, as YAML."""
        return str(self._call("GET", self._path())["schema"])

    def account(self) -> dict[str, Any]:
        """Your balance: limit, spent, left."""
        return dict(self._call("GET", f"/v1/accounts/{quote(self._name(), safe='')}"))

    def history(self) -> list[dict[str, Any]]:
        """Your entries of the journal, newest last."""
        entries: list[dict[str, Any]] = []
        while True:
            after = 0
            if entries:
                after = entries[-1]["seq"]
            page = self._call("GET", f"/v1/ledger/entries?most=1000&after={after}")
            entries += page
            if len(page) < 1000:
                return entries

    def certificate(self, answer: Answer) -> Certificate:
        """A certificate of one answer, which `deniable verify` checks."""
        seq = (answer.entry or "0").partition(":")[0]
        return Certificate.from_json(json.dumps(self._call("GET", f"/v1/certificates/{seq}")))

    # -------------------------------------------------------------------------------------------- how

    def _name(self) -> str:
        if self._data is None:
            raise InvalidParameter(
                'Expected data=: which data set do you mean? For example Remote(…, data="visits").'
            )
        return self._data

    def _path(self, rest: str = "") -> str:
        return f"/v1/datasets/{quote(self._name(), safe='')}/{rest}".removesuffix("/")

    def _call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        head = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if key is not None:
            head["Idempotency-Key"] = key
        text = None
        if body is not None:
            text = json.dumps(body)
        with self._turn:
            status, reply = self._send(method, path, text, head)
        if status >= 300:
            raise _error(status, reply)
        return reply

    def _send(self, method: str, path: str, text: str | None, head: dict[str, str]) -> tuple[int, Any]:
        """Send a request, again where the connection was lost: a query has its key, nothing else costs."""
        for attempt in range(TRIES):
            try:
                connection = self._connect()
                connection.request(method, path, body=text, headers=head)
                response = connection.getresponse()
                return response.status, _read(response)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if attempt + 1 == TRIES:
                    raise LedgerError(
                        f"The service at {self._address[0]} cannot be reached ({type(error).__name__}). An "
                        "unfinished query may have been charged; asked again, it is given from what is kept."
                    ) from None
        raise AssertionError

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = self._address
            if self._context is None:
                self._connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
            else:
                self._connection = http.client.HTTPSConnection(
                    host, port, timeout=self._timeout, context=self._context
                )
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _body(question: Question) -> dict[str, Any]:
    """Only what differs from the defaults is sent: an older service knows fewer terms."""
    terms = {name: _digits(value) for name, value in question.changes.items()}
    return {"sql": question.text, **terms}


def _digits(value: Any) -> Any:
    """A fraction in the decimal digits of the nearest float; other values as they are."""
    if isinstance(value, Fraction):
        return repr(float(value))
    return value


def _read(response: http.client.HTTPResponse) -> Any:
    try:
        return json.loads(response.read())
    except ValueError:
        return {}


def _float(value: Any) -> float:
    return float(value)


def _error(status: int, reply: Any) -> DeniableError:
    """The error that the service raised, of the same type."""
    body = reply if isinstance(reply, dict) else {}
    message = str(body.get("message") or f"The service answered with the status {status}.")
    kind = getattr(errors, str(body.get("error")), None)
    nan = float("nan")
    if kind is BudgetExceeded:
        return BudgetExceeded(message, asked=nan, spent=nan, total=nan, limit=nan)
    if kind is AlreadyPaid:
        return AlreadyPaid(message, entry=int(body.get("entry") or 0))
    if isinstance(kind, type) and issubclass(kind, DeniableError):
        return kind(message)
    if status < 500:
        return InvalidParameter(message)
    return LedgerError(message)
