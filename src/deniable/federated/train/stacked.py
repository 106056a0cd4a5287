"""Chains of dense layers, ten clients at a time: one batched product where a loop makes ten small ones.

Every stack has ten places and every batch the same number of rows; what a client lacks
is filled with zeros of weight zero. So what is computed for one client has the same
shapes whoever its companions are, and does not depend on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deniable.federated.train.recipe import LocalRecipe, Pupil

STACK = 10
"""Clients in one product. More do not fit the cache, fewer leave the products small."""
ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid)


@dataclass
class Dense:
    """One layer of all clients of a stack: weights (clients, out, in), bias (clients, 1,
    out), and what follows it."""

    weight: Tensor
    bias: Tensor | None
    activation: nn.Module | None
    x: Tensor | None = None
    out: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        out = x.bmm(self.weight.mT) if self.bias is None else torch.baddbmm(self.bias, x, self.weight.mT)
        self.out = out if self.activation is None else _activated(self.activation, out)
        return self.out

    def back(self, g: Tensor, deeper: bool) -> Tensor | None:
        """Move the weights by the gradient `g` of the outputs (its sign and rate are in
        it), and hand on the inputs' gradient."""
        g = self._through_activation(g)
        inner = g.bmm(self.weight) if deeper else None
        assert self.x is not None
        self.weight.baddbmm_(g.mT, self.x, alpha=-1)
        if self.bias is not None:
            self.bias.sub_(g.sum(1, keepdim=True))
        return inner

    def _through_activation(self, g: Tensor) -> Tensor:
        match self.activation:
            case nn.ReLU():
                return torch.ops.aten.threshold_backward(g, self.out, 0)  # type: ignore[no-any-return]
            case nn.Tanh():
                return torch.ops.aten.tanh_backward(g, self.out)  # type: ignore[no-any-return]
            case nn.Sigmoid():
                return torch.ops.aten.sigmoid_backward(g, self.out)  # type: ignore[no-any-return]
        return g


@dataclass(frozen=True)
class Layer:
    """A dense layer of the model: where its weight and bias lie in the flat vector, and what follows it."""

    shape: torch.Size
    weight: slice
    bias: slice | None
    activation: nn.Module | None


@dataclass(frozen=True)
class Lesson:
    """Batches of a whole stack by step: inputs, wanted outputs, and the learning rate
    over the rows of the batch."""

    x: Tensor
    wanted: Tensor
    share: Tensor


