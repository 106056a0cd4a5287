"""Views that mix rows are refused, before the charge or by leaving their rows out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from deniable.errors import InvalidParameter
from deniable.learn.clip import Batch
from deniable.learn.sgd.data import views
from deniable.randomness import SeededRandom
from tests.learn.sgd.runs import problem, small, trainer

X, Y = problem()


def mixup(x: Tensor) -> Tensor:
    return 0.5 * x + 0.5 * x[torch.randperm(len(x))]


def scaled(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0)


def by_largest(x: Tensor) -> Tensor:
    return x / x.abs().max().clamp(min=2)


@pytest.mark.parametrize("augment", [mixup, scaled, by_largest])
def test_views_that_depend_on_other_rows_are_refused(augment: Callable[[Tensor], Tensor]) -> None:
    run = small(augment=augment)
    with pytest.raises(InvalidParameter, match=r"change with the other rows.*Nothing was charged"):
        run.check((X, Y))
    # Where nobody asked first, each row is seen alone, so that there is nothing to mix.
    whole, less = (trainer(run).clip_lot([Batch((X[:k], Y[:k]))]).total["all"] for k in (len(X), len(X) - 1))
    assert float((whole - less).norm()) <= 1.001


@pytest.mark.parametrize(
    "augment",
    [
        lambda x: x + torch.randn_like(x),
        lambda x: x.flip(1),
        lambda x: torch.where(torch.rand(len(x), 1) < 0.5, x, -x),
    ],
    ids=["noise", "flip", "coin"],
)
def test_views_of_a_row_by_itself_are_welcome(augment: Callable[[Tensor], Tensor]) -> None:
    run = small(augment=augment)
    run.check((X, Y))
    assert run((X, Y), rng=SeededRandom(1)).steps == 5


def test_views_that_cannot_be_had_are_told_before_the_charge() -> None:
    with pytest.raises(InvalidParameter, match="one view for each row, got 1 for 9"):
        views.refuse_mixing(lambda x: x[:1], X)
    with pytest.raises(InvalidParameter, match="augment fails on generated rows"):
        views.refuse_mixing(lambda x: x.reshape(7, 7), X)


def test_words_are_tried_as_words() -> None:
    words = torch.zeros(3, 4, dtype=torch.long)
    views.refuse_mixing(lambda x: x.flip(1), words)
    with pytest.raises(InvalidParameter, match="change with the other rows"):
        views.refuse_mixing(lambda x: x - x.sum(0), words)
