"""What a data set draws for its rows comes from a secret seed, and leaves no trace in the generators of others."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import mtrand
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from deniable.learn.sgd import Users
from deniable.learn.sgd.data.rows import rows
from deniable.learn.sgd.data.users import UserRows
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.sgd.runs import small, trainer

SIZE = 12
DRAWS: list[Callable[[], float]] = [
    lambda: float(torch.rand(1, dtype=torch.float64)),
    lambda: float(np.random.rand()),  # noqa: NPY002
    lambda: float(np.random.randn()),  # noqa: NPY002
    random.random,
]
EXAMPLE = (torch.zeros(6), 0)


class Viewed(Dataset[Any]):
    """Rows with a random view each, as transforms of pictures give them."""

    def __init__(self, draw: Callable[[], float], size: int = SIZE) -> None:
        self.draw, self.size = draw, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        return torch.full((6,), self.draw()), index % 3


def collated(batch: list[Any]) -> Any:
    """A collator that draws, as that of masked language models does."""
    return torch.stack([x + torch.rand(1) for x, _ in batch]), torch.tensor([y for _, y in batch])


def known_seeds() -> None:
    torch.manual_seed(42)
    if isinstance(mtrand.get_bit_generator(), np.random.MT19937):
        np.random.seed(42)  # noqa: NPY002
    random.seed(42)


def states() -> tuple[bytes, str, object]:
    return (
        torch.get_rng_state().numpy().tobytes(),
        str(np.random.get_state()),  # noqa: NPY002
        random.getstate(),
    )


def views(data: Any, seed: int, unit: Unit | None = None) -> Tensor:
    """What is drawn for the rows, under a seed that everybody knows and a secret one."""
    known_seeds()
    container = rows(data, EXAMPLE) if unit is None else UserRows(data, 4, EXAMPLE)
    lot = container.take(np.arange(len(container)), torch.float64, SeededRandom(seed))
    return torch.cat([batch.rows[0][:, 0] for batch in lot])


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("people", [False, True])
def test_views_of_rows_come_from_a_secret_seed(draw: Callable[[], float], people: bool) -> None:
    """Under a known one, a row more would give another view to every row after it: 5 to 11 times the clip."""
    data: Any = Users(Viewed(draw), list(range(SIZE))) if people else Viewed(draw)
    unit = Unit.column("person", max_rows=4) if people else None
    here, there = views(data, 1, unit), views(data, 2, unit)
    assert not set(here.tolist()) & set(there.tolist())
    assert len(set(here.tolist())) == SIZE
    assert torch.equal(here, views(data, 1, unit))  # a seeded run can be repeated


def test_a_collator_s_draws_are_secret_too() -> None:
    data = DataLoader(Viewed(lambda: 0.0), collate_fn=collated)
    assert not set(views(data, 1).tolist()) & set(views(data, 2).tolist())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("draw", DRAWS)
def test_generators_of_others_do_not_tell_how_many_rows_were_drawn(draw: Callable[[], float]) -> None:
    """Checkpoints of `transformers` hold their states."""
    ends = []
    for size in (SIZE, 3):
        run = small(example=EXAMPLE, rate=1, n=None)
        data = Viewed(draw, size)
        run.check(data)
        known_seeds()
        begin = states()
        trainer(run).walk(run.rows(data))
        assert states() == begin
        ends.append(states())
    assert ends[0] == ends[1]


def test_a_generator_of_another_kind_is_put_back_too() -> None:
    usual = mtrand.get_bit_generator()
    try:
        mtrand.set_bit_generator(np.random.PCG64(3))
        mine = mtrand.get_bit_generator()
        here = views(Viewed(DRAWS[2]), 1)
        assert mtrand.get_bit_generator() is mine
        assert len(set(here.tolist())) == SIZE
    finally:
        mtrand.set_bit_generator(usual)


def test_a_row_s_warning_is_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    def warns() -> float:
        warnings.warn("row 3 is ill", stacklevel=1)
        return 0.5

    views(Viewed(warns), 1)
    assert not [warning for warning in recwarn if "ill" in str(warning.message)]