@dataclass(frozen=True)
class Stacked:
    """Classifiers by cross-entropy that are chains of dense layers."""

    layers: tuple[Layer, ...]
    classes: int

    @classmethod
    def of(cls, model: nn.Module, criterion: object) -> Stacked | None:
        """The chain that a model is; None if it is another kind of model."""
        if type(criterion) is not nn.CrossEntropyLoss or not is_plain(criterion):
            return None
        modules = list(chain_of(model))
        if not modules or not all(
            isinstance(m, nn.Linear | nn.Flatten | nn.ReLU | nn.Tanh | nn.Sigmoid) for m in modules
        ):
            return None
        dense = [k for k, module in enumerate(modules) if isinstance(module, nn.Linear)]
        starts_flat = all(isinstance(m, nn.Flatten) for m in modules[: dense[0]]) if dense else False
        gaps = [modules[a + 1 : b] for a, b in zip(dense, [*dense[1:], len(modules)], strict=True)]
        if (
            not starts_flat
            or any(len(gap) > 1 or any(isinstance(m, nn.Flatten) for m in gap) for gap in gaps)
            or gaps[-1]
        ):
            return None
        linear = [m for m in modules if isinstance(m, nn.Linear)]
        if len(list(model.parameters())) != sum(1 + (m.bias is not None) for m in linear):
            return None
        return cls(_layers(linear, [gap[0] if gap else None for gap in gaps]), linear[-1].out_features)

    def updates(self, start: Tensor, pupils: Iterable[Pupil], recipe: LocalRecipe) -> Iterator[Tensor]:
        # All rows at once have as many shapes as there are clients: then each is computed alone.
        width = STACK if recipe.batch is not None else 1
        waiting = iter(pupils)
        while stack := list(itertools.islice(waiting, width)):
            yield from self._stack(start, stack, recipe, width)

    @torch.no_grad()
    def _stack(self, start: Tensor, pupils: list[Pupil], recipe: LocalRecipe, width: int) -> Iterator[Tensor]:
        weights = start.repeat(width, 1)
        chain = [self._dense(layer, weights) for layer in self.layers]
        plans = [pupil.orders(recipe.epochs) for pupil in pupils]
        for epoch in range(recipe.epochs):
            lesson = self._lesson(pupils, plans, epoch, recipe, start.new_zeros(width))
            for step in range(len(lesson.x)):
                self._step(chain, lesson, step, recipe, start)
        for place in range(len(pupils)):
            yield torch.cat([part[place].reshape(-1) for dense in chain for part in _parts(dense)]) - start

    def _lesson(
        self, pupils: list[Pupil], plans: list[list[Tensor]], epoch: int, recipe: LocalRecipe, places: Tensor
    ) -> Lesson:
        """One epoch of all clients of a stack, batch by batch; what a client lacks has weight zero."""
        size = max(recipe.size(len(pupil.x)) for pupil in pupils)
        steps = max(-(-len(pupil.x) // size) for pupil in pupils)
        x = places.new_zeros(steps, len(places), size, self.layers[0].shape[1])
        targets = places.new_zeros(steps, len(places), size, self.classes)
        share = places.new_zeros(steps, len(places), size, 1)
        for place, (pupil, orders) in enumerate(zip(pupils, plans, strict=True)):
            inputs, labels = pupil.x.flatten(1), pupil.y.long()
            for step, rows in enumerate(torch.split(orders[epoch], size) if len(inputs) else ()):
                x[step, place, : len(rows)] = inputs[rows]
                targets[step, place, : len(rows)].scatter_(1, labels[rows, None], 1.0)
                share[step, place, : len(rows)] = recipe.learning_rate / len(rows)
        return Lesson(x, targets, share)

    def _step(
        self, chain: list[Dense], lesson: Lesson, step: int, recipe: LocalRecipe, start: Tensor
    ) -> None:
        out = lesson.x[step]
        for dense in chain:
            out = dense.forward(out)
        g: Tensor | None = torch.softmax(out, 2).sub_(lesson.wanted[step]).mul_(lesson.share[step])
        pulls = self._pulls(chain, lesson.share[step], recipe, start)
        for depth in range(len(chain) - 1, -1, -1):
            assert g is not None
            g = chain[depth].back(g, depth > 0)
        for part, pull in pulls:
            part.sub_(pull)

    def _pulls(
        self, chain: list[Dense], share: Tensor, recipe: LocalRecipe, start: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        """FedProx: towards the weights that were sent, for clients that take this step."""
        if not recipe.proximal:
            return []
        factor = (share.amax(1, keepdim=True) > 0).to(start.dtype) * (recipe.learning_rate * recipe.proximal)
        fresh = [part for layer in self.layers for part in _parts(self._dense(layer, start[None]))]
        parts = [part for dense in chain for part in _parts(dense)]
        return [(part, factor * (part - origin)) for part, origin in zip(parts, fresh, strict=True)]

    def _dense(self, layer: Layer, weights: Tensor) -> Dense:
        count = len(weights)
        weight = weights[:, layer.weight].reshape(count, *layer.shape).contiguous()
        bias = None if layer.bias is None else weights[:, layer.bias].reshape(count, 1, -1).contiguous()
        return Dense(weight, bias, layer.activation)


def _activated(activation: nn.Module, out: Tensor) -> Tensor:
    """In the memory of what it is given: that is the layer's own."""
    match activation:
        case nn.ReLU():
            return out.relu_()
        case nn.Tanh():
            return out.tanh_()
    return out.sigmoid_()


def _parts(dense: Dense) -> list[Tensor]:
    return [dense.weight] if dense.bias is None else [dense.weight, dense.bias]


def _layers(linear: list[nn.Linear], activations: list[nn.Module | None]) -> tuple[Layer, ...]:
    layers, place = [], 0
    for module, activation in zip(linear, activations, strict=True):
        end = place + module.weight.numel()
        bias = None if module.bias is None else slice(end, end + module.out_features)
        layers.append(Layer(module.weight.shape, slice(place, end), bias, activation))
        place = end if bias is None else bias.stop
    return tuple(layers)


def chain_of(model: nn.Module) -> Iterator[nn.Module]:
    """The modules of a chain in order; a module that is no `nn.Sequential` stands for itself."""
    if type(model) is nn.Sequential:
        for part in model:
            yield from chain_of(part)
    else:
        yield model


def is_plain(criterion: nn.CrossEntropyLoss) -> bool:
    """Whether it is the mean of −ln p over rows and nothing else."""
    return criterion.weight is None and criterion.reduction == "mean" and criterion.label_smoothing == 0.0
