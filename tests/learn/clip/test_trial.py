"""Models that mix rows on the way back, in large lots only, at rare values, or by what they remember: refused,
or run so that one row moves the sum by at most the clip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deniable.errors import InvalidParameter
from deniable.learn.clip.attributes import Attributes
from deniable.learn.clip.batch import Batch
from deniable.learn.clip.objective import objective
from deniable.learn.clip.passes import Task, closed
from deniable.learn.clip.trials.trial import is_same_alone, is_still_alone
from deniable.learn.sgd import DPSGD
from tests.learn.clip.naive import assert_exact
from tests.learn.sgd.runs import run_of, trainer

ROWS, FEATURES = 120, 6


def data(first: float | None = None) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(5)
    x = 3 * torch.randn(ROWS, FEATURES, generator=source)
    if first is not None:
        x[0] = first
    return x, torch.randint(0, 3, (ROWS,), generator=source)


def influence(model: nn.Module, criterion: Any = None, first: float | None = None, before: int = 0) -> float:
    """How far the sum of clipped gradients moves without the first row, over the clip."""
    x, y = data(first)
    run = DPSGD.from_keywords(
        model,
        criterion or nn.CrossEntropyLoss(),
        n=10 * ROWS,
        lot=ROWS,
        steps=1000,
        noise_multiplier=1.0,
        learning_rate=1e-3,
    )
    run.check((x, y))
    sums = []
    for start in (0, 1):
        training = trainer(run)
        for _ in range(before):
            training.step([Batch((x[:8].clone(), y[:8]))])
        sums.append(training.clip_lot([Batch((x[start:].clone(), y[start:]))]).total["all"].double())
    return float((sums[0] - sums[1]).norm())


class Net(nn.Module):
    """Two layers, and a function of what is between them."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.between = nn.Linear(FEATURES, 16), nn.Linear(16, 3), between

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.between(torch.tanh(self.first(x))))
        return out


