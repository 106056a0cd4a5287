"""An analyst asks a hospital in ordinary SQL until its limit stops her."""

from __future__ import annotations

from typing import Any

from deniable import numbers
from deniable.cli import show
from deniable.curator import Curator
from deniable.datasets.people import DIAGNOSES
from deniable.datasets.visits import LONGEST, visits
from deniable.errors import BudgetExceeded, InvalidQuery
from deniable.guarantee import Budget
from deniable.units import Unit

TITLE = (
    "SQL under a budget: a hospital's visits, ε = 3 for all that leaves it, every patient protected as a "
    "whole"
)
PATIENTS = 200_000
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SELECT COUNT(*) AS visits, COUNT(DISTINCT patient_id) AS patients FROM visits", {"epsilon": 0.5}),
    (
        "SELECT diagnosis, COUNT(*) AS visits, AVG(days) AS days FROM visits GROUP BY diagnosis ORDER BY "
        "visits DESC",
        {"epsilon": 0.5},
    ),
    ("SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward", {"epsilon": 0.5}),
    ("SELECT MEDIAN(age) AS median_age FROM visits WHERE diagnosis = 'heart disease'", {"epsilon": 0.5}),
    ("SELECT COUNT(*) AS long_stays FROM visits WHERE days > 14", {"within": 100}),
)
MOST = 12
DECLARED: dict[str, Any] = {"most_rows": MOST}
"""Nobody has more rows than count, so no part of ε goes into telling what the bound leaves out."""
REFUSED = "SELECT * FROM visits WHERE patient_id = 4711"
TOO_MUCH = "SELECT SUM(cost) AS cost FROM visits"


def play() -> None:
    table = visits(PATIENTS)
    show.say(
        f"{table.num_rows:,} visits of {PATIENTS:,} patients; up to {MOST} visits of each count, and nobody "
        "has more."
    )
    with Curator.open(
        table,
        name="visits",
        unit=Unit.column("patient_id", max_rows=MOST),
        limit=Budget(epsilon=3, delta=1e-6),
        ledger="sqlite://",
        bounds={"days": (0, LONGEST), "age": (0, 100), "cost": (0, 50_000)},
        keys={"diagnosis": DIAGNOSES},
    ) as curator:
        for text, terms in QUESTIONS:
            _ask(curator, text, terms)
        _refusals(curator)
        _ledger(curator)


def _ask(curator: Curator, text: str, terms: dict[str, Any]) -> None:
    wish = ", ".join(f"{name} = {value}" for name, value in terms.items())
    show.say("", f"> {text}   [{wish}]")
    answer = curator.sql(text, **terms, **DECLARED)
    columns = answer.value.column_names
    show.table(columns, answer.rows(), right=[i for i, name in enumerate(columns) if name in answer.numbers])


def _refusals(curator: Curator) -> None:
    show.say("", f"> {REFUSED}")
    try:
        curator.sql(REFUSED, epsilon=0.1)
    except InvalidQuery as refusal:
        show.say(f"Refused: {refusal}")
    show.say("", f"> {TOO_MUCH}   [epsilon = 2]")
    try:
        curator.sql(TOO_MUCH, epsilon=2)
    except BudgetExceeded as refusal:
        show.say(f"Refused: {refusal}")
    again = curator.sql(QUESTIONS[0][0], **QUESTIONS[0][1], **DECLARED)
    show.say("", f"The first question again: {again.notes[-1]}")


def _ledger(curator: Curator) -> None:
    show.say("", "The ledger, which charged before the data was opened each time:")
    rows = [
        (entry.seq, entry.kind, entry.description[:60])
        for entry in curator.account.history()
        if entry.kind in ("create", "run")
    ]
    show.table(("entry", "what", "description"), rows, right=(0,), fixed_columns=(2,))
    expenditure = curator.account.spent()
    show.say(
        "",
        f"Spent: ε = {numbers.up(expenditure.epsilon)} of {curator.account.limit}. More: deniable query "
        "--help",
    )
