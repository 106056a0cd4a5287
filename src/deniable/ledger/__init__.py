"""Budgets that cannot be overspent, lost or raced.

    ledger = Ledger.open("sqlite:///privacy.db")
    account = ledger.create("visits", Unit.column("patient_id", max_rows=4), limit=Budget(3, 1e-6))
    release = account.run(mechanism, data)

Only an account runs a mechanism: it writes the charge durably, then opens the data, then returns the release.
"""

from deniable.accounting.filters import Filter, Left, Purpose, Spent
from deniable.accounting.filters.charges import Charge
from deniable.accounting.filters.odometer import Reading
from deniable.ledger.account import Account
from deniable.ledger.balances import ChargePreview
from deniable.ledger.bounded import Bounded
from deniable.ledger.data_sets.forget import Forgotten
from deniable.ledger.journal.chain import Head
from deniable.ledger.journal.entries import Entry, EntryKind, Status
from deniable.ledger.journal.verify import Verification
from deniable.ledger.ledger import Ledger
from deniable.ledger.releases import Kept
from deniable.ledger.session import Session

__all__ = [
    "Account",
    "Bounded",
    "Charge",
    "ChargePreview",
    "Entry",
    "EntryKind",
    "Filter",
    "Forgotten",
    "Head",
    "Kept",
    "Ledger",
    "Left",
    "Purpose",
    "Reading",
    "Session",
    "Spent",
    "Status",
    "Verification",
]