class Mixing(torch.autograd.Function):
    """Nothing forward; the sum of all rows on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] + grads[0].sum(0, keepdim=True)


def summed(g: Tensor) -> Tensor:
    return g + g.sum(0, keepdim=True)


def hooked(h: Tensor, hook: Callable[[Tensor], Tensor]) -> Tensor:
    if h.requires_grad:
        h.register_hook(hook)
    return h


def with_module_hook(kind: str) -> nn.Module:
    model = Net(torch.tanh)
    if kind == "before":
        model.last.register_full_backward_pre_hook(lambda module, out: (summed(out[0]),))
    else:
        model.last.register_full_backward_hook(lambda module, given, out: (summed(given[0]),))
    return model


@pytest.mark.parametrize(
    "model",
    [
        Net(lambda h: Mixing.apply(h)),  # type: ignore[no-untyped-call]
        Net(lambda h: hooked(h, summed)),
        with_module_hook("before"),
        with_module_hook("after"),
        Net(lambda h: h - h.mean(0) if float(h.abs().max()) >= 1 else h),
    ],
    ids=["a function", "a hook on a tensor", "a hook before", "a hook after", "at the end of tanh"],
)
def test_mixing_on_the_way_back_is_refused(model: nn.Module) -> None:
    with pytest.raises(InvalidParameter, match="lets one example of a lot change what another one gives"):
        influence(model)


@pytest.mark.parametrize("way", ["back", "forward"])
def test_mixing_in_large_lots_only_goes_one_by_one(way: str) -> None:
    def back(h: Tensor) -> Tensor:
        return hooked(h, lambda g: summed(g) if len(g) > 60 else g)

    def forward(h: Tensor) -> Tensor:
        return h - h.mean(0) if len(h) > 60 else h

    assert influence(Net(back if way == "back" else forward)) <= 1


def test_a_batch_is_not_left_out_for_one_row_that_overflows() -> None:
    def finite_or_nothing(h: Tensor) -> Tensor:
        wide = h.atanh() * 1e30
        return h if bool(torch.isfinite(wide).all()) else torch.zeros_like(h)

    def skipping(out: Tensor, y: Tensor) -> Tensor:
        losses = F.cross_entropy(out, y, reduction="none")
        return losses if bool(torch.isfinite(losses).all()) else losses.nan_to_num() * 0

    for model, criterion in ((Net(finite_or_nothing), None), (nn.Linear(FEATURES, 3), skipping)):
        with pytest.raises(InvalidParameter, match="lets one example of a lot change"):
            influence(model, criterion, first=1e38)


class Late(nn.Module):
    """Adds what it saw last, once it was called so often: in a list, a tensor or a number of its own."""

    def __init__(self, calls: int, keep: str) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, 16), nn.Linear(16, 3)
        self.calls, self.keep, self.count = calls, keep, 0
        self.seen: list[Tensor] = [torch.zeros(1, FEATURES)]
        self.register_buffer("held", torch.zeros(1, FEATURES))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        mean = x.detach().mean(0, keepdim=True)
        old = self.seen[0] if self.keep == "list" else self.held.clone()
        if self.count > self.calls:
            if self.keep == "list":
                self.seen[0] = mean
            else:
                self.held.copy_(mean)
            x = x + 30 * old
        out: Tensor = self.last(torch.tanh(self.first(x)))
        return out


@pytest.mark.parametrize("keep", ["list", "buffer"])
def test_what_a_model_remembers_is_forgotten_after_every_pass(keep: str) -> None:
    model = Late(400, keep)
    assert influence(model, before=3) <= 1
    assert model.count == 0
    assert influence(Late(400, keep), before=3) <= 1


def test_rows_one_by_one_do_not_see_the_row_before() -> None:
    """A counter that no attribute shows turns the model into one that remembers, after all trials."""
    calls = [0]

    class Turning(Late):
        def forward(self, x: Tensor) -> Tensor:
            self.count = calls[0]
            return super().forward(x)

    model = Turning(10, "list")
    run = run_of(
        model,
        nn.CrossEntropyLoss(),
        n=1200,
        lot=120,
        steps=9,
        noise_multiplier=1.0,
        learning_rate=0.1,
        grid=True,
    )
    x, y = data()
    run.check((x, y))
    calls[0] = 1000
    grid = run.grids["all"]
    sums = [trainer(run).clip_lot([Batch((x[i:], y[i:]))]).total["all"].double() for i in (0, 1)]
    assert float((sums[0] - sums[1]).norm()) <= grid.sensitivity


def test_attributes_are_put_back_whatever_was_done_to_them() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model.numbers, model.word, model.table = [1, [2, 3]], "a", torch.zeros(3)  # type: ignore[assignment]
    held = Attributes.snapshot(model)
    mean = model[1].running_mean
    model.numbers[1].append(4)  # type: ignore[union-attr, operator, index]
    model.word, model.more = "b", torch.ones(1)  # type: ignore[assignment]
    model.table += 1  # type: ignore[operator]
    model[1].running_mean += 1  # type: ignore[operator]
    model[0].eval()
    model[1].register_buffer("extra", torch.ones(1))
    held.restore()
    assert model.numbers == [1, [2, 3]]
    assert model.word == "a"
    assert not hasattr(model, "more")
    assert model.table.count_nonzero() == 0  # type: ignore[union-attr, operator]
    assert model[1].running_mean is mean
    assert mean.count_nonzero() == 0  # type: ignore[union-attr, operator]
    assert model[0].training
    assert "extra" not in dict(model.named_buffers())
    again = Attributes.snapshot(model, held)
    old = {id(value): copy for value, _, copy in held.tensors}
    untouched = model[1].running_var
    assert next(copy for value, _, copy in again.tensors if value is untouched) is old[id(untouched)]


class OwnGradient(nn.Module):
    """A network beside the slope of its output in its input, as for differential equations."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 3), nn.Linear(7, 2)

    def forward(self, x: Tensor) -> Tensor:
        point = x.detach().requires_grad_(True)
        values = self.body(point).tanh()
        (slope,) = torch.autograd.grad(values.sum(), point, create_graph=True)
        out: Tensor = self.head(torch.cat([values, slope], 1))
        return out


