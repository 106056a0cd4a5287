"""One unit touches one teacher, and only one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable.errors import DataError, InvalidParameter
from deniable.learn.pate import teach
from deniable.learn.pate.teachers.partition import assign
from deniable.randomness import SecureRandom, SeededRandom
from deniable.units import Unit
from tests.learn.pate.worlds import Spy, blobs

KEY = bytes(range(32))
PEOPLE = [f"person-{i * i * i % 41 % 40}" for i in range(200)]


def parts(x: Any, y: Any, **more: Any) -> list[tuple[bytes, bytes]]:
    spy = Spy()
    teach(spy, x, y, teachers=10, classes=3, **more)
    return [(part.x.tobytes(), part.y.tobytes()) for part in spy.parts]


def changed(first: list[Any], second: list[Any]) -> int:
    return sum(a != b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("gone", [0, 57, 199])
def test_without_one_row_nine_of_ten_keyed_teachers_are_the_same(gone: int) -> None:
    x, y = blobs(200)
    left = np.delete(np.arange(200), gone)
    assert changed(parts(x, y, key=KEY), parts(x[left], y[left], key=KEY)) == 1


@pytest.mark.parametrize("gone", ["person-0", "person-39"])
def test_without_one_person_nine_of_ten_keyed_teachers_are_the_same(gone: str) -> None:
    x, y = blobs(200)
    left = [i for i, person in enumerate(PEOPLE) if person != gone]
    unit = Unit.column("person", max_rows=5)
    whole = parts(x, y, key=KEY, unit=unit, people=PEOPLE)
    assert changed(whole, parts(x[left], y[left], key=KEY, unit=unit, people=[PEOPLE[i] for i in left])) == 1


def test_a_split_of_positions_would_move_many() -> None:
    """What this module replaces: the same comparison finds nearly all teachers changed."""
    x, _ = blobs(200)
    left = np.delete(x, 0, axis=0)
    assert (
        changed([p.tobytes() for p in np.array_split(x, 10)], [p.tobytes() for p in np.array_split(left, 10)])
        == 10
    )


def test_with_the_same_draws_one_row_more_changes_one_teacher() -> None:
    """The coupling of the proof: the last row's draw comes last, all others are the same."""
    x, y = blobs(200)
    first, second = (parts(x[:n], y[:n], rng=SeededRandom(4)) for n in (199, 200))
    assert changed(first, second) == 1


def test_a_replaced_row_takes_over_the_draw() -> None:
    x, y = blobs(200)
    other = x.copy()
    other[7] += 1
    unit = Unit.row(replace=True)
    assert (
        changed(parts(x, y, unit=unit, rng=SeededRandom(4)), parts(other, y, unit=unit, rng=SeededRandom(4)))
        == 1
    )


@pytest.mark.parametrize("key", [None, KEY])
def test_all_rows_of_a_person_stay_together(key: bytes | None) -> None:
    teacher = assign(200, 10, rng=SecureRandom(), key=key, people=PEOPLE)
    assert all(len(set(teacher[np.array(PEOPLE) == person])) == 1 for person in set(PEOPLE))
    assert len(set(teacher)) > 5


@pytest.mark.parametrize("key", [None, KEY])
def test_teachers_are_uniform(key: bytes | None) -> None:
    teacher = assign(20_000, 10, rng=SeededRandom(1), key=key, people=range(20_000))
    assert stats.chisquare(np.bincount(teacher, minlength=10)).pvalue > 1e-9


def test_a_row_is_drawn_and_has_no_teacher_by_its_position() -> None:
    drawn = np.array([assign(50, 10, rng=SeededRandom(seed)) for seed in range(400)])
    for row in (0, 17, 49):
        assert stats.chisquare(np.bincount(drawn[:, row], minlength=10)).pvalue > 1e-9
    together = (drawn[:, 0] == drawn[:, 1]).sum()
    assert stats.binomtest(int(together), 400, 0.1).pvalue > 1e-9


def test_another_key_is_another_partition_and_numpy_names_are_plain_names() -> None:
    first, same, other = (
        assign(100, 10, rng=SeededRandom(1), key=key, people=people)
        for key, people in ((KEY, range(100)), (KEY, np.arange(100)), (KEY[::-1], range(100)))
    )
    assert (first == same).all()
    assert (first != other).any()
    assert (first != assign(100, 10, rng=SeededRandom(1), key=KEY, people=[str(i) for i in range(100)])).any()


def test_bad_rows_are_left_out_each_for_itself() -> None:
    x, y = blobs(50)
    labels = y.astype(float)
    labels[[3, 4, 5, 6]] = [np.nan, -1, 3, 0.5]
    x[8, 0], x[9, 1] = np.nan, np.inf
    spy = Spy()
    teach(spy, x, labels, teachers=4, classes=3)
    assert sum(len(part.y) for part in spy.parts) == 44
    assert all(np.isfinite(part.x).all() for part in spy.parts)


@pytest.mark.parametrize("bad", ["Ann", None, [1, 2], 2**70, 1j, b"x"])
def test_a_label_that_is_none_leaves_the_other_rows_where_they_are(bad: Any) -> None:
    """One label must not decide whether there are teachers, nor how the others are read."""
    x, y = blobs(50)
    with_it, without = Spy(), Spy()
    teach(with_it, np.vstack([x, x[:1]]), [*y.tolist(), bad], teachers=4, classes=3, key=KEY)
    teach(without, x, y.tolist(), teachers=4, classes=3, key=KEY)
    for one, other in zip(with_it.parts, without.parts, strict=True):
        assert np.array_equal(one.x, other.x)
        assert np.array_equal(one.y, other.y)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"unit": Unit.column("person")}, "Expected people="),
        ({"unit": Unit.value()}, "Expected a unit that has rows"),
        ({"key": b"short"}, "Expected a key of 16 to 64 bytes"),
        ({"key": KEY, "unit": Unit.row(replace=True)}, "two teachers would change"),
        ({"teachers": 0}, "Expected teachers=0 to be at least 1"),
    ],
)
def test_what_has_no_proof_is_refused(more: dict[str, Any], text: str) -> None:
    x, y = blobs(20)
    with pytest.raises(InvalidParameter, match=text):
        teach(Spy(), x, y, **({"teachers": 5, "classes": 3} | more))


def test_data_of_another_shape_is_the_owners_error() -> None:
    x, y = blobs(20)
    with pytest.raises(DataError, match="a table of features with a row for each label"):
        teach(Spy(), x, y[:10], teachers=2, classes=3)
    with pytest.raises(DataError, match="all rows of one shape"):
        teach(Spy(), [[1.0], ["a"]], [0, 1], teachers=2, classes=3)
    with pytest.raises(DataError, match=r"as many people as rows\. Nothing was taught\.$"):
        teach(Spy(), x, y, teachers=2, classes=3, unit=Unit.client(), people=["a", "b", "c"])


def test_drawn_from_a_seed_protects_nobody_and_a_key_does() -> None:
    x, y = blobs(20)
    made = [
        teach(Spy(), x, y, teachers=2, classes=3, **more)
        for more in ({"rng": SeededRandom(1)}, {}, {"key": KEY})
    ]
    assert [ensemble.private for ensemble in made] == [False, True, True]
