"""The allow-list, the operators that are rendered and computed, and the page that tells
of them are one list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deniable.errors import InvalidQuery
from deniable.sql import functions
from deniable.sql.dialects import DUCKDB
from deniable.sql.functions.aggregates import AGGREGATES
from deniable.sql.functions.refused import REFUSED
from deniable.sql.read.expressions.translator import RULES
from deniable.sql.read.parse import ALLOWED
from deniable.sql.tree import AggregateRef, Call, Statistic
from deniable.sql.types import INTEGER
from deniable.sql.write import relations
from tests.meta.source import imports, modules
from tests.sql.hospital import checked

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sql.md").read_text()


def test_the_page_has_every_function_with_its_meaning() -> None:
    missing = [
        form.text
        for form in functions.FORMS
        if f"| `{form.text.replace('|', '&#124;')}` | {form.meaning} |" not in PAGE
    ]
    assert missing == []


def test_the_page_has_every_aggregate() -> None:
    forms = [part for form in AGGREGATES.values() for part in re.split(r", (?=[A-Z])", form)]
    assert [form for form in forms if f"`{form}`" not in PAGE] == []
    assert set(AGGREGATES) == set(Statistic)


def test_the_page_has_every_refusal_with_its_way_out() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for name, way_out in REFUSED.items():
        shown = f"`{name.replace('|', '&#124;')}`"
        told = way_out.replace("|", "&#124;").replace("$", "&#36;")  # a bare $ begins a formula on the site
        assert any(shown in line and told in line for line in lines), name


def test_the_page_has_every_operator_on_results() -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith("On released results")]
    assert set(re.findall(r"`(\w+)`", line)) == functions.POST


def test_operators_on_results_are_operators() -> None:
    assert functions.POST <= functions.OPS


def test_every_rule_is_for_a_node_that_may_be_read() -> None:
    assert set(RULES) <= set(ALLOWED)


def test_every_operator_and_every_spelling_has_one_record() -> None:
    records = [record for family in functions._FAMILIES for record in family]
    assert len({record.op for record in records}) == len(records)
    forms = [form for record in records for form in record.forms]
    assert len({node.kind for form in forms for node in form.nodes}) == sum(len(f.nodes) for f in forms)
    assert len({name for form in forms for name in form.named}) == sum(len(f.named) for f in forms)


def test_records_stand_below_those_who_ask_them() -> None:
    known = modules()
    above = ("read", "write", "plan", "answer", "after", "engines", "deductions")
    seen = [
        f"{name} imports {edge.target}"
        for name, path in known.items()
        if name.startswith("deniable.sql.functions")
        for edge in imports(name, path, known)
        if edge.target.startswith(tuple(f"deniable.sql.{room}" for room in above))
    ]
    assert seen == []


def test_what_is_not_on_the_list_is_not_rendered() -> None:
    with pytest.raises(TypeError, match="not on the list"):
        relations.expression(Call("sleep", (), INTEGER), DUCKDB)
    with pytest.raises(TypeError, match="released result"):
        relations.expression(AggregateRef(0, INTEGER), DUCKDB)


@pytest.mark.parametrize("name", [n for n in REFUSED if re.fullmatch(r"\w+", n)])
def test_every_refused_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidQuery, match="No data was read and nothing was charged"):
        checked(f"SELECT SUM({name}(days)) FROM visits")
