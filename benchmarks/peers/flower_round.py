"""CPU seconds of a round of ten 2NN clients of 600 rows, in batches of ten: Flower's simulation (Ray), and a
plain loop in one of its clients' processes.

.venv-flower/bin/python benchmarks/peers/flower_round.py ROUNDS     prints JSON

Ray computes in processes of its own, so what is counted is the time of this process and of all that descend
from it. A client makes its rows from its number and keeps them, as one with data of its own would.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn import functional as F

CLIENTS, ROWS, RATE = 10, 600, 0.1
TICKS = os.sysconf("SC_CLK_TCK")
ends: list[float] = []
client_app, server_app = ClientApp(), ServerApp()


def two_layers() -> nn.Sequential:
    hidden = (nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU())
    return nn.Sequential(*hidden, nn.Linear(200, 10))


@functools.cache
def rows(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(client)
    return torch.rand(ROWS, 784, generator=draw), torch.randint(0, 10, (ROWS,), generator=draw)


def trained(model: nn.Module, client: int) -> None:
    x, y = rows(client)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for batch in torch.split(torch.randperm(ROWS), 10):
        optimizer.zero_grad()
        loss: Any = F.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()


@client_app.train()  # type: ignore[untyped-decorator]
def train(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    model = two_layers()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    trained(model, int(context.node_config["partition-id"]))
    metrics = MetricRecord({"num-examples": ROWS})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@server_app.main()  # type: ignore[untyped-decorator]
def serve(grid: Grid, context: Context) -> None:
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    begin = ArrayRecord(two_layers().state_dict())
    strategy.start(grid, begin, num_rounds=int(sys.argv[1]) + 1, evaluate_fn=note_end)


def note_end(number: int, arrays: ArrayRecord) -> None:
    ends.append(seconds_of(descendants(os.getpid())))


def descendants(first: int) -> set[int]:
    """This process and all that it has started, directly or not."""
    parents = {int(path.name): int(fields(path)[1]) for path in processes()}
    family, size = {first}, 0
    while len(family) > size:
        size = len(family)
        family |= {child for child, parent in parents.items() if parent in family}
    return family


def seconds_of(family: set[int]) -> float:
    """CPU time of processes, and of their children that have ended."""
    times = [fields(path)[11:15] for path in processes() if int(path.name) in family]
    return sum(int(ticks) for each in times for ticks in each) / TICKS


def processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit() and (path / "stat").exists()]


def fields(path: Path) -> list[str]:
    """The fields of /proc/…/stat after the name: the state, the parent, …"""
    try:
        return (path / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # ended in between
        return ["0"] * 20


def by_loop(rounds: int) -> list[float]:
    seconds: list[float] = []
    for _ in range(rounds):
        begin, model = time.process_time(), two_layers()
        for client in range(CLIENTS):
            trained(model, client)
        seconds.append(time.process_time() - begin)
    return seconds


def main() -> None:
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    backend: dict[str, Any] = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": 1},
    }
    run_simulation(server_app, client_app, CLIENTS, backend_config=backend)
    # The first round starts processes and imports torch in them; it is left out.
    rounds = [late - early for early, late in itertools.pairwise(ends[1:])]
    print(json.dumps({"flower": rounds, "plain": by_loop(int(sys.argv[1]))}))


if __name__ == "__main__":
    importlib.import_module("flower_round").main()  # by its name, so that Ray's processes find its functions
