"""What a step adds up: each row for itself, whatever the others hold."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deniable.errors import InvalidParameter
from deniable.learn.clip import Batch, Clipped, PerExample
from deniable.learn.sgd import DPSGD, BatchLoss
from deniable.learn.sgd.training.trainer import Trainer, summarize
from deniable.randomness import SeededRandom
from tests.learn.sgd.runs import run_of


class Picky(PerExample):
    """A clipper that refuses a batch for what one row in it holds."""

    def __call__(self, *rows: Any, clip: Any) -> Clipped:
        if bool((rows[0].rows[0] == 7).any()):
            raise InvalidParameter("Expected no 7.")
        return super().__call__(*rows, clip=clip)


def _run() -> DPSGD:
    return DPSGD.from_keywords(
        nn.Linear(2, 2),
        nn.CrossEntropyLoss(),
        n=100,
        lot=10,
        steps=1,
        clip=1.0,
        learning_rate=0.1,
        noise_multiplier=1.0,
    )


@pytest.mark.parametrize("declared", [True, False])
def test_a_row_that_is_refused_takes_no_other_row_with_it(
    monkeypatch: pytest.MonkeyPatch, declared: bool
) -> None:
    """In a batch, where halves are tried down to that row, and one by one, as rows of other shapes go."""
    monkeypatch.setattr("deniable.learn.sgd.dpsgd.PerExample", Picky)
    x, y = torch.randn(9, 2), torch.zeros(9, dtype=torch.int64)
    run = _run()
    if declared:
        run.check((x, y))
    trainer = Trainer.with_copy(run, SeededRandom(0))
    alone = trainer.clip_lot([Batch((x[1:], y[1:]))]).total["all"]
    x[0] = 7
    with_it = trainer.clip_lot([Batch((x, y))])
    assert torch.allclose(with_it.total["all"], alone, atol=1e-6)
    assert float(alone.norm()) > 0.1
    assert summarize(with_it.readings)[1:] == (8, 1)


class AnyLength(nn.Module):
    """Remembers, outside of its attributes, how many rows came at once."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.out = nn.Linear(1, 2)
        self.seen = lambda rows: sizes.append(rows)

    def forward(self, x: Tensor) -> Tensor:
        if bool((x > 1e30).all()):  # a branch that keeps it from vmap, where it would see one row
            x = x / 2
        self.seen(len(x))
        answer: Tensor = self.out(x.mean(1, keepdim=True))
        return answer


def _sizes(length: int, **given: Any) -> tuple[set[int], set[int]]:
    """How many rows `augment` and the model see at once, of a lot of nine with this length."""
    of_views: list[int] = []
    of_model: list[int] = []

    def augment(x: Tensor) -> Tensor:
        of_views.append(len(x))
        return x

    run = run_of(
        AnyLength(of_model), nn.CrossEntropyLoss(), n=100, lot=10, steps=1, learning_rate=0.1,
        noise_multiplier=1.0, augment=augment, **given,
    )  # fmt: skip
    run.check((torch.zeros(1, 4), torch.zeros(1, dtype=torch.int64)))
    trainer = Trainer.with_copy(run, SeededRandom(0))
    of_views.clear()
    of_model.clear()
    trainer.clip_lot([Batch((torch.randn(9, length), torch.zeros(9, dtype=torch.int64)))])
    return set(of_views), set(of_model)


def test_rows_of_another_shape_and_rows_on_a_grid_are_alone() -> None:
    """Nobody has looked whether `augment` and the model treat rows of that shape apart; on a grid nobody asks."""
    views, model = _sizes(4)
    assert (views, min(model) >= 9) == ({9}, True)
    assert _sizes(5) == ({1}, {1})
    assert _sizes(4, grid=True) == ({1}, {1})


def test_a_warning_that_a_row_calls_forth_is_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    def losses(model: nn.Module, batch: Any) -> Tensor:
        if bool((batch[0] == 7).any()):
            warnings.warn("a row of sevens", stacklevel=1)
        return model(batch[0]).square().sum(1)

    run = DPSGD.from_keywords(
        nn.Linear(2, 2), BatchLoss(losses), n=9, lot=9, steps=1, learning_rate=0.1, noise_multiplier=1.0
    )
    Trainer.with_copy(run, SeededRandom(0)).clip_lot([Batch((torch.full((9, 2), 7.0), torch.zeros(9)))])
    assert not [warning for warning in recwarn if "sevens" in str(warning.message)]


def test_what_was_released_stays_what_it_was() -> None:
    """Noise is added in the memory of the sum; the next sum, which is private, must not be written there."""
    trainer = Trainer.with_copy(_run(), SeededRandom(0))
    lot = [Batch((torch.randn(9, 2), torch.zeros(9, dtype=torch.int64)))]
    released = trainer.step(lot)
    before = {name: part.clone() for name, part in released.items()}
    sums = trainer.clip_lot(lot)
    held = sums.total["all"]
    again = trainer.release(sums)
    assert all(torch.equal(released[name], before[name]) for name in before)
    assert torch.equal(held, torch.cat([part.flatten() for part in again.values()]))


def test_sums_have_one_type_whatever_the_lot_was() -> None:
    """Ranks add theirs up, and each may have drawn no row, or rows of two shapes."""
    trainer = Trainer.with_copy(_run(), SeededRandom(0))
    part = Batch((torch.randn(9, 2), torch.zeros(9, dtype=torch.int64)))
    lots: list[list[Batch]] = [[], [part], [part, part]]
    found = [trainer.clip_lot(lot).total["all"] for lot in lots]
    assert {total.dtype for total in found} == {torch.float32}
    assert not found[0].any()
    assert torch.allclose(2 * found[1], found[2], rtol=1e-6)
