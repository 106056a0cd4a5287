"""What plans cost, and the keys of stored answers, are what they were when the fixture was written.

A ledger holds losses and answers of the past. Should a plan of today state another loss for the same
question, or ask under another key, then an answer that is paid for would be charged again. The fixture was
written by the planner as it was before measures became classes; `python -m tests.sql.plan.test_plans_kept`
writes it anew, for a change that is meant."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from deniable.errors import InvalidQuery
from deniable.sql.after.canonical import normal
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.units import Unit
from tests.sql.hospital import PATIENT, ROW, checked

FIXTURE = Path(__file__).parents[1] / "fixtures" / "plans.json"
UNITS = {
    "row": ROW,
    "replaced row": Unit.row(replace=True),
    "patient": PATIENT,
    "replaced patient": Unit.column("patient_id", max_rows=3, replace=True),
    "unbounded patient": Unit.column("patient_id"),
}
TERMS = {
    "plain": Terms(epsilon=1, delta=1e-6),
    "laplace": Terms(epsilon=0.3, delta=1e-6, noise="laplace", discover=True),
    "gaussian": Terms(epsilon=0.7, delta=1e-6, noise="gaussian", discover=True, confidence=0.9),
    "narrow": Terms(epsilon=2, delta=1e-5, max_groups=2, discover=True),
}
TEXTS = [
    "SELECT COUNT(*) FROM visits",
    "SELECT diagnosis, COUNT(*), AVG(days) FROM visits GROUP BY diagnosis",
    "SELECT ward, COUNT(*), SUM(cost), STDDEV(score) FROM visits GROUP BY ward",
    "SELECT diagnosis, ward, SUM(days), VAR_POP(days) FROM visits GROUP BY ROLLUP (diagnosis, ward)",
    "SELECT MEDIAN(days), MIN(score), MAX(cost), QUANTILE_CONT(stars, 0.9) FROM visits",
    "SELECT diagnosis, COUNT(DISTINCT stars), COUNT(*) FILTER (WHERE urgent) FROM visits GROUP BY diagnosis",
    "SELECT COUNT(DISTINCT patient_id), COUNT(*) FROM visits WHERE days > 3",
    "SELECT AVG(weight), COUNT(weight) FROM visits",
    "SELECT urgent, MEDIAN(weight), SUM(weight) FROM visits GROUP BY urgent",
    "SELECT SUM(days) / COUNT(*), SUM(days) - SUM(stars) FROM visits",
    "SELECT ward FROM visits GROUP BY ward",
    "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) AS t",
]
WITHIN = [
    ("SELECT diagnosis, COUNT(*) FROM visits GROUP BY diagnosis", Terms(within=20, delta=1e-6)),
    ("SELECT AVG(days) FROM visits", Terms(within=0.5, at_least=500)),
    ("SELECT MEDIAN(days) FROM visits", Terms(within=0.05, at_least=1500)),
]


def questions() -> list[tuple[str, str, str, Terms]]:
    """Each text for each unit on each of the terms, and what is asked by its accuracy."""
    asked = [(unit, text, name, terms) for unit in UNITS for text in TEXTS for name, terms in TERMS.items()]
    return asked + [("patient", text, f"within {i}", terms) for i, (text, terms) in enumerate(WITHIN)]


def facts(unit: str, text: str, terms: Terms) -> dict[str, Any]:
    """A plan as a ledger and an analyst see it; a refusal by its sentence."""
    try:
        query = checked(text, UNITS[unit])
        made = plan(query, UNITS[unit], terms)
    except InvalidQuery as error:
        return {"refused": str(error)}
    return {
        "key": hashlib.sha256(normal(query).encode()).hexdigest(),
        "loss": json.loads(made.loss.to_json()),
        "epsilon": str(made.epsilon),
        "delta": str(made.delta),
        "expected": [str(each) for each in made.expected()],
    }


def recorded() -> dict[str, dict[str, Any]]:
    kept: dict[str, dict[str, Any]] = json.loads(FIXTURE.read_text(encoding="utf-8"))
    return kept


@pytest.mark.parametrize("unit", UNITS)
def test_losses_and_keys_are_what_they_were(unit: str) -> None:
    kept = recorded()
    for owner, text, name, terms in questions():
        if owner == unit:
            assert facts(unit, text, terms) == kept[f"{unit} | {name} | {text}"], text


def test_the_fixture_holds_these_questions_and_no_others() -> None:
    kept = recorded()
    assert set(kept) == {f"{unit} | {name} | {text}" for unit, text, name, _ in questions()}
    assert sum("refused" in each for each in kept.values()) < len(kept) / 3


def main() -> None:
    kept = {f"{unit} | {name} | {text}": facts(unit, text, terms) for unit, text, name, terms in questions()}
    lines = [f"{json.dumps(key)}: {json.dumps(kept[key], ensure_ascii=False)}" for key in sorted(kept)]
    FIXTURE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
