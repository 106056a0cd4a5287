"""Looks at kept runs are counted, share the error, and certify by runs that nobody has seen."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from deniable.audit import Finding, Verdict, audit, replay
from deniable.audit.runs.looks import LookTerms
from deniable.audit.system import Recorded
from deniable.audit.system_options import SystemOptions
from deniable.cli import audit as command
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget

RIGHT = 1 / (1 + math.exp(-1))


class Answers:
    """A sound target of ε = 1 that counts its runs."""

    remembers = False

    def __init__(self, seed: int = 1) -> None:
        self.rng, self.runs = random.Random(seed), 0

    def __call__(self, data: str) -> Any:
        self.runs += 1
        return int(data) if self.rng.random() < RIGHT else 1 - int(data)


def looked(path: Path, samples: int, system: Answers, **more: Any) -> Finding:
    return audit(Recorded(system, path, "x"), ("0", "1"), 1.0, samples=samples, workers=1, **more)


def test_every_look_is_counted_and_certifies_by_new_runs_alone(tmp_path: Path) -> None:
    path, system = tmp_path / "runs.jsonl", Answers()
    first = looked(path, 500, system, seed=1)
    made = system.runs
    second = looked(path, 1000, system, seed=2)
    assert "look 1" in str(first)
    assert f"the {made:,} runs that earlier looks have shown" in str(second)
    assert second.witness is not None
    assert second.witness.trials <= system.runs - made, "what certifies was not there at the first look"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["look"]["terms"]["samples"] for line in lines if "look" in line] == [500, 1000]
    assert [line["seed"] for line in lines if "seed" in line] == [1, 2]


def test_the_same_look_again_says_the_same_and_costs_nothing(tmp_path: Path) -> None:
    path, system = tmp_path / "runs.jsonl", Answers()
    first, made = looked(path, 500, system), system.runs
    looked(path, 1000, system)
    kept = path.read_text()
    again = looked(path, 500, system, seed=(first.options or {})["seed"])
    assert (again.epsilon, again.witness, again.reasons) == (first.epsilon, first.witness, first.reasons)
    assert path.read_text() == kept
    assert made < system.runs


def test_eight_seeds_on_one_file_are_one_look(tmp_path: Path) -> None:
    path, system = tmp_path / "runs.jsonl", Answers()
    findings = [looked(path, 400, system, seed=seed) for seed in range(8)]
    assert [found.verdict for found in findings[1:]] == [Verdict.UNDERPOWERED] * 7
    assert all("no run certifies twice" in str(found) for found in findings[1:])
    assert path.read_text().count('"look": {') == 1


def test_a_file_of_0_2_0_counts_as_looked_at(tmp_path: Path) -> None:
    path, system = tmp_path / "runs.jsonl", Answers()
    lines = [{"about": "x"}, *({"data": str(i % 2), "output": i % 2} for i in range(300))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    book = Recorded(system, path, "x")
    look = book.open_look(LookTerms(0, 600, 0.95, 1.0, 0.0))
    assert (book.count, book.seed, look.number, look.shown_runs) == (300, 0, 2, 300)
    assert looked(path, 300, system).verdict is Verdict.UNDERPOWERED
    found = looked(path, 700, system)
    assert "look 2" in str(found)
    assert found.verdict is not Verdict.VIOLATION, "the 300 answers without noise certify nothing"


def test_the_seed_is_random_told_and_kept(tmp_path: Path) -> None:
    system = Answers()
    seeds = {(audit(system, ("0", "1"), 1.0, samples=300, workers=1).options or {})["seed"] for _ in range(4)}
    assert len(seeds) == 4  # by chance not: less than 1e-8
    path = tmp_path / "runs.jsonl"
    seed = (looked(path, 300, system).options or {})["seed"]
    assert Recorded(system, path, "x").seed == seed


def coin(data: int, seed: int) -> int:
    return data if random.Random(seed).random() < RIGHT else 1 - data


def test_a_doubt_is_no_accusation_and_a_fresh_sample_does_not_confirm_it(tmp_path: Path) -> None:
    """Seed 9 is one of twenty that chance favours; a replay is the same, a fresh sample is not."""
    found = audit(coin, (0, 1), 1.0, samples=600, seed=9, workers=1, coupled=False)
    assert (found.verdict, found.exit_code) == (Verdict.LOOK_AGAIN, 7)
    assert found.epsilon > 1
    assert replay(found, coin, workers=1).verdict is Verdict.LOOK_AGAIN
    second = replay(found, coin, seed=10, workers=1)
    assert second.verdict is not Verdict.VIOLATION
    assert (second.options or {})["confirmations"] == 1


def test_the_command_says_how_to_look_again_and_counts_it(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command.audit)
    saved, pairs = tmp_path / "finding.json", tmp_path / "pairs.json"
    pairs.write_text("[[0, 1]]")
    found = audit(coin, (0, 1), 1.0, samples=600, seed=9, workers=1, coupled=False)
    saved.write_text(Finding.from_json(found.to_json()).to_json())
    body = json.loads(saved.read_text())
    body["options"]["target"] = f"{__name__}:coin"
    saved.write_text(json.dumps(body))
    wide = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    said = CliRunner().invoke(app, ["--replay", str(saved), "--save", str(saved)], env=wide)
    assert f"Look again: deniable audit --replay {saved} --seed " in said.output
    for times in (1, 2):
        CliRunner().invoke(app, ["--replay", str(saved), "--seed", str(10 + times)], env=wide)
        assert json.loads(saved.read_text())["options"]["confirmations"] == times


# ------------------------------------------------------------------------------------------------ exceptions


def test_an_exception_on_one_neighbour_is_a_violation_that_is_found() -> None:
    def fails(data: int, seed: int) -> float:
        noise = random.Random(seed).random()
        if data and noise < 0.5:
            raise ZeroDivisionError("by her row")
        return noise

    found = audit(fails, (0, 1), 1.0, samples=1000, seed=1, workers=1)
    assert found.verdict is Verdict.VIOLATION
    always = audit(
        lambda data, seed: 1 / (1 - data) + random.Random(seed).random(), (0, 1), 1.0, samples=400, seed=1
    )
    assert always.verdict is Verdict.VIOLATION


def test_a_batch_that_raises_is_run_singly() -> None:
    def fails(data: int, n: int, rng: Any) -> Any:
        noise = rng.random(n)
        if data and (noise < 0.4).any():
            raise ZeroDivisionError("by her row")
        return noise

    assert audit(fails, (0, 1), 1.0, samples=1000, seed=1, workers=1).verdict is Verdict.VIOLATION


def test_exceptions_alike_on_both_are_no_violation_and_nothing_but_exceptions_is_a_mistake() -> None:
    def fails(data: int, seed: int) -> float:
        noise = random.Random(seed).random()
        return 1 / (noise > 0.5)

    assert audit(fails, (0, 1), 1.0, samples=400, seed=1, workers=1).verdict is not Verdict.VIOLATION
    with pytest.raises(TypeError, match="concatenate"):
        audit(lambda data: "x" + data, (0, 1), 1.0, samples=400, seed=1)


# ------------------------------------------------------------------------------------------------ time


class Clock:
    """A clock that each run moves on."""

    def __init__(self, each: float) -> None:
        self.now, self.each, self.runs = 0.0, each, 0

    def __call__(self) -> float:
        return self.now

    def run(self, data: Any) -> int:
        self.now += self.each
        self.runs += 1
        return random.Random(self.runs).randrange(8)


@pytest.mark.parametrize("each", [0.5, 0.05, 0.002])
def test_an_audit_ends_within_its_time_and_one_run(each: float) -> None:
    clock = Clock(each)
    found = audit(clock.run, (0, 1), 1.0, time=15, seed=1, workers=1, clock=clock)
    assert clock.now <= 15 + each
    assert (found.verdict is Verdict.UNDERPOWERED) or clock.runs >= 100


def test_an_audit_whose_runs_become_slower_ends_in_time_and_says_what_it_assumes() -> None:
    clock = Clock(0.01)

    def slower(data: int) -> int:
        clock.each = 0.01 if clock.runs < 800 else 0.1
        return clock.run(data)

    found = audit(slower, (0, 1), 1.0, time=15, seed=1, workers=1, clock=clock)
    assert clock.now <= 15 + clock.each
    assert any("how long a run takes" in sentence for sentence in found.assumes)


def test_a_slow_command_gets_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.1)
    options = SystemOptions("x {data}", None, None, None, ("0", "1"), "GET", "", None, None)
    monkeypatch.setattr(SystemOptions, "target", lambda self: clock.run)
    effort = {"time": 15.0, "samples": None, "confidence": 0.95, "seed": 1}
    planned: list[str] = []
    options.attack(Budget(1), effort, planned.append, clock)
    assert "Planned: 1" in planned[-1]
    assert clock.now <= 15.1
    clock.each = 1.0
    found = options.attack(Budget(1), effort, planned.append, clock)
    assert found.verdict is Verdict.UNDERPOWERED
    assert "--time" in str(found)
    with pytest.raises(InvalidParameter, match="at least 100"):
        audit(clock.run, (0, 1), 1.0, samples=20)


def test_progress_is_told_run_by_run() -> None:
    shares: list[float] = []
    audit(
        Answers(),
        ("0", "1"),
        1.0,
        samples=300,
        seed=1,
        workers=1,
        progress=lambda share, text: shares.append(share),
    )
    assert len(shares) >= 250
    assert shares == sorted(shares)
