"""Models that are chains of layers, run forward and backward by hand.

A chain is an `nn.Sequential`, perhaps of others, whose trainable parameters all belong to linear layers and
convolutions. No graph is built for it as a whole, no call is looked at, and a tensor that nothing needs any
more is overwritten. What is written on the tape is the same as by `cover`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional as F

from deniable.learn.clip.closed_forms import taps
from deniable.learn.clip.closed_forms.tape import Part, Saved, Tape, Uncovered
from deniable.learn.clip.guard import model_guard, refuse_own_backward
from deniable.learn.clip.known import does_more, is_row_by_row


class Link(Protocol):
    """One layer."""

    @property
    def owns_output(self) -> bool:
        """Whether what it returns forward is memory of its own that it does not need again."""

    @property
    def owns_gradient(self) -> bool:
        """The same of what it returns backward."""

    def forward(self, x: Tensor, is_ours: bool) -> Tensor: ...

    def backward(self, g: Tensor, is_ours: bool, deeper: bool) -> Tensor | None: ...


def forward(links: list[Link], x: Tensor) -> Tensor:
    fresh = False
    for link in links:
        x, fresh = link.forward(x, fresh), link.owns_output
    return x


def backward(links: list[Link], g: Tensor | None) -> None:
    """Go from the last link to the first that is trained; before it nothing is needed."""
    first = next(i for i, link in enumerate(links) if isinstance(link, Linear | Convolution))
    fresh = False
    for i in range(len(links) - 1, first - 1, -1):
        if g is not None:
            g, fresh = links[i].backward(g, fresh, i > first), links[i].owns_gradient


def links(model: nn.Module, tape: Tape) -> list[Link]:
    """The model's links. Raises `Uncovered` if it is no chain."""
    return [_link(module, tape) for module in _flat(model)]


def _flat(model: nn.Module) -> Iterator[nn.Module]:
    if does_more(model):
        raise Uncovered("a module has hooks, or does more than its class")
    if type(model) is nn.Sequential:
        for part in model:
            yield from _flat(part)
    else:
        yield model


def _link(module: nn.Module, tape: Tape) -> Link:
    if type(module) in INPLACE:
        return INPLACE[type(module)]()
    if type(module) is nn.Linear and tape.tracks(module.weight, module.bias):
        return Linear(tape, tape.part(module.weight), _optional(tape, module.bias))
    if type(module) is nn.Conv2d and tape.tracks(module.weight, module.bias) and _zeros_around(module):
        geometry = (module.stride, module.padding, module.dilation, module.groups)
        return Convolution(tape, tape.part(module.weight, last=True), _optional(tape, module.bias), geometry)
    if type(module) is nn.MaxPool2d and not module.return_indices:
        return Pool((module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode))
    if type(module) is nn.Flatten:
        return Flatten(module.start_dim, module.end_dim)
    if (module._parameters or module._modules) and tape.tracks(*module.parameters()):
        raise Uncovered("the model is no chain of linear layers and convolutions")
    return Plain(module, tape)


def _zeros_around(module: nn.Conv2d) -> bool:
    return module.padding_mode == "zeros" and not isinstance(module.padding, str)


def _optional(tape: Tape, bias: Tensor | None) -> Part | None:
    return None if bias is None else tape.part(bias)


@dataclass
class Linear:
    tape: Tape
    weight: Part
    bias: Part | None
    x: Saved = field(init=False)
    owns_output = owns_gradient = True

    def forward(self, x: Tensor, is_ours: bool) -> Tensor:
        self.tape.expect(x)
        self.x = Saved(x)
        if self.bias is None or x.dim() != 2:
            return F.linear(x, self.weight.value, None if self.bias is None else self.bias.value)
        out = self.tape.room.take((len(x), len(self.weight.value)), x)
        return torch.addmm(self.bias.value, x, self.weight.value.t(), out=out)

    def backward(self, g: Tensor, is_ours: bool, deeper: bool) -> Tensor | None:
        return taps.linear_back(self.tape, self.weight, self.bias, self.x.read(), g, deeper)


