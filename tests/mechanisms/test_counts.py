"""Noisy counts: every row in its cells, the noise and the loss of all tables together."""

import math
from typing import Any

import numpy as np
import pytest

from deniable.accounting import epsilon
from deniable.errors import InvalidParameter
from deniable.loss import DiscreteLaplaceNoise
from deniable.mechanisms import NoisyCounts, classify
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.mechanisms.law import follows

DOMAINS = (("sun", "rain"), ("hot", "mild", "cold"), ("yes", "no"))
ROWS = [("sun", "hot", "yes")] * 5 + [("rain", "cold", "no")] * 3 + [("sun", "mild", "no")]


def test_without_noise_the_counts_are_right() -> None:
    m = NoisyCounts(DOMAINS, scale=0.01, tables=((2,), (0, 2), (1, 2)))
    labels, outlook, heat = m(ROWS, rng=SeededRandom(1))
    assert labels.tolist() == [5, 4]
    assert outlook.tolist() == [[5, 1], [0, 3]]
    assert heat.tolist() == [[5, 0], [0, 1], [0, 3]]


def test_one_table_of_all_columns_is_the_default() -> None:
    (table,) = NoisyCounts(DOMAINS, scale=0.01)(ROWS, rng=SeededRandom(1))
    assert table.shape == (2, 3, 2)
    assert table.sum() == 9
    assert table[0, 0, 0] == 5


@pytest.mark.parametrize(
    "row",
    [
        ("snow", "hot", "yes"),
        (math.nan, None, []),
        (),
        "sun",
        None,
        5,
        ("sun",),
        {"sun": 1},
        (["sun"], "hot", "yes"),
    ],
)
def test_rows_outside_the_domains_count_nowhere(row: Any) -> None:
    (table,) = NoisyCounts(DOMAINS, scale=0.01)([row], rng=SeededRandom(1))
    assert table.sum() == 0


def test_a_row_counts_in_the_tables_that_know_it() -> None:
    m = NoisyCounts(DOMAINS, scale=0.01, tables=((0,), (1,)))
    first, second = m([("sun", "boiling", "yes")], rng=SeededRandom(1))
    assert (first.sum(), second.sum()) == (1, 0)


def test_one_column_may_be_given_plainly() -> None:
    (counts,) = NoisyCounts((("a", "b"),), scale=0.01)(["a", "b", "a", "c"], rng=SeededRandom(1))
    assert counts.tolist() == [2, 1]


@pytest.mark.parametrize("data", [None, 5, [], "sun"])
def test_no_data_whatever_makes_it_fail(data: Any) -> None:
    (table,) = NoisyCounts(DOMAINS, scale=0.01)(data, rng=SeededRandom(1))
    assert table.sum() == 0


def test_all_cells_get_noise_empty_ones_too() -> None:
    m = NoisyCounts((tuple(range(20_000)),), scale=2)
    (counts,) = m([], rng=SeededRandom(2))
    w = {x: math.exp(-abs(x) / 2) * math.tanh(1 / 4) for x in range(-100, 101)}
    assert follows(counts.tolist(), w)


def test_the_loss_counts_tables_rows_and_replacement() -> None:
    tables = ((2,), (0, 2), (1, 2))
    assert NoisyCounts(DOMAINS, 10, tables).loss == DiscreteLaplaceNoise(10, 3)
    assert NoisyCounts(DOMAINS, 10, tables, Unit.row(replace=True)).loss == DiscreteLaplaceNoise(10, 6)
    assert NoisyCounts(DOMAINS, 10, unit=Unit.column("id", max_rows=4)).loss == DiscreteLaplaceNoise(10, 4)
    m = NoisyCounts.for_budget(0.6, DOMAINS, tables)
    assert m.scale == 5
    assert epsilon(m.loss, 0).upper == pytest.approx(0.6)


def test_the_error_is_that_of_the_worst_of_all_cells() -> None:
    m, rng, n = NoisyCounts(DOMAINS, 3, ((0,), (1, 2))), SeededRandom(3), 1000
    worst = [max(np.abs(part).max() for part in m([], rng=rng)) for _ in range(n)]
    missed = sum(w > m.error(0.9).within for w in worst)
    assert missed <= n * 0.1 + 6 * math.sqrt(n * 0.09)
    assert m.error(0.9).measure == "largest"


@pytest.mark.parametrize(
    "wrong",
    [
        {"domains": ()}, {"domains": ((),)}, {"domains": (("a", "a"),)}, {"scale": 0}, {"tables": ((3,),)}, {"tables": ((0, 0),)},
        {"tables": (("a",),)}, {"unit": Unit.client()}, {"domains": (tuple(range(5000)),) * 2},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_before_data(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        NoisyCounts(**({"domains": DOMAINS, "scale": 1} | wrong))


def people(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three features with values 0 to 2; the label follows the first, and the second where the first is 0."""
    draw = np.random.default_rng(7)
    x = draw.integers(0, 3, (n, 3))
    y = np.where(x[:, 0] == 0, x[:, 1] > 0, x[:, 0] == 2)
    return x, np.where(draw.random(n) < 0.1, ~y, y).astype(int)


def test_naive_bayes_and_a_tree_learn_from_noisy_counts() -> None:
    x, y = people(4000)
    rows = [(*map(int, features), int(label)) for features, label in zip(x, y, strict=True)]
    domains = ((0, 1, 2),) * 3 + ((0, 1),)
    labels, *features = NoisyCounts.for_budget(0.5, domains, ((3,), (0, 3), (1, 3), (2, 3)))(
        rows, rng=SeededRandom(1)
    )
    (table,) = NoisyCounts.for_budget(0.5, domains)(rows, rng=SeededRandom(2))
    bayes, tree = classify.NaiveBayes.from_counts(labels, features), classify.grow(table, depth=2, least=50)
    new, truth = people(2000)
    by_bayes = np.mean([bayes.predict(row) == t for row, t in zip(new.tolist(), truth, strict=True)])
    by_tree = np.mean([tree.predict(row) == t for row, t in zip(new.tolist(), truth, strict=True)])
    assert tree.feature == 0
    assert tree.branches[0].feature == 1
    assert by_tree > 0.87
    assert by_bayes > 0.75


def test_negative_counts_do_no_harm() -> None:
    labels, table = np.array([-3, 5]), np.array([[-1, -2], [4, -5]])
    bayes = classify.NaiveBayes.from_counts(labels, [table])
    assert np.isfinite(bayes.prior).all()
    assert np.isfinite(bayes.features[0]).all()
    assert classify.information_gain(-np.ones((2, 2))) == 0
    assert classify.grow(-np.ones((2, 2)), depth=3).feature is None


def test_information_gain_is_the_mutual_information() -> None:
    t = np.array([[3, 1], [2, 6]])
    p = t / t.sum()
    mutual = sum(
        p[i, j] * math.log2(p[i, j] / (p[i].sum() * p[:, j].sum())) for i in range(2) for j in range(2)
    )
    assert classify.information_gain(t) == pytest.approx(mutual)


def test_naive_bayes_is_bayes_rule() -> None:
    bayes = classify.NaiveBayes.from_counts(np.array([30, 10]), [np.array([[10, 9], [20, 1]])], smoothing=0)
    assert [bayes.predict([0]), bayes.predict([1])] == [0, 0]
    assert bayes.prior[0] + bayes.features[0][0][0] == pytest.approx(math.log(30 / 40 * 10 / 30))
    with pytest.raises(InvalidParameter, match="tables of"):
        classify.NaiveBayes.from_counts(np.array([1, 2]), [np.array([1, 2])])
