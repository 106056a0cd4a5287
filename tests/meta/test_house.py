"""The measures of the house count what they say (`make house`), and what was reached does not slip unseen."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

from tools import house

STRAIGHT = (
    "deniable.accounting.methods.",
    "deniable.accounting.numerical.",
    "deniable.accounting.renyi.",
    "deniable.learn.clip.",
    "deniable.ledger.journal.entries.apply",
)
"""Where a long straight line of cases is the proof read aloud: it is not cut to please a measure. (That no modules
import one another in a circle is tested with the layers, and that every function is typed in `test_typed`.)"""

MODULES, SWITCHES = 110, 340
"""What one query enters, and how often it changes package at most, with room for what chance adds. The aims of
`make house` are lower."""


@pytest.fixture(scope="module")
def seen() -> house.Walk:
    return house.walk()


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
    pair = [house.Module(name, tmp_path / f"{name}.py") for name in ("one", "two")]
    assert house.twice(pair) == {"Plan": ["one", "two"]}


def planted(tmp_path: Path, text: str) -> list[house.Module]:
    (tmp_path / "planted.py").write_text(text, encoding="utf-8")
    return [house.Module("deniable.sql.planted", tmp_path / "planted.py")]


def test_what_is_off_is_named_with_its_place(tmp_path: Path) -> None:
    text = "def f(a: int) -> int:\n" + "    if a:\n        found = a\n" * 12 + "    return a if a else 0\n"
    module = planted(tmp_path, text + "#" * (house.LONG + 1) + "\n" * house.LINES)
    assert house.complex_functions(module) == ["  14 deniable.sql.planted.f"]
    assert house.long_lines(module) == ["deniable.sql.planted:27"]
    assert house.lone_locals(module)[0] == "deniable.sql.planted:11 found"
    assert house.long_files(module) == [f"{26 + house.LINES} deniable.sql.planted"]
    assert house.choices(module) == round(1000 / (26 + house.LINES), 1)
    assert house.lengths(module) == [26]


# ------------------------------------------------------------------------------------------ what was reached


def test_no_function_has_more_than_twelve_ways() -> None:
    places = house.complex_functions(house.source())
    assert [place for place in places if not place.split()[1].startswith(STRAIGHT)] == []


def test_no_folder_is_longer_than_a_dozen_files() -> None:
    assert house.full_folders(house.source()) == []


def test_no_file_is_longer_than_six_hundred_lines() -> None:
    assert house.long_files(house.source()) == []


def test_no_line_is_longer_than_110() -> None:
    assert house.long_lines(house.source()) == []


def test_no_local_is_a_lone_participle() -> None:
    assert house.lone_locals(house.source()) == []


def test_files_and_functions_stay_short() -> None:
    assert statistics.median(len(module.lines) for module in house.source()) <= 150
    assert statistics.median(house.lengths(house.source())) <= 6


ASKING = ("read.relations", "presence", "read.expressions.float_keys", "answer.cache_key")
"""Those who ask a function's record and name none."""


def test_functions_are_named_in_their_records_and_hardly_elsewhere() -> None:
    measure = house.operation_mentions()
    assert measure.value <= measure.aim == 100
    names = [place.split()[1].removeprefix("deniable.sql.") for place in measure.places]
    assert [name for name in names if name.startswith(ASKING)] == []


# ------------------------------------------------------------------------------------------- the walk of a query


def test_a_query_is_priced_once_and_makes_three_transactions(seen: house.Walk) -> None:
    assert seen.calls[house.PRICE] == 1
    assert sum(seen.calls[each] for each in house.TRANSACTIONS) == 3


def test_a_query_enters_no_more_modules_than_it_did(seen: house.Walk) -> None:
    assert len(seen.modules) <= MODULES
    assert seen.switches <= SWITCHES


def test_a_query_is_walked_in_every_thread(seen: house.Walk) -> None:
    """The statement runs in a thread of its own: an engine and the noise must be among what is seen."""
    assert {module.split("/")[0] for module in seen.modules} >= {
        "curator",
        "ledger",
        "sql",
        "randomness",
        "accounting",
    }
    assert any(module.startswith("sql/engines") for module in seen.modules)
    assert seen.switches > 10
