"""Simulations without noise: one that was broken off goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from deniable.errors import InvalidParameter
from deniable.federated import iid, simulate, simulation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)).astype(np.float32)
CLIENTS = iid(X, (X[:, 0] > 0).astype(np.int64), clients=12)


class Killed(Exception):
    pass


def killed_after(rounds: int) -> Callable[[int, float | None], None]:
    def watch(number: int, score: float | None) -> None:
        if number > rounds:
            raise Killed

    return watch


def run(**settings: Any) -> simulation.Simulated:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    return simulate(
        model,
        nn.CrossEntropyLoss(),
        CLIENTS,
        share=0.5,
        batch=4,
        evaluate=lambda model: float(next(model.parameters()).detach().sum()),
        **settings,
    )


@pytest.mark.parametrize(
    "settings",
    [{}, {"scaffold": True}, {"server": lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9)}],
    ids=["averaging", "scaffold", "momentum"],
)
def test_a_simulation_that_was_broken_off_goes_on_with_the_same_result(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "SAVED_EVERY", -1.0)
    path = tmp_path / "run.pt"
    with pytest.raises(Killed):
        run(rounds=6, watch=killed_after(3), checkpoint=path, **settings)
    resumed, unbroken = run(rounds=6, checkpoint=path, **settings), run(rounds=6, **settings)
    assert resumed.scores == unbroken.scores
    assert resumed.rounds == unbroken.rounds == 6
    longer = run(rounds=8, checkpoint=path, **settings)
    assert longer.scores == run(rounds=8, **settings).scores


def test_a_simulation_on_other_terms_is_not_taken_up(tmp_path: Path) -> None:
    run(rounds=2, checkpoint=tmp_path / "run.pt")
    for other in ({"learning_rate": 0.2}, {"seed": 1}, {"scaffold": True}):
        with pytest.raises(InvalidParameter, match="same clients, recipe and seed"):
            run(rounds=3, checkpoint=tmp_path / "run.pt", **other)


def test_a_target_that_was_reached_ends_a_resumed_run(tmp_path: Path) -> None:
    first = run(rounds=5, target=-100.0, checkpoint=tmp_path / "run.pt")
    assert (first.rounds, run(rounds=5, target=-100.0, checkpoint=tmp_path / "run.pt").rounds) == (1, 1)
