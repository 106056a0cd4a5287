"""What is read from released cells: the last that is seen, bounds on rows and values, and how they are kept."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deniable.randomness import SeededRandom
from deniable.sql.plan.noise import IntegerSensitivity, laplace
from deniable.sql.profile.histogram import NoisyCells, release
from deniable.sql.profile.part import SHARES, PartKind, PartName
from deniable.sql.profile.rows import PeopleByRows, RowClasses
from deniable.sql.profile.spread import ValueSizes, ValueSpread
from deniable.sql.profile.totals import PeopleByTotals, TotalClasses, edges
from deniable.sql.write.contributions import TOTAL, class_edges
from deniable.units import Unit
from tests.sql.planned import N_BOUNDS, N, X, duck, scan

PERSON = Unit.column("person")
NOISE = laplace(IntegerSensitivity(1, 1), Fraction(1, 10))


def classes(*people: int, epsilon: Fraction = Fraction(1, 10)) -> RowClasses:
    noise = laplace(IntegerSensitivity(1, 1), epsilon)
    sizes = people + (0,) * (len(class_edges(None)) - len(people))
    return RowClasses(class_edges(None), NoisyCells(sizes, noise))


def pair(low: int, high: int) -> tuple[Fraction, Fraction]:
    return Fraction(low), Fraction(high)


def test_the_bound_is_one_class_above_the_last_that_stands_out() -> None:
    assert classes(1000, 500, 200).most == 8
    assert classes(1000, 500, 200, 26).most == 16  # beside one that stands out: above 2.5 scales
    assert classes(1000, 500, 200, 24).most == 8
    assert classes(1000, 0, 0, 0, 900).most == 32  # far from any other, and large
    assert classes(1000, 0, 0, 0, 60).most == 2


def test_nobody_seen_is_the_first_class() -> None:
    assert classes().most == 2


def test_rows_that_may_be_hidden_make_the_bound_one_by_name() -> None:
    steep, law = classes(10_000, 1_000, 100), classes(*(40_000 >> i for i in range(11)))
    assert steep.bound(1.0, 1).covers_all
    assert not law.bound(1.0, 1).covers_all  # half as many people with twice the rows, again and again
    assert law.bound(None, 1).covers_all  # a ± that was asked for is given for the bound of all rows
    assert not classes().bound(1.0, 1).covers_all  # nobody stands out of the noise


def test_a_bound_that_a_group_cannot_afford_is_lower_and_by_name() -> None:
    crowd = classes(1000, 500, 400)
    assert crowd.bound(1.0, 5).covers_all
    poor = crowd.bound(1.0, 100)
    assert not poor.covers_all
    assert poor.rows < crowd.most


def test_fewer_people_than_said_are_above_the_bound() -> None:
    """In 2,000 profiles of a table where some people are above every bound that is taken."""
    rng, truth = SeededRandom(31), {0: 500, 1: 300, 2: 150, 3: 40, 4: 12, 5: 6, 6: 3}
    edge_list, held = class_edges(None), 0
    for _ in range(2000):
        crowd = RowClasses(edge_list, release(range(len(edge_list)), truth, NOISE, rng))
        above = sum(many for i, many in truth.items() if edge_list[i] > crowd.most)
        held += above < crowd.hidden_people(crowd.most)
    assert held >= 0.95 * 2000


def test_the_number_of_people_is_within_what_is_said() -> None:
    rng, held = SeededRandom(32), 0
    for _ in range(2000):
        crowd = RowClasses(class_edges(None), release(range(17), {0: 500, 3: 100}, NOISE, rng))
        held += abs(crowd.people - 600) <= crowd.people_within
    assert held >= 0.95 * 2000


def test_a_sum_is_clamped_where_values_are_seen() -> None:
    noise = laplace(IntegerSensitivity(TOTAL, TOTAL**2), Fraction(1, 10))
    middle = 82
    sizes = [0] * (2 * middle + 1)
    sizes[middle + 21 + 5] = 900 * TOTAL  # values from 32 to 63
    spread = ValueSizes(NoisyCells(tuple(sizes), noise), TOTAL, Fraction(1))
    assert spread.largest() == 128
    assert spread.clamp(pair(0, 1000)) == pair(0, 128)
    assert spread.clamp(pair(-5, 40)) == pair(-5, 40)
    assert spread.clamp(pair(500, 900)) == pair(128, 128)
    assert spread.clamp(None) == pair(-128, 128)
    empty = ValueSizes(NoisyCells((0,) * (2 * middle + 1), noise), TOTAL, Fraction(1))
    assert empty.clamp(None) is None
    assert empty.clamp(pair(0, 1000)) == pair(0, 1000)


def test_values_and_totals_lie_in_their_cells() -> None:
    rows = [
        (1, "a", 40.0, 3, True),
        (1, "a", 50.0, 4, True),
        (2, "a", -0.75, 0, True),
        (3, "a", None, None, True),
    ]
    with duck(rows) as engine:
        spread = ValueSpread(scan(PERSON), PERSON, Fraction(1), X).measure(engine)
        totals = PeopleByTotals(scan(PERSON), PERSON, Fraction(1), N, N_BOUNDS).measure(engine)
        people = PeopleByRows(scan(PERSON), PERSON, Fraction(1)).measure(engine)
    assert spread == {26: TOTAL // 2 * 2, -20: TOTAL}  # [32, 64), and −[0.5, 1)
    assert totals == {edges().index(8): 1, 0: 1}  # 3 + 4 is at most 8; nobody's NULL is in no cell
    assert people == {0: 2, 1: 1}


@pytest.mark.parametrize(
    "released",
    [
        classes(9, 4, -3),
        ValueSizes(NoisyCells((3, -TOTAL, 7), NOISE), TOTAL, Fraction(1, 100)),
        TotalClasses(NoisyCells((3, -1, 7), NOISE), Fraction(1, 4)),
    ],
)
def test_what_is_kept_reads_back(released: Any) -> None:
    content = json.loads(json.dumps(released.to_dict()))
    assert type(released).from_dict(content) == released


def test_prices_are_fixed_shares_of_the_allowance() -> None:
    rows = PartName(PartKind.ROWS, "visits")
    assert rows.share + 8 * PartName(PartKind.SPREAD, "visits", "cost").share == 1
    assert set(SHARES) == set(PartKind)


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.3])
def test_noise_has_the_size_that_the_loss_states(factor: float) -> None:
    """Accepted at its own scale, rejected at 0.7 and 1.3 times it; 20,000 cells, seed 5."""
    mechanism = PeopleByRows(scan(PERSON), PERSON, Fraction(1, 8))
    rng, draws = SeededRandom(5), list[int]()
    while len(draws) < 20_000:
        draws += release(mechanism.cells, {}, mechanism.noise, rng).sizes
    mean = float(np.mean(np.abs(draws))) / (8 * factor)
    assert (abs(mean - 1) < 6 / math.sqrt(len(draws))) == (factor == 1.0)
