"""Trainers that keep their claim are not accused by any canary: ours in every mode, and those of Opacus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deniable.accounting import calibrate_noise
from deniable.audit import Verdict
from deniable.audit.sgd import Training, canaries
from tests.audit.trainers import DIMENSION, sound

CLAIM = Training(calibrate_noise(8, 1e-5, rate=0.05, steps=2000), 1.5, 20, 0.05, 2000, 1e-5)
TRAINERS = dict(sound(CLAIM))


@pytest.mark.parametrize("name", ["ours", "Opacus, hooks", "Opacus, ghost"])
def test_sound_trainers_are_not_accused(name: str) -> None:
    """The others take a minute each: `make soak`."""
    found = attacked(TRAINERS[name], rounds=60, seconds=0.4)
    assert found.verdict is not Verdict.VIOLATION, str(found)
    assert found.options["mu"] > 0, "An audit that sees nothing proves nothing."


@pytest.mark.soak
@pytest.mark.parametrize("name", TRAINERS)
def test_sound_trainers_are_not_accused_by_thousands_of_canaries(name: str) -> None:
    assert attacked(TRAINERS[name], rounds=300, seconds=50).verdict is not Verdict.VIOLATION


def attacked(step: Callable[..., Any], rounds: int, seconds: float) -> Any:
    return canaries(
        step, CLAIM, dimension=DIMENSION, each=40, rounds=rounds, seconds=seconds, confidence=1 - 1e-6, seed=1
    )
