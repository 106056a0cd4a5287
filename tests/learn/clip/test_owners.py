"""Positions of many examples in one matrix, and tensors that all examples share: whose gradient is whose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deniable.errors import InvalidParameter
from deniable.learn.clip import PerExample, owners
from tests.learn.clip.naive import assert_exact

WIDTH, LENGTH, EXPERTS = 6, 5, 3


class Routed(nn.Module):
    """Each position goes to the expert of its largest score, among those of other rows."""

    def __init__(self, capacity: int | None = None) -> None:
        super().__init__()
        self.router, self.capacity = nn.Linear(WIDTH, EXPERTS), capacity
        self.stack = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH))
        self.last, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, WIDTH)
        share, choice = self.router(flat).softmax(-1).max(-1)
        out = torch.zeros_like(flat)
        for expert in range(EXPERTS):
            places = torch.where(choice == expert)[0][: self.capacity]
            hidden = F.gelu(F.linear(flat[places], self.stack[expert]))
            hidden = self.last(hidden) * share[places, None]
            out = out.index_add(0, places, hidden)
        result: Tensor = self.head(out.view(len(x), -1, WIDTH).mean(1))
        return result


class Distance(nn.Module):
    """A bias by distance, looked up for all rows at once."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.mix, self.head = nn.Embedding(2 * LENGTH, 1), nn.Linear(WIDTH, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(LENGTH)
        bias = self.table(places[:, None] - places + LENGTH).permute(2, 0, 1)
        shares = (x @ x.mT + bias).softmax(-1)
        result: Tensor = self.head((shares @ self.mix(x)).tanh().mean(1))
        return result


class Computed(nn.Module):
    """Scales, shifts and masks that are computed from parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(LENGTH, 1))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        shifted = x * (1 + self.scale) + torch.cat([self.shift, self.shift**2], 1).sum(1, keepdim=True)
        chosen = torch.where(x > 0, shifted, self.scale.exp()[None])
        result: Tensor = self.head(chosen.tanh().mean(1))
        return result


def rows(n: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randn(n, LENGTH, WIDTH), torch.randint(0, 3, (n,))


@pytest.mark.parametrize("n", [1, 4, LENGTH, WIDTH, 2 * LENGTH])
@pytest.mark.parametrize("build", [Routed, Distance, Computed])
def test_gradients_are_those_of_the_examples_alone(build: Callable[[], nn.Module], n: int) -> None:
    """Also where there are as many examples as positions, widths or words."""
    torch.manual_seed(0)
    assert_exact(build(), *rows(n), method="closed form")


@pytest.mark.parametrize("build", [Routed, Distance, Computed])
def test_also_of_examples_of_several_rows(build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    assert_exact(build(), *rows(6), k=2)


@pytest.mark.parametrize("size", [LENGTH, 3 * LENGTH])
def test_as_many_rows_as_places_are_no_words_of_their_own(size: int) -> None:
    """What another clipper found on made-up rows is enough to know it by."""
    torch.manual_seed(0)
    model, (x, y) = Distance(), rows(size)
    first = PerExample(model, nn.CrossEntropyLoss())
    first.check(*rows(2))
    second = PerExample(model, nn.CrossEntropyLoss(), ways=first.ways, microbatch=LENGTH)
    got = second(x, y, clip=0.1).vectors["all"].double()
    apart = sum(second(x[i : i + 1], y[i : i + 1], clip=0.1).vectors["all"].double() for i in range(size))
    assert float((got - apart).norm()) < 1e-5


@pytest.mark.parametrize("build", [Routed, Distance, Computed])
def test_no_example_exceeds_the_clip(build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    x, y = rows(8)
    clipper = PerExample(build(), nn.CrossEntropyLoss(reduction="sum"))
    everybody = clipper(x, y, clip=0.01).vectors["all"].double()
    for i in range(8):
        others = [j for j in range(8) if j != i]
        without = clipper(x[others], y[others], clip=0.01).vectors["all"].double()
        assert float((everybody - without).norm()) <= 0.01 * (1 + 1e-4)
        alone = clipper(1e4 * x[i : i + 1], y[i : i + 1], clip=0.01).vectors["all"].double()
        assert float(alone.norm()) <= 0.01


def test_a_row_that_is_not_finite_leaves_those_in_the_same_expert_alone() -> None:
    torch.manual_seed(0)
    x, y = rows(6)
    clipper = PerExample(Routed(), nn.CrossEntropyLoss())
    right = clipper(x[1:], y[1:], clip=0.1).vectors["all"]
    x[0, 2] = torch.inf
    got = clipper(x, y, clip=0.1)
    assert not bool(torch.isfinite(got.norms["all"][0]))
    assert torch.allclose(got.vectors["all"], right, atol=1e-6)


def test_an_expert_with_room_for_so_many_mixes_rows_and_is_refused() -> None:
    """What does not fit is dropped, and who comes later has less room."""
    with pytest.raises(InvalidParameter, match="lets one example of a lot change"):
        PerExample(Routed(capacity=3), nn.CrossEntropyLoss()).check(*rows(4))


def _of_nobody(tape: Any, x: Tensor, owner: Tensor) -> Tensor:
    return RIGHT(tape, x, (owner + 1) % tape.examples)


RIGHT = owners.by_owner


def test_positions_with_a_wrong_owner_are_found_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(owners, "by_owner", _of_nobody)
    method = PerExample(Routed(), nn.CrossEntropyLoss()).method(*rows(4))
    assert method.startswith("one by one (closed: the gradient of stack is not that of the examples alone")
