"""The parts of a profile under attack by our own auditor, beside twins that lack half of their noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from deniable.audit import Finding, Verdict, audit
from deniable.audit.runs import restart
from deniable.mechanism import Random
from deniable.sql.profile.histogram import release
from deniable.sql.profile.mechanism import ProfileMechanism
from deniable.sql.profile.rows import PeopleByRows
from deniable.sql.profile.spread import ValueSpread
from deniable.sql.profile.totals import PeopleByTotals
from deniable.units import Unit
from tests.sql.planned import X_BOUNDS, Line, X, duck, scan

PERSON = Unit.column("person")
TABLE: list[Line] = [(who, "a", float(x), 1, True) for who in (1, 1, 2, 2, 3) for x in (2, 9)]
PARTS: list[ProfileMechanism] = [
    PeopleByRows(scan(PERSON), PERSON, Fraction(1)),
    ValueSpread(scan(PERSON), PERSON, Fraction(1), X),
    PeopleByTotals(scan(PERSON), PERSON, Fraction(1), X, X_BOUNDS),
]


@pytest.fixture(autouse=True)
def our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "_is_ours", lambda _: True)


def target(part: ProfileMechanism, cells: list[int]) -> Callable[[Any, Random], Any]:
    """The cells in which the two tables differ, as the release has them."""

    def run(counts: dict[int, int], rng: Random) -> list[int]:
        sizes = release(part.cells, counts, part.noise, rng).sizes
        return [sizes[i] for i in cells]

    return run


def attack(part: ProfileMechanism, noisy: ProfileMechanism, confidence: float) -> Finding:
    with duck() as engine:
        first = part.measure(engine.fill(TABLE))
        second = part.measure(engine.fill([row for row in TABLE if row[0] != 2]))
    places = [i for i, cell in enumerate(part.cells) if first.get(cell, 0) != second.get(cell, 0)]
    assert places
    return audit(
        target(noisy, places),
        (first, second),
        part.loss,
        samples=3000,
        seed=0,
        confidence=confidence,
        workers=1,
    )


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_part_stays_within_its_claim_and_a_twin_does_not(part: ProfileMechanism) -> None:
    honest = attack(part, part, 1 - 1e-6)
    assert honest.verdict is not Verdict.VIOLATION, str(honest)
    twin = attack(part, replace(part, epsilon=4 * part.epsilon), 0.95)
    assert twin.verdict is Verdict.VIOLATION, str(twin)
