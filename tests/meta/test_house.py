"""The measures of the house count what they say (`make house`)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import house


def function(text: str) -> ast.FunctionDef:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    return node


@pytest.mark.parametrize(
    ("body", "ways"),
    [
        ("pass", 1),
        ("return a if b and c or d else e", 4),
        ("for a in b:\n  if a: continue", 3),
        ("return [a for a in b if c if d]", 4),
        ("match a:\n  case 1: pass\n  case 2: pass\n  case _: pass", 3),
        ("try: pass\n except A: pass\n except B: pass", 3),
    ],
)
def test_complexity_counts_the_ways_through(body: str, ways: int) -> None:
    assert house.complexity(function(f"def f():\n {body}")) == ways


def test_a_missing_type_is_seen() -> None:
    assert house.typed(function("def f(self, a: int, *b: int, c: str = '', **d: int) -> None: ..."))
    for text in ("def f(a) -> None: ...", "def f(a: int): ...", "def f(*a) -> None: ..."):
        assert not house.typed(function(text))


def test_a_class_that_stands_in_two_modules_is_named_with_both(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("class Plan: ...\nclass _Own: ...\n", encoding="utf-8")
    planted = [house.Module(name, tmp_path / f"{name}.py") for name in ("one", "two")]
    assert house.twice(planted) == {"Plan": ["one", "two"]}


def test_a_query_is_walked_in_every_thread() -> None:
    """The statement runs in a thread of its own: an engine and the noise must be among what is seen."""
    seen = house.walk()
    assert {module.split("/")[0] for module in seen.modules} >= {
        "curator",
        "ledger",
        "sql",
        "randomness",
        "accounting",
    }
    assert any(module.startswith("sql/engines") for module in seen.modules)
    assert seen.calls[house.PRICE] >= 1
    assert sum(seen.calls[each] for each in house.TRANSACTIONS) >= 2
    assert seen.switches > 10
