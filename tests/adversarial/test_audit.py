"""An audit certifies nothing that is not true: no second process that repeats the first,
no runs that depend on one another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from deniable.audit import Finding, Verdict, audit, replay
from deniable.audit.runs.carry import form_of
from deniable.audit.runs.generator import AnyRandom
from deniable.audit.runs.independence import Record, dependence
from deniable.audit.runs.pairs import Pair
from deniable.audit.runs.source import CERTIFY, HALF, Source, mix
from deniable.audit.runs.target import as_target
from deniable.audit.runs.worker import build
from deniable.mechanisms import Laplace
from tests.adversarial import stateful_targets as targets

SURE = 0.999
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def anew() -> None:
    targets.forget()


def attacked(target: Any, samples: int = 4000, second: Any = 1000, **more: Any) -> Finding:
    return audit(target, (0, second), 1.0, **{"samples": samples, "confidence": SURE, "seed": 0} | more)


# ------------------------------------------------------------------------------------------------ a second process


@pytest.mark.parametrize("audits", [12, pytest.param(150, marks=pytest.mark.soak)])
def test_a_target_exactly_at_its_claim_is_accused_no_more_often_than_stated(audits: int) -> None:
    """A module-level default_rng(42), two workers allowed, with a time as anybody would call it; α = .05."""
    found = [
        audit(targets.exactly_one, (0, 1), 1.0, samples=1500, seed=seed, workers=2).verdict
        for seed in range(audits)
    ]
    assert found.count(Verdict.VIOLATION) <= binom.ppf(1 - 1e-9, audits, 0.05)
    assert found.count(Verdict.REPEATS) <= binom.ppf(1 - 1e-9, audits, 0.005)


def test_only_what_takes_its_randomness_from_us_gets_a_second_process() -> None:
    for target, second in (
        (targets.slow, False),
        (takes_seed, True),
        (Laplace(2), True),
        (ignores_seed, False),
    ):
        with Source(as_target(target), 1, 2) as source:
            assert source.use_processes(Pair(0, 1)) is second, target


def takes_seed(data: int, seed: int) -> float:
    return data + float(np.random.RandomState(seed).laplace())


def ignores_seed(data: int, seed: int) -> int:
    """Says that it takes a seed and has a generator of its own: two processes would repeat each other."""
    return targets.exactly_one(data)


def test_two_workers_give_what_one_gives(tmp_path: Path) -> None:
    drawn = []
    for processes in (False, True):
        with Source(as_target(takes_seed), 5, 2, chunk=50) as source:
            assert source.use_processes(Pair(0, 100)) if processes else True
            drawn.append(source.draw(Pair(0, 100), 120, 1))
    assert all(np.array_equal(a, b) for a, b in zip(*drawn, strict=True))


SCRIPT = """
import time
import numpy as np
from deniable.audit import audit

print("started")
def mechanism(data, seed):
    time.sleep(2e-3)
    return data + int(np.random.RandomState(seed).geometric(.5)) - int(np.random.RandomState(seed ^ 1).geometric(.5))

