import math

import pytest

from deniable.errors import InvalidLoss, InvalidParameter
from deniable.loss import Parallel, Pure
from deniable.units import Unit

UNITS = [
    Unit.row(),
    Unit.row(replace=True),
    Unit.column("patient_id"),
    Unit.column("patient_id", max_rows=4, replace=True),
    Unit.value(),
    Unit.client(),
    Unit.client(zero_out=True),
    Unit.row(zero_out=True),
    Unit.ball(2, 0.5),
    Unit.ball(math.inf, 1),
    Unit.ball(0, 3),
]


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_json_round_trips_byte_for_byte(unit: Unit) -> None:
    assert Unit.from_json(unit.to_json()) == unit
    assert Unit.from_json(unit.to_json()).to_json() == unit.to_json()


def test_units_are_all_different() -> None:
    assert len(set(UNITS)) == len({str(u) for u in UNITS}) == len(UNITS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Unit.column(""),
        lambda: Unit.column("a", max_rows=0),
        lambda: Unit.column("a", max_rows=1.5),
        lambda: Unit.ball(0.5, 1),
        lambda: Unit.ball(2, 0),
        lambda: Unit.ball(2, math.inf),
        lambda: Unit.ball(2, math.nan),
        lambda: Unit.client(replace=True, zero_out=True),
    ],
)
def test_a_unit_without_meaning_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter):
        make()


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"row","replace":false,"zero_out":false}',
        "",
        "3",
        "{}",
        '{"kind":"tribe"}',
        '{"kind":"row","replace":1}',
        '{"kind":"row","replace":false,"max_rows":3}',
    ],
)
def test_json_that_is_no_unit_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        Unit.from_json(text)


def test_a_region_is_no_partition_of_people() -> None:
    parts = (Pure(1), Pure(2))
    with pytest.raises(InvalidLoss, match='split by "patient_id"'):
        Parallel.split(parts, by="region", unit=Unit.column("patient_id", max_rows=4))
    assert Parallel.split(parts, by="patient_id", unit=Unit.column("patient_id")) == Parallel(parts)
    assert Parallel.split(parts, by="region", unit=Unit.column("patient_id", max_rows=1)) == Parallel(parts)
    assert Parallel.split(parts, by="region", unit=Unit.row(replace=True)) == Parallel(parts, replace=True)
