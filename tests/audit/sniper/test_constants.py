"""What never changes in a service: a violation if it is not remembered, proved by copies or a renewed service."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from deniable.audit import Finding, Verdict, audit
from deniable.audit.sniper.constants import IF, ask_copies
from deniable.audit.system import Recorded, Sql
from deniable.cli import audit as command

APP = typer.Typer()
APP.command()(command.audit)
ROWS = {"with_her": ("x", "x", "y"), "without": ("x", "x", "z"), "fewer": ("x", "x")}


@pytest.fixture
def base(tmp_path: Path) -> str:
    """Neighbours, and copies of them, whose groups are asked for; SQLite's noise is wide."""
    path = tmp_path / "base.db"
    with sqlite3.connect(path) as connection:
        for name, groups in ROWS.items():
            for table in (name, *(f"{name}_{i}" for i in range(1, 31))):
                connection.execute(f"CREATE TABLE {table} (g TEXT)")
                connection.executemany(f"INSERT INTO {table} VALUES (?)", [(group,) for group in groups])
    return f"sqlite:///{path}"


KEYS = "SELECT g, COUNT(*) + abs(random() % 1000) FROM {data} GROUP BY g"


def attacked(target: Any, pair: tuple[Any, Any] = ("with_her", "without")) -> Finding:
    return audit(target, pair, 1.0, samples=400, seed=3, workers=1)


def test_exact_keys_beside_noisy_counts_are_a_violation_if_not_remembered(base: str) -> None:
    found = attacked(Sql(base, KEYS))
    assert (found.verdict, found.exit_code) == (Verdict.VIOLATION_IF, 6), str(found)
    assert 'value 1 of row 2 ("y" on the first neighbour, "z" on the second)' in str(found)
    assert "27 copies" in str(found)
    assert "10 are enough" in str(found)
    assert "again and again" not in str(found)
    assert Finding.from_json(found.to_json()).verdict is Verdict.VIOLATION_IF


def test_an_exact_number_of_rows_is_named(base: str) -> None:
    found = attacked(Sql(base, KEYS), ("with_her", "fewer"))
    assert found.verdict is Verdict.VIOLATION_IF
    assert "the number of rows (2 on the first neighbour, 1 on the second)" in str(found)


def closure(noise: Callable[[random.Random], Any]) -> Callable[[int], Any]:
    rng = random.Random(7)
    return lambda data: (5 + data, *noise(rng))


def test_a_closure_with_an_exact_number_is_found_too() -> None:
    found = attacked(closure(lambda rng: (rng.randrange(1000),)), (0, 1))
    assert found.verdict is Verdict.VIOLATION_IF
    assert "coordinate 1 of the output (5 on the first neighbour, 6 on the second)" in str(found)
    assert "module:name" in str(found)


@pytest.mark.parametrize(
    ("say", "place"),
    [
        (lambda n, noise: f"a={noise}" + ", b=3" * n, '("a=…" on the first neighbour, "a=…, b=…" on the'),
        (lambda n, noise: f"About {noise % 10} people of {5 + n}.", "number 2 in the output (5 on the first"),
    ],
)
def test_exact_groups_inside_a_text_that_always_changes_are_found(
    say: Callable[[int, int], str], place: str
) -> None:
    """A text may be remembered in part, like a table: one of few sentences convicts nobody either."""
    rng = random.Random(9)
    found = attacked(lambda data: say(data, rng.randrange(1000)), (0, 1))
    assert found.verdict is Verdict.VIOLATION_IF
    assert place in " ".join(str(found).split())


def test_a_number_that_is_printed_as_a_text_is_read() -> None:
    rng = random.Random(10)
    found = attacked(lambda data: {"n": f"{data + rng.random() / 2:.9f}"}, (0, 1))
    assert found.verdict is Verdict.VIOLATION
    assert "number 1 in n of the answer" in str(found)


def test_another_violation_in_the_same_output_is_certified() -> None:
    """Beside the exact number a count with noise of three values, whose support differs."""
    rng = random.Random(8)
    found = attacked(lambda data: (5 + data, data + rng.randrange(3), rng.random()), (0, 1))
    assert found.verdict is Verdict.VIOLATION, str(found)
    assert IF in (found.options or {})
    assert found.witness is not None
    assert found.witness.hidden == (0,)


def test_whole_answers_that_are_remembered_are_not_accused() -> None:
    memory: dict[Any, Any] = {}
    rng = random.Random(9)
    found = attacked(lambda data: memory.setdefault(data, (data + rng.randrange(1000), rng.random())), (0, 1))
    assert found.verdict is Verdict.REPEATS


def remembering(seed: int) -> Callable[[str], Any]:
    """A service that draws its keys once for each name and keeps them: sound, whoever asks and how often."""
    rng, memory = random.Random(seed), dict[str, str]()

    def answer(name: str) -> Any:
        keys = memory.setdefault(name, rng.choice("yz"))
        return [[keys, rng.randrange(1000)]]

    return answer


def command_of(*options: str, code: int) -> str:
    result = CliRunner().invoke(
        APP, [KEYS, *options], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    )
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_copies_make_it_a_proof_and_too_few_do_not(base: str) -> None:
    where = (
        "--sql",
        base,
        "--data",
        "with_her",
        "without",
        "--epsilon",
        "1",
        "--samples",
        "300",
        "--seed",
        "5",
    )
    assert "VIOLATION IF" in command_of(*where, code=6)
    assert "10 copies under new names 10 were guessed right" in command_of(*where, "--copies", "10", code=6)
    said = command_of(*where, "--copies", "27", code=1)
    assert "What never changes is not remembered" in said
    assert "27 were guessed right and 0 wrong" in said


def test_a_service_that_is_renewed_is_accused(base: str, tmp_path: Path) -> None:
    script = tmp_path / "renew.sh"
    script.write_text("#!/bin/sh\nprintf . >> $(dirname $0)/renewed\n")
    script.chmod(0o755)
    where = (
        "--sql",
        base,
        "--data",
        "with_her",
        "without",
        "--epsilon",
        "1",
        "--samples",
        "120",
        "--seed",
        "5",
    )
    assert "VIOLATION: " in command_of(*where, "--fresh", str(script), code=1)
    assert len((tmp_path / "renewed").read_text()) >= 90
    assert "ended with the code 1" in command_of(*where, "--fresh", "false", code=2)


def test_a_service_that_remembers_its_keys_is_not_convicted_by_copies() -> None:
    """By chance alone 27 kept keys would all have to fall as the first two did."""
    service = next(
        answer
        for answer in map(remembering, range(64))
        if answer("with_her")[0][0] != answer("without")[0][0]
    )
    found = attacked(service)
    assert found.verdict is Verdict.VIOLATION_IF
    names = [(f"with_her_{i}", f"without_{i}") for i in range(27)]
    after = ask_copies(found, service, names, 1)
    assert after.verdict is Verdict.VIOLATION_IF
    assert "That is no proof" in str(after)
    assert "To prove it" not in str(after)


def test_kept_runs_count_their_looks_beside_a_violation_if(base: str, tmp_path: Path) -> None:
    found = audit(
        Recorded(Sql(base, KEYS), tmp_path / "runs.jsonl", "x"),
        ("with_her", "without"),
        1.0,
        samples=300,
        workers=1,
    )
    assert found.verdict is Verdict.VIOLATION_IF
    assert "look 1" in str(found)
