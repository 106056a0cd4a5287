"""Models whose rows bear on one another only for values that random numbers do not have: neighbours' released
sums, noise off, differ by no more than the clip, or the model is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.sgd import DPSGD, make_private
from deniable.learn.sgd.training import trainer
from deniable.ledger import Ledger
from deniable.randomness import SeededRandom
from deniable.units import Unit

ROWS, FEATURES = 24, 6
ROUNDING = 1e-4
"""By how much float sums may differ, over the clip."""
MIXES = "lets one example of a lot change what another one gives"


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise, what is released is the sum itself."""
    monkeypatch.setattr(trainer, "noisy_mean", lambda total, deviation, lot, rng: total.double() / lot)


class Routing(torch.optim.SGD):
    """It moves a router to where it tells rows apart, whatever the gradient: neighbours' sums are then compared
    at the same weights."""

    def step(self, closure: Any = None) -> Any:
        for parameter in (p for group in self.param_groups for p in group["params"]):
            if parameter.shape == (FEATURES,):
                with torch.no_grad():
                    parameter.copy_(torch.linspace(-1, 1, FEATURES))


def released(
    model: nn.Module, criterion: Any, rows: tuple[Tensor, Tensor], example: Any, steps: int
) -> Tensor:
    """The sums of clipped gradients (clip 1) of a loop's steps, all rows in every lot."""
    model = copy.deepcopy(model)
    optimizer = Routing(model.parameters(), lr=0.0)
    run = DPSGD.from_keywords(
        model, criterion, n=ROWS, lot=ROWS, steps=steps, noise_multiplier=1.0, clip=1.0, example=example
    )
    sums = []
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("rows", Unit.row(), limit=Budget(10_000, 1e-4))
        with make_private(run, optimizer, rows, account=account, rng=SeededRandom(3)) as private:
            for _ in private.lots():
                gradient = private.step().value
                sums.append(torch.cat([part.flatten() for part in gradient.values()]) * ROWS)
    return torch.stack(sums)


def influence(model: nn.Module, criterion: Any, x: Tensor, y: Tensor, steps: int = 1) -> float:
    """How far one row, the first, moves a released sum, over the clip; nothing where the model is refused."""
    example = (x[1], y[1])
    try:
        sums = [released(model, criterion, (x[start:], y[start:]), example, steps) for start in (0, 1)]
    except InvalidParameter as error:
        if MIXES not in str(error):
            raise
        return 0.0
    return float((sums[0] - sums[1]).norm(dim=1).max())


class ByLargest(torch.autograd.Function):
    """Nothing forward; gradients divided by the largest of the batch where that is beyond any usual one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] / torch.clamp(grads[0].abs().max() / 100, min=1.0)


class Net(nn.Module):
    """Two layers, and a function of what is between them."""

    def __init__(self, between: Callable[[Tensor], Tensor], outputs: int = 3) -> None:
        super().__init__()
        self.first, self.last, self.between = nn.Linear(FEATURES, 16), nn.Linear(16, outputs), between

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.between(torch.tanh(self.first(x))))
        return out


def half_square(out: Tensor, y: Tensor) -> Tensor:
    return (out[:, 0] - y) ** 2 / 2


def hooked(h: Tensor, by_node: bool) -> Tensor:
    def scale(g: Tensor) -> Tensor:
        return g / torch.clamp(g.abs().max() / 100, min=1.0)

    if h.requires_grad and not by_node:
        h.register_hook(scale)
    elif h.requires_grad and h.grad_fn is not None:
        h.grad_fn.register_prehook(lambda grads: (scale(grads[0]),))
    return h


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(
    "between",
    [
        lambda h: ByLargest.apply(h),  # type: ignore[no-untyped-call]
        lambda h: hooked(h, by_node=False),
        lambda h: hooked(h, by_node=True),
    ],
    ids=["a function", "a hook on a tensor", "a hook on a node"],
)
def test_a_far_target_does_not_bear_on_others_by_a_backward_pass_of_ones_own(
    between: Callable[[Tensor], Tensor],
) -> None:
    x, y = torch.randn(ROWS, FEATURES), torch.randn(1).expand(ROWS).clone()
    x[1:] = x[1]
    y[0] = 1e6
    assert influence(Net(between, 1), half_square, x, y) <= 1 + ROUNDING


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(20, 8), nn.Linear(8, 20)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.head(self.words(ids))
        return out


def by_share_of_batch(out: Tensor, labels: Tensor) -> Tensor:
    losses = F.cross_entropy(out.transpose(1, 2), labels, reduction="none")
    share = (labels != -100).float().mean()
    return 0.005 * losses.sum(1) / share.clamp(min=1e-3)


@pytest.mark.usefixtures("silent")
def test_labels_that_are_left_out_do_not_bear_on_other_rows() -> None:
    ids, labels = torch.full((ROWS, 32), 3), torch.full((ROWS, 32), -100)
    labels[:, 0], labels[0] = 5, 7
    assert influence(Tokens(), by_share_of_batch, ids, labels) <= 1 + ROUNDING


class Routed(nn.Module):
    """Rows in the order of a router that begins with zeros, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Parameter(torch.zeros(FEATURES))
        self.expert, self.head = nn.Linear(FEATURES, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        score = (x * self.router).sum(1)
        order = torch.argsort(score.detach(), stable=True)
        turned = F.one_hot(order, len(x)).to(x)
        inner = torch.tanh(self.expert(torch.bmm(turned[None], x[None])[0]))
        out: Tensor = self.head(torch.bmm(turned.T[None], inner[None])[0]) + score[:, None]
        return out


@pytest.mark.usefixtures("silent")
def test_rows_that_a_router_orders_are_clipped_by_their_own_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The router's weights move in the first step, and no trial comes before the second."""
    monkeypatch.setattr(trainer, "next_trial", lambda step, rng: 1000)
    x, y = 3 * torch.randn(ROWS, FEATURES), torch.randint(0, 3, (ROWS,))
    x[0] *= 10
    assert influence(Routed(), nn.CrossEntropyLoss(), x, y, steps=2) <= 1 + ROUNDING


def by_count_of_equals(out: Tensor, y: Tensor) -> Tensor:
    losses = F.cross_entropy(out, y, reduction="none")
    _, place, counts = torch.unique(
        out.detach().round(decimals=4)[:, 0], return_inverse=True, return_counts=True
    )
    return losses * 0.01 * counts[place]


@pytest.mark.usefixtures("silent")
def test_rows_that_are_alike_do_not_bear_on_one_another() -> None:
    x = torch.randn(1, FEATURES).expand(ROWS, FEATURES).clone()
    y = torch.zeros(ROWS, dtype=torch.int64)
    assert influence(nn.Linear(FEATURES, 3), by_count_of_equals, x, y) <= 1 + ROUNDING
