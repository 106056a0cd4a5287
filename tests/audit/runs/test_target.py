"""Anything that can be run can be audited: samplers, mechanisms, callables,
conversations, and outputs of any shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deniable.audit import Asking, Verdict, audit
from deniable.audit.runs.pairs import Pair
from deniable.audit.runs.source import Source
from deniable.audit.runs.target import Batched, Called, as_target, encode, load
from deniable.errors import InvalidParameter
from deniable.mechanisms import Laplace, SparseVector


def seeded(data: float, seed: int) -> float:
    return data + seed % 7


def batch(data: float, n: int, rng: np.random.Generator) -> Any:
    return data + rng.random(n)


def silent(data: float) -> dict[str, Any]:
    return {"answer": data, "label": "high" if data > 0 else None}


def draw(target: Any, data: Any, n: int = 5) -> Any:
    return as_target(target).draw(data, n, np.random.default_rng(1))


def test_every_kind_of_target_gives_rows() -> None:
    assert draw(batch, 1.0).shape == (5, 1)
    assert draw(Laplace(2), 3).shape == (5, 1)
    assert draw(seeded, 3).shape == (5, 1)
    assert draw(silent, 3).shape == (5, 3)
    assert isinstance(as_target(batch), Batched)
    assert isinstance(as_target(Laplace(2)), Called)


def test_randomness_from_outside_reproduces() -> None:
    assert np.array_equal(draw(Laplace(50), 0, 20), draw(Laplace(50), 0, 20))
    assert len(np.unique(draw(Laplace(50), 0, 20))) > 5


def test_a_conversation_is_audited_with_its_questions() -> None:
    asked = Asking(SparseVector(0, 1), (lambda rows: rows[0], lambda rows: rows[1]))
    assert draw(asked, [-100, 100]).shape == (5, 2)
    with pytest.raises(InvalidParameter, match="is a conversation: fix what it is asked"):
        as_target(SparseVector(0, 1))


def test_outputs_of_any_shape_become_numbers() -> None:
    columns: list[str] = []
    table = pa.table({"city": ["Bern", "Rome"], "n": [3, 4]})
    rows = encode([table, table.slice(0, 1)], columns)
    assert columns == ["(shape)", ".city.0", ".city.1", ".n.0", ".n.1"]
    assert rows[0, 0] != rows[1, 0], "a missing row is seen"
    assert rows[0, 1] == rows[1, 1] != rows[0, 2]
    assert math.isnan(rows[1, 4])


class Fitted:
    """What scikit-learn calls a fitted linear model."""

    def __init__(self, weight: float) -> None:
        self.coef_, self.intercept_ = np.array([[weight, 2.0]]), 3.0


class Model:
    """What torch calls a module."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def state_dict(self) -> dict[str, Any]:
        return {"line.weight": np.array([self.weight])}


def learnt(data: float, seed: int) -> Fitted:
    return Fitted(data + np.random.default_rng(seed).standard_normal())


def test_a_training_function_may_return_its_model() -> None:
    columns: list[str] = []
    assert encode([Fitted(1.0), Fitted(4.0)], columns)[:, 1:].tolist() == [[1.0, 2.0, 3.0], [4.0, 2.0, 3.0]]
    assert columns == ["(shape)", ".coef_.0.0", ".coef_.0.1", ".intercept_"]
    assert encode([Model(5.0)], [])[:, 1].tolist() == [5.0]
    assert audit(learnt, (0.0, 4.0), (0.5, 1e-3), seed=0, samples=1000).verdict is Verdict.VIOLATION
    assert audit(learnt, (0.0, 0.0), (0.5, 1e-3), seed=0, samples=1000).epsilon == 0


def test_an_output_that_says_nothing_is_refused() -> None:
    """Its text would be its address in memory, which is not what is released."""
    with pytest.raises(
        InvalidParameter, match="Expected outputs made of numbers, texts, tables or fitted models, got object"
    ):
        encode([{"model": object()}], [])


def test_columns_stay_those_of_the_first_outputs() -> None:
    columns: list[str] = []
    encode([{"a": 1}], columns)
    later = encode([{"b": 2}, {"a": 3}], columns)
    assert columns == ["(shape)", ".a"]
    assert later[0, 0] != later[1, 0]


