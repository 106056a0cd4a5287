"""Chains with convolutions, one client after the other: no graph, weights moved in
place, each layer in its fastest layout.

A first convolution of few channels is a product of patches; pools and other convolutions run with channels
last, their kernels too, so that nothing is laid out anew between them; where a ReLU is followed by a pool the
pool comes first: the largest of the clipped is the clipped largest; a large dense layer is used and moved
strip by strip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deniable.federated.train.recipe import LocalRecipe, Pupil, flat, unflat
from deniable.federated.train.stacked import chain_of, is_flatten, is_ordinary, is_plain

FEW_CHANNELS = 4
"""Up to so many input channels patches are faster than the library's convolution."""
STRIP = 64
"""Rows of a dense layer that are used and moved while they are in a core's cache."""


class TrainingLink(Protocol):
    """One layer. `back` gets gradients that already hold the learning rate, moves its
    weights, and hands gradients on."""

    def forward(self, x: Tensor) -> Tensor: ...

    def backward(self, g: Tensor, deeper: bool) -> Tensor: ...


@dataclass
class PatchLink:
    """The first convolution: each window is a row, and the kernel a matrix (window, channels). It hands
    nothing on."""

    weight: Tensor
    bias: Tensor | None
    padding: tuple[int, int]
    places: Tensor | None = None
    room: Tensor | None = None
    columns: Tensor | None = None

    @property
    def kernel(self) -> Tensor:
        return self.weight.view(len(self.weight), -1).t()

    def forward(self, x: Tensor) -> Tensor:
        out_channels, channels, height, width = self.weight.shape
        top, left = self.padding
        canvas = F.pad(x, (left, left, top, top))
        rows, cols = canvas.shape[2] - height + 1, canvas.shape[3] - width + 1
        if self.places is None:
            self.places = _windows(canvas.shape, (channels, height, width), (rows, cols))
        if self.room is None or len(self.room) < len(x):
            self.room = x.new_empty(len(x), len(self.places))
        windows = torch.index_select(canvas.flatten(1), 1, self.places, out=self.room[: len(x)])
        self.columns = windows.view(len(x) * rows * cols, channels * height * width)
        bias = x.new_zeros(out_channels) if self.bias is None else self.bias
        out = torch.addmm(bias, self.columns, self.kernel)
        return out.view(len(x), rows, cols, out_channels).permute(0, 3, 1, 2)

    def backward(self, g: Tensor, deeper: bool) -> Tensor:
        rows = g.permute(0, 2, 3, 1).reshape(-1, len(self.weight))
        assert self.columns is not None
        self.kernel.addmm_(self.columns.t(), rows, alpha=-1)
        if self.bias is not None:
            self.bias.sub_(rows.sum(0))
        return g


def _room(sample: Tensor, shape: torch.Size) -> Tensor:
    """Memory for a layer's weights; a kernel's with channels last, as its convolution reads it."""
    if len(shape) == 4:
        return sample.new_empty(shape).to(memory_format=torch.channels_last)
    return sample.new_empty(shape)


def _by_window(kernel: Tensor) -> Tensor:
    """The same shape, in memory by window and then by channel, as the product of patches reads it."""
    return kernel.new_empty(kernel[0].numel(), len(kernel)).t().view(kernel.shape)


def _windows(size: torch.Size, kernel: tuple[int, int, int], shape: tuple[int, int]) -> Tensor:
    """Where each number of each window lies in a flat padded image."""
    channels, height, width = kernel
    rows, cols = size[2], size[3]
    corner = torch.arange(shape[0])[:, None] * cols + torch.arange(shape[1])
    inner = (
        torch.arange(channels)[:, None, None] * rows * cols
        + torch.arange(height)[:, None] * cols
        + torch.arange(width)
    )
    return (corner.reshape(-1, 1) + inner.reshape(1, -1)).flatten()


