"""How a run of tests is put together: which cases, in which order, and what they cost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.meta.source import ROOT
from tests.running import costs, order
from tests.running.sampling import choose


def grid(*sizes: int) -> list[frozenset[tuple[str, str]]]:
    cases: list[frozenset[tuple[str, str]]] = [frozenset()]
    for axis, size in enumerate(sizes):
        cases = [case | {(str(axis), str(place))} for case in cases for place in range(size)]
    return cases


@pytest.mark.parametrize("sizes", [(1,), (7,), (3, 4), (2, 5, 3), (6, 6)])
def test_each_value_is_in_a_case_that_was_chosen(sizes: tuple[int, ...]) -> None:
    cases = grid(*sizes)
    chosen = [cases[place] for place in choose(cases)]
    assert frozenset().union(*chosen) == frozenset().union(*cases)
    assert len(chosen) == max(sizes)


def test_so_many_cases_are_chosen_as_are_asked_for_and_never_none() -> None:
    assert [len(choose(grid(size), 4)) for size in (1, 3, 4, 9, 400)] == [1, 3, 4, 4, 4]


PLANTED = """
import pytest

@pytest.mark.sampled
@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(5))
def test_planted(a, b): ...

@pytest.mark.sampled(2)
@pytest.mark.parametrize("a", range(9))
def test_counted(a): ...

def test_plain(): ...
"""


@pytest.mark.parametrize(("options", "cases"), [((), 5 + 2 + 1), (("-m", "soak"), 10 + 7), (("-m", ""), 25)])
def test_surplus_cases_are_left_to_the_soak(tmp_path: Path, options: tuple[str, ...], cases: int) -> None:
    path = tmp_path / "test_planted.py"
    path.write_text(PLANTED, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.conftest",
        "-p",
        "no:xdist",
    ]
    run = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), *options, str(path)],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None, run.stdout + run.stderr
    assert int(passed.group(1)) == cases


class Item(SimpleNamespace):
    __hash__ = object.__hash__


def test_hands_are_even_and_begin_with_the_rules_of_the_house() -> None:
    names = [
        f"tests/{folder}/test_{k}.py::test_{i}"
        for folder in ("sql", "meta")
        for k in range(6)
        for i in range(3)
    ]
    all_items: list[Any] = [Item(nodeid=name) for name in names]
    spark = set(all_items[1:3])
    dealt = order.deal(all_items, spark, 2)
    assert sorted(item.nodeid for item in dealt) == sorted(names)
    first, second = dealt[:18], dealt[18:]
    assert spark <= set(first)
    assert set(first[:2]) == spark
    assert all(item.nodeid.startswith("tests/meta") for item in (*first[2:9], *second[:6]))


def test_every_folder_of_tests_has_a_share_and_all_shares_stay_below_the_aim() -> None:
    folders = {f"tests/{path.parent.name}" for path in (ROOT / "tests").glob("*/*.py")}
    folders |= {
        f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in (ROOT / "tests").rglob("*/test_*.py")
    }
    assert folders <= costs.SHARES.keys()
    assert sum(costs.SHARES.values()) <= costs.AIM


def test_a_folder_over_its_share_is_shown() -> None:
    lines = list(
        costs.report({"tests/sql": costs.SHARES["tests/sql"] + 1.0, "tests/plots": 0.5, "collecting": 80.0})
    )
    assert [line for line in lines if "✗" in line] == [lines[1]]
    assert lines[1].startswith("tests/sql")
    assert lines[-1].split()[1] == f"{costs.SHARES['tests/sql'] + 1.0 + 0.5 + 80.0:.1f}"


def test_work_of_a_child_is_counted_while_it_runs_and_after_it_has_ended() -> None:
    before = costs.read_clock()
    script = "print(sum(range(3_000_000)), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        assert costs.read_children(os.getpid()) > 0
        child.stdin.write(b"\n")
    assert costs.read_clock() > before
