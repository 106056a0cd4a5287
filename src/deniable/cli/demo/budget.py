"""A budget that cannot be overspent."""

from deniable import numbers
from deniable.cli import show
from deniable.errors import BudgetExceeded
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.mechanisms import Laplace
from deniable.units import Unit

TITLE = "A budget that holds: 1,234 visits, a limit of ε = 1, and an analyst who asks three times"
VISITS = 1234


def play() -> None:
    count = Laplace.for_budget(epsilon=0.4)
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("visits", Unit.row(), limit=Budget(1))
        for _ in range(3):
            try:
                release = account.run(count, VISITS)
                expenditure = numbers.up(account.spent().epsilon)
                show.say(f"Answered: {release.value:,} {release.error}; spent so far: ε = {expenditure}.")
            except BudgetExceeded as refusal:
                show.say(f"Refused:  {refusal}")
    show.say(
        "",
        "The charge is written before the data is opened, and the noise is exact: whole numbers from a "
        "cipher.",
    )
