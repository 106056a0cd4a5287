"""Visits of diabetes patients to 130 hospitals (Strack et al. 2014): true and private answers side by
side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from deniable import numbers
from deniable.curator import Answer, Curator
from deniable.curator.answers import words
from deniable.datasets import real
from deniable.guarantee import Budget
from deniable.plots import answers
from deniable.reproduce.report import Progress, Report
from deniable.units import Unit

SUMMARY = (
    "Strack et al. 2014 (UCI diabetes, 130 hospitals): true and private SQL answers side by side, ε = 3 for "
    "all"
)

AGES = tuple(f"[{low}-{low + 10})" for low in range(0, 100, 10))
MAX_ROWS = 10
UNIT = Unit.column("patient_nbr", max_rows=MAX_ROWS)
LIMIT = Budget(epsilon=3, delta=1e-6)
EPSILON = 0.5
BOUNDS = {"time_in_hospital": (1, 14), "num_medications": (1, 81)}
KEYS = {"readmitted": ("NO", ">30", "<30"), "age": AGES, "insulin": ("Down", "No", "Steady", "Up")}
QUESTIONS = (
    "SELECT COUNT(*) AS visits, COUNT(DISTINCT patient_nbr) AS patients FROM visits",
    "SELECT readmitted, COUNT(*) AS visits FROM visits GROUP BY readmitted ORDER BY readmitted",
    "SELECT age, COUNT(*) AS visits, AVG(time_in_hospital) AS days FROM visits GROUP BY age ORDER BY age",
    "SELECT insulin, AVG(CASE WHEN readmitted = '<30' THEN 1 ELSE 0 END) AS share FROM visits GROUP BY "
    "insulin ORDER BY insulin",
    "SELECT medical_specialty, COUNT(*) AS visits FROM visits GROUP BY medical_specialty ORDER BY visits "
    "DESC LIMIT 8",
    "SELECT MEDIAN(num_medications) AS medications FROM visits WHERE age = '[70-80)'",
)
DRAWN = 2


@dataclass(frozen=True)
class Line:
    """One number: what was asked, for which group, the truth, what was said, and whether
    the interval holds the truth."""

    question: int
    group: str
    column: str
    truth: float
    answer: str
    holds: bool


def run(folder: Path, progress: Progress) -> Report:
    data = real.load("diabetes-hospitals")
    table = data.table.select(["patient_nbr", *BOUNDS, *KEYS, "medical_specialty"])
    with Curator.open(
        table, name="visits", unit=UNIT, limit=LIMIT, ledger="sqlite://", bounds=BOUNDS, keys=KEYS
    ) as curator:
        replies = [curator.sql(text, epsilon=EPSILON) for text in progress(QUESTIONS, "Queries")]
        cost = curator.account.spent().epsilon
    lines = [line for i, answer in enumerate(replies) for line in _compare(table, i, answer)]
    draw = partial(_draw, table, replies[DRAWN], folder / "hospital-visits.png")
    rows = [
        (f"Q{line.question + 1}", line.group, line.column, _format_truth(line.truth), line.answer)
        for line in lines
    ]
    hits = sum(line.holds for line in lines)
    reading = (
        f"{table.num_rows:,} visits; all visits of a patient are protected together, and at most {MAX_ROWS} "
        f"of them count. The six answers cost ε = {numbers.up(cost)} in total. {hits} of {len(lines)} "
        "intervals hold the true value; they count noise and rounding, not what was left out of patients "
        f"with more than {MAX_ROWS} visits."
    )
    return Report(
        "True and private answers", ("query", "group", "number", "true", "private"), rows, draw, reading
    )


def _truth(table: Any, text: str) -> dict[str, dict[str, Any]]:
    """The same text on the bare table, without a curator: by group."""
    answer: Any
    with duckdb.connect() as connection:
        connection.register("visits", table)
        answer = connection.sql(text.partition(" LIMIT ")[0]).to_arrow_table()
    return {_group(row, answer.column_names): row for row in answer.to_pylist()}


def _format_truth(truth: float) -> str:
    if truth.is_integer():
        return f"{truth:,.0f}"
    return f"{truth:.4g}"


def _group(row: dict[str, Any], columns: list[str]) -> str:
    return " · ".join(str(row[name]) for name in columns if isinstance(row[name], str))


def _compare(table: Any, i: int, answer: Answer) -> list[Line]:
    truth, lines = _truth(table, QUESTIONS[i]), []
    for row in answer.table.to_pylist():
        group = _group(row, answer.value.column_names)
        for name in answer.numbers:
            true, low, high = float(truth[group][name]), row[f"{name}_low"], row[f"{name}_high"]
            lines.append(Line(i, group, name, true, words.number(row[name], low, high), low <= true <= high))
    return lines


def _draw(table: Any, answer: Answer, path: Path) -> Path:
    truth = _truth(table, QUESTIONS[DRAWN])
    ages, value, low, high = (
        answer.table.column(c).to_pylist() for c in ("age", "days", "days_low", "days_high")
    )
    answers.bars(
        ages,
        value,
        low,
        high,
        title=f"Days in hospital by age, 95 % intervals, ε = {EPSILON}",
        x="age",
        y="average days",
        truth=[float(truth[age]["days"]) for age in ages],
        path=path,
    )
    return path