@dataclass
class ConvolutionLink:
    """Any other convolution, by the library, with channels last."""

    weight: Tensor
    bias: Tensor | None
    settings: tuple[Any, ...]
    x: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.x = x.contiguous(memory_format=torch.channels_last)
        out: Tensor = torch.convolution(self.x, self.weight, self.bias, *self.settings)
        return out

    def backward(self, g: Tensor, deeper: bool) -> Tensor:
        sizes = None if self.bias is None else [len(self.weight)]
        output_mask = (deeper, True, self.bias is not None)
        wide = g.contiguous(memory_format=torch.channels_last)
        assert self.x is not None
        inner: Tensor
        inner, kernel, bias = torch.ops.aten.convolution_backward(
            wide, self.x, self.weight, sizes, *self.settings, output_mask
        )
        self.weight.sub_(kernel)
        if self.bias is not None:
            self.bias.sub_(bias)
        if not deeper:
            return g
        return inner


@dataclass
class LinearLink:
    weight: Tensor
    bias: Tensor | None
    x: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        return F.linear(x, self.weight, self.bias)

    def backward(self, g: Tensor, deeper: bool) -> Tensor:
        assert self.x is not None
        inner = torch.zeros_like(self.x)
        for strip, part in zip(torch.split(self.weight, STRIP), torch.split(g, STRIP, 1), strict=True):
            if deeper:
                inner.addmm_(part, strip)
            strip.addmm_(part.t(), self.x, alpha=-1)
        if self.bias is not None:
            self.bias.sub_(g.sum(0))
        return inner


@dataclass
class ReluLink:
    """In the memory of what it is given: no link keeps what it handed on."""

    output: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.output = x.relu_()
        return self.output

    def backward(self, g: Tensor, deeper: bool) -> Tensor:
        assert self.output is not None
        if self.output.dim() == 4 and self.output.is_contiguous(memory_format=torch.channels_last):
            g = g.contiguous(
                memory_format=torch.channels_last
            )  # two layouts in one pass cost ten times as much
        inner: Tensor = torch.ops.aten.threshold_backward(g, self.output, 0)
        return inner


@dataclass
class PoolLink:
    settings: tuple[Any, ...]
    x: Tensor | None = None
    places: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.x = x.contiguous(memory_format=torch.channels_last)
        out: Tensor
        out, self.places = torch.ops.aten.max_pool2d_with_indices(self.x, *self.settings)
        return out

    def backward(self, g: Tensor, deeper: bool) -> Tensor:
        wide = g.contiguous(memory_format=torch.channels_last)
        inner: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
            wide, self.x, *self.settings, self.places
        )
        return inner


@dataclass
class FlattenLink:
    shape: torch.Size | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.shape = x.shape
        return x.flatten(1)

    def backward(self, g: Tensor, deeper: bool) -> Tensor:
        assert self.shape is not None
        return g.reshape(self.shape)


