"""Whole runs, cohort by cohort: what one client can move, and what several rounds cost, each by a second
computation that knows nothing of the accountant."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from torch import Tensor, nn

from deniable import accounting
from deniable.federated import Capped, Central, Clients, Correlated, OnClient, Shared, Uniform
from deniable.federated.noise.placement import AnyPlacement, bound_norm, on_grid
from deniable.federated.noise.weights import Weights
from deniable.federated.rounds import Rounds, frame_update
from deniable.learn.sgd.clipping import Adaptive
from deniable.learn.sgd.noise import GradientGrid
from deniable.randomness import SecureRandom
from deniable.units import Unit
from tests.federated.runs import run_of
from tests.federated.test_laws import ADDED, REPLACED, SILENT, federated, integer_gaussian, moved, of_sum

ODD = [0.0, 1e-300, 1e-9, 0.3, 1.0, 1.0 + 1e-12, 7.5, 1e30, math.inf, math.nan]
"""Norms of updates, the clip being 1."""


def directions(dimension: int, count: int) -> list[NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=dimension) for _ in range(count)]
    even = [np.ones(dimension), -np.ones(dimension), np.eye(dimension)[0]]
    return [vector / np.linalg.norm(vector) for vector in (*drawn, *even)]


# ----------------------------------------------------------------------------------------- what is sent


@pytest.mark.parametrize("weights", [Uniform(), Capped(10, 40.0)])
@pytest.mark.parametrize("clip", [1.0, Adaptive(start=1.0, count_noise=5.0)])
@pytest.mark.parametrize("noise", [Central(2.0), Shared(2.0, bits=32, least=4)])
def test_whatever_a_client_computes_is_sent_within_the_norm_that_is_charged(
    noise: Central | Shared, clip: float | Adaptive, weights: Weights
) -> None:
    """In integers, with the count of an adaptive clip and a client's weight in it."""
    run = run_of(nn.Linear(5, 3), nn.CrossEntropyLoss(), clients=20, noise=noise, clip=clip, weights=weights)
    largest = 0
    for norm, direction, rows in itertools.product(ODD, directions(18, 4), (0, 1, 9, 10, 10**6)):
        with np.errstate(invalid="ignore"):  # inf · 0
            update = norm * direction
        message = frame_update(run, torch.from_numpy(update), 1.0, rows)
        assert len(message) == run.shape.dimension
        if isinstance(noise, Central):
            grid = GradientGrid(run.shape.clip, run.shape.dimension)
            units, bound = on_grid(bound_norm(message, run.shape.clip), grid), grid.sensitivity
        else:
            encoding = noise.encoding(run.multiplier, run.shape)
            units, bound = encoding.encode(message, np.random.default_rng(1)), encoding.sensitivity
        square = int(units @ units)
        assert square <= bound**2
        largest = max(largest, square)
    assert largest > 0.98 * bound**2  # it is nearly met: no half of it would hold


def test_the_count_of_an_adaptive_clip_costs_what_two_releases_would() -> None:
    """Andrew et al. 2021: updates under z_Δ and counts, ±½ a client, under σ_b cost what one release under
    z = (z_Δ⁻² + (2σ_b)⁻²)^-½ does. Here both are read off the noise on the one vector that is sent."""
    z, count_noise = 1.3, 4.0
    run = run_of(
        nn.Linear(5, 3),
        nn.CrossEntropyLoss(),
        clients=20,
        noise=Central(z),
        clip=Adaptive(start=1.0, count_noise=count_noise),
    )
    deviation, flag = z * run.shape.clip, run.count_scale(z)
    assert deviation / (2 * flag) == pytest.approx(count_noise)  # of a count of ±flag, in clients
    assert (deviation**-2 + (2 * count_noise) ** -2) ** -0.5 == pytest.approx(z)


# --------------------------------------------------------------------------------------- who is in a round


