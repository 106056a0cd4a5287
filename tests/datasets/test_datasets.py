"""Made-up data repeats with its seed and has the shares it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from deniable import datasets
from deniable.datasets.people import DIAGNOSES, SHARES
from deniable.datasets.survey import SIZES
from deniable.errors import InvalidParameter


def same(a: Any, b: Any) -> bool:
    if hasattr(a, "equals"):
        return bool(a.equals(b))
    if hasattr(a, "__dataclass_fields__"):
        return all(same(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)
    return bool(np.array_equal(a, b))


@pytest.mark.parametrize(
    "make", [datasets.people, datasets.ratings, datasets.steps, datasets.blocks, datasets.survey]
)
def test_the_same_seed_makes_the_same_data_and_another_seed_other_data(make: Any) -> None:
    assert same(make(30, seed=1), make(30, seed=1))
    assert not same(make(30, seed=1), make(30, seed=2))
    with pytest.raises(InvalidParameter, match="=0 to be at least 1"):
        make(0)


def test_the_hospital_has_nine_rows() -> None:
    table = datasets.hospital()
    assert table.column_names == ["zip", "age", "disease"]
    assert table["age"].to_pylist() == [29, 22, 27, 43, 52, 47, 30, 36, 32]
    assert table["disease"].to_pylist().count("cancer") == 3


def test_diagnoses_have_their_shares() -> None:
    found = datasets.people(20_000, seed=3)["diagnosis"].to_pylist()
    counts = [found.count(name) for name in DIAGNOSES]
    assert abs(sum(SHARES) - 1) < 1e-12
    assert chisquare(counts, 20_000 * np.array(SHARES)).pvalue > 1e-9


def test_people_are_born_over_eighty_years_in_their_zips() -> None:
    table = datasets.people(5000, zips=3)
    assert len(set(table["zip"].to_pylist())) == 3
    born = table["birth"].to_numpy()
    assert born.min() >= np.datetime64("1930-01-01")
    assert born.max() < np.datetime64("2010-01-01")


def test_ratings_are_sparse_and_have_a_tail() -> None:
    data = datasets.ratings(500)
    assert ((data.stars > 0) == (data.days > 0)).all()
    assert 20 < np.count_nonzero(data.stars) / 500 < 40
    assert data.support[:20].mean() > 10 * data.support[-100:].mean()


def test_smokers_fall_ill_twice_as_often() -> None:
    data = datasets.survey(20_000)
    smokes = data.rows[:, 4] == 1
    assert (data.rows.max(axis=0) == np.array(SIZES) - 1).all()
    for who, share in ((smokes, 0.6), (~smokes, 0.3)):
        low, high = binom.interval(1 - 1e-9, int(who.sum()), share)
        assert low <= data.labels[who].sum() <= high


def test_blocks_are_small() -> None:
    sizes = np.bincount(datasets.blocks(200)["block"].to_numpy())
    assert len(sizes) == 200
    assert (sizes.min(), sizes.max()) == (5, 12)


def test_walkers_differ_more_than_their_days() -> None:
    logs = np.log(datasets.steps(500))
    assert logs.mean(axis=1).std() > logs.std(axis=1).mean()
