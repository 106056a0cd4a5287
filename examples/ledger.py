"""A budget that cannot be overspent, shared by two analysts: python examples/ledger.py"""

import tempfile

import deniable as dp
from deniable.mechanisms import Laplace

with tempfile.TemporaryDirectory() as folder, dp.Ledger.open(f"sqlite:///{folder}/privacy.db") as ledger:
    visits = ledger.create("visits", dp.Unit.row(), limit=dp.Budget(1))
    ada = ledger.create("visits/ada", parent="visits", limit=dp.Budget(0.5))
    count = Laplace.for_budget(epsilon=0.4)

    print("first:", ada.run(count, 1234, description="How many came?").value, count.error(0.95))
    try:
        ada.run(count, 1234)
    except dp.BudgetExceeded as refusal:
        print("second:", refusal)
    print("left in all:", visits.remaining().epsilon)
    print("the journal is sound:", ledger.verify().ok)