@pytest.mark.parametrize(
    "first",
    [[1.0, 2.5], [(1, 2), (3, 4)], [1.0, None], [{"a": 1}], [np.ones((2, 2))], ["x", "y"]],
    ids=["numbers", "pairs", "none", "mapping", "arrays", "texts"],
)
def test_a_row_is_a_function_of_its_own_output_alone(first: list[Any]) -> None:
    """Certificates count rows as independent, so what else is in the same chunk must not matter."""
    columns: list[str] = []
    encode(first, columns)
    kept = list(columns)
    later = [
        3.5,
        None,
        (1, 2),
        (1, None),
        (1, 2, 3),
        "x",
        {"a": 2},
        [],
        np.arange(4.0),
        np.float32(0.1),
        True,
        2**70,
    ]
    alone = np.vstack([encode([output], columns) for output in later])
    np.testing.assert_array_equal(encode(later, columns), alone)
    np.testing.assert_array_equal(encode(later[2:4] * 2, columns), np.vstack([alone[2:4]] * 2))
    assert columns == kept


@pytest.mark.parametrize("state", [0, 1, 6])
def test_a_target_that_seldom_says_nothing_is_not_accused(state: int) -> None:
    """Input ignored, None once in 2,000 runs: one None must not colour the rest of its
    chunk (that certified up to 6.7)."""
    rng = np.random.default_rng(state)

    def ignored(data: int) -> float | None:
        return None if rng.random() < 1 / 2000 else float(rng.normal())

    found = [audit(ignored, (0, 1), 0.0, samples=10_000, seed=seed, workers=1).epsilon for seed in range(6)]
    assert max(found) == 0


def test_numbers_take_the_fast_way() -> None:
    columns: list[str] = []
    assert encode([(1, 2.5), (3, 4.5)], columns).tolist() == [[1, 2.5], [3, 4.5]]
    assert columns == ["0", "1"]
    assert encode([], columns).shape == (0, 2)


def test_targets_are_loaded_by_name_or_refused() -> None:
    assert load("math:sqrt")(4) == 2
    for spec, said in (
        ("math", "like"),
        ("no_such_module:x", "could not be loaded"),
        ("math:nothing", "could not"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            load(spec)


def test_what_is_no_target_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="Expected a mechanism or a callable to audit, got int"):
        as_target(7)
    short = Batched(lambda data, n, rng: np.zeros(n - 1), "short")
    with pytest.raises(InvalidParameter, match='Expected n=5 outputs from one draw of "short", got 4'):
        short.draw(0, 5, np.random.default_rng(0))


@dataclass(frozen=True)
class Counting:
    """Releases which neighbour ran."""

    def draw(self, data: Any, n: int, rng: np.random.Generator) -> Any:
        return np.full(n, float(data))


def test_a_fair_coin_picks_the_neighbour() -> None:
    with Source(as_target(Counting()), seed=3) as source:
        first, second = source.draw(Pair(0, 1), 100_000, 0)
    assert set(first.ravel()) == {0.0}
    assert set(second.ravel()) == {1.0}
    assert len(first) + len(second) == 100_000
    assert abs(len(first) - 50_000) < 6.2 * math.sqrt(25_000)
    assert len(first) != 50_000


@pytest.mark.parametrize("target", [batch, Laplace(20)], ids=["batched", "called"])
def test_samples_do_not_depend_on_the_number_of_workers(target: Any) -> None:
    drawn = []
    for workers in (1, 3):
        with Source(as_target(target), 5, workers, chunk=300) as source:
            drawn.append(source.draw(Pair(0, 1), 1000, 2))
    assert all(np.array_equal(a, b) for a, b in zip(*drawn, strict=True))


def test_worker_processes_give_the_same_samples() -> None:
    results = []
    for processes in (False, True):
        with Source(as_target(seeded), 5, 2, chunk=50) as source:
            assert source.use_processes(Pair(0.0, 100.0)) if processes else True
            results.append(source.draw(Pair(0.0, 100.0), 120, 1))
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


def test_learning_choosing_and_certifying_never_share_samples() -> None:
    with Source(as_target(batch), 5, 1, chunk=100) as source:
        seen = [source.draw(Pair(0, 0), 100, phase)[0] for phase in (0, 1, 2000)]
        seen += [first for first, _ in source.reduce(Pair(0, 0), 2, lambda a, b: (a, b))]
    values = np.concatenate(seen)
    assert len(np.unique(values)) == len(values)
