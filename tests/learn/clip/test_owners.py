"""Positions of many examples in one matrix, and tensors that all examples share: whose gradient is whose."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deniable.errors import InvalidParameter
from deniable.learn.clip import PerExample
from deniable.learn.clip.closed_forms import owners
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


@pytest.mark.sampled(5)
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


# ------------------------------------------------------------------------------ examples in an order of their own


class Sorted(nn.Module):
    """Rows in the order of a score that begins with zeros, through a layer, and back: honest, row by row."""

    def __init__(self, order: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.score = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.middle, self.head, self.order = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3), order
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x[:, 0].tanh()).tanh()
        order = torch.argsort(self.score(hidden)[:, 0], stable=True)
        middle = self.middle(self.order(hidden, order))
        result: Tensor = self.head(middle[torch.argsort(order)])
        return result


class Packed(nn.Module):
    """Rows packed for two experts, as many places for each as there are rows."""

    def __init__(self, pack: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.score = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)
        self.head, self.pack = nn.Linear(WIDTH, 3), pack
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.first(x[:, 0].tanh()).tanh()
        share, choice = self.score(rows).softmax(-1).max(-1)
        chosen = F.one_hot(choice, 2)
        place = ((chosen.cumsum(0) - 1) * chosen).sum(1)
        packed = self.pack(rows, choice, place)
        out = torch.stack([expert(part).tanh() for expert, part in zip(self.experts, packed, strict=True)])
        result: Tensor = self.head(out[choice, place] * share[:, None])
        return result


def _into(rows: Tensor, choice: Tensor, place: Tensor) -> Tensor:
    out = rows.new_zeros(2, *rows.shape)
    out[choice, place] = rows
    return out


def _flat(rows: Tensor, choice: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    return rows.new_zeros(2 * len(rows), WIDTH), choice * len(rows) + place


def _added(rows: Tensor, choice: Tensor, place: Tensor) -> Tensor:
    empty, at = _flat(rows, choice, place)
    return empty.index_add(0, at, rows).view(2, *rows.shape)


def _put(rows: Tensor, choice: Tensor, place: Tensor) -> Tensor:
    empty, at = _flat(rows, choice, place)
    return empty.index_put((at,), rows).view(2, *rows.shape)


def _scattered(rows: Tensor, choice: Tensor, place: Tensor) -> Tensor:
    empty, at = _flat(rows, choice, place)
    return empty.scatter_add(0, at[:, None].expand_as(rows), rows).view(2, *rows.shape)


def _summed(rows: Tensor, choice: Tensor, place: Tensor) -> Tensor:
    mask = F.one_hot(choice, 2)[:, :, None] * F.one_hot(place, len(rows))[:, None]
    return torch.einsum("sec,sd->ecd", mask.float(), rows)


def _product(rows: Tensor, choice: Tensor, place: Tensor) -> Tensor:
    mask = F.one_hot(choice, 2)[:, :, None] * F.one_hot(place, len(rows))[:, None]
    return (mask.float().flatten(1).T @ rows).view(2, *rows.shape)


def _by_parts(rows: Tensor, order: Tensor) -> Tensor:
    half = len(order) // 2
    flat = rows[:, None].reshape(-1, WIDTH)
    return torch.cat([flat[order[:half]], flat[order[half:]]])


def _by_groups(rows: Tensor, order: Tensor) -> Tensor:
    return rows[:, None].reshape(-1, WIDTH)[order].view(-1, 1, WIDTH)[:, 0]


ORDERS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda rows, order: rows[order],
    lambda rows, order: rows[order, :],
    lambda rows, order: rows[None, order][0],
    lambda rows, order: rows.index_select(0, order),
    lambda rows, order: rows.gather(0, order[:, None].expand_as(rows)),
    lambda rows, order: torch.take_along_dim(rows, order[:, None], 0),
    lambda rows, order: rows[:, None].reshape(-1, WIDTH)[order].softmax(1),
    _by_parts,
    _by_groups,
]
REORDERED = [Sorted(order) for order in ORDERS] + [
    Packed(pack) for pack in (_into, _added, _put, _scattered, _summed, _product)
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", REORDERED)
def test_a_router_that_begins_with_zeros_and_learns_moves_no_gradient_to_another_row(model: Any) -> None:
    """On made-up rows all scores are ties, so that rows are in their own order; later they are not."""
    torch.manual_seed(0)
    model = copy.deepcopy(model)
    x, y = rows(8)
    clipper = PerExample(model, nn.CrossEntropyLoss())
    clipper.check(*rows(2))
    nn.init.normal_(model.score.weight)
    together = clipper(x, y, clip=0.01).vectors["all"].double()
    apart = [clipper(x[i : i + 1], y[i : i + 1], clip=0.01).vectors["all"].double() for i in range(8)]
    assert float((together - torch.stack(apart).sum(0)).norm()) < 1e-6


def test_rows_in_their_own_order_stay_in_closed_form() -> None:
    """An index may pick one position of each row."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.first(x)
            result: Tensor = self.head(hidden[torch.arange(len(x)), x[..., 0].argmax(1)])
            return result

    assert_exact(Last(), *rows(6), method="closed form")
