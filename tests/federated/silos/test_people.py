"""Of a patient no more silos count than declared, whoever else is there; and a run over silos in one process."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
import torch

from deniable import Budget, Ledger
from deniable.errors import DataError
from deniable.federated import Central, CrossSilo, OnClient, Shared, SiloRows
from deniable.federated.silos.people import keep_declared_silos
from deniable.federated.silos.rounds import SiloRounds
from deniable.learn.sgd import Users
from deniable.learn.sgd.data.users_names import usable_name
from deniable.randomness import SeededRandom
from tests.federated.silos.worlds import PATIENT, Held, run_of, silo

OWN: Held = [(9.0, "own"), (9.0, "own")]
OTHERS: Held = [(-9.0, "a"), (9.0, "b")]


def ids(silos: list[SiloRows]) -> list[list[object]]:
    return [list(each.ids) for each in silos]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_silos_of_a_patient_count_than_declared(most: int) -> None:
    for places in itertools.product((False, True), repeat=4):
        silos = [silo([*OTHERS, *(OWN if place else ())]) for place in places]
        counted = ids(keep_declared_silos(silos, most))
        assert sum("own" in names for names in counted) == min(sum(places), most)
        # Who else counts does not depend on her.
        without = ids(keep_declared_silos([silo(OTHERS)] * 4, most))
        assert [[name for name in names if name in ("a", "b")] for names in counted] == [
            [name for name in names if name in ("a", "b")] for names in without
        ]


def test_names_that_cannot_be_compared_are_nobodys() -> None:
    rows = SiloRows([[1.0]] * 4, [1.0] * 4, [["a"], None, math.nan, "a"])
    (counted,) = keep_declared_silos([rows], 1)
    assert counted.ids[0] is None
    assert counted.ids[3] == "a"


class Raising(str):
    """An id whose hash and equality are of the row's making."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise ValueError("a hash of its own")

    def __eq__(self, other: object) -> bool:
        raise ValueError("an equality of its own")


class Pretending:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return str

    def __hash__(self) -> int:
        return hash("a")

    def __eq__(self, other: object) -> bool:
        raise ValueError("an equality of its own")