print(audit(mechanism, (0, 1), 5.0, time=1.5, workers=2).verdict.exit_code in (0, 3))
"""


def test_a_script_without_a_main_guard_runs_once_and_ends_well(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["started", "True"]


# ------------------------------------------------------------------------------------------------ runs that depend on one another


@pytest.mark.parametrize(
    "target",
    [
        targets.remembered, targets.remembered_noise, targets.renewed, targets.in_turn, targets.picked,
        targets.by_the_second, targets.beside, targets.drifting,
    ],
    ids=lambda target: target.__name__,
)  # fmt: skip
def test_noise_that_is_used_again_is_never_certified(target: Any) -> None:
    for samples in (1000, 8000):
        found = attacked(target, samples, seed=samples)
        assert found.verdict in (Verdict.REPEATS, Verdict.CONSISTENT, Verdict.UNDERPOWERED), str(found)
    assert found.verdict is Verdict.REPEATS, str(found)
    assert (found.exit_code, found.epsilon, found.witness) == (5, 0.0, None)
    assert "Nothing was certified." in str(found)


@pytest.mark.parametrize("calls", [50, 100, 350, 700, 1100])
def test_noise_renewed_now_and_then_is_never_certified_whatever_the_number_of_runs(calls: int) -> None:
    memory = [0, 0]

    def renewed(data: int) -> int:
        if memory[0] % calls == 0:
            memory[1] = targets.noise(targets.OWN)
        memory[0] += 1
        return data + memory[1]

    for samples in (500, 1500, 6000):
        assert attacked(renewed, samples).verdict is Verdict.REPEATS


@pytest.mark.parametrize(
    "target",
    [targets.without_noise, targets.fixed_seed, targets.remembered_from_a_fixed_seed, lambda data: 3 * data],
    ids=["none", "fixed seed", "remembered from a fixed seed", "a lambda"],
)
def test_twins_without_noise_and_with_a_fixed_seed_stay_violations(target: Any) -> None:
    found = attacked(target, 1000)
    assert found.verdict is Verdict.VIOLATION, str(found)
    assert found.support_differs


def test_a_memory_that_cannot_be_started_anew_is_not_certified_either() -> None:
    memory: dict[int, int] = {}

    def remembered(data: int) -> int:
        return memory.setdefault(data, data + targets.noise(targets.OWN))

    found = attacked(remembered, 1000)
    assert found.verdict is Verdict.REPEATS
    assert "could not be started anew" in found.reasons[0]


def test_a_replay_looks_for_repeated_answers_too() -> None:
    found = attacked(targets.without_noise, 1000)
    assert found.verdict is Verdict.VIOLATION
    assert replay(found, targets.without_noise).verdict is Verdict.VIOLATION
    assert replay(found, targets.remembered).verdict is Verdict.REPEATS


def test_batches_with_one_noise_each_are_not_certified() -> None:
    def once(data: float, n: int, rng: np.random.Generator) -> Any:
        return np.full(n, data + np.rint(1000 * rng.laplace()))

    assert attacked(once, 40_000).verdict is Verdict.REPEATS


def test_zero_guesses_are_no_evidence() -> None:
    def ignored(data: int, seed: int) -> float:
        return float(np.random.default_rng(seed).integers(4))

    found = audit(ignored, (0, 1), 1.0, samples=4000, seed=0)
    assert (found.verdict, found.exit_code, found.epsilon) == (Verdict.NO_EVIDENCE, 4, 0.0)
    assert "Nothing was guessed" in str(found)
    assert Finding.from_json(found.to_json()).reasons == found.reasons


@pytest.mark.parametrize("records", [30, pytest.param(400, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["normal", "integers", "bits", "rare", "constant", "float32", "bursts"])
def test_independent_runs_are_seldom_said_to_repeat(kind: str, records: int) -> None:
    """Records of 600 runs at α = .05, orders mixed as an audit mixes them."""
    alarms = 0
    for seed in range(records):
        rng = np.random.default_rng([seed, 17])
        values = {
            "normal": rng.standard_normal(600),
            "integers": rng.geometric(0.4, 600),
            "bits": rng.integers(2, size=600),
            "rare": rng.random(600) < 0.004,
            "constant": np.zeros(600),
            "float32": rng.standard_normal(600).astype(np.float16),
            "bursts": np.exp(6 * rng.standard_normal(600)) // 1,
        }[kind]
        sides = rng.integers(2, size=600)
        rows = np.asarray(values, np.float64)[:, None]
        record = Record(
            rows[sides == 0], rows[sides == 1], (np.flatnonzero(sides == 0), np.flatnonzero(sides == 1))
        )
        alarms += dependence(record, 0.05) is not None
    assert alarms <= binom.ppf(1 - 1e-6, records, 0.05)


# ------------------------------------------------------------------------------------------------ people where they are


def test_a_function_of_data_and_rng_gets_numpys_methods() -> None:
    def laplace(data: float, rng: Any) -> float:
        return float(np.rint(8 * (data + rng.laplace(0, 1) + 0 * rng.standard_normal(3).sum())) / 8)

    found = audit(laplace, (0.0, 1.0), 1.0, samples=4000, confidence=SURE, seed=0)
    assert found.verdict is Verdict.CONSISTENT
    assert found.epsilon > 0.5


def test_a_function_that_hands_its_rng_to_our_mechanism_works_too() -> None:
    def wrapped(data: int, rng: Any) -> int:
        return int(Laplace(1)(data, rng=rng))

    assert audit(wrapped, (0, 1), 1.0, samples=4000, confidence=SURE, seed=0).epsilon > 0.5


def test_seeds_fit_into_32_bits_and_none_serves_twice() -> None:
    seeds: list[int] = []

    def kept(data: int, seed: int) -> float:
        seeds.append(seed)
        return float(np.random.RandomState(seed).random_sample())

    audit(kept, (0, 1), 1.0, samples=3000, seed=0, coupled=False)
    assert max(seeds) < 2**32
    assert len(set(seeds)) == len(seeds)
    del seeds[:]
    audit(kept, (0, 1), 1.0, samples=3000, seed=0, coupled=True)
    assert np.unique(np.unique(seeds, return_counts=True)[1]).tolist() == [2], "both runs of a pair share one"


def test_no_two_of_all_seeds_are_equal() -> None:
    for start in (0, HALF - 50_000, HALF, 2**32 - 100_000):
        assert len(np.unique(mix(start + np.arange(100_000), [123, 456]))) == 100_000
    assert CERTIFY != 0


def test_random_state_is_a_seed_as_scikit_learn_takes_it() -> None:
    def train(data: int, random_state: int) -> float:
        return data + float(np.random.RandomState(random_state).laplace())

    assert as_target(train).has_seeds  # type: ignore[attr-defined]
    assert isinstance(AnyRandom(3), np.random.Generator)


# ------------------------------------------------------------------------------------------------ what can be started anew


def test_what_holds_state_has_no_form_and_what_is_code_has_one() -> None:
    rng, memory, number = np.random.default_rng(), {}, 7  # type: ignore[var-annotated]
    assert form_of(lambda data: data + rng.normal(), has_seed=False) is None
    assert form_of(lambda data: memory.setdefault(data, 1), has_seed=False) is None
    assert form_of(lambda data: data + number, has_seed=False) is None, "it might be noise"
    assert form_of(lambda data, memory=[]: memory, has_seed=False) is None
    assert build(form_of(lambda data: np.sqrt(data) + len("abc"), has_seed=False) or ())(4) == 5
    assert build(form_of(lambda data, seed: data + number + seed, has_seed=True) or ())(1, 2) == 10
    assert form_of(targets.remembered, has_seed=False) == ("name", targets.__name__, "remembered")


def test_code_that_belongs_to_no_module_is_no_crash() -> None:
    room: dict[str, Any] = {"memory": {}}
    exec(
        "def remembered(data): return memory.setdefault(data, 2 * data)", room
    )  # as a page or a console runs it
    room["remembered"].__module__ = None
    assert attacked(room["remembered"], 1000).verdict is Verdict.REPEATS


def test_a_function_that_calls_itself_and_others_is_built_again() -> None:
    again = build(form_of(factorial, has_seed=False) or ())
    assert again(5) == 120


def factorial(n: int) -> int:
    return n * factorial(n - 1) if n > 1 else one()


def one() -> int:
    return len("x")
