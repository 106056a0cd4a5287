"""Blocks of public size: how many rows were drawn does not bear on the shapes that go through the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deniable.learn.clip import Batch, PerExample
from tests.learn.clip import models

LOSS = nn.CrossEntropyLoss()


class Watched(PerExample):
    """It notes how many rows go through the model at once, which a model under vmap does not see."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sizes: list[int] = []

    def _run_and_forget(self, run: Any, batch: Batch) -> Any:
        self.sizes.append(batch.examples)
        return super()._run_and_forget(run, batch)


def rows(count: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(count)
    return torch.randn(count, 5, generator=source), torch.randint(0, 3, (count,), generator=source)


def in_blocks(model: nn.Module, lot: float, **options: Any) -> Watched:
    """As a run has it: the ways were found beforehand."""
    clipper = PerExample(model, LOSS, **options)
    clipper.check(*rows(2))
    return Watched(model, LOSS, ways=clipper.ways, lot=lot, **options)


@pytest.mark.parametrize("examples", [1, 5, 36, 37, 41, 60, 61])
def test_every_pass_has_one_of_two_sizes(examples: int) -> None:
    torch.manual_seed(0)
    clipper = in_blocks(nn.Linear(5, 3), lot=36)
    clipped = clipper(*rows(examples), clip=1.0)
    assert [36] + [12] * -(-max(0, examples - 36) // 12) == clipper.sizes
    assert len(clipped.losses) == len(clipped.norms["all"]) == examples


@pytest.mark.parametrize(
    "model", [nn.Linear(5, 3), models.Odd(), nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))]
)
def test_what_fills_a_block_up_adds_nothing(model: nn.Module) -> None:
    x, y = rows(7)
    whole, blocks = PerExample(model, LOSS)(x, y, clip=0.5), in_blocks(model, lot=5)(x, y, clip=0.5)
    for name, total in whole.sums.items():
        torch.testing.assert_close(total, blocks.sums[name], rtol=0, atol=1e-6)
    torch.testing.assert_close(whole.norms["all"], blocks.norms["all"])


def test_made_up_rows_that_are_not_finite_do_not_show() -> None:
    """A weight that has grown: made-up rows in [0, 1] overflow, small rows do not."""
    model = nn.Linear(5, 3, bias=False)
    clipper = in_blocks(model, lot=9)
    with torch.no_grad():
        model.weight.fill_(1e38).mul_(torch.tensor([[1.0], [2.0], [3.0]]))
    x, y = torch.full((4, 5), 1e-37), torch.zeros(4, dtype=torch.int64)
    right = PerExample(model, LOSS, ways=clipper.ways)(x, y, clip=1.0)
    found = clipper(x, y, clip=1.0)
    assert torch.isfinite(found.sums["weight"]).all()
    assert torch.isfinite(found.norms["all"]).all()
    torch.testing.assert_close(found.sums["weight"], right.sums["weight"])


def test_a_row_that_fails_is_found_in_a_filled_block() -> None:
    x, y = rows(7)
    y[3] = 9
    found = in_blocks(nn.Linear(5, 3), lot=5)(x, y, clip=1.0)
    assert torch.isfinite(found.norms["all"]).tolist() == [i != 3 for i in range(7)]


def test_examples_of_several_rows_are_filled_up_with_examples_of_several_rows() -> None:
    model = nn.Linear(5, 3)
    clipper = PerExample(model, LOSS, multiplicity=2)
    clipper.check(*rows(4))
    blocks = PerExample(model, LOSS, ways=clipper.ways, lot=4, multiplicity=2)
    x, y = rows(10)
    for weights in (None, torch.tensor([0.3, 0.7] * 5)):
        batch = Batch((x, y), 2, weights)
        whole, found = clipper(batch, clip=0.5), blocks(batch, clip=0.5)
        torch.testing.assert_close(whole.sums["weight"], found.sums["weight"])


def test_other_rows_bits_do_not_move_when_one_row_goes() -> None:
    """Without blocks the last bits of a product depend on how many rows it has."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    clipper = in_blocks(model, lot=64)
    x, y = rows(50)
    whole, less = clipper(x, y, clip=1.0), clipper(x[:-1], y[:-1], clip=1.0)
    assert torch.equal(whole.norms["all"][:-1], less.norms["all"])
    assert torch.equal(whole.losses[:-1], less.losses)
