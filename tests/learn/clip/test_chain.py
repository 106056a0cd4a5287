"""Chains of layers, run by hand, give the terms that autograd gives, and leave what they
were given as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from deniable.learn.clip import Batch, PerExample
from deniable.learn.clip.closed_forms import chain
from deniable.learn.clip.closed_forms.tape import Uncovered
from deniable.learn.clip.objective import Paired, objective
from deniable.learn.clip.passes import Passed, Task, chained, closed
from deniable.learn.clip.structure import trainable
from deniable.learn.clip.trials.probe import gradient
from tests.learn.clip import models

PICTURE, ROW = (2, 9, 9), (5,)


def _reused() -> nn.Module:
    same = nn.Linear(5, 5)
    return nn.Sequential(same, nn.ReLU(), same, nn.Tanh(), nn.Linear(5, 3))


def _frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    model[0].requires_grad_(False)
    model[4].bias.requires_grad_(False)
    return model


def _pooled() -> nn.Module:
    first = nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=2, bias=False)
    return nn.Sequential(first, nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten(), nn.ReLU(), nn.LazyLinear(3))


def _maxima() -> nn.Module:
    pools = [nn.MaxPool2d((3, 2), (1, 2), (1, 0)), nn.ReLU(), nn.MaxPool2d(2, 2, dilation=2, ceil_mode=True)]
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), *pools, nn.Tanh(), nn.Flatten(), nn.LazyLinear(3))


CHAINS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "nothing between": (lambda: nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)), ROW),
    "alone": (lambda: nn.Linear(5, 3), ROW),
    "ReLU": (lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), ROW),
    "in place": (lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 3)), ROW),
    "first and last": (lambda: nn.Sequential(nn.Tanh(), nn.Linear(5, 3), nn.Sigmoid()), ROW),
    "twice": (lambda: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Sigmoid(), nn.ReLU(), nn.Linear(4, 3)), ROW),
    "reused": (_reused, ROW),
    "frozen": (_frozen, ROW),
    "nested": (lambda: nn.Sequential(nn.Sequential(nn.Linear(5, 4), nn.GELU()), nn.Sequential(nn.Linear(4, 3))), ROW),
    "views": (lambda: nn.Sequential(nn.Linear(5, 4), nn.Unflatten(1, (2, 2)), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3)), ROW),
    "positions": (lambda: nn.Sequential(nn.Linear(9, 4), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)), PICTURE),
    "pooled": (_pooled, PICTURE),
    "maxima": (_maxima, PICTURE),
    "averages": (lambda: nn.Sequential(nn.AvgPool2d(3), nn.Flatten(), nn.Linear(18, 4), nn.ReLU(), nn.Linear(4, 3)), PICTURE),
    "grouped": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(196, 3)), PICTURE),
}  # fmt: skip


def _task(model: nn.Module, shape: tuple[int, ...], k: int = 1) -> tuple[Task, Tensor, Tensor]:
    torch.manual_seed(1)
    x, y = torch.randn(4 * k, *shape), torch.randint(0, 3, (4 * k,))
    model(x)
    return Task(model, objective(nn.CrossEntropyLoss()), trainable(model)), x, y


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_gives_what_autograd_gives(name: str, k: int) -> None:
    torch.manual_seed(0)
    build, shape = CHAINS[name]
    task, x, y = _task(build(), shape, k)
    given = x.clone()
    batch = Batch((x, y), k)
    found, right = chained(task, batch), closed(task, batch)
    assert torch.equal(x, given)
    assert torch.equal(found[1], right[1])
    for parameter in task.parameters:
        for i in range(4):
            assert torch.allclose(*(_of(task, passed, parameter, i) for passed in (found, right)), atol=1e-6)
    assert all(p.grad is None for p in task.model.parameters())


def _of(task: Task, passed: Passed, name: str, i: int) -> Tensor:
    return gradient(task, passed, name, i)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_run_by_hand(name: str) -> None:
    build, shape = CHAINS[name]
    task, x, y = _task(build(), shape)
    clipper = PerExample(task.model, nn.CrossEntropyLoss())
    assert clipper._way(Batch((x, y))).run is chained
    assert clipper.method(x, y) == "closed form"


def _hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    model[1].register_forward_hook(lambda module, args, out: out * 2)
    return model


def _patched() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    model[2].forward = lambda x: nn.functional.linear(x, model[2].weight)  # type: ignore[assignment]
    return model


def _normed() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)), nn.Linear(4, 3))


class Turned(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(-x)


@pytest.mark.parametrize(
    "build",
    [
        _hooked,
        _patched,
        _normed,
        lambda: Turned(nn.Linear(5, 3)),
        lambda: nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 3)),
        lambda: models.Reused(),
    ],
)
def test_what_does_more_than_its_layers_is_no_chain(build: Callable[[], nn.Module]) -> None:
    """And is clipped exactly all the same: `closed` or another way sees the calls."""
    task, x, y = _task(build(), ROW)
    with pytest.raises(Uncovered):
        chained(task, Batch((x, y)))
    assert PerExample(task.model, nn.CrossEntropyLoss())._way(Batch((x, y))).run is not chained


def test_a_hook_added_later_ends_the_chain() -> None:
    task, x, y = _task(nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), ROW)
    clipper = PerExample(task.model, nn.CrossEntropyLoss())
    before = clipper(x, y, clip=1e9).sums["2.weight"]
    task.model[1].register_forward_hook(lambda module, args, out: out * 2)  # type: ignore[operator, index]
    after = clipper(x, y, clip=1e9).sums["2.weight"]
    assert not torch.allclose(before, after)


def test_what_a_criterion_does_with_a_parameter_is_not_lost() -> None:
    """A penalty on the weights reaches them past the chain, which the trial shows."""
    model = nn.Sequential(nn.Linear(5, 3))

    def penalised(out: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(out, y, reduction="none") + model[0].weight.square().sum()  # type: ignore[operator, union-attr]

    x, y = torch.randn(4, 5), torch.zeros(4, dtype=torch.long)
    assert PerExample(model, penalised)._way(Batch((x, y))).run is not chained


def test_a_gradient_that_is_one_number_spread_out_is_not_overwritten() -> None:
    """That of a sum: all of it lies in one place of memory."""
    model = nn.Sequential(nn.Linear(5, 3), nn.Sigmoid())
    task = Task(model, Paired(lambda out, y: out.sum(1)), trainable(model))
    x, y = torch.randn(4, 5), torch.zeros(4, dtype=torch.long)
    passes = chained(task, Batch((x, y))), closed(task, Batch((x, y)))
    assert torch.allclose(*(_of(task, passed, "0.weight", 1) for passed in passes), atol=1e-6)


def test_a_loss_that_ignores_the_output_has_no_terms() -> None:
    model = nn.Sequential(nn.Linear(5, 3))
    task = Task(model, Paired(lambda out, y: y.float()), trainable(model))
    assert chained(task, Batch((torch.randn(4, 5), torch.zeros(4, dtype=torch.long))))[0] == {}


def test_dropout_draws_a_mask_for_each_example() -> None:
    model = nn.Sequential(nn.Linear(5, 400), nn.ReLU(), nn.Dropout(0.5), nn.Linear(400, 3))
    task, x, y = _task(model, ROW)
    terms, _ = chained(task, Batch((x[:1].expand(4, 5), y)))
    inputs = next(term.cols for key, term in terms.items() if key.name == "3.weight")  # type: ignore[union-attr]
    assert not torch.equal(inputs[0], inputs[1])


@pytest.mark.parametrize("slope", [chain._relu, torch.ops.aten.tanh_backward.grad_input])
def test_an_output_that_was_overwritten_too_early_is_found(
    slope: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted mistake: a layer that calls what it still needs its own to give away."""
    monkeypatch.setattr(chain.Inplace, "owns_output", True)
    kind = nn.ReLU if slope is chain._relu else nn.Tanh
    model = nn.Sequential(nn.Linear(5, 4), kind(), nn.Sigmoid(), nn.Linear(4, 3))
    x, y = torch.randn(4, 5), torch.zeros(4, dtype=torch.long)
    assert PerExample(model, nn.CrossEntropyLoss())._way(Batch((x, y))).run is not chained
