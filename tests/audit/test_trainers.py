"""Trainers that keep their claim are not accused by any canary: ours in every mode, and those of Opacus."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deniable.audit import Verdict
from deniable.audit.sgd import canaries
from tests.audit.trainers import CLAIM, DIMENSION, sound

TRAINERS = sound(CLAIM)
QUICK = "ours, a chain of layers", "Opacus, ghost"


@pytest.mark.parametrize("name", QUICK)
def test_sound_trainers_are_not_accused(name: str) -> None:
    """The others take a minute each: `make soak`."""
    finding = attacked(name, rounds=30, seconds=0.2)
    assert finding.verdict is not Verdict.VIOLATION, str(finding)
    assert finding.options["mu"] > 0, "An audit that sees nothing proves nothing."


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_sees_the_gradients_that_are_put_in(name: str) -> None:
    """What an audit of it stands on: a lot of loud rows moves the release along themselves."""
    step, rng = TRAINERS[name](), np.random.default_rng(0)
    direction = rng.choice([-1.0, 1.0], DIMENSION)
    rows = np.tile(1e3 * direction, (round(CLAIM.lot), 1))
    quiet, loud = (np.mean([step(batch, rng) for _ in range(5)], axis=0) for batch in (1e-9 * rows, rows))
    shift = loud - quiet
    assert shift @ direction > 0.4 * np.linalg.norm(shift) * np.linalg.norm(direction)


@pytest.mark.soak
@pytest.mark.parametrize("name", TRAINERS)
def test_sound_trainers_are_not_accused_by_thousands_of_canaries(name: str) -> None:
    assert attacked(name, rounds=300, seconds=50).verdict is not Verdict.VIOLATION


def attacked(name: str, rounds: int, seconds: float) -> Any:
    return canaries(
        TRAINERS[name](), CLAIM, dimension=DIMENSION, each=40, rounds=rounds, seconds=seconds,
        confidence=1 - 1e-6, seed=1,
    )  # fmt: skip
