"""A family of canaries finds what one kind of canary cannot, and accuses no sound step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from deniable.accounting import calibrate_noise
from deniable.audit import Verdict
from deniable.audit.bench.steps import Flaw, FlawedStep
from deniable.audit.bench.steps.sums import SUMS
from deniable.audit.one_run import independent_mu
from deniable.audit.sgd import DESIGNS, Training, canaries
from deniable.audit.training.designs import (
    Bench,
    dense,
    divide_crowd,
    oppose_crowd,
    pursue_direction,
    quietest,
    watch_windows,
)
from deniable.audit.training.fields import lengths, wake
from tests.audit.repeats import repeats

CLAIM = Training(calibrate_noise(8, 1e-5, rate=0.05, steps=2000), 1.5, 50, 0.05, 2000, 1e-5)
LAYERS = (120, 12, 60, 8)
SOUND = [flaw for flaw in Flaw if flaw.value.startswith("sound")]
APART = Flaw.SHOWN_AGAIN, Flaw.TIED_WEIGHTS
"""Found with more rounds, in tests of their own."""
SHOWN_BY = {
    Flaw.WRONG_LOT: "opposed", Flaw.MICROBATCH_MEANS: "opposed", Flaw.MICROBATCH_SUMS: "opposed",
    Flaw.SUMMED_MOMENTUM: "wake",
    Flaw.HALF_REPEATED: "quietest", Flaw.LAST_TWICE: "dense",
    Flaw.CLIP_BY_BATCH: "dense", Flaw.DIFFERENCES: "wake",
    Flaw.ONE_LOUDER: "singled", Flaw.LATE_CLIP: "lengths", Flaw.MEDIAN_CLIP: "divided",
    Flaw.EACH_ROW_DECAYS: "pursued", Flaw.RAW_SCALE: "wake", Flaw.TWENTY_LATER: "wake", Flaw.BALANCED: "wake",
    Flaw.WARM_UP: "scattered", Flaw.EMPTY_SKIPPED: "singled",
}  # fmt: skip

SHORT = (
    Flaw.HALVED_NOISE, Flaw.NO_CLIPPING, Flaw.CUT_NOISE, Flaw.STALE_NORMS,
    Flaw.MICROBATCH_MEANS, Flaw.SUMMED_MOMENTUM, Flaw.HALF_REPEATED, Flaw.LAST_TWICE, Flaw.ONE_LOUDER,
    Flaw.LATE_CLIP, Flaw.MEDIAN_CLIP, Flaw.EACH_ROW_DECAYS,
)  # fmt: skip
"""A flaw for each design, and of the many that the first design shows one for each kind; the rest is `make soak`."""


def attacked(flaw: Flaw, **more: Any) -> Any:
    step = FlawedStep(CLAIM, flaw, LAYERS)
    # More seconds than any of them takes: how many windows there are must not depend on a busy machine.
    options = {"rounds": 400, "each": 60, "confidence": 0.999, "seconds": 1000} | more
    return canaries(step, CLAIM, dimension=step.dimension, **options)


@pytest.mark.parametrize(
    "flaw",
    [
        pytest.param(flaw, marks=[] if flaw in SHORT else [pytest.mark.soak])
        for flaw in Flaw
        if flaw not in (*SOUND, *APART)
    ],
)
def test_every_flaw_of_a_step_is_found(flaw: Flaw) -> None:
    found = attacked(flaw)
    assert found.verdict is Verdict.VIOLATION, str(found)
    assert found.options["design"] == SHOWN_BY.get(flaw, found.options["design"])


def test_a_cap_that_a_row_fills_is_found() -> None:
    """A row that is taken pushes another out: in batches larger than the lot it counts twice."""

    def capped(rows: Any, rng: np.random.Generator) -> Any:
        clipped = rows * np.minimum(1, CLAIM.clip / np.linalg.norm(rows, axis=1, keepdims=True))
        noise = CLAIM.noise_multiplier * CLAIM.clip * rng.standard_normal(200)
        return (clipped[: round(CLAIM.lot)].sum(axis=0) + noise) / CLAIM.lot

    found = canaries(capped, CLAIM, dimension=200, rounds=800, each=60, confidence=0.999, seconds=1000)
    assert (found.verdict, found.options["design"]) == (Verdict.VIOLATION, "opposed")


def test_a_length_that_overflows_and_goes_unclipped_is_found() -> None:
    """In half precision 70,000 is infinite; a clip of it that is no number is left out by some."""

    def careless(rows: Any, rng: np.random.Generator) -> Any:
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        factors = np.where(norms > np.finfo(np.float16).max, 1, np.minimum(1, CLAIM.clip / norms))
        noise = CLAIM.noise_multiplier * CLAIM.clip * rng.standard_normal(200)
        return ((rows * factors).sum(axis=0) + noise) / CLAIM.lot

    finding = canaries(careless, CLAIM, dimension=200, rounds=600, each=60, confidence=0.999, seconds=1000)
    assert (finding.verdict, finding.options["design"]) == (Verdict.VIOLATION, "singled")


def test_a_step_that_remembers_its_longest_row_is_found() -> None:
    """After one loud canary it is deaf for hundreds of steps; one that is hardly longer than the crowd shows."""
    longest = 0.0

    def remembering(rows: Any, rng: np.random.Generator) -> Any:
        nonlocal longest
        longest = max(0.97 * longest, float(np.linalg.norm(rows, axis=1).max(initial=0)))
        noise = CLAIM.noise_multiplier * CLAIM.clip * rng.standard_normal(200)
        return (rows.sum(axis=0) * CLAIM.clip / max(longest, CLAIM.clip) + noise) / CLAIM.lot

    finding = canaries(
        remembering, CLAIM, dimension=200, rounds=1200, each=60, confidence=0.999, seconds=1000
    )
    assert (finding.verdict, finding.options["design"]) == (Verdict.VIOLATION, "opposed")


def test_a_small_part_that_is_clipped_apart_is_found() -> None:
    """A dense row is hardly in it; one that leans there is answered by √2 times the clip."""

    def apart(rows: Any, rng: np.random.Generator) -> Any:
        parts = [
            (part * np.minimum(1, CLAIM.clip / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-9)))
            for part in (rows[:, :192], rows[:, 192:])
        ]
        noise = CLAIM.noise_multiplier * CLAIM.clip * rng.standard_normal(200)
        return (np.concatenate([part.sum(axis=0) for part in parts]) + noise) / CLAIM.lot

    found = canaries(apart, CLAIM, dimension=200, rounds=600, each=60, confidence=0.999, seconds=1000)
    assert found.verdict is Verdict.VIOLATION


def test_a_canary_is_pursued_where_the_step_stretches_it() -> None:
    """A norm taken of two uses of a weight apart lets a row count √2 times, where both agree."""
    step = FlawedStep(CLAIM, Flaw.TIED_WEIGHTS, (10, 10))
    window = pursue_direction(Bench(step, CLAIM, 20, np.random.default_rng(0)), 1200)
    assert np.linalg.norm(SUMS[Flaw.TIED_WEIGHTS](step, window.canary[None])) > 1.35 * CLAIM.clip


@pytest.mark.soak
def test_weights_that_are_used_twice_are_found() -> None:
    finding = attacked(Flaw.TIED_WEIGHTS, rounds=1000)
    assert (finding.verdict, finding.options["design"]) == (Verdict.VIOLATION, "pursued")


def test_a_step_that_cannot_take_an_empty_batch_is_audited_all_the_same() -> None:
    sound = FlawedStep(CLAIM, Flaw.NONE, LAYERS)

    def step(gradients: Any, rng: np.random.Generator) -> Any:
        assert len(gradients), "no rows"
        return sound(gradients, rng)

    assert canaries(step, CLAIM, dimension=200, each=60, rounds=60).verdict is not Verdict.VIOLATION


@pytest.mark.soak
def test_a_row_that_comes_again_eight_steps_later_is_found() -> None:
    """It tells 1.4 times as much in two steps that lie apart: that takes ten thousand windows."""
    found = attacked(Flaw.SHOWN_AGAIN, rounds=2000)
    assert (found.verdict, found.options["design"]) == (Verdict.VIOLATION, "momentum")


@pytest.mark.parametrize("flaw", SOUND)
def test_sound_steps_are_not_accused(flaw: Flaw) -> None:
    found = attacked(flaw, rounds=40)
    assert found.verdict is not Verdict.VIOLATION, str(found)


def test_each_design_certifies_a_mu_that_is_true_but_for_its_share() -> None:
    """Seven designs on a sound step at α = .1 each: seldom more than the true μ."""
    passed, runs = 0, repeats(40)
    for seed in range(runs):
        bench = Bench(FlawedStep(CLAIM, Flaw.NONE, (10, 4)), CLAIM, 14, np.random.default_rng(seed))
        windows = (
            oppose_crowd(bench, 100),
            dense(bench),
            quietest(bench, 60),
            divide_crowd(bench, 60),
            pursue_direction(bench, 30),
        )
        sights = [watch_windows(bench, window, 100) for window in windows]
        sights += [lengths(bench, 20, 10), wake(bench, 10, 10)]
        passed += sum(independent_mu(*sight, 0.1)[0] > 1 / CLAIM.noise_multiplier for sight in sights)
    assert passed <= binom.ppf(1 - 1e-9, 7 * runs, 0.1)


def test_the_designs_share_one_error() -> None:
    assert sum(DESIGNS.values()) == pytest.approx(1)


def test_slow_steps_get_fewer_windows() -> None:
    assert (
        attacked(Flaw.NONE, rounds=100, seconds=1e-9).samples < 2500 < attacked(Flaw.NONE, rounds=50).samples
    )


def test_a_step_that_breaks_down_with_its_canary_is_found() -> None:
    def step(gradients: Any, rng: np.random.Generator) -> Any:
        whole = FlawedStep(CLAIM, Flaw.NONE, LAYERS)(gradients, rng)
        return np.full_like(whole, np.nan) if np.abs(gradients).max() > 100 * CLAIM.clip else whole

    assert canaries(step, CLAIM, dimension=200, each=40, rounds=60).verdict is Verdict.VIOLATION


def test_noise_of_a_few_coordinates_among_many_is_found_where_it_repeats() -> None:
    """2,000 coordinates, two of which have the same noise: no covariance could be learnt from so few
    steps."""

    def step(gradients: Any, rng: np.random.Generator) -> Any:
        clipped = gradients * np.minimum(1, CLAIM.clip / np.linalg.norm(gradients, axis=1, keepdims=True))
        noise = CLAIM.noise_multiplier * CLAIM.clip * rng.standard_normal(2000)
        noise[1700] = noise[3]
        return (clipped.sum(axis=0) + noise) / CLAIM.lot

    found = canaries(step, CLAIM, dimension=2000, each=20, rounds=100, seconds=1000)
    assert (found.verdict, found.options["design"]) == (Verdict.VIOLATION, "quietest")
