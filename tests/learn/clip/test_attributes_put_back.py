"""Rows one by one: whatever a row leaves in the model or the criterion, the others do not find it."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deniable.learn.clip import PerExample
from deniable.learn.clip.attributes import Attributes

ROWS, FEATURES, KEY = 6, 3, 7.4321


class Rememberer(nn.Module):
    """Turns its output round once it has `seen` a row that made it `note` that."""

    def __init__(self, note: Callable[[Any], Any], seen: Callable[[Any], bool]) -> None:
        super().__init__()
        self.note, self.seen, self.linear = note, seen, nn.Linear(FEATURES, 2)
        self.register_buffer("buffer", torch.zeros(()))
        self.plain, self.pair, self.lists = torch.zeros(()), (torch.zeros(()),), ([],)  # type: ignore[var-annotated]
        self.queue, self.array, self.space = deque([print]), np.zeros(2), SimpleNamespace(seen=0)
        self.act, self.parts = nn.ReLU(), nn.ModuleList([nn.Identity()])
        self.modules_held, self.functions = [nn.Identity()], {"print": print}
        self.weights = [torch.zeros(1, requires_grad=True)]

    def forward(self, x: Tensor) -> Tensor:
        before = self.seen(self)
        if bool((x[:, 0] == KEY).any()):
            self.note(self)
        out: Tensor = self.linear(x)
        return -out if before else out


def data() -> tuple[Tensor, Tensor]:
    x = torch.ones(ROWS, FEATURES)
    x[0, 0] = KEY
    return x, torch.zeros(ROWS, dtype=torch.int64)


def influence(model: nn.Module, criterion: Any = None) -> float:
    """How far the sum moves without the first row, over the clip."""
    x, y = data()
    sums = []
    for start in (0, 1):
        # Each with a model of its own: one that remembers the first time would be as wrong the second time.
        clipper = PerExample(*copy.deepcopy((model, criterion or nn.CrossEntropyLoss())), microbatch=1)
        clipper.check(torch.zeros_like(x), y)
        clipped = clipper(x[start:], y[start:], clip=1.0)
        sums.append(torch.cat([total.flatten() for total in clipped.sums.values()]))
    return float((sums[0] - sums[1]).norm())


NOTES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], bool]]] = {
    "buffer by data": (lambda m: m.buffer.data.fill_(1), lambda m: bool(m.buffer)),
    "buffer through numpy": (lambda m: m.buffer.detach().numpy().fill(1), lambda m: bool(m.buffer)),
    "tensor by data": (lambda m: m.plain.data.fill_(1), lambda m: bool(m.plain)),
    "other memory": (lambda m: setattr(m.plain, "data", torch.ones(2)), lambda m: m.plain.dim() == 1),
    "tensor in a tuple": (lambda m: m.pair[0].fill_(1), lambda m: bool(m.pair[0])),
    "list in a tuple": (lambda m: m.lists[0].append(1), lambda m: bool(m.lists[0])),
    "array": (lambda m: m.array.fill(1), lambda m: bool(m.array[0])),
    "submodule": (lambda m: setattr(m, "act", nn.Tanh()), lambda m: type(m.act) is nn.Tanh),
    "class of a submodule": (
        lambda m: setattr(m.act, "__class__", nn.Tanh),
        lambda m: type(m.act) is nn.Tanh,
    ),
    "list of modules": (lambda m: m.parts.append(nn.Identity()), lambda m: len(m.parts) > 1),
    "hook": (lambda m: m.register_forward_hook(lambda *_: None), lambda m: bool(m._forward_hooks)),
    "hook on a weight": (
        lambda m: m.linear.weight.register_hook(lambda g: -g),
        lambda m: bool(m.linear.weight._backward_hooks),
    ),
    "list with a module": (lambda m: m.modules_held.append(1), lambda m: len(m.modules_held) > 1),
    "module in a list": (
        lambda m: setattr(m.modules_held[0], "seen", 1),
        lambda m: hasattr(m.modules_held[0], "seen"),
    ),
    "dict with a function": (lambda m: m.functions.update(seen=1), lambda m: "seen" in m.functions),
    "queue with a function": (lambda m: m.queue.append(1), lambda m: len(m.queue) > 1),
    "list with a weight": (lambda m: m.weights.append(1), lambda m: len(m.weights) > 1),
    "attribute of a weight": (
        lambda m: setattr(m.linear.weight, "seen", 1),
        lambda m: hasattr(m.linear.weight, "seen"),
    ),
    "attribute of a buffer": (
        lambda m: setattr(m.buffer, "seen", 1),
        lambda m: hasattr(m.buffer, "seen"),
    ),
    "gradient": (
        lambda m: setattr(m.linear.weight, "grad", torch.zeros_like(m.linear.weight)),
        lambda m: m.linear.weight.grad is not None,
    ),
    "graph in a buffer": (lambda m: m.buffer.add_(m.linear.bias.sum()), lambda m: m.buffer.requires_grad),
    "namespace": (lambda m: setattr(m.space, "seen", 1), lambda m: bool(m.space.seen)),
    "frozen weight": (lambda m: m.linear.weight.requires_grad_(False), lambda m: False),
    "frozen weight, then an error": (lambda m: m.linear.requires_grad_(False).missing, lambda m: False),
}


@pytest.mark.parametrize("name", NOTES)
def test_no_row_finds_what_another_one_left(name: str) -> None:
    torch.manual_seed(0)
    assert influence(Rememberer(*NOTES[name])) <= 1.001


class RememberingLoss(nn.Module):
    """A criterion that turns round once it has seen one output."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def forward(self, out: Tensor, y: Tensor) -> Tensor:
        before, self.seen = self.seen, self.seen or bool(((out[:, 1] - KEY).abs() < 1e-4).any())
        losses = F.cross_entropy(out, y, reduction="none")
        return -losses if before else losses


