"""What only a row can show never raises and never moves another row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from deniable.errors import DataError, InvalidParameter
from deniable.learn.sgd.data.forms import Words
from deniable.learn.sgd.data.rows import DatasetRows, TensorRows, rows
from deniable.randomness import SeededRandom
from tests.learn.sgd.runs import FEATURES, linear, problem, small, trainer


class Listed(Dataset[Any]):
    """Rows as they come; a function in the list is called, and may fail."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        item = self.items[index]
        return item() if callable(item) else item


def broken() -> Any:
    raise RuntimeError("This row cannot be read.")


def leaving() -> Any:
    raise SystemExit(3)


def all_of(data: Any, example: Any = None) -> Any:
    found = rows(data, EXAMPLE if example is None else example)
    return found.take(np.arange(len(found)), torch.float32)


def sums(data: Any, **given: Any) -> Tensor:
    """The sum of all rows' clipped gradients."""
    return trainer(small(**given)).clip_lot(all_of(data, given.get("example"))).total["all"]


X, Y = problem(30)
EXAMPLE = (torch.zeros(FEATURES), 0)
GOOD = [(X[i], Y[i]) for i in range(30)]
BAD = [
    (torch.full((FEATURES,), float("nan")), Y[0]),
    (torch.full((FEATURES,), float("inf")), Y[0]),
    (torch.full((FEATURES,), 3e38), Y[0]),
    (X[0], torch.tensor(3)),
    (X[0], torch.tensor(-1)),
    (X[0], torch.tensor(10**12)),
    (X[0], torch.tensor(0.5)),
    (X[0][:2], Y[0]),
    (X[0].reshape(1, -1).repeat(4, 1), Y[0]),
    (X[0].to_sparse(), Y[0] + 3),
    (X[0].to("meta"), Y[0]),
    (X[0], X[0]),
    X[0],
    (X[0], Y[0], Y[0]),
    None,
    "text",
    broken,
    leaving,
]


@pytest.mark.sampled
@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("place", [0, 13, 30])
def test_a_bad_row_contributes_exactly_nothing(bad: Any, place: int) -> None:
    """In double precision: halves of a lot that failed together are added in another order."""
    mixed = [*GOOD[:place], bad, *GOOD[place:]]
    model = linear().double()
    found = (
        trainer(small(model))
        .clip_lot(rows(Listed(mixed), EXAMPLE).take(np.arange(31), torch.float64))
        .total["all"]
    )
    expected = trainer(small(model)).clip_lot(rows((X, Y)).take(np.arange(30), torch.float64)).total["all"]
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


def test_a_bad_row_in_tensors_contributes_exactly_nothing() -> None:
    x, y = torch.cat([X, X[:4]]), torch.cat([Y, torch.tensor([3, -7, 0, 1])])
    x[32, 2], x[33, 0] = float("nan"), float("-inf")
    assert torch.allclose(sums((x, y)), sums((X, Y)), rtol=0, atol=1e-5)


def test_rows_that_are_no_numbers_never_reach_the_model() -> None:
    """Whatever it makes of them: one that fills them up with zeros would have a gradient there."""
    x = X.clone()
    x[3, 1], x[5, 0], x[7, 2] = float("nan"), float("inf"), float("-inf")
    good = [i for i in range(30) if i not in (3, 5, 7)]
    for data in ((x, Y), Listed([(x[i], Y[i]) for i in range(30)])):
        (lot,) = all_of(data)
        assert torch.equal(lot.rows[0], X[good])


def test_a_lot_of_bad_rows_only_is_noise() -> None:
    run = small(noise_multiplier=1.0)
    release = run(
        (torch.full((50, FEATURES), float("nan")), torch.zeros(50, dtype=torch.int64)), rng=SeededRandom(1)
    )
    assert release.steps == 5
    assert all(torch.isfinite(p).all() for p in release.model.parameters())


def test_a_whole_run_survives_any_row() -> None:
    small(rate=1, lot=60, n=None, example=EXAMPLE)(Listed(GOOD + BAD), rng=SeededRandom(1))


