"""No test depends on how busy the machine is: none sleeps but to look again, none reads a clock to judge by it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.source import ROOT, list_nodes, parse

SLEEPS = {
    "tests/adversarial/stateful_targets.py": "a target that takes a moment for each run",
    "tests/adversarial/test_stop.py": "a signal's handler runs before the next line",
    "tests/ledger/test_copies.py": "a signal comes while a mechanism works; a question that takes a moment",
    "tests/server/lying_child.py": "a child that says nothing until it is ended",
    "tests/federated/flower/loopback.py": "look again until a process has written",
    "tests/federated/flower/scene.py": "a phone that is later than its deadline, in a soak",
}
"""Files that sleep outside a loop that looks again, and why no load makes them fail."""
CLOCKS = {
    "tests/adversarial/stateful_targets.py": "a target that takes its seed from the clock",
    "tests/adversarial/test_numbers.py": "processor seconds, a hundred times what is needed",
    "tests/server/provider.py": "a provider dates its tokens",
    "tests/server/test_oidc.py": "a token that has expired an hour ago",
    "tests/server/test_rest.py": "a beat of a minute ago, as a dead process left it",
    "tests/server/test_floods.py": "half a second against thirty",
    "tests/server/traffic/loop_times.py": "processor seconds of one thread, for a report",
    "tests/server/console/test_bundle.py": "processor seconds, the best of ten turns",
    "tests/audit/test_system.py": "runs take at least so long: load makes them longer",
    "tests/smooth/test_verify_time.py": "processor seconds",
    "tests/accounting/small_tables/choose.py": "no test: chooses cases by what they take",
    "tests/cli/test_train.py": "half an hour, should the run never begin",
    "tests/federated/flower/loopback.py": "minutes, should a process never begin",
}
"""Files that read a clock, and why no load makes them fail."""
READINGS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"}
READINGS |= {"thread_time"}
WORDS = re.compile("sleep|" + "|".join(sorted(READINGS - {"time"})) + r"|time\.time")
"""What a file that does either holds: only these are parsed."""


def called(node: ast.AST, names: set[str]) -> bool:
    match node:
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr=name))
            | ast.Call(func=ast.Name(id=name))
        ):
            return name in names and (isinstance(node.func, ast.Attribute) or name != "time")
    return False


def sleeps(path: Path) -> Iterator[int]:
    """Lines that sleep outside of a `while`."""
    again = {
        id(inner) for loop in list_nodes(path) if isinstance(loop, ast.While) for inner in ast.walk(loop)
    }
    for node in list_nodes(path):
        if called(node, {"sleep"}) and id(node) not in again:
            yield node.lineno  # type: ignore[attr-defined]


def readings(path: Path) -> Iterator[int]:
    for node in list_nodes(path):
        if called(node, READINGS):
            yield node.lineno  # type: ignore[attr-defined]


def places(find: object, allowed: dict[str, str]) -> set[str]:
    assert callable(find)
    paths = [
        path for path in (ROOT / "tests").rglob("*.py") if WORDS.search(path.read_text(encoding="utf-8"))
    ]
    named = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {f"{name}:{line}" for name, path in named.items() if name not in allowed for line in find(path)}


def test_no_test_sleeps_but_to_look_again() -> None:
    assert places(sleeps, SLEEPS) == set(), "wait for what is to happen, or say above why no load matters"


def test_no_test_judges_by_a_clock() -> None:
    assert places(readings, CLOCKS) == set(), "count steps, or say above why no load matters"


def test_every_exception_is_still_needed() -> None:
    assert [name for name in SLEEPS if not any(sleeps(ROOT / name))] == []
    assert [name for name in CLOCKS if not any(readings(ROOT / name))] == []


@pytest.mark.parametrize(
    ("text", "asleep", "reads"),
    [
        ("time.sleep(1)", [1], []),
        ("sleep(1)", [1], []),
        ("while not ready():\n    time.sleep(0.1)", [], []),
        ("start = time.perf_counter()\nassert time.monotonic() - start < 1", [], [1, 2]),
        ("time(1)\nclock.time()", [], []),
    ],
)
def test_a_planted_one_is_found(tmp_path: Path, text: str, asleep: list[int], reads: list[int]) -> None:
    path = tmp_path / "test_planted.py"
    path.write_text(text, encoding="utf-8")
    assert parse(path) is parse(path)
    assert (list(sleeps(path)), list(readings(path))) == (asleep, reads)
