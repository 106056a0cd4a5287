"""The oracle: each example alone through plain autograd, clipped and added in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from deniable.learn.clip import Clipped, PerExample

Gradients = dict[str, Tensor]


def gradients(
    model: nn.Module, criterion: Callable[..., Tensor], x: Tensor, y: Tensor, k: int = 1
) -> list[Gradients]:
    """The gradient of the mean loss of each example's own k rows, example by example."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found = []
    for i in range(0, len(x), k):
        loss = criterion(model(x[i : i + k]), y[i : i + k]).mean()
        own = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        pairs = zip(trained.items(), own, strict=True)
        found.append({name: (torch.zeros_like(p) if g is None else g).double() for (name, p), g in pairs})
    return found


def norm(gradient: Gradients, names: Sequence[str]) -> float:
    return float(sum(gradient[name].square().sum() for name in names)) ** 0.5


def clipped(
    found: list[Gradients], groups: Mapping[str, Sequence[str]], clips: Mapping[str, float]
) -> Gradients:
    total = {name: torch.zeros_like(g) for name, g in found[0].items()}
    for gradient in found:
        for group, names in groups.items():
            length = norm(gradient, names)
            for name in names:
                total[name] += gradient[name] * min(1.0, clips[group] / length if length else 1.0)
    return total


def assert_exact(model: nn.Module, x: Tensor, y: Tensor, method: str = "closed form", k: int = 1) -> Clipped:
    """The sums and norms of a model's clipped gradients are the oracle's; about half of
    the examples are clipped."""
    loss = nn.CrossEntropyLoss(reduction="none")
    expected = gradients(model, loss, x, y, k)
    names = list(expected[0])
    lengths = torch.tensor([norm(g, names) for g in expected], dtype=torch.float64)
    clip = float(lengths.median())
    clipper = PerExample(model, nn.CrossEntropyLoss(), multiplicity=k)
    assert clipper.method(x, y).startswith(method), clipper.method(x, y)
    got = clipper(x, y, clip=clip)
    right = clipped(expected, {"all": names}, {"all": clip})
    assert list(got.sums) == names
    for name in names:
        assert got.sums[name].shape == right[name].shape
        torch.testing.assert_close(got.sums[name].double(), right[name], rtol=0, atol=2e-5 * clip, msg=name)
    ratio = got.norms["all"] / lengths
    assert float(ratio.min()) > 1 - 1e-5
    assert float(ratio.max()) < 1 + 1e-3
    return got
