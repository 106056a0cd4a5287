"""The database below the ledger: tables, connections, transactions, and bringing older files up to date."""

from deniable.ledger.store.store import (
    APPLICATION,
    Row,
    Store,
    Transaction,
    open_database,
    parse,
    write_ahead,
)

__all__ = ["APPLICATION", "Row", "Store", "Transaction", "open_database", "parse", "write_ahead"]
