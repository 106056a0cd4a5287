"""The loss of one row, and of one patient, by brute force: every lot of small silos goes through the code that
clips, and δ of what everybody sees is computed from its definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deniable import accounting
from deniable.errors import InvalidParameter
from deniable.federated import (
    Central,
    CrossSilo,
    LocalSteps,
    OnClient,
    RoundExecution,
    RowPrivacy,
    Shared,
    SiloRows,
    Silos,
)
from deniable.federated.secure_sum.agreement import Adversary
from deniable.federated.silos.worker import SiloWorker
from deniable.loss import Grouped
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.federated.silos.worlds import PATIENT, Floats, Held, added, asked, excess, run_of, spread, sums

Z, REACH, WIDTH = 1.0, 8192, 32
EPSILONS = (0.0, 0.3, 1.0, 2.0, 3.0)
SHARED = Shared(Z, bits=32, least=2, adversary=Adversary.CURIOUS)
PLACES: list[Any] = [Central(Z), OnClient(Z), SHARED]
OTHERS: list[Held] = [(), ((-9.0, "a"),), ((9.0, "a"), (-9.0, "b"))]


def seen(run: CrossSilo, held: tuple[Held, Held]) -> Floats:
    """The law of what a round shows: a sum, or what each silo sends."""
    laws = [sums(run, number, rows) for number, rows in enumerate(held)]
    if isinstance(run.noise, OnClient):
        first, second = (spread(law, run.silo_deviation, 4 * WIDTH, REACH) for law in laws)
        return np.outer(first, second).reshape(-1)
    if isinstance(run.noise, Shared):
        return spread(added(*laws), run.silo_deviation, WIDTH, REACH, count=run.noise.least)
    return spread(added(*laws), float(run.grid.loss(run.multiplier).sigma), WIDTH, REACH)


def worst(run: CrossSilo, own: tuple[Held, Held], *epsilons: float) -> list[float]:
    """δ at each ε between silos with the rows `own` and without them, for the worst others."""
    pairs = [
        (seen(run, ((*first, *own[0]), (*second, *own[1]))), seen(run, (first, second)))
        for first, second in itertools.product(OTHERS, OTHERS)
    ]
    return [max(excess(here, there, epsilon) for here, there in pairs) for epsilon in epsilons]


@pytest.mark.parametrize("rate", [0.5, 1])
@pytest.mark.parametrize("noise", PLACES, ids=lambda noise: type(noise).__name__)
def test_one_row_costs_no_more_than_is_stated(noise: Any, rate: float) -> None:
    run = run_of(noise, rate=rate)
    for own in ((((9.0, "own"),), ()), ((), ((-9.0, "own"),))):
        for epsilon, true in zip(EPSILONS, worst(run, own, *EPSILONS), strict=True):
            stated = accounting.delta(run.loss, epsilon).upper
            assert true <= stated + 1e-9, (own, epsilon)
            assert true > 0.85 * stated - 1e-6  # it is met, up to the width of bins


@pytest.mark.parametrize("rate", [0.5, 1])
@pytest.mark.parametrize("noise", PLACES, ids=lambda noise: type(noise).__name__)
def test_a_patient_in_two_silos_costs_more_than_one_silo_and_no_more_than_is_stated(
    noise: Any, rate: float
) -> None:
    run, once = run_of(noise, rate=rate, unit=PATIENT, most=2), run_of(noise, rate=rate, unit=PATIENT)
    own: tuple[Held, Held] = (((9.0, "own"), (5.0, "own")), ((9.0, "own"),))
    found = worst(run, own, *EPSILONS)
    for epsilon, true in zip(EPSILONS, found, strict=True):
        assert true <= accounting.delta(run.loss, epsilon).upper + 1e-9, epsilon
    assert found[EPSILONS.index(1.0)] > 1.2 * accounting.delta(once.loss, 1.0).upper


def test_many_rows_of_a_patient_move_a_silo_by_one_clip() -> None:
    run = run_of(Central(Z), unit=PATIENT)
    (largest,) = {total for total in sums(run, 0, [(9.0, "own")] * 6) if total}
    assert largest <= run.grid.sensitivity


def test_two_coins_of_a_patient_are_not_one_coin_at_twice_the_distance() -> None:
    """The node "rate q at distance m" is no bound: a patient is drawn by any of her silos."""
    run = run_of(Central(Z), rate=0.1, unit=PATIENT, most=2)
    false = run.grid.loss(Z).grouped(2).sampled(0.1)
    own: tuple[Held, Held] = (((9.0, "own"),), ((9.0, "own"),))
    assert worst(run, own, 0.0)[0] > accounting.delta(false, 0.0).upper
    assert any(isinstance(node, Grouped) for node in run.loss.walk())


def test_local_steps_compose() -> None:
    """The move of two noisy steps, for whoever sees only their sum."""
    run, once = run_of(OnClient(Z), steps=2), run_of(OnClient(Z))
    for others in OTHERS:
        laws = [added(*[sums(run, 0, rows)] * 2) for rows in ((*others, (9.0, "own")), others)]
        here, there = (spread(law, run.silo_deviation, WIDTH, REACH, count=2) for law in laws)
        for epsilon in EPSILONS:
            assert excess(here, there, epsilon) <= accounting.delta(run.loss, epsilon).upper + 1e-9
    assert excess(here, there, 1.0) > accounting.delta(once.loss, 1.0).upper


def test_losses_of_silos_compose_where_each_adds_its_own_noise() -> None:
    run = run_of(OnClient(Z), unit=PATIENT, most=3, rounds=4, steps=5)
    assert run.loss == run.silo_loss_of(1).of * (4 * 5 * 3) == run.silo_loss_of(12)  # type: ignore[attr-defined]
    shared = run_of(SHARED, unit=PATIENT, most=2)
    assert (
        accounting.epsilon(shared.silo_loss_of(1), 1e-6).upper < accounting.epsilon(shared.loss, 1e-6).upper
    )


class Follows(nn.Module):
    """Rows of kind 0 push away from zero, wherever they are; a row of kind 1 pushes always."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return 50 * (x * self.weight + (1 - x) * self.weight.abs())