def test_a_model_that_takes_gradients_itself_goes_one_by_one_and_is_exact() -> None:
    torch.manual_seed(0)
    assert_exact(OwnGradient(), torch.randn(5, 4), torch.randint(0, 2, (5,)), method="one by one")


def scaled_by(rule: Callable[[Tensor], Tensor]) -> nn.Module:
    """A gradient on the way back that other rows of the batch bear on."""
    return Net(lambda h: hooked(h, rule))


def trials_that_find(model: nn.Module, count: int = 30) -> int:
    """How many of the trials in the middle of a run find that a model mixes its rows."""
    criterion = objective(nn.CrossEntropyLoss())
    task = Task(model, criterion, dict(model.named_parameters()))
    like = Batch((torch.zeros(2, FEATURES), torch.zeros(2, dtype=torch.int64)))
    return sum(not is_still_alone(task, closed, like, 12, seed) for seed in range(count))


def first_row_only(g: Tensor) -> Tensor:
    out = g.clone()
    out[0] += g.sum(0)
    return out


def test_a_trial_in_the_middle_of_a_run_finds_rows_that_mix() -> None:
    """Whichever rows and spread it happens to take, if all rows mix; else by chance, in some of the trials."""
    assert trials_that_find(Net(torch.tanh)) == 0
    assert trials_that_find(scaled_by(summed)) == 30
    assert trials_that_find(scaled_by(first_row_only)) >= 8

    def where_far(h: Tensor) -> Tensor:
        is_far = float(h.detach().abs().min(1).values.max()) > 0.999
        return h + (h - h.detach()).sum(0, keepdim=True) if is_far else h

    assert 8 <= trials_that_find(Net(where_far)) < 30


def test_small_lots_are_tried_on_as_many_rows_and_no_more_at_once() -> None:
    sizes: list[int] = []

    def note(h: Tensor) -> Tensor:
        sizes.append(len(h))
        return h

    model = Net(note)
    task = Task(model, objective(nn.CrossEntropyLoss()), dict(model.named_parameters()))
    like = Batch((torch.zeros(2, FEATURES), torch.zeros(2, dtype=torch.int64)))
    assert is_same_alone(task, closed, like, (3,))
    assert sum(size for size in sizes if size > 1) >= 33
    assert max(sizes) == 3


@pytest.mark.parametrize(("is_mapped", "is_tried"), [(True, False), (False, True), (False, False)])
def test_a_model_that_mixes_after_a_step_is_mapped_or_tried_and_goes_one_by_one(
    is_mapped: bool, is_tried: bool
) -> None:
    """What no trial before the charge can see: it waits for its weights to move. Under vmap it has nothing to mix;
    where a branch keeps it from vmap, a trial in the middle of the run is what finds it."""
    torch.manual_seed(0)

    class Waiting(Net):
        def __init__(self) -> None:
            super().__init__(lambda h: h)
            self.begin = self.last.weight.detach().clone()

        def forward(self, x: Tensor) -> Tensor:
            is_moved = not torch.equal(self.begin, self.last.weight)
            between = torch.tanh(self.first(x))
            if not is_mapped and bool((x > 1e30).all()):
                between = 2 * between
            mixed = between + (between - between.detach()).sum(0, keepdim=True)
            out: Tensor = self.last(mixed if is_moved else between)
            return out

    x, y = data()
    run = DPSGD.from_keywords(
        Waiting(), nn.CrossEntropyLoss(), n=ROWS, lot=ROWS, steps=9, noise_multiplier=1.0, learning_rate=1e-3
    )
    run.check((x, y))
    sums = []
    for start in (0, 1):
        training = trainer(run)
        training.next_trial = 2 if is_tried else 10
        for _ in range(2):
            training.step([])
        sums.append(training.clip_lot([Batch((x[start:], y[start:]))]).total["all"].double())
    assert (float((sums[0] - sums[1]).norm()) <= 1 + 1e-5) == (is_mapped or is_tried)
