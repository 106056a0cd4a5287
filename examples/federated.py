"""Federated averaging over 400 clients, each protected as a whole: python examples/federated.py"""

import numpy as np
import torch
from torch import nn

from deniable import Budget, Ledger
from deniable.federated import Central, ClientPrivacy, Cohorts, FedAvg, LocalRecipe, iid

x = np.random.default_rng(0).normal(size=(4000, 4)).astype(np.float32)
y = (x[:, 0] + x[:, 1] > 0).astype(np.int64)
clients = iid(x, y, clients=400)

run = FedAvg(
    nn.Linear(4, 2),
    nn.CrossEntropyLoss(),
    cohorts=Cohorts(clients=400, rate=0.25, rounds=20),
    privacy=ClientPrivacy(Central(), clip=0.5, epsilon=8, delta=1e-4),
    local=LocalRecipe(learning_rate=0.5),
)
account = Ledger.open("sqlite://").create("phones", run.unit, limit=Budget(16, 2e-4))
model = account.run(run, clients, delta=1e-4).value.model
with torch.no_grad():
    print("accuracy:", float((model(torch.from_numpy(x)).argmax(1).numpy() == y).mean()))
