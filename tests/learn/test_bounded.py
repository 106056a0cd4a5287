"""What is read for itself: one label or cell must not decide how the others are read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deniable.guarantee import Budget
from deniable.learn.bounded import column, labels, positions, readable
from deniable.learn.convex.estimators import PrivateLogisticRegression
from deniable.learn.counts import PrivateNaiveBayes
from deniable.ledger import Ledger
from deniable.units import Unit

BASE = [0, 1, 2, 1, 0, 2]
HOSTILE: list[Any] = [
    "Ann", "", "nan", "1", None, math.nan, math.inf, -1, 10, 1.5, True, 2**70, 10**400, 1j, b"1", [1, 2], {"a": 1}, (1,),
    object(), pd.NA, pd.NaT, np.float32(1), np.datetime64("2020"),
]  # fmt: skip
WRITTEN: dict[str, Callable[[int], Any]] = {"whole": int, "float": float, "word": str, "flag": bool}
CLASSES: dict[str, list[Any]] = {"whole": [0, 1, 2], "float": [0.0, 1.0, 2.0], "word": ["0", "1", "2"]}
DRESSED: dict[str, Callable[[list[Any]], Any]] = {"list": list, "pandas": pd.Series, "numpy": np.asarray}


@pytest.mark.parametrize("dress", DRESSED)
@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("written", WRITTEN)
def test_no_label_changes_how_the_others_are_read(written: str, classes: str, dress: str) -> None:
    """A missing label makes whole numbers floats, a word makes numbers words: the
    classes found must not notice."""
    known, base = labels(CLASSES[classes]), [WRITTEN[written](value) for value in BASE]
    alone = positions(known, DRESSED[dress](base)).tolist()
    assert written == "flag" or alone == BASE
    for bad in HOSTILE:
        if dress == "numpy" and (isinstance(bad, list | tuple) or written == "flag"):
            continue  # numpy itself refuses the first, and writes flags as numbers beside any number
        assert positions(known, DRESSED[dress]([*base, bad])).tolist()[:6] == alone, bad


def test_labels_are_values_first_and_words_else() -> None:
    assert positions(labels([0, 1]), [True, 1.0, "1", "1.0", "01", 1 + 0j, b"1", [1], "True"]).tolist() == [
        1, 1, 1, 1, -1, 1, 1, 1, -1,
    ]  # fmt: skip
    assert positions(labels(["1", "1.0"]), ["1", "1.0", 1, 1.0]).tolist() == [0, 1, 0, 1]
    assert positions(labels(["b", "a"]), np.array([["a"], ["b"]])).tolist() == [0, 1]


def test_numbers_are_found_among_numbers_in_any_order_of_classes() -> None:
    assert positions(np.array([10, 2]), np.array([2.0, 10.0, 3.0, math.nan])).tolist() == [1, 0, -1, -1]


@pytest.mark.parametrize("bad", HOSTILE, ids=lambda bad: repr(bad)[:20])
def test_no_cell_changes_how_the_others_are_read(bad: Any) -> None:
    rows = [[1, 2.5], [3, -4]]
    for more in ([bad, 1.0], [bad], bad):
        assert readable([*rows, more], 2)[:2].tolist() == [[1.0, 2.5], [3.0, -4.0]]


def test_a_list_of_targets_is_not_written_anew() -> None:
    assert column([0.0, "Ann", [7]]).tolist() == [0.0, "Ann", 7]


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateNaiveBayes])
def test_a_missing_label_costs_an_estimator_its_own_row_only(kind: Any) -> None:
    """Classes as words, whole numbers in the table, and one gap that makes floats of them."""
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (400, 2))
    y = pd.Series((x[:, 0] > 0).astype(int))
    terms: dict[str, Any] = {"n": 400} if kind is PrivateLogisticRegression else {}
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("rows", Unit.row(), limit=Budget(100, 0.1))
        model = kind(epsilon=20, bounds=(-1, 1), classes=["0", "1"], account=account, random_state=1, **terms)
        gap = y.where(np.arange(400) > 0)
        assert gap.dtype == float
        found = model.fit(x, gap).predict(x)
    assert (found.astype(int) == y).mean() > 0.9