def test_attributes_of_a_criterion_are_put_back() -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))  # type: ignore[operator]
        model[0].bias.zero_()  # type: ignore[operator]
    assert influence(model, RememberingLoss()) <= 1.001


def test_a_weight_frozen_for_a_row_is_thawed() -> None:
    model, (x, y) = Rememberer(*NOTES["frozen weight"]), data()
    clipper = PerExample(model, nn.CrossEntropyLoss(), microbatch=1)
    clipper.check(torch.zeros_like(x), y)
    clipper(x, y, clip=1.0)
    assert all(p.requires_grad for p in model.parameters())


def test_what_is_expanded_has_a_gradient_or_was_made_in_inference_mode_is_put_back() -> None:
    model: Any = nn.Linear(2, 2)
    with torch.inference_mode():
        model.fast = torch.zeros(2)
    model.wide = torch.zeros(2, 1).expand(2, 3)
    model.root = model.weight.exp()
    model.nothing = torch.zeros(0, 3)
    held = Attributes.snapshot(model)
    model.fast.numpy().fill(1)
    model.wide.data[:, :1].fill_(1)
    right = model.root.detach().clone()
    model.root.data.zero_()
    held.restore()
    assert model.fast.count_nonzero() == 0
    assert model.wide.count_nonzero() == 0
    assert torch.equal(model.root, right)
    # The graph that the attribute is part of can still be gone back through.
    model.root.sum().backward()
    assert model.weight.grad is not None


def test_a_sign_and_a_nan_are_kept() -> None:
    model: Any = nn.Module()
    model.table = torch.tensor([0.0, torch.nan])
    first = Attributes.snapshot(model)
    model.table[0] = -0.0
    second = Attributes.snapshot(model, first)
    model.table.zero_()
    second.restore()
    assert bool(model.table[0].signbit())
    assert bool(model.table[1].isnan())


def test_tensors_of_other_kinds_are_put_back() -> None:
    model: Any = nn.Module()
    model.sparse, model.rows = torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr()
    model.turned = torch.ones(2, dtype=torch.complex64).conj()
    held = Attributes.snapshot(model, Attributes.snapshot(model))
    model.sparse._values().zero_()
    model.rows.values().zero_()
    model.turned.data.zero_()
    held.restore()
    assert torch.equal(model.sparse.to_dense(), torch.eye(2))
    assert torch.equal(model.rows.to_dense(), torch.eye(2))
    assert torch.equal(model.turned, torch.ones(2, dtype=torch.complex64))
