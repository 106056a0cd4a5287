"""A table that cannot be read is refused in words that hold nothing of it, before any charge."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from deniable.errors import DataError, InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.bounded import readable
from deniable.learn.convex.estimators import (
    PrivateLinearRegression,
    PrivateLinearSVM,
    PrivateLogisticRegression,
)
from deniable.learn.counts import PrivateDecisionTree, PrivateNaiveBayes
from deniable.learn.pate.teachers.partition import assign
from deniable.learn.pca import PrivatePCA
from deniable.learn.standardize import PrivateStandardizer
from deniable.ledger import Account, Ledger
from deniable.randomness import SeededRandom
from deniable.units import Unit

ESTIMATORS: dict[str, Callable[[Account], Any]] = {
    "logistic": lambda a: PrivateLogisticRegression(
        n=50, bounds=(0, 9), classes=[0, 1], account=a, random_state=1
    ),
    "logistic by sgd": lambda a: PrivateLogisticRegression(
        n=50, bounds=(0, 9), classes=[0, 1], account=a, method="sgd", random_state=1
    ),
    "svm": lambda a: PrivateLinearSVM(
        n=50, bounds=(0, 9), classes=[0, 1], account=a, method="output", random_state=1
    ),
    "regression": lambda a: PrivateLinearRegression(
        n=50, bounds=(0, 9), target=(0, 9), account=a, random_state=1
    ),
    "naive bayes": lambda a: PrivateNaiveBayes(bounds=(0, 9), classes=[0, 1], account=a, random_state=1),
    "tree": lambda a: PrivateDecisionTree(bounds=(0, 9), classes=[0, 1], account=a, random_state=1),
}
SECRETS = ("Ann Oakley", "Bob Zimmerman")
NUMBERS = (31337, 271828)

TABLES: dict[str, Callable[[int], Any]] = {
    "words": lambda i: [[1.0, SECRETS[i]], [2.0, 3.0]],
    "a column of words": lambda i: pd.DataFrame({"age": [1, 2], "name": [SECRETS[i]] * 2}),
    "a polars column of words": lambda i: pl.DataFrame({"age": [1, 2], "name": [SECRETS[i]] * 2}),
    "an array of words": lambda i: np.array([[SECRETS[i], "x"], ["y", "z"]]),
    "objects": lambda i: np.array([[{SECRETS[i]: 1}, 2.0], [1.0, 2.0]], object),
    "one dimension": lambda i: np.array([NUMBERS[i], 2.0]),
    "three dimensions": lambda i: np.full((2, 1, 1), float(NUMBERS[i])),
    "no dimension": lambda i: NUMBERS[i],
    "ragged": lambda i: [[NUMBERS[i], 2.0], [1.0]],
    "complex": lambda i: np.array([[NUMBERS[i] * 1j, 2.0], [1.0, 2.0]]),
    "dates": lambda i: pd.DataFrame(
        {"age": [1, 2], "born": pd.to_datetime(["1951-02-03", "1960-07-08"][::-1][i:] * 2)[:2]}
    ),
    "sparse": lambda i: csr_array(np.array([[NUMBERS[i], 0.0], [0.0, 1.0]])),
    "no columns": lambda i: np.empty((2, 0)),
}
TARGETS: dict[str, Callable[[int], Any]] = {
    "too many": lambda i: [NUMBERS[i], 1, 0],
    "ragged": lambda i: [[NUMBERS[i]], [1, 2]],
    "two columns": lambda i: [[NUMBERS[i], 1], [0, 1]],
    "none": lambda i: None,
}


@pytest.fixture
def account() -> Iterator[Account]:
    with Ledger.open("sqlite://") as ledger:
        yield ledger.create("rows", Unit.row(), limit=Budget(100, 0.1))


def refusals(act: Callable[[int], Any], kind: type[Exception] = InvalidParameter) -> str:
    """What is said of two bad tables: the same, with nothing of them in it or behind it."""
    said = []
    for i in range(2):
        with pytest.raises(kind) as found:
            act(i)
        said.append(str(found.value))
        assert found.value.__context__ is None
        assert found.value.__cause__ is None
    assert said[0] == said[1]
    assert not any(str(secret) in said[0] for secret in (*SECRETS, *NUMBERS, "1951", "1960"))
    return said[0]


def unspent(account: Account) -> bool:
    return account.spent().epsilon == 0 and not [
        entry for entry in account.history() if entry.loss is not None
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_table_that_cannot_be_read_is_not_quoted_nor_charged(
    name: str, table: str, account: Account
) -> None:
    said = refusals(lambda i: ESTIMATORS[name](account).fit(TABLES[table](i), [0, 1]))
    assert "Nothing was charged" in said
    assert unspent(account)


@pytest.mark.sampled
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_targets_that_cannot_be_read_are_not_quoted_nor_charged(
    name: str, target: str, account: Account
) -> None:
    said = refusals(lambda i: ESTIMATORS[name](account).fit([[1.0, 2.0], [3.0, 4.0]], TARGETS[target](i)))
    assert "Nothing was charged" in said
    assert unspent(account)


def test_words_as_the_target_of_a_regression_are_not_quoted(account: Account) -> None:
    model = ESTIMATORS["regression"](account)
    assert "Expected y" in refusals(lambda i: model.fit([[1.0, 2.0], [3.0, 4.0]], [SECRETS[i], 1]))
    assert unspent(account)


@functools.cache
def fitted(name: str) -> Any:
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("rows", Unit.row(), limit=Budget(100, 0.1))
        return ESTIMATORS[name](account).fit([[1.0, 2.0], [3.0, 4.0]], [0, 1])


@pytest.mark.sampled
@pytest.mark.parametrize("table", [name for name in TABLES if name != "no columns"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_to_predict_are_not_quoted(name: str, table: str) -> None:
    refusals(lambda i: fitted(name).predict(TABLES[table](i)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_targets_to_score_are_not_quoted(name: str, account: Account) -> None:
    x = [[1.0, 2.0], [3.0, 4.0]]
    model = ESTIMATORS[name](account).fit(x, [0, 1])
    assert "one target for each row" in refusals(lambda i: model.score(x, [SECRETS[i], "x"]))
    assert model.score(x, model.predict(x)) == 1


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "regression"])
def test_a_label_that_is_no_class_is_left_out_and_not_told(name: str, account: Account) -> None:
    for y in ([SECRETS[0], 1], [pd.Timestamp("1951-02-03"), 1], [1j, 1], [b"x", 1]):
        assert set(ESTIMATORS[name](account).fit([[1.0, 2.0], [3.0, 4.0]], y).predict([[1.0, 2.0]])) <= {0, 1}


MECHANISMS = {
    "pca": PrivatePCA(2, 1, 1.0),
    "standardizer": PrivateStandardizer((0, 0), (9, 9), 50, 1.0),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", MECHANISMS)
def test_no_table_makes_a_mechanism_fail(name: str, table: str, account: Account) -> None:
    released = account.run(MECHANISMS[name], TABLES[table](0)).value
    assert np.isfinite(released.transform(TABLES[table](1))).all()


@pytest.mark.parametrize(
    "bad", [["Ann Oakley", 1.0], [1.0], [1j, 2.0], "Ann", None, [[1.0], 2.0], [10**400, 1.0]]
)
def test_a_row_that_cannot_be_read_moves_no_other(bad: Any) -> None:
    good = [[1.0, 2.0], [True, np.float32(0.1)], [np.int64(2**60 + 1), 4]]
    alone, beside = readable(good, 2), readable([*good, bad], 2)
    assert np.array_equal(alone.astype(np.float64), beside[:3])
    assert np.isnan(beside[3]).any()


def test_people_that_do_not_fit_are_counted_and_not_named() -> None:
    refusals(lambda i: assign(3, 2, rng=SeededRandom(0), people=[SECRETS[i]]), DataError)
    refusals(
        lambda i: assign(3, 2, rng=SeededRandom(0), key=bytes(16), content=np.array([NUMBERS[i]])), DataError
    )
