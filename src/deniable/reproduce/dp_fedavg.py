"""Federated averaging under differential privacy: noise on the server, shared in secure
sums, or on each client, by ε."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deniable.datasets.real import load
from deniable.guarantee import Budget
from deniable.ledger import Filter, Ledger
from deniable.plots import learn as plots
from deniable.reproduce import _learning
from deniable.reproduce.report import Progress, Report

if TYPE_CHECKING:
    from deniable.federated.mcmahan import Digits

SUMMARY = (
    "Federated MNIST by ε: noise on the server, shared in secure sums, on each client (about 4 CPU minutes)"
)

CLIENTS, RATE, ROUNDS, DELTA = 1000, 0.1, 40, 1e-4
EPSILONS = (1.0, 2.0, 8.0)
PLACES = ("on the server", "shared, own coins", "shared", "on each client")

READING = (
    f"{CLIENTS:,} clients of 60 digits, {ROUNDS} rounds at rate {RATE:g}, one run each, δ = {DELTA:g}, the "
    "2NN of McMahan et al. 2017. On the server: a trusted server adds noise to the sum. Shared: every client "
    "adds a share and a secure sum hides the rest; the server knows whom it drew (at most 10 times each), so "
    "its draw hides nobody. Shared, own coins: all clients take part in every round, each adds its update "
    f"with probability {RATE:g} by a coin that it tells nobody, which hides it from the server too: the "
    "noise of a trusted server, for ten times the traffic. On each client: nobody is trusted, and the sum "
    "carries every client's noise."
)


def run(folder: Path, progress: Progress) -> Report:
    _learning.need_torch()
    from deniable.federated.mcmahan import Digits

    data = Digits.from_images(load("mnist"))
    reference = without_noise(data)
    outcomes = results(data, progress, EPSILONS)
    curves = {place: [(epsilon, outcomes[place, epsilon][1]) for epsilon in EPSILONS] for place in PLACES}
    draw = partial(
        plots.by_epsilon,
        curves,
        {},
        title="Federated averaging on MNIST, by where noise is added",
        path=folder / "dp-fedavg.png",
        level=("without clip and noise", reference),
    )
    rows: list[tuple[object, ...]] = [("none, and no clip", "∞", 0, round(reference, 2))]
    rows += [
        (place, epsilon, round(noise, 3), round(score, 2))
        for (place, epsilon), (noise, score) in outcomes.items()
    ]
    columns = ("noise", "ε", "multiplier", "accuracy %")
    return Report("Accuracy by ε and by who is trusted", columns, rows, draw, READING)


def without_noise(data: Digits) -> float:
    """The accuracy in per cent of plain federated averaging with as many clients, rounds and steps."""
    from deniable.federated import mcmahan

    outcome = mcmahan.play(
        "2NN",
        data.dealt("IID", CLIENTS),
        data.accuracy,
        share=RATE,
        rounds=ROUNDS,
        learning_rate=mcmahan.STEP,
        every=ROUNDS,
    )
    return 100 * outcome.scores[ROUNDS]


def results(
    data: Digits, progress: Progress, epsilons: Sequence[float]
) -> dict[tuple[str, float], tuple[float, float]]:
    """The noise multiplier and the accuracy in per cent of one run each."""
    clients = data.dealt("IID", CLIENTS)
    jobs = list(product(PLACES, epsilons))
    outcomes: dict[tuple[str, float], tuple[float, float]] = {}
    for place, epsilon in progress(jobs, "Federated runs"):
        outcomes[place, epsilon] = train(place, epsilon, data, clients)
    return outcomes


def train(place: str, epsilon: float, data: Digits, clients: Any) -> tuple[float, float]:
    from deniable.federated.mcmahan import private

    mechanism = private(place, epsilon, delta=DELTA, clients=CLIENTS, rate=RATE, rounds=ROUNDS)
    limit = Budget(1.01 * epsilon, DELTA)
    account = Ledger.open("sqlite://").create("phones", mechanism.unit, limit=limit, filter=Filter.basic)
    release = account.run(mechanism, clients, delta=DELTA)
    return mechanism.multiplier, 100 * data.accuracy(release.value.model)
