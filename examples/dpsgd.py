"""Train a small network on generated data under ε = 2, and see what a budget refuses.

python examples/dpsgd.py
"""

import torch
from torch import nn

from deniable import Budget, Unit
from deniable.errors import BudgetExceeded
from deniable.learn.sgd import DPSGD, Learning, Lots, Privacy, make_private
from deniable.ledger import Ledger

N, DELTA = 5000, 1e-5
source = torch.Generator().manual_seed(0)
x = torch.randn(2 * N, 20, generator=source)
y = (x @ torch.randn(20, 3, generator=source)).argmax(dim=1)
train, test = (x[:N], y[:N]), (x[N:], y[N:])

network = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 3))
run = DPSGD(
    network,
    nn.CrossEntropyLoss(),
    lots=Lots(n=N, lot=250, epochs=15),
    privacy=Privacy(epsilon=2, delta=DELTA, clip=1.0),
    learning=Learning(learning_rate=2.0),
)
print(f"{run.plan.steps} steps, noise multiplier {run.noise_multiplier:.2f}")

with Ledger.open("sqlite://") as ledger:
    account = ledger.create("people", Unit.row(), limit=Budget(3, 4 * DELTA))
    release = account.run(run, train, delta=DELTA)
    accuracy = (release.value.model(test[0]).argmax(dim=1) == test[1]).float().mean()
    print(
        f"accuracy on other people's rows: {100 * accuracy:.1f} %, spent: ε = {account.spent().epsilon:.3f}"
    )
    try:
        account.run(run, train, delta=DELTA)
    except BudgetExceeded as refusal:
        print(f"a second run: {refusal}")

    # The same in your own training loop, with what is left.
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    loop = DPSGD(
        network,
        nn.CrossEntropyLoss(),
        lots=Lots(n=N, lot=250, epochs=5),
        privacy=Privacy(epsilon=0.9, delta=DELTA, clip=1.0),
    )
    private = make_private(loop, optimizer, train, account=account)
    for _rows, _targets in private.lots():
        private.step()
    private.close()
    accuracy = (network(test[0]).argmax(dim=1) == test[1]).float().mean()
    print(f"your own training loop: {100 * accuracy:.1f} %, spent: ε = {account.spent().epsilon:.3f}")