class Zone(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        raise SystemExit("an offset of its own")

    dst = utcoffset

    def tzname(self, moment: datetime | None) -> str:
        return "odd"


DAY, NOON = date(2026, 11, 1), datetime(2026, 11, 1, 12, tzinfo=UTC)
NUMBER = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("a", "a"), (b"a", b"a"), (3, 3), (2.5, 2.5), (True, 1), (math.inf, math.inf), (NUMBER, NUMBER),
        (DAY, DAY), (NOON.replace(tzinfo=None), NOON.replace(tzinfo=None)), (Decimal("2.50"), Decimal("2.5")),
        (NOON.astimezone(timezone(timedelta(hours=2))), NOON), (np.datetime64("2026-11-01"), DAY),
        (np.int64(3), 3), (np.float32(2.5), 2.5), (np.str_("a"), "a"), (np.bytes_(b"a"), b"a"), (np.True_, 1),
        (pd.Timestamp(NOON), NOON), (pd.Timestamp(NOON) + pd.Timedelta(7, "ns"), (NOON, 7)),
        (("a", (np.int64(3), NUMBER)), ("a", (3, NUMBER))), (((((1,),),),), ((((1,),),),)),
        (Raising("a"), "a"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_name_is_a_value_of_python_s_own(value: object, name: object) -> None:
    found: Any = usable_name(value)
    assert type(found) is type(name)
    assert found == name
    assert usable_name(found) == found


@pytest.mark.parametrize(
    "value",
    [
        None, math.nan, [1], {}, memoryview(b"x"), memoryview(bytearray(b"x")), object(), slice(1), 1j,
        Decimal("nan"), Decimal("snan"), pd.NaT, pd.NA, np.float64("nan"), np.datetime64("NaT"), np.arange(2),
        np.longdouble(1), torch.tensor(1), ("a", None), ("a", math.nan), ((((("deep",),),),),), Pretending(),
        datetime(2026, 11, 1, tzinfo=Zone()), datetime.max.replace(tzinfo=timezone(-timedelta(hours=2))),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_no_name_is_nobody_s_and_changes_nothing_for_others(value: Any) -> None:
    assert usable_name(value) is None
    names = ["a", "b", value, "a"]
    assert [own.tolist() for own in Users([0] * 4, names).rows] == [[0, 3], [1]]
    rows = SiloRows([[1.0]] * 4, [1.0] * 4, names)
    first, second = ids(keep_declared_silos([rows, rows], 1))
    assert first == ["a", "b", None, "a"]
    assert second == [None] * 4


@pytest.mark.parametrize(
    "column", [list(np.arange(3)), np.arange(3), tuple(range(3)), list(np.array([*"abc"]))]
)
def test_ids_of_numpy_are_people(column: Any) -> None:
    assert len(Users([0] * 3, column).rows) == 3
    (counted,) = ids(keep_declared_silos([SiloRows([[1.0]] * 3, [1.0] * 3, column)], 1))
    assert None not in counted


def test_an_id_that_cannot_be_hashed_does_not_freeze_the_account() -> None:
    run: CrossSilo = run_of(OnClient(2.0), unit=PATIENT)
    account = Ledger.open("sqlite://").create("study", run.unit, limit=Budget(10**6, 0.1))
    two = silo(OTHERS)
    odd = SiloRows(two.x, two.y, ["a", memoryview(bytearray(b"x"))])
    for data in ([odd, silo(OTHERS)], [silo(OWN), silo(OTHERS)]):
        account.run(run, data)


def test_a_patient_of_two_silos_moves_a_run_by_one_clip_where_one_is_declared() -> None:
    moves = []
    for most in (1, 2):
        run = run_of(Central(1e-6), rate=1, unit=PATIENT, most=most)
        rounds = SiloRounds(run, [silo(OWN), silo(OWN)], SeededRandom(1))
        rounds.step()
        moves.append(float(rounds.model.get_parameter("weight").item()) * run.denominator)
    assert moves == [pytest.approx(1, rel=1e-2), pytest.approx(2, rel=1e-2)]


@pytest.mark.parametrize("sizes", [(2, 2), (40, 2), (1, 1000)])
def test_sizes_are_those_declared(sizes: tuple[int, ...]) -> None:
    """A silo's true number of rows bears on nothing but its own sum."""
    for number in (1, 5, 30):
        run = run_of(Central(1e-6), rate=1, sizes=sizes)
        rounds = SiloRounds(run, [silo([(9.0, "x")] * number), silo([])], SeededRandom(1))
        rounds.step()
        weight = float(rounds.model.get_parameter("weight").item())
        assert weight == pytest.approx(number / sum(sizes), rel=1e-2)


def test_moves_are_weighted_by_declared_sizes() -> None:
    run = run_of(OnClient(1e-6), rate=1, steps=3, sizes=(30, 10))
    rounds = SiloRounds(run, [silo([(9.0, "x")] * 5), silo([])], SeededRandom(1))
    rounds.step()
    weight = float(rounds.model.get_parameter("weight").item())
    assert weight == pytest.approx(3 * 5 / 30 * (30 / 40), rel=1e-2)


def test_places_agree_where_there_is_hardly_any_noise() -> None:
    weights = []
    for noise in (Central(0.02), OnClient(0.02), Shared(0.02, bits=32, least=2)):
        run = run_of(noise, rate=1, rounds=3)
        account = Ledger.open("sqlite://").create("study", run.unit, limit=Budget(10**6, 0.1))
        data = [silo([(0.5, "x"), (-0.25, "y")]), silo([(0.75, "z")])]
        weights.append(float(account.run(run, data).value.model.get_parameter("weight").item()))
    assert weights == [pytest.approx(0.75, abs=0.15)] * 3  # noise of .02·√6 over 4: ten deviations and more


@pytest.mark.parametrize("data", [3, [], [silo(OWN)], [silo(OWN), 3], [SiloRows([[1.0]], [1.0])] * 2])
def test_data_of_another_kind_is_refused_before_the_charge(data: object) -> None:
    run: CrossSilo = run_of(Central(1.0), unit=PATIENT)
    account = Ledger.open("sqlite://").create("study", run.unit, limit=Budget(10, 0.1))
    with pytest.raises(DataError, match="Nothing was charged"):
        account.run(run, data)
    assert account.spent().epsilon == 0
