"""The bar shows step and ε on a terminal, and nothing anywhere else."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from deniable.learn.clip import Batch
from deniable.learn.sgd.training import progress
from deniable.randomness import SeededRandom
from tests.learn.sgd.runs import problem, small, trainer

X, Y = problem()


def test_a_terminal_sees_step_epsilon_and_loss() -> None:
    written = io.StringIO()
    screen = Console(file=written, force_terminal=True, width=160)
    run = small(steps=4, epsilon=30, delta=1e-5)
    t = trainer(run)
    with progress.bar(run, screen) as watch:
        for lot in ([Batch((X, Y))], [Batch((X * float("inf"), Y))], [], [Batch((X, Y))]):
            t.step(lot)
            watch(t)
    said = written.getvalue()
    assert "4/4" in said
    assert "of 30" in said
    assert "(yours alone)" in said


def test_a_pipe_sees_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    small(steps=2)((X, Y), rng=SeededRandom(1))
    said = capsys.readouterr()
    assert said.out == said.err == ""


def test_a_bar_can_be_left_out() -> None:
    written = io.StringIO()
    run = small(steps=2, progress=False)
    with progress.bar(run, Console(file=written, force_terminal=True)) as watch:
        watch(trainer(run))
    assert written.getvalue() == ""


def test_what_the_history_keeps_comes_from_releases_alone() -> None:
    """The same noise and no rows: every field is there, and what is about rows has noise."""
    history = small(steps=2)((X[:0], Y[:0]), rng=SeededRandom(1)).history
    assert len(history.gradient_norm) == len(history.clip) == len(history.learning_rate) == 2
    assert set(vars(history)) == {"gradient_norm", "clip", "learning_rate", "usable"}
    assert all(abs(count) > 1e-3 for count in history.usable)


def test_a_pipe_that_calls_itself_a_terminal_sees_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Build servers set this so that logs have colours; a log is a file."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.setenv(name, "1")
    small(steps=2)((X, Y), rng=SeededRandom(1))
    assert capsys.readouterr().err == ""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [3, 20, 30, 45])
def test_epsilon_is_shown_from_the_first_step_on(steps: int) -> None:
    written = io.StringIO()
    run = small(steps=steps)
    t = trainer(run)
    with progress.bar(run, Console(file=written, force_terminal=True, width=160)) as watch:
        for _ in range(2):
            t.step([Batch((X, Y))])
            watch(t)
    assert "ε" in written.getvalue()
    assert "ε 0 of" not in written.getvalue()
