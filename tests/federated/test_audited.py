"""Every place for the noise is attacked by our own auditor, beside twins that lack some
of it; and a whole run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deniable.audit import Verdict, audit
from deniable.federated import Central, Clients, Correlated, FedAvg, OnClient, Shared
from deniable.federated.noise.encode import Encoding, Floats
from deniable.federated.noise.placement import Summing, UpdateShape
from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.federated.runs import run_of

SAMPLES = 2000

# ------------------------------------------------------------------------------------------------ sums of rounds

Round = tuple[float, ...]
"""What each client asks for in a round."""
SILENT = Unit.client(zero_out=True)


@dataclass(frozen=True)
class Rounds:
    """A placement over one or two rounds of one number, the claim it stands under, and neighbouring
    rounds."""

    noise: Any
    unit: Unit
    pair: tuple[tuple[Round, ...], tuple[Round, ...]]

    @property
    def shape(self) -> UpdateShape:
        return UpdateShape(1, 1.0, 2.0, len(self.pair[0]))

    @property
    def loss(self) -> Loss:
        release: Loss = self.noise.release(1.0, self.shape, self.unit)
        return release if isinstance(self.noise, Correlated) else release * len(self.pair[0])

    def target(self, noise: Any, multiplier: float = 1.0) -> Any:
        def run(rounds: tuple[Round, ...], rng: Random) -> list[float]:
            total = noise.summing(multiplier, self.shape, rng)
            return [float(total(np.array([move]) for move in moves)[0]) for moves in rounds]

        return run


@dataclass(frozen=True)
class SharesForAll(Shared):
    """Makes each share as if sixteen clients were sure to answer, where two do."""

    def share(self, multiplier: float, encoding: Encoding) -> float:
        return super().share(multiplier, encoding) / np.sqrt(8)


@dataclass(frozen=True)
class SameNoiseAgain(Central):
    """Draws its noise once and adds it in every round."""

    def summing(self, multiplier: float, shape: UpdateShape, rng: Random) -> Summing:
        noise = super().summing(multiplier, shape, rng)(iter(()))

        def total(updates: Iterable[Floats]) -> Floats:
            return np.sum([np.clip(update, -1, 1) for update in updates], axis=0) + noise

        return total


@dataclass(frozen=True)
class Unclipped(OnClient):
    """Adds noise to whatever a client says."""

    def summing(self, multiplier: float, shape: UpdateShape, rng: Random) -> Summing:
        noise = super().summing(multiplier, shape, rng)

        def total(updates: Iterable[Floats]) -> Floats:
            given = list(updates)
            return np.sum(given, axis=0) + noise([np.zeros(1)] * len(given))

        return total


CENTRAL = Rounds(Central(), Unit.client(), (((0.0,),), ((0.0, 9.0),)))
TWICE = Rounds(Central(), Unit.client(), (((0.0,), (0.0,)), ((0.0, 9.0), (0.0, -9.0))))
ON_CLIENT = Rounds(OnClient(), SILENT, (((0.0, 0.0),), ((0.0, 9.0),)))
REPLACED = Rounds(OnClient(), Unit.client(replace=True), (((0.0, -9.0),), ((0.0, 9.0),)))
SHARED = Rounds(Shared(bits=32, least=2), SILENT, (((0.0, 0.0),), ((0.0, 9.0),)))
CORRELATED = Rounds(Correlated(apart=1), SILENT, (((0.0, 0.0), (0.0, 0.0)), ((0.0, 9.0), (0.0, 9.0))))
ALL = {"central": CENTRAL, "two rounds": TWICE, "on clients": ON_CLIENT, "replaced": REPLACED, "shared": SHARED,
       "correlated": CORRELATED}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_noise_stays_within_its_claim(name: str) -> None:
    rounds = ALL[name]
    finding = audit(
        rounds.target(rounds.noise),
        rounds.pair,
        rounds.loss,
        samples=SAMPLES,
        seed=0,
        confidence=1 - 1e-6,
        workers=1,
    )
    assert finding.verdict is not Verdict.VIOLATION, str(finding)
    assert finding.epsilon > 0, f"An audit that sees nothing proves nothing: {finding}"


@pytest.mark.parametrize(
    ("rounds", "twin", "multiplier"),
    [
        (CENTRAL, Central(), 0.25),
        (TWICE, SameNoiseAgain(), 1.0),
        (ON_CLIENT, Unclipped(), 1.0),
        (ON_CLIENT, OnClient(), 0.25),
        (SHARED, SharesForAll(bits=32, least=2), 1.0),
        (CORRELATED, Correlated(apart=1), 0.25),
    ],
    ids=lambda value: type(value).__name__,
)
def test_twins_with_less_noise_are_found(rounds: Rounds, twin: Any, multiplier: float) -> None:
    target = rounds.target(twin, multiplier)
    finding = audit(target, rounds.pair, rounds.loss, seed=0, samples=SAMPLES, confidence=0.95, workers=1)
    assert finding.verdict is Verdict.VIOLATION, str(finding)


# ------------------------------------------------------------------------------------------------ own coins


@dataclass(frozen=True)
class SilentOnTails(OnClient):
    """Sends nothing, not even its noise, when its coin keeps the update back: so all see how it fell."""

    def summing(self, multiplier: float, shape: UpdateShape, rng: Random) -> Summing:
        noise = super().summing(multiplier, shape, rng)
        return lambda updates, silent=0: noise(updates)


def by_coins(noise: OnClient, shape: UpdateShape) -> Any:
    """A round in which every client adds its update by its own coin."""

    def run(moves: Round, rng: Random) -> float:
        heads = rng.poisson_sample(len(moves), noise.coins)
        said = [np.array([moves[i]]) for i in heads]
        total = noise.summing(0.7, shape, rng)(said, len(moves) - len(heads))
        assert total is not None
        return float(total[0])

    return run


def test_a_client_whose_silence_tells_its_coin_is_found() -> None:
    """A coin gains by nobody knowing how it fell: of a message that is known to hold the update the noise
    hides what it hides without a coin."""
    shape, pair = UpdateShape(1, 1.0, 2.0, 1), ((9.0,), (0.0,))
    claim = OnClient().release(0.7, shape, SILENT).sampled(0.2)
    honest, silent = by_coins(OnClient(coins=0.2), shape), by_coins(SilentOnTails(coins=0.2), shape)
    finding = audit(honest, pair, claim, seed=0, samples=3000, confidence=1 - 1e-6, workers=1)
    assert finding.verdict is not Verdict.VIOLATION, str(finding)
    finding = audit(silent, pair, claim, seed=0, samples=16_000, confidence=0.95, workers=1)
    assert finding.verdict is Verdict.VIOLATION, str(finding)


# ------------------------------------------------------------------------------------------------ a whole run


class Weight(nn.Module):
    """One number. Its gradient on a row is that row's label, so a client moves it by
    exactly what the row says."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