@dataclass(frozen=True)
class Convolutional:
    """Classifiers by cross-entropy that are chains of convolutions, ReLUs, pools and dense layers."""

    modules: tuple[nn.Module, ...]
    shapes: tuple[torch.Size, ...]

    @classmethod
    def from_model(cls, model: nn.Module, criterion: object) -> Convolutional | None:
        """The chain that a model is; None if it is another kind of model."""
        if not is_plain(criterion) or not is_ordinary(model):
            return None
        modules = tuple(chain_of(model))
        if not all(map(_is_known, modules)) or not any(isinstance(m, nn.Conv2d) for m in modules):
            return None
        if not isinstance(modules[-1], nn.Linear) or not isinstance(modules[0], nn.Conv2d):
            return None
        shapes = tuple(p.shape for p in model.parameters())
        count = sum(1 + (m.bias is not None) for m in modules if isinstance(m, nn.Conv2d | nn.Linear))
        if count != len(shapes):
            return None
        return cls(modules, shapes)

    @torch.no_grad()
    def updates(self, start: Tensor, pupils: Iterable[Pupil], recipe: LocalRecipe) -> Iterator[Tensor]:
        weights = [_room(start, shape) for shape in self.shapes]
        if _is_patched(self.modules[0]):
            weights[0] = _by_window(weights[0])
        links = list(self._links(weights))
        for pupil in pupils:
            for own, value in zip(weights, unflat(start, self.shapes), strict=True):
                own.copy_(value)
            self._train(links, weights, start, pupil, recipe)
            yield flat(weights).sub_(start)

    def _train(
        self,
        links: list[TrainingLink],
        weights: list[Tensor],
        start: Tensor,
        pupil: Pupil,
        recipe: LocalRecipe,
    ) -> None:
        if not len(pupil.x):
            return
        labels = pupil.y.long()
        for rows in pupil.batches(recipe):
            pulls = self._pulls(weights, start, recipe)
            _step(links, pupil.x[rows], labels[rows], recipe.learning_rate)
            for own, pull in zip(weights, pulls, strict=False):
                own.sub_(pull)

    def _pulls(self, weights: list[Tensor], start: Tensor, recipe: LocalRecipe) -> list[Tensor]:
        """FedProx: towards the weights that were sent."""
        if not recipe.proximal:
            return []
        factor = recipe.learning_rate * recipe.proximal
        return [
            factor * (own - origin) for own, origin in zip(weights, unflat(start, self.shapes), strict=True)
        ]

    def _links(self, weights: list[Tensor]) -> Iterator[TrainingLink]:
        waiting = iter(weights)
        later: list[TrainingLink] = []
        for k, module in enumerate(self.modules):
            if (
                isinstance(module, nn.ReLU)
                and k + 1 < len(self.modules)
                and isinstance(self.modules[k + 1], nn.MaxPool2d)
            ):
                later.append(ReluLink())
                continue
            yield _link(module, waiting, first=k == 0)
            yield from later
            later.clear()


def _step(links: list[TrainingLink], x: Tensor, y: Tensor, learning_rate: float) -> None:
    out = x
    for link in links:
        out = link.forward(out)
    g = torch.softmax(out, 1).sub_(F.one_hot(y, out.shape[1])).mul_(learning_rate / len(x))
    for depth in range(len(links) - 1, -1, -1):
        g = links[depth].backward(g, depth > 0)


def _is_known(module: nn.Module) -> bool:
    if type(module) is nn.Conv2d:
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if type(module) is nn.MaxPool2d:
        return not module.return_indices
    return is_flatten(module) or type(module) in (nn.Linear, nn.ReLU)


def _link(module: nn.Module, weights: Iterator[Tensor], *, first: bool) -> TrainingLink:
    match module:
        case nn.Conv2d():
            return _convolution(module, weights, first)
        case nn.Linear():
            return LinearLink(*_take_weights(module, weights))
        case nn.MaxPool2d():
            settings = (module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode)
            return PoolLink(tuple(_pair(value) for value in settings))
        case nn.Flatten():
            return FlattenLink()
    return ReluLink()


def _take_weights(module: nn.Conv2d | nn.Linear, weights: Iterator[Tensor]) -> tuple[Tensor, Tensor | None]:
    """A layer's weight and bias, off the list of all."""
    weight = next(weights)
    if module.bias is None:
        return weight, None
    return weight, next(weights)


def _convolution(module: nn.Conv2d, weights: Iterator[Tensor], first: bool) -> TrainingLink:
    weight, bias = _take_weights(module, weights)
    if first and _is_patched(module):
        top, left = _pair(module.padding)
        return PatchLink(weight, bias, (top, left))
    settings = (module.stride, module.padding, module.dilation, False, (0, 0), module.groups)
    return ConvolutionLink(weight, bias, settings)


def _is_patched(module: nn.Module) -> bool:
    """Whether a first convolution is a product of patches."""
    if not isinstance(module, nn.Conv2d) or module.in_channels > FEW_CHANNELS:
        return False
    return module.stride == (1, 1) and module.dilation == (1, 1) and module.groups == 1


def _pair(value: Any) -> Any:
    """A number stands for two equal ones; a flag for itself."""
    if isinstance(value, tuple | bool):
        return value
    return value, value
