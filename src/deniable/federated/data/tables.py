"""Clients from a table: a column says whose a row is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.optim import SGD

from deniable.errors import InvalidParameter
from deniable.federated.data.clients import NOBODY, Clients, places, places_on
from deniable.federated.settings import Evaluation
from deniable.federated.simulation import ServerOptimizer
from deniable.learn.sgd.tables import Table


def read_roster(path: Path) -> tuple[str, ...]:
    """The names of all clients, each on a line of its own. Lines end as on any system, and a mark of byte
    order at the beginning is none of the first name."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        raise InvalidParameter(
            f"The roster {path} cannot be read as text ({type(error).__name__}). Nothing was charged. Write "
            "the name of each client on a line of its own."
        ) from None
    names = tuple(line.strip() for line in lines if line.strip())
    if not names:
        raise InvalidParameter(
            f"The roster {path} names nobody. Write the name of each client on a line of its own. Nothing "
            "was charged."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidParameter(
            f"The roster {path} names {twice[0]!r} twice. Name each client once. Nothing was charged."
        )
    return names


def read(table: Table, path: Path, user: str, roster: Sequence[str] | None = None) -> Clients:
    """The clients of a parquet or CSV file, by its column `user`. A row that names nobody is nobody's.

    `roster` declares who the clients are: each has its place, with rows or without, and rows of anybody else
    are left out. Without it the clients are those that the rows name.

    Rows with a value that is missing or no number, or with a target that is none of the classes, are left
    out. A client all of whose rows are left out stays a client and says nothing: were it gone, a client whose
    rows are replaced could leave, and take the noise that it adds along.
    """
    x, y, names = table.read_owned(path, user)
    if roster is None:
        place, count = places(names)
    else:
        place, count = places_on(names, roster), len(roster)
    place[~torch.isfinite(x).all(dim=1).numpy()] = NOBODY
    return Clients.by_place(x, y, place, count)


def averaging(momentum: float) -> ServerOptimizer | None:
    """The server adds the mean update to the model, with momentum over rounds (FedAvgM, Hsu et al. 2019)."""
    if momentum == 0:
        return None
    return lambda parameters: SGD(parameters, lr=1.0, momentum=momentum)


def accuracy_on(table: Table, path: Path) -> Evaluation:
    """The share of a public file's readable rows that a model names rightly. The file is read once."""
    x, y = table.read(path)
    usable = torch.isfinite(x).all(dim=1)
    inputs, labels = x[usable], y[usable]

    def accuracy(model: nn.Module) -> float:
        with torch.no_grad():
            return float((model(inputs).argmax(dim=1) == labels).double().mean())

    return accuracy


CRITERION = nn.CrossEntropyLoss()
"""What a client's steps lower: −ln of the probability of the right class, the mean over a batch."""
