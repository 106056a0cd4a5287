"""Rounds over silos are attacked by our own auditor, in every place of the noise, beside twins that clip a silo
in place of its rows, share noise for all silos in place of the least, or count a patient of two silos once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from deniable.audit import Finding, Verdict, audit
from deniable.federated import Central, CrossSilo, OnClient, Shared
from deniable.federated.noise.encode import Integers
from deniable.federated.secure_sum.agreement import Adversary
from deniable.federated.silos.rounds import finish_sum
from deniable.federated.silos.worker import SiloWorker
from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.randomness import SeededRandom
from tests.federated.silos.worlds import PATIENT, Held, run_of, silo

World = tuple[Held, Held]
START = torch.zeros(1)
OWN: World = (((9.0, "own"),), ())
TWICE: World = (((9.0, "own"),), ((9.0, "own"),))
NOBODY: World = ((), ())
SHARED = Shared(0.6, bits=32, least=2, adversary=Adversary.CURIOUS)
PLACES = [Central(0.6), OnClient(0.6), SHARED]


def answers(run: CrossSilo, **changes: Any) -> Callable[[World, Random], float]:
    """A round of a run, in clips; workers are made once, since a model is tried before it is trained."""
    workers: dict[World, list[SiloWorker]] = {}

    def answer(world: World, rng: Random) -> float:
        if world not in workers:
            workers[world] = [SiloWorker(run, k, silo(held), rng) for k, held in enumerate(world)]
        total: Integers = np.zeros(1, np.int64)
        for worker in workers[world]:
            worker._rng = worker._lots._trainer.rng = rng
            vars(worker).update(changes)
            total = total + worker.send_sum(START)
            if isinstance(run.noise, OnClient):  # what one silo sends is seen: the sum would hide half of it
                break
        return float(finish_sum(run, total, rng)[0]) * float(run.grid.step)

    return answer


def attack(
    target: Callable[[World, Random], float], pair: tuple[World, World], claim: Loss, confidence: float
) -> Finding:
    return audit(target, pair, claim, samples=1000, seed=0, confidence=confidence, workers=1)


@pytest.mark.parametrize("rate", [1, 0.9])
@pytest.mark.parametrize("noise", PLACES, ids=lambda noise: type(noise).__name__)
def test_a_round_stays_within_its_claim_for_a_row(noise: Any, rate: float) -> None:
    run = run_of(noise, rate=rate)
    finding = attack(answers(run), (OWN, NOBODY), run.loss, 1 - 1e-6)
    assert finding.verdict is not Verdict.VIOLATION, str(finding)
    assert finding.epsilon > 0, f"An audit that sees nothing proves nothing: {finding}"


@pytest.mark.parametrize("noise", [Central(0.6), SHARED], ids=lambda noise: type(noise).__name__)
def test_a_patient_of_two_silos_who_is_counted_once_is_found(noise: Any) -> None:
    run, once = (run_of(noise, rate=1, unit=PATIENT, most=most) for most in (2, 1))
    finding = attack(answers(run), (TWICE, NOBODY), run.loss, 1 - 1e-6)
    assert finding.verdict is not Verdict.VIOLATION, str(finding)
    finding = attack(answers(once), (TWICE, NOBODY), once.loss, 0.95)
    assert finding.verdict is Verdict.VIOLATION, str(finding)


class SiloClip(SiloWorker):
    """Bounds the sum of its rows as a whole, and calls that a bound on each."""

    def send_sum(self, weights: Any) -> Integers:
        most = 10 * self._run.grid.sensitivity
        loud = self._lots.add_up(weights) * 100
        return np.clip(loud, -most, most) + self._draw_noise()


def test_a_clip_of_the_silo_that_is_claimed_for_its_rows_is_found() -> None:
    run = run_of(OnClient(1.0), rate=1)
    workers = {world: SiloClip(run, 0, silo(world[0]), SeededRandom(0)) for world in (OWN, NOBODY)}

    def target(world: World, rng: Random) -> float:
        workers[world]._rng = workers[world]._lots._trainer.rng = rng
        return float(workers[world].send_sum(START)[0])

    finding = attack(target, (OWN, NOBODY), run.loss, 0.95)
    assert finding.verdict is Verdict.VIOLATION, str(finding)


def test_shares_of_noise_for_all_silos_where_two_answer_are_found() -> None:
    run = run_of(SHARED, rate=1)
    less = answers(run, _deviation=run.silo_deviation / 4)
    finding = attack(less, (OWN, NOBODY), run.loss, 0.95)
    assert finding.verdict is Verdict.VIOLATION, str(finding)
