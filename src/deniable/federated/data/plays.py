"""Shakespeare by role: a client is a character of the plays, its rows are what it says (McMahan et al.
2017)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deniable.errors import DataError
from deniable.federated.data.clients import Clients
from deniable.federated.data.partition import iid
from deniable.federated.simulation import Simulated, simulate

LENGTH = 80
"""Characters of a row, as in the paper."""
HELD_OUT = 5
"""Each role's last rows, one of so many, are for testing."""
FEWEST = 2
"""Rows without which a role is no client: one to learn from, one to test on."""
SPEECH = re.compile(r"^([A-Z][^\n:]{0,40}):\n", re.MULTILINE)


class CharacterModel(nn.Module):
    """Characters → logits of the next ones, (rows, characters, LENGTH): an embedding, an LSTM, a dense
    layer."""

    def __init__(self, characters: int, hidden: int = 128, layers: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, 8)
        self.memory = nn.LSTM(8, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, characters)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(self.memory(self.embedding(x))[0])
        return logits.transpose(1, 2)


@dataclass(frozen=True)
class Roles:
    """Rows of characters as numbers: `x` and the same one on, `y`; whose they are; and rows for testing."""

    characters: str
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    owner: NDArray[np.str_]
    test_x: Tensor
    test_y: Tensor

    @classmethod
    def from_text(cls, text: str) -> Roles:
        """From a play whose speeches begin with a line "ROLE:". Speeches of one role are joined; the last
        rows of each are held out."""
        characters = "".join(sorted(set(text)))
        number = {c: i for i, c in enumerate(characters)}
        learn, test, owner = [], [], []
        for role, words in read_speeches(text).items():
            codes = np.array([number[c] for c in words], np.int64)
            count = (len(codes) - 1) // LENGTH
            if count < FEWEST:
                continue
            rows = np.stack([codes[i * LENGTH : (i + 1) * LENGTH + 1] for i in range(count)])
            cut = count - max(1, count // HELD_OUT)
            learn.append(rows[:cut])
            test.append(rows[cut:])
            owner += [role] * cut
        if not learn:
            raise DataError(
                "The text has no role that speaks long enough: a speech begins with a line like ROMEO:."
            )
        rows, test_rows = np.concatenate(learn), torch.from_numpy(np.concatenate(test))
        return cls(
            characters, rows[:, :-1], rows[:, 1:], np.array(owner), test_rows[:, :-1], test_rows[:, 1:]
        )

    def dealt(self, split: str) -> Clients:
        """By role, or the same rows dealt out evenly to as many clients."""
        if split == "by role":
            return Clients.by_owner(self.x, self.y, self.owner)
        return iid(self.x, self.y, clients=len(np.unique(self.owner)))

    def train(self, data: Clients, **settings: Any) -> Simulated:
        """A character model by federated averaging without noise, from the same initial weights every
        time."""
        torch.manual_seed(0)
        model = CharacterModel(len(self.characters))
        return simulate(model, nn.CrossEntropyLoss(), data, evaluate=self.accuracy, **settings)

    def accuracy(self, model: nn.Module) -> float:
        """The share of next characters that are named rightly, on the rows held out."""
        with torch.no_grad():
            right = [
                (model(x).argmax(1) == y).sum()
                for x, y in zip(torch.split(self.test_x, 256), torch.split(self.test_y, 256), strict=True)
            ]
        return float(sum(right) / self.test_y.numel())


def read_speeches(text: str) -> dict[str, str]:
    """Role → all it says.

    >>> talk = "ROMEO:\\nIs the day so young?\\n\\nBENVOLIO:\\nBut new struck nine.\\n\\nROMEO:\\nAy me!\\n"
    >>> read_speeches(talk)["ROMEO"]
    'Is the day so young?\\n\\nAy me!\\n'
    """
    parts = SPEECH.split(text)
    words: dict[str, list[str]] = {}
    for role, speech in zip(parts[1::2], parts[2::2], strict=True):
        words.setdefault(role, []).append(speech)
    return {role: "".join(speeches) for role, speeches in words.items()}