class Chosen(SecureRandom):
    """Draws the cohorts that it is given, and no noise."""

    def __init__(self, cohorts: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self._cohorts = iter(cohorts)

    def poisson_sample(self, count: int, rate: object) -> NDArray[np.int64]:
        return np.array([client for client in next(self._cohorts) if client < count], np.int64)


class Pushed(nn.Module):
    """A loss whose gradient is what the client's rows say, so that an update is chosen by hand."""

    def forward(self, out: Tensor, wanted: Tensor) -> Tensor:
        return -(out * wanted).sum() / len(out)


def clients_of(pushes: Sequence[tuple[float, float]], rows: Sequence[int]) -> Clients:
    y = np.concatenate(
        [np.tile(np.float32(push), (count, 1)) for push, count in zip(pushes, rows, strict=True)]
    )
    owner = np.repeat(np.arange(len(rows)), rows)
    return Clients.by_owner(np.ones((len(y), 1), np.float32), torch.from_numpy(y), owner)


def without_noise(
    data: Clients, cohort: Sequence[int], weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> NDArray[np.float64]:
    """The model after one round of this cohort from zero, in clips."""
    model = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(model.weight)
    run = run_of(
        model,
        Pushed(),
        clients=4,
        rate=0.5,
        rounds=1,
        local_epochs=1,
        batch=None,
        learning_rate=1.0,
        weights=weights,
        noise=Central(1.0),
        progress=False,
    )
    monkeypatch.setattr(GradientGrid, "noisy", lambda grid, units, z, rng: units * float(grid.step))
    rounds = Rounds(run, data, Chosen([cohort]))
    rounds.step()
    weight: NDArray[np.float64] = rounds.model.weight.detach().double().numpy().ravel()
    return weight


@pytest.mark.parametrize(
    ("weights", "counts", "over"),
    [(Uniform(), (1, 1, 1, 1), 2.0), (Capped(3, 3.0), (1 / 3, 2 / 3, 1, 1), 1.5)],
)
def test_in_every_cohort_a_client_moves_the_mean_by_one_clip_over_what_is_declared(
    weights: Weights, counts: Sequence[float], over: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cohorts of four clients, one of them gone: weights by rows over the cohort's total would move it
    by up to two clips, whoever else is there."""
    pushes, rows = [(50.0, 0.0), (0.0, 0.7), (-3.0, -4.0), (0.2, 0.1)], (1, 2, 3, 7)
    clipped = [(1.0, 0.0), (0.0, 0.7), (-0.6, -0.8), (0.2, 0.1)]
    everybody, grid = clients_of(pushes, rows), GradientGrid(1.0, 2)
    one_clip = grid.sensitivity * float(grid.step)
    for size in range(5):
        for cohort in itertools.combinations(range(4), size):
            full = without_noise(everybody, cohort, weights, monkeypatch)
            expected = sum((counts[k] * np.array(clipped[k]) for k in cohort), np.zeros(2))
            np.testing.assert_allclose(full, expected / over, atol=2e-3)
            for gone in cohort:
                rest = without_noise(everybody, [k for k in cohort if k != gone], weights, monkeypatch)
                assert np.linalg.norm(full - rest) * over <= one_clip + 1e-6


@pytest.mark.parametrize(("rounds", "apart"), list(itertools.product((1, 4, 7), (1, 2, 3))))
@pytest.mark.parametrize("bands", [None, 1, 4])
def test_no_client_that_takes_turns_moves_a_run_by_more_than_its_noise_allows(
    rounds: int, apart: int, bands: int | None
) -> None:
    """All patterns of rounds at least `apart` from one another, and all signs of what is sent in them."""
    noise = Correlated(1.0, apart=apart, bands=bands)
    encoder = noise.encoder(rounds)
    # Round by round the noise is C⁻¹ times fresh draws: it is read off by taking unit vectors for draws.
    inverse = np.zeros((rounds, rounds))
    earlier: list[NDArray[np.float64]] = []
    for turn in range(rounds):
        earlier.append(encoder.noise(np.eye(rounds)[turn], earlier))
        inverse[turn] = earlier[-1]
        del earlier[: -encoder.bands]
    matrix = np.linalg.inv(inverse)
    worst = 0.0
    for pattern in itertools.product((0, 1), repeat=rounds):
        places = [k for k in range(rounds) if pattern[k]]
        if any(b - a < apart for a, b in itertools.pairwise(places)):
            continue
        for signs in itertools.product((-1.0, 1.0), repeat=len(places)):
            sent = np.zeros(rounds)
            sent[places] = signs
            worst = max(worst, float(np.linalg.norm(matrix @ sent)))
    assert worst <= noise.sensitivity(rounds) * (1 + 1e-9)


# ------------------------------------------------------------------------------------- what rounds cost

FINE = 1e-3


def losses(with_it: NDArray[np.float64], without: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """The law of ln(p/q) under p on a grid, each rounded down: what is computed from it is no more than the
    truth."""
    seen = (with_it > 0) & (without > 0)
    places = np.floor(np.log(with_it[seen] / without[seen]) / FINE).astype(int)
    law = np.bincount(places - places.min(), with_it[seen])
    return law, int(places.min())


def at_least(pair: tuple[NDArray[np.float64], NDArray[np.float64]], rounds: int, epsilon: float) -> float:
    """A δ that independent rounds of this pair have at the least."""
    bounds = []
    for one, other in (pair, pair[::-1]):
        law, low = losses(one, other)
        total, start = law, low
        for _ in range(rounds - 1):
            total, start = np.clip(fftconvolve(total, law), 0, None), start + low
        loss = (start + np.arange(len(total))) * FINE
        above = loss > epsilon
        bounds.append(float((total[above] * -np.expm1(epsilon - loss[above])).sum()))
    return max(bounds)


@pytest.mark.parametrize(
    ("noise", "unit", "rate", "rounds", "charged"),
    [
        (Central(1.0), ADDED, 0.3, 3, 3),
        (Central(1.0), REPLACED, 0.3, 3, 3),
        (Central(2.0), REPLACED, 1, 2, 2),
        (OnClient(2.0, participations=2), SILENT, 0.3, 5, 2),
        (OnClient(2.0, participations=3, coins=0.3), REPLACED, 1, 5, 3),
        (Shared(2.0, bits=16, least=4, colluders=1, participations=3), SILENT, 0.9, 3, 3),
        (Shared(2.0, bits=16, least=4, participations=2, coins=0.4), SILENT, 1, 6, 2),
        (Shared(3.0, bits=16, least=4, participations=2), REPLACED, 1, 6, 2),
    ],
)
def test_rounds_cost_what_the_laws_of_what_is_seen_cost(
    noise: AnyPlacement, unit: Unit, rate: float, rounds: int, charged: int
) -> None:
    """A server's draw hides a client from those who see its noisy sums; noise of clients is charged for every
    participation, up to the limit, and only a client's own coin hides it."""
    run = federated(noise, unit, rate, rounds)
    share = rate
    if isinstance(noise, Shared):
        encoding = noise.encoding(run.multiplier, run.shape)
        law = of_sum(noise.share(run.multiplier, encoding), noise.parties)
        bound = encoding.sensitivity
    else:
        grid = GradientGrid(1.0, 1)
        law, bound = integer_gaussian(float(grid.loss(run.multiplier).sigma)), grid.sensitivity
    if isinstance(noise, OnClient | Shared):
        share = float(noise.coins)
    other = -bound if unit == REPLACED else 0
    base, present, absent = (moved(law, by, bound) for by in (0, bound, other))
    pair = ((1 - share) * base + share * present, (1 - share) * base + share * absent)
    for epsilon in (0.2, 1.0, 2.0):
        truth, said = at_least(pair, charged, epsilon), accounting.delta(run.loss, epsilon).upper
        assert truth * (1 - 1e-6) - 1e-12 <= said
        assert said <= 1.6 * truth + 1e-4 or unit == REPLACED  # and no rounds are charged that nobody played
