"""The auditor attacks the steps of a real `DPSGD`: the honest one holds, broken twins are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from deniable.audit import Verdict, sgd
from deniable.audit.sgd import Training, canaries
from deniable.learn.clip import Batch
from deniable.learn.sgd.training import trainer as trainers
from deniable.learn.sgd.training.trainer import Sums, Trainer
from deniable.randomness import SeededRandom
from tests.learn.sgd.runs import Identity, output, small

DIMENSION, LOT = 300, 20


def audited(seed: int, make: Callable[..., Trainer] = Trainer.fresh, *, windows: int = 40) -> Any:
    """Canary gradients go through the run's own clipping, noise and normaliser as
    examples of an identity model."""
    run = small(
        Identity(DIMENSION),
        output,
        n=400,
        lot=LOT,
        steps=2000,
        clip=0.5,
        noise_multiplier=1.2,
    )
    run.check((torch.randn(400, DIMENSION), torch.zeros(400)))
    trainer, claim = make(run, SeededRandom(seed)), Training(1.2, 0.5, LOT, 0.05, 2000, 1e-5)

    def step(gradients: Any, rng: np.random.Generator) -> Any:
        trainer.taken = 1
        x = torch.from_numpy(gradients).float()
        lot = [Batch((x, torch.zeros(len(x))))] if len(x) else []
        return trainer.release(trainer.clipped(lot))["line.weight"][0].double().numpy()

    # The first design shows nearly all that is asked here: the others, of tests/audit, have few windows.
    with mock.patch.multiple(sgd, LEAST_STEPS=windows, LEAST_WAKES=windows // 20):
        return canaries(step, claim, dimension=DIMENSION, rounds=120, each=250, seed=seed, seconds=0.01)


def test_honest_steps_hold_and_are_seen_nearly_in_full() -> None:
    found = audited(1)
    assert found.verdict is Verdict.CONSISTENT
    assert 0.85 * found.options["claimed_mu"] < found.options["mu"] < found.options["claimed_mu"]


def test_halved_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = trainers.noisy_mean
    monkeypatch.setattr(trainers, "noisy_mean", lambda total, z, lot, rng: honest(total, z / 2, lot, rng))
    assert audited(2).verdict is Verdict.VIOLATION


def test_missing_clipping_is_found() -> None:
    class Unclipped(Trainer):
        def clipped(self, lot: Any) -> Sums:
            self.bounds["all"] = 1e9
            sums = super().clipped(lot)
            self.bounds["all"] = 0.5
            return sums

    assert audited(3, Unclipped.fresh).verdict is Verdict.VIOLATION


def test_a_normaliser_of_the_drawn_size_is_found() -> None:
    class WrongLot(Trainer):
        def clipped(self, lot: Any) -> Sums:
            self.drawn = sum(batch.examples for batch in lot)
            return super().clipped(lot)

        def release(self, sums: Sums) -> Any:
            return {name: g * (LOT / max(1, self.drawn)) for name, g in super().release(sums).items()}

    assert audited(4, WrongLot.fresh, windows=200).verdict is Verdict.VIOLATION


def test_noise_for_a_smaller_clip_is_found() -> None:
    class SmallerBound(Trainer):
        def release(self, sums: Sums) -> Any:
            self.bounds["all"] = 0.3
            released = super().release(sums)
            self.bounds["all"] = 0.5
            return released

    assert audited(5, SmallerBound.fresh).verdict is Verdict.VIOLATION
