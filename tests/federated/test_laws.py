"""What a run says it costs beside the laws of what is seen, point by point, for a model of one number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from torch import nn

from deniable import accounting
from deniable.federated import Central, FedAvg, OnClient, Shared
from deniable.federated.noise.placement import AnyPlacement
from deniable.learn.sgd.noise import GradientGrid
from deniable.units import Unit
from tests.federated.runs import run_of

Law = NDArray[np.float64]
SILENT, REPLACED, ADDED = Unit.client(zero_out=True), Unit.client(replace=True), Unit.client()
BOTH_WAYS, ROUNDING = 1 - 1e-9, 1e-12


def federated(noise: AnyPlacement, unit: Unit, rate: float = 1, rounds: int = 1) -> FedAvg:
    return run_of(
        nn.Linear(1, 1, bias=False),
        nn.CrossEntropyLoss(),
        clients=6,
        rate=rate,
        rounds=rounds,
        noise=noise,
        unit=unit,
        progress=False,
    )


def integer_gaussian(sigma: float) -> Law:
    x = np.arange(-math.ceil(9 * sigma), math.ceil(9 * sigma) + 1)
    law = np.exp(-(x**2) / (2 * sigma**2))
    return law / law.sum()


def of_sum(sigma: float, count: int) -> Law:
    law = one = integer_gaussian(sigma)
    for _ in range(count - 1):
        law = np.clip(fftconvolve(law, one), 0, None)
    return law


def moved(law: Law, by: int, most: int) -> Law:
    return np.pad(law, (most + by, most - by))


def truth(with_it: Law, without: Law, epsilon: float) -> float:
    """The least δ that holds for the two laws in either order."""
    factor = math.exp(epsilon)
    return max(
        float(np.clip(one - factor * other, 0, None).sum())
        for one, other in ((with_it, without), (without, with_it))
    )


def costs_what_is_seen(run: FedAvg, noise: Law, sensitivity: int, share: float, tight: bool = True) -> None:
    """Of a client whose update is in what is seen with probability `share`: against silence, or against the
    opposite update."""
    other = -sensitivity if run.unit == REPLACED else 0
    base, present, absent = (moved(noise, by, sensitivity) for by in (0, sensitivity, other))
    laws = ((1 - share) * base + share * present, (1 - share) * base + share * absent)
    for epsilon in (0.0, 0.2, 1.0, 2.0):
        exact, said = truth(*laws, epsilon), accounting.delta(run.loss, epsilon).upper
        assert exact * BOTH_WAYS - ROUNDING <= said
        if tight:
            assert said <= 1.01 * exact + 1e-9


@pytest.mark.parametrize(("unit", "coins"), [(SILENT, 1), (SILENT, 0.2), (REPLACED, 1), (REPLACED, 0.2)])
@pytest.mark.parametrize("survivors", [3, 4])
def test_a_secure_sum_over_enough_costs_no_more_than_is_said(
    unit: Unit, coins: float, survivors: int
) -> None:
    """Five must answer and two of them collude: the noise of three is left, or of more."""
    noise = Shared(1.0, bits=16, least=5, colluders=2, coins=coins)
    run = federated(noise, unit)
    encoding = noise.encoding(1.0, run.shape)
    assert encoding.length == 1
    law = of_sum(noise.share(1.0, encoding), survivors)
    # Coins are not credited to a replaced client, nor noise beyond that of `least` to anybody.
    tight = survivors == 3 and (unit, coins) != (REPLACED, 0.2)
    costs_what_is_seen(run, law, encoding.sensitivity, coins, tight)


@pytest.mark.parametrize(("unit", "coins"), [(SILENT, 1), (SILENT, 0.2), (REPLACED, 1), (REPLACED, 0.2)])
def test_a_message_with_its_own_noise_costs_what_is_said(unit: Unit, coins: float) -> None:
    run, grid = federated(OnClient(1.0, coins=coins), unit), GradientGrid(1.0, 1)
    law = integer_gaussian(float(grid.loss(1.0).sigma))
    costs_what_is_seen(run, law, grid.sensitivity, coins, tight=(unit, coins) != (REPLACED, 0.2))


@pytest.mark.parametrize(("unit", "rate"), [(ADDED, 1), (ADDED, 0.2), (REPLACED, 1), (REPLACED, 0.2)])
def test_a_sum_with_a_servers_noise_costs_what_is_said(unit: Unit, rate: float) -> None:
    run, grid = federated(Central(1.0), unit, rate), GradientGrid(1.0, 1)
    law = integer_gaussian(float(grid.loss(1.0).sigma))
    costs_what_is_seen(run, law, grid.sensitivity, rate, tight=(unit, rate) != (REPLACED, 0.2))
