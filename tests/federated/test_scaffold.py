"""SCAFFOLD takes the drift of local steps back, which federated averaging leaves in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deniable.errors import InvalidParameter
from deniable.federated import Clients, simulate


class Point(nn.Module):
    """One number; a row (a, b) asks for the least of a(w − b)²/2."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.expand(len(x))


def valley(w: Tensor, wanted: Tensor) -> Tensor:
    return (wanted[:, 0] * (w - wanted[:, 1]) ** 2).mean() / 2


TWO = Clients(
    np.zeros(2, np.float32), np.array([[1.0, 0.0], [9.0, 1.0]], np.float32), np.arange(2), np.arange(3)
)
"""A wide valley at 0 and a narrow one at 1. Together they are least at 9/10."""


def end(**settings: object) -> float:
    given = {"share": 1.0, "rounds": 30, "local_epochs": 20, "batch": 1, "learning_rate": 0.05} | settings
    result = simulate(Point(), valley, TWO, **given)  # type: ignore[arg-type]
    return float(result.model.get_parameter("weight").item())


def test_clients_that_differ_pull_averaging_aside_and_scaffold_not() -> None:
    """Twenty steps at home bring each client nearly to its own valley: the mean of those
    is not the least of the sum."""
    assert end() < 0.7
    assert end(scaffold=True) == pytest.approx(0.9, abs=1e-3)


def test_one_step_without_controls_is_fedsgd() -> None:
    one = {"rounds": 1, "local_epochs": 1, "batch": None}
    assert end(scaffold=True, **one) == pytest.approx(end(**one), abs=1e-7)


def test_a_client_without_rows_changes_no_control() -> None:
    data = Clients(TWO.x, TWO.y, TWO.order, np.array([0, 1, 2, 2]))
    result = simulate(
        Point(), valley, data, share=1.0, rounds=40, local_epochs=5, learning_rate=0.05, scaffold=True
    )
    assert np.isfinite(result.model.get_parameter("weight").item())


def test_two_corrections_at_once_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="proximal=0 with scaffold=True"):
        end(scaffold=True, proximal=0.1)
