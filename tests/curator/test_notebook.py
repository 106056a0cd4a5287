"""In a notebook: views that escape what they show, a magic that asks, pictures that show themselves; pandas and Ibis."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell

from deniable.curator import Answer, Curator, Preview, notebook
from deniable.curator.ibis_expressions import as_sql
from deniable.datasets.people import DIAGNOSES
from deniable.datasets.visits import visits
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.randomness import SeededRandom
from deniable.units import Unit

Open = Callable[..., Curator]
PAGE = Path(__file__).parents[2] / "docs/guide/pandas.md"
IDIOMS = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


# ------------------------------------------------------------------------------------------------ pandas


def test_there_are_twenty_idioms() -> None:
    assert len(IDIOMS) >= 20


def test_every_idiom_is_the_query_beside_it() -> None:
    """At an ε without noise, on one row for each visit; quantiles are on a grid of whole days."""
    table = visits(800)
    how = {"bounds": {"days": (0, 60)}, "keys": {"diagnosis": DIAGNOSES, "sex": ["F", "M"]}}
    for unit in (Unit.row(), Unit.column("patient_id", max_rows=64)):
        with Curator.open(
            table,
            name="visits",
            unit=unit,
            limit=Budget(10**9, 1e-3),
            ledger="sqlite://",
            rng=SeededRandom(1),
            **how,
        ) as curator:
            for idiom, text in IDIOMS:
                by_person = "patient_id" in text
                if by_person is (unit.max_rows is not None):
                    expected = eval(idiom, {"visits": table.to_pandas(), "pd": pd})
                    assert _numbers(curator.sql(text, epsilon=10**6).value) == pytest.approx(
                        _flat(expected), rel=1e-3
                    ), idiom


def _flat(expected: Any) -> list[float]:
    if isinstance(expected, pd.DataFrame):
        return [float(x) for x in expected.to_numpy().ravel()]
    return [float(x) for x in (expected if isinstance(expected, pd.Series) else [expected])]


def _numbers(table: pa.Table) -> list[float]:
    """The numbers row by row; a key before them is left out."""
    keys = 1 if len(table) > 1 and not isinstance(table.column(0)[0].as_py(), float) else 0
    named = [c for c in table.columns[keys:] if not pa.types.is_string(c.type)]
    cells = zip(*(c.to_pylist() for c in named), strict=True)
    return [float(x) for row in cells for x in row if isinstance(x, int | float | Decimal)]


# ------------------------------------------------------------------------------------------------ Ibis


def test_an_ibis_expression_is_asked_as_its_sql(hospital: Open) -> None:
    curator = hospital()
    table = curator.ibis("visits")
    counted = table.group_by("diagnosis").agg(n=table.count())
    answer = curator.sql(counted, epsilon=1)
    assert set(answer.value.column("diagnosis").to_pylist()) == set(DIAGNOSES)
    ranked = counted.mutate(r=ibis.rank().over(order_by=ibis.desc("n"))).order_by("r").limit(3)
    assert curator.sql(ranked, epsilon=1).value.column_names == ["diagnosis", "n", "r"]
    assert curator.preview(table.count(), epsilon=0.5).epsilon == pytest.approx(0.5, rel=1e-6)


def test_rows_do_not_leave_by_ibis(hospital: Open) -> None:
    curator = hospital()
    for rows in (curator.ibis("visits").head(3), curator.ibis("visits").select("patient_id")):
        with pytest.raises(InvalidQuery, match="nothing was charged"):
            curator.sql(rows, epsilon=1)
    with pytest.raises(InvalidParameter, match="declared table"):
        curator.ibis("nothing")
    with pytest.raises(InvalidParameter, match="SQL or an expression of Ibis"):
        as_sql(7)


# ------------------------------------------------------------------------------------------------ views


def test_a_curator_shows_whom_it_protects_and_what_is_left(hospital: Open) -> None:
    curator = hospital()
    view = curator._repr_html_()
    assert "patient_id (unit of privacy)" in view
    assert "Spent: ε = 0 of" in view
    assert "0 … 60" in view
    assert "fracture" in view


def test_views_escape_what_was_written(table: pa.Table, hospital: Open) -> None:
    named = table.rename_columns([f"<b>{name}" if name == "ward" else name for name in table.column_names])
    curator = hospital(named)
    preview = curator.preview('SELECT COUNT(*) AS "<script>" FROM visits', epsilon=1)
    assert "<b>ward" not in curator._repr_html_()
    assert "&lt;script&gt;" in preview._repr_html_()
    assert "<script>" not in preview._repr_html_()


def test_a_preview_shows_cost_error_and_fate(hospital: Open) -> None:
    view = hospital().preview("SELECT COUNT(*) AS n FROM visits", epsilon=1)._repr_html_()
    assert "Cost: ε = 1." in view
    assert re.search(r"<td>n</td><td>± [\d.]+", view)
    assert "Left afterwards" in view


# ------------------------------------------------------------------------------------------------ the magic


def test_the_magic_asks_and_keeps(hospital: Open) -> None:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "deniable")
    shell.user_ns["hospital"] = hospital()
    cell = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    shown = shell.run_cell_magic("deniable", "hospital epsilon=0.5 preview", cell)
    assert isinstance(shown, Preview)
    answer = shell.run_cell_magic("deniable", "hospital epsilon=0.5 as=answer", cell)
    assert isinstance(answer, Answer)
    assert shell.user_ns["answer"] is answer
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    "line", ["", "nothing epsilon=1", "hospital epsilon=x", "hospital colour=red", "hospital loud"]
)
def test_a_line_that_means_nothing_says_how_it_is_written(line: str, hospital: Open) -> None:
    with pytest.raises(InvalidParameter, match="Write %%deniable NAME"):
        notebook.ask(line, "SELECT COUNT(*) FROM visits", {"hospital": hospital()})


# ------------------------------------------------------------------------------------------------ pictures


PICTURES = {
    "SELECT COUNT(*) AS n FROM visits": (1, 1),
    "SELECT diagnosis, COUNT(*) AS n, AVG(days) AS d FROM visits GROUP BY 1": (2, 1),
    "SELECT diagnosis, sex, COUNT(*) AS n FROM visits GROUP BY 1, 2": (1, 2),
    "SELECT diagnosis, sex, COUNT(*) AS n, AVG(days) AS d FROM visits GROUP BY 1, 2": (2, 2),
    "SELECT diagnosis, month(admitted) AS m, COUNT(*) AS n FROM visits GROUP BY 1, 2": (
        1,
        2,
    ),  # and its scale
    "SELECT diagnosis, COUNT(*) AS n, RANK() OVER (ORDER BY n) AS r FROM visits GROUP BY 1": (1, 1),
}


@pytest.mark.parametrize("text", PICTURES)
def test_a_picture_has_its_panels_and_shows_itself(text: str, hospital: Open) -> None:
    answer = hospital(limit=Budget(20, 1e-6), keys={"diagnosis": DIAGNOSES, "sex": ["F", "M"]}).sql(
        text, epsilon=4
    )
    picture: Any = answer.plot()
    assert len(picture.axes) == math.prod(PICTURES[text])
    assert picture._repr_png_().startswith(b"\x89PNG")


def test_every_row_of_two_keys_is_drawn_where_it_belongs(hospital: Open) -> None:
    answer = hospital(keys={"diagnosis": DIAGNOSES, "sex": ["F", "M"]}).sql(
        "SELECT diagnosis, sex, COUNT(*) AS n FROM visits GROUP BY 1, 2", epsilon=2
    )
    cells = {(r["sex"], r["diagnosis"]): r["n"] for r in answer.value.to_pylist()}
    for plane in answer.plot().axes:
        sex = plane.get_title().removeprefix("sex = ")
        labels = [tick.get_text() for tick in plane.get_xticklabels()]
        heights = [bar.get_height() for bar in plane.patches]
        assert heights == [cells[(sex, label)] for label in labels]