@dataclass
class Convolution:
    tape: Tape
    weight: Part
    bias: Part | None
    geometry: tuple[Any, ...]
    saved_pair: tuple[Saved, Tensor] = field(init=False)
    """The input and the kernel."""
    owns_output = owns_gradient = True

    def forward(self, x: Tensor, is_ours: bool) -> Tensor:
        if x.dim() != 4:
            raise Uncovered("a convolution's input has no axis of examples")
        self.tape.expect(x)
        out, x, kernel = taps.convolve(x, self.weight, self.bias, *self.geometry)
        self.saved_pair = Saved(x), kernel
        return out

    def backward(self, g: Tensor, is_ours: bool, deeper: bool) -> Tensor | None:
        x, kernel = self.saved_pair[0].read(), self.saved_pair[1]
        return taps.convolve_back(self.tape, self.weight, self.bias, g, deeper, x, kernel, *self.geometry)


@dataclass
class Inplace:
    """A function of each number whose slope its result tells: it replaces what it is
    given, if that is nobody else's."""

    value: Callable[..., Tensor]
    slope: Callable[..., Tensor]
    """From the gradient and the result; `grad_input` is where it goes."""
    output: Saved = field(init=False)
    owns_output = owns_gradient = False

    def forward(self, x: Tensor, is_ours: bool) -> Tensor:
        out = self.value(x, out=x if is_ours else None)
        self.output = Saved(out)
        return out

    def backward(self, g: Tensor, is_ours: bool, deeper: bool) -> Tensor | None:
        return self.slope(g, self.output.read(), grad_input=g if is_ours else torch.empty_like(g))


@dataclass
class Pool:
    """The largest number of each window."""

    settings: tuple[Any, ...]
    x: Saved = field(init=False)
    places: Tensor = field(init=False)
    owns_output = owns_gradient = True

    def forward(self, x: Tensor, is_ours: bool) -> Tensor:
        out: Tensor
        out, self.places = torch.ops.aten.max_pool2d_with_indices(x, *self.settings)
        self.x = Saved(x)
        return out

    def backward(self, g: Tensor, is_ours: bool, deeper: bool) -> Tensor | None:
        x = self.x.read()
        gx: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(g, x, *self.settings, self.places)
        return gx


@dataclass
class Flatten:
    start: int
    end: int
    shape: torch.Size = field(init=False)
    owns_output = owns_gradient = False

    def forward(self, x: Tensor, is_ours: bool) -> Tensor:
        self.shape = x.shape
        if self.start % x.dim() == 0:
            raise Uncovered("the axis of examples is flattened into another")
        return x.flatten(self.start, self.end)

    def backward(self, g: Tensor, is_ours: bool, deeper: bool) -> Tensor | None:
        return g.reshape(self.shape)


@dataclass
class Plain:
    """A module that is not trained: its own small graph. One that is not known to treat rows one by one runs
    under vmap, where it cannot do otherwise."""

    module: nn.Module
    tape: Tape
    x: Tensor = field(init=False)
    output: Tensor = field(init=False)
    owns_output = owns_gradient = False

    def forward(self, x: Tensor, is_ours: bool) -> Tensor:
        self.x = x.detach()
        with torch.enable_grad(), model_guard():
            rows = self.x.requires_grad_(x.is_floating_point())
            self.output = self.module(rows) if is_row_by_row(self.module, x) else self._map(rows)
        if self.output.requires_grad:
            refuse_own_backward(self.output)
        return self.output.detach()

    def _map(self, rows: Tensor) -> Tensor:
        """The module, for each example by itself."""
        self.tape.expect(rows)
        examples = torch.unflatten(rows, 0, (self.tape.examples, self.tape.multiplicity))
        output: Tensor = vmap(self.module, randomness="different")(examples)
        if output.shape[1:2] != (self.tape.multiplicity,):
            raise Uncovered("the first axis of a layer's output is not that of the examples")
        return output.flatten(0, 1)

    def backward(self, g: Tensor, is_ours: bool, deeper: bool) -> Tensor | None:
        if not self.output.requires_grad:
            return None
        gradient: Tensor | None = torch.autograd.grad(self.output, self.x, g, allow_unused=True)[0]
        return gradient


def _relu(g: Tensor, output: Tensor, grad_input: Tensor) -> Tensor:
    back: Tensor = torch.ops.aten.threshold_backward.grad_input(g, output, 0, grad_input=grad_input)
    return back


def _clamp(x: Tensor, out: Tensor | None) -> Tensor:
    return torch.clamp_min(x, 0, out=out)


INPLACE: dict[type[nn.Module], Callable[[], Link]] = {
    nn.ReLU: lambda: Inplace(_clamp, _relu),
    nn.Tanh: lambda: Inplace(torch.tanh, torch.ops.aten.tanh_backward.grad_input),
    nn.Sigmoid: lambda: Inplace(torch.sigmoid, torch.ops.aten.sigmoid_backward.grad_input),
}