def product(outputs: Tensor, labels: Tensor) -> Tensor:
    return -(outputs * labels).sum()


def people(*moves: float) -> Clients:
    """A client for each number, which asks for a move of that size."""
    count = len(moves)
    return Clients(
        np.ones(count, np.float32), np.array(moves, np.float32), np.arange(count), np.arange(count + 1)
    )


def federated(noise: Any) -> FedAvg:
    return run_of(
        Weight(),
        product,
        clients=2,
        rate=1,
        rounds=1,
        batch=None,
        learning_rate=1.0,
        noise=noise,
        progress=False,
    )


def weight_of(outcome: Any) -> float:
    return float(outcome.model.get_parameter("weight").item())


def weight(run: FedAvg, data: Clients, rng: Random) -> float:
    return weight_of(run(data, rng=rng))


def test_a_whole_run_stays_within_its_claim_and_one_with_less_noise_does_not() -> None:
    pair, claim = (people(0.0), people(0.0, 9.0)), federated(Central(1.0))
    for run, verdict in ((claim, False), (federated(Central(0.2)), True)):
        finding = audit(
            lambda data, rng, run=run: weight(run, data, rng),
            pair,
            claim.loss,
            samples=250,
            seed=0,
            confidence=0.99,
            workers=1,
        )
        assert (finding.verdict is Verdict.VIOLATION) is verdict, str(finding)


def test_weights_by_size_are_clipped_all_the_same() -> None:
    """A weight multiplies before the clip: a client with a thousand rows moves the sum by one clip."""

    @dataclass(frozen=True)
    class BySize:
        def weight(self, size: int) -> float:
            return float(size * 1000)

        def denominator(self, rate: float, clients: int) -> float:
            return 1.0

    run = federated(Central(0.001))
    run = replace(run, privacy=replace(run.privacy, weights=BySize()))  # type: ignore[arg-type]
    assert 0.9 < weight(run, people(0.0, 9.0), SeededRandom(1)) < 1.1


Sized = tuple[tuple[int, float], ...]
"""Clients with their numbers of rows and the moves that they ask for."""


def mean_by_size(clients: Sized, rng: Random) -> float:
    """The mean of clipped updates by numbers of rows over the drawn clients' own total,
    with noise for one clip among two."""
    total = sum(size for size, _ in clients)
    mean = sum(size * float(np.clip(move, -1, 1)) for size, move in clients) / total
    return mean + float(np.sum(rng.discrete_gaussian(1024, 1))) / 1024 / 2


def mean_over_a_declared_number(clients: Sized, rng: Random) -> float:
    """The same with what a run does: weights of at most one over a declared number of clients."""
    moves = [np.array([min(size / 10, 1.0) * move]) for size, move in clients]
    total = Central(1.0).summing(1.0, CENTRAL.shape, rng)(iter(moves))
    assert total is not None
    return float(total[0]) / 2


def test_weights_by_size_over_their_own_total_are_found() -> None:
    """F1: whoever holds nearly all rows turns the mean around, which moves it by two
    clips, however many there are."""
    pair: tuple[Sized, Sized] = (((10, 9.0),), ((10, 9.0), (10**6, -9.0)))
    claim = CENTRAL.loss
    for target, found in ((mean_by_size, True), (mean_over_a_declared_number, False)):
        finding = audit(target, pair, claim, seed=0, samples=SAMPLES, confidence=1 - 1e-6, workers=1)
        assert (finding.verdict is Verdict.VIOLATION) is found, str(finding)
