"""The account that pays for what is learnt from a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deniable.curator.opening import accounts
from deniable.guarantee import Budget
from deniable.ledger import Account
from deniable.ledger.data_sets.beside import ledger_of
from deniable.sql.engines.identity import keys
from deniable.units import Unit


@contextmanager
def account_of(
    data: Path, url: str | None, name: str | None, unit: Unit, limit: Budget | None
) -> Iterator[Account]:
    """The account of a file, in the ledger that its queries are charged to unless another is named.

    A file belongs to one account of a ledger, from the first charge on: under a second
    name it would be granted twice.
    """
    sources = keys({"data": data}, frozenset({"data"}))
    with accounts.open_ledger(url or ledger_of(data), name or data.stem, limit, None, None) as ledger:
        owner = accounts.data_account(ledger, name or data.stem, name is not None, sources)
        paying = accounts.open_account(ledger, owner, unit, limit, None)
        ledger.bind(data)

        def bind() -> None:
            ledger.bind_sources(owner, sources)
            paying.before_charge = None

        paying.before_charge = bind
        yield paying