def test_clipped_steps_without_noise_carry_one_row_far() -> None:
    """Of 51 rows one moves what the silo sends after five steps by 205 clips: each later step follows it."""
    run = CrossSilo(Follows(), asked, silos=Silos((51, 51), 1, 1), privacy=RowPrivacy(OnClient(1e-9)),
                    local=LocalSteps(5, 51.0))  # fmt: skip
    moved = []
    for last in (0.0, 1.0):  # of which the gradient is zero at zero, or never
        kinds = np.array([[0.0]] * 50 + [[last]], np.float32)
        worker = SiloWorker(run, 0, SiloRows(kinds, np.ones(51, np.float32)), SeededRandom(0))
        worker._deviation = 0.0  # as if there were no noise
        moved.append(float(worker.send_move(torch.zeros(1))[0]))
    assert moved == [0.0, pytest.approx(205, rel=1e-2)]


@pytest.mark.parametrize("noise", [Central(Z), SHARED], ids=lambda noise: type(noise).__name__)
def test_local_steps_without_noise_in_each_are_refused(noise: Any) -> None:
    with pytest.raises(InvalidParameter, match="205 clips"):
        run_of(noise, steps=5)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"unit": Unit.client()}, "use FedAvg"),
        ({"unit": Unit.row(replace=True)}, "added or removed"),
        ({"unit": Unit.column("patient")}, "max_rows"),
        ({"most": 2}, "a row is in one silo"),
        ({"noise": Shared(Z, bits=16, least=2), "sizes": (200, 200)}, "may not fit 16 bits"),
        ({"noise": Shared(Z, bits=32, least=3)}, "at most the number of silos"),
        ({"noise": Shared(Z, bits=32, least=2), "sizes": (2,) * 4}, "two lists of survivors"),
        ({"noise": OnClient(Z, coins=0.5)}, "those of rows"),
        ({"noise": Central()}, "multiplier"),
        ({"sizes": (5,)}, "at least two silos"),
        ({"how": RoundExecution(workers=2)}, "workers=1"),
    ],
)
def test_what_no_theorem_covers_is_refused(terms: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        run_of(**({"noise": Central(Z)} | terms))