def test_nobody_at_all_is_data_too() -> None:
    trained = small()((X[:0], Y[:0]), rng=SeededRandom(1))
    assert trained.steps == 5
    small(example=EXAMPLE)(Listed([]), rng=SeededRandom(1))


def test_a_failing_augmentation_leaves_only_its_row_out() -> None:
    def fails_on_large(x: Tensor) -> Tensor:
        if float(x.max()) > 100:
            raise RuntimeError("too large")
        return x

    x, y = torch.cat([X, 1000 * X[:1].abs()]), torch.cat([Y, Y[:1]])
    assert torch.allclose(sums((x, y), augment=fails_on_large), sums((X, Y)), rtol=0, atol=1e-5)


def test_an_unknown_word_is_left_out() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 3))
    words = torch.tensor([[0, 1], [2, 4], [3, 3], [5, 0], [-1, 2]])
    target = torch.tensor([0, 1, 2, 0, 1])
    run = small(model, example=([0, 0], 0))
    found = trainer(run).clip_lot(run.rows((words, target)).take(np.arange(5), torch.float32)).total["all"]
    expected = trainer(run).clip_lot(run.rows((words, target)).take(np.arange(3), torch.float32)).total["all"]
    assert torch.allclose(found, expected, rtol=0, atol=1e-5)


def test_containers_are_read_alike() -> None:
    expected = sums((X, Y))
    for data in (
        (X.numpy(), Y.numpy()),
        [X, Y],
        TensorDataset(X, Y),
        DataLoader(TensorDataset(X, Y), batch_size=7),
        Listed(GOOD),
        Listed([(x.numpy(), int(y)) for x, y in GOOD]),
        (X.double(), Y.to(torch.int32)),
        (X, Y.double()),
        (X.tolist(), Y.tolist()),
        Listed([(x.to_sparse(), float(y)) for x, y in GOOD]),
        DataLoader(GOOD, batch_size=5, shuffle=True),
    ):
        assert torch.allclose(sums(data), expected, rtol=0, atol=1e-5)
    assert isinstance(rows(TensorDataset(X, Y)), TensorRows)
    assert isinstance(rows(Listed(GOOD), EXAMPLE), DatasetRows)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(GOOD)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ((X, Y[:-1]), r"one row for each example; they differ in number, or one of them has no axis\.$"),
        ((torch.tensor(1.0), Y), "one row for each example"),
        (Endless(), "with positions and a length"),
        (X, "got Tensor"),
        (GOOD, r"got list.*DataLoader\(rows\)"),
        (
            DataLoader(TensorDataset(X, Y), sampler=SubsetRandomSampler(range(9))),
            "sampler of its own.*Subset",
        ),
        (DataLoader(TensorDataset(X, Y), sampler=WeightedRandomSampler([1.0] * 9, 9)), "sampler of its own"),
        ("rows", "got str"),
    ],
)
def test_a_wrong_container_is_the_owners_error(data: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        small().check(data)


def test_a_model_that_does_not_fit_the_rows_is_told_before_the_charge() -> None:
    for data, example in (((X[:, :4], Y), None), (Listed(GOOD), (X[0, :4], 0)), (None, (X[0, :4], 0))):
        with pytest.raises(InvalidParameter, match="fails on generated rows of the shapes"):
            small(example=example).check(data)
    small().check((X, Y))
    for data in (Listed([]), Listed(GOOD), None):
        small(example=EXAMPLE).check(data)


def test_words_have_their_declared_places() -> None:
    names = ("tree", "fish", "bird")
    data = (X, [names[int(y)] for y in Y])
    assert torch.equal(sums(data, example=(EXAMPLE[0], Words(*names))), sums(Listed(GOOD)))
    without = sums((X, [*data[1][:-1], "stone"]), example=(EXAMPLE[0], Words(*names)))
    assert torch.equal(without, sums(Listed(GOOD[:-1])))
    with pytest.raises(InvalidParameter, match=r"Expected Words\(…\).*Nothing was charged"):
        small(example=(EXAMPLE[0], "tree")).check(None)
