"""Chains of dense layers, five clients at a time: one batched product where a loop makes five small ones.

Every stack has five places and every batch the same number of rows; what a client lacks
is filled with zeros of weight zero. So what is computed for one client has the same
shapes whoever its companions are, and does not depend on them. All memory but that of the
activations is taken once and used again by the next stack: fresh memory costs more than
the arithmetic on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from deniable.federated.train.recipe import LocalRecipe, Pupil

STACK = 5
"""Clients in one product. More do not fit the cache, fewer leave the products small."""
LESSON = 1 << 19
"""So many numbers of input are laid out at once: they are still in the cache when they are used."""
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

    @property
    def parts(self) -> list[Tensor]:
        return [self.weight] if self.bias is None else [self.weight, self.bias]

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

    def stacked(self, like: Tensor, width: int) -> Dense:
        """Room for this layer of `width` clients."""
        bias = None if self.bias is None else like.new_empty(width, 1, self.shape[0])
        return Dense(like.new_empty(width, *self.shape), bias, self.activation)

    def parts_of(self, vector: Tensor) -> list[Tensor]:
        """This layer's part of a flat vector, in the shape of one place of a stack."""
        weight = vector[self.weight].view(self.shape)
        return [weight] if self.bias is None else [weight, vector[self.bias].view(1, -1)]


@dataclass(frozen=True)
class Lesson:
    """Room for some batches of a whole stack: inputs, wanted outputs, and the learning
    rate over the rows of the batch; each by client and row."""

    x: Tensor
    wanted: Tensor
    share: Tensor

    @classmethod
    def empty(cls, like: Tensor, width: int, rows: int, features: int, classes: int) -> Lesson:
        return cls(*(like.new_empty(width, rows, count) for count in (features, classes, 1)))

    def lay_out(self, place: int, pupil: Pupil, order: Tensor, batch: int, learning_rate: float) -> None:
        """A client's rows in this order, at its place. What it lacks is zero in every part: what was there
        before is another client's."""
        count = len(order)
        rows = pupil.x.flatten(1)
        if rows.dtype == self.x.dtype and rows.shape[1:] == self.x.shape[2:]:  # else `out` would be resized
            torch.index_select(rows, 0, order, out=self.x[place, :count])
        else:
            self.x[place, :count] = rows[order]
        for part in (self.x[place, count:], self.wanted[place], self.share[place, count:]):
            part.zero_()
        self.wanted[place, :count].scatter_(1, pupil.y[order].long()[:, None], 1.0)
        whole = count - count % batch
        self.share[place, :whole] = learning_rate / batch
        if whole < count:
            self.share[place, whole:count] = learning_rate / (count - whole)

    def batches(self, size: int, rows: int) -> Iterator[Lesson]:
        for first in range(0, rows, size):
            yield Lesson(*(part[:, first : first + size] for part in (self.x, self.wanted, self.share)))


@dataclass(frozen=True)
class Room:
    """What a stack is computed in."""

    chain: list[Dense]
    lesson: Lesson


@dataclass(frozen=True)
class Stacked:
    """Classifiers by cross-entropy that are chains of dense layers."""

    layers: tuple[Layer, ...]
    classes: int
    width: int = STACK
    _rooms: dict[tuple[torch.dtype, int, int], Room] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, model: nn.Module, criterion: object, width: int = STACK) -> Stacked | None:
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
        activations = [gap[0] if gap else None for gap in gaps]
        return cls(_layers(linear, activations), linear[-1].out_features, width)

    def updates(self, start: Tensor, pupils: Iterable[Pupil], recipe: LocalRecipe) -> Iterator[Tensor]:
        # All rows at once have as many shapes as there are clients: then each is computed alone.
        width = self.width if recipe.batch is not None else 1
        waiting = iter(pupils)
        while stack := list(itertools.islice(waiting, width)):
            yield from self._stack(start, stack, recipe, width)

    @torch.no_grad()
    def _stack(self, start: Tensor, pupils: list[Pupil], recipe: LocalRecipe, width: int) -> list[Tensor]:
        size = max(recipe.size(len(pupil.x)) for pupil in pupils)
        longest = max(len(pupil.x) for pupil in pupils)
        steps_at_once = max(1, LESSON // (width * size * self.layers[0].shape[1]))
        room = self._room(start, width, steps_at_once * size)
        origin = [part for layer in self.layers for part in layer.parts_of(start)]
        parts = [part for dense in room.chain for part in dense.parts]
        for part, value in zip(parts, origin, strict=True):
            part.copy_(value)
        plans = [pupil.orders(recipe.epochs) for pupil in pupils]
        for epoch, first in itertools.product(range(recipe.epochs), range(0, longest, steps_at_once * size)):
            self._lay_out(room.lesson, pupils, [plan[epoch][first:] for plan in plans], size, recipe)
            for batch in room.lesson.batches(size, min(steps_at_once * size, longest - first)):
                pulls = _pulls(parts, origin, batch.share, recipe)
                _step(room.chain, batch)
                for part, pull in zip(parts, pulls, strict=False):
                    part.sub_(pull)
        return [_moved(parts, origin, place) for place in range(len(pupils))]

    def _room(self, start: Tensor, width: int, rows: int) -> Room:
        """Taken once, and kept: one for each kind of number, width of a stack and length of a lesson, the
        last one of each width only."""
        key = (start.dtype, width, rows)
        if key not in self._rooms:
            for old in [old for old in self._rooms if old[1] == width]:
                del self._rooms[old]
            chain = [layer.stacked(start, width) for layer in self.layers]
            features = self.layers[0].shape[1]
            self._rooms[key] = Room(chain, Lesson.empty(start, width, rows, features, self.classes))
        return self._rooms[key]

    def _lay_out(
        self, lesson: Lesson, pupils: list[Pupil], orders: list[Tensor], size: int, recipe: LocalRecipe
    ) -> None:
        rows = lesson.x.shape[1]
        for place, (pupil, order) in enumerate(zip(pupils, orders, strict=True)):
            lesson.lay_out(place, pupil, order[:rows], size, recipe.learning_rate)
        for part in (lesson.x, lesson.wanted, lesson.share):
            part[len(pupils) :].zero_()


def _step(chain: list[Dense], batch: Lesson) -> None:
    out = batch.x
    for dense in chain:
        out = dense.forward(out)
    g: Tensor | None = torch.softmax(out, 2).sub_(batch.wanted).mul_(batch.share)
    for depth in range(len(chain) - 1, -1, -1):
        assert g is not None
        g = chain[depth].back(g, depth > 0)


def _pulls(
    parts: Sequence[Tensor], origin: Sequence[Tensor], share: Tensor, recipe: LocalRecipe
) -> list[Tensor]:
    """FedProx: towards the weights that were sent, for clients that take this step."""
    if not recipe.proximal:
        return []
    factor = (share.amax(1, keepdim=True) > 0).to(share.dtype) * (recipe.learning_rate * recipe.proximal)
    return [factor * (part - value) for part, value in zip(parts, origin, strict=True)]


def _moved(parts: Sequence[Tensor], origin: Sequence[Tensor], place: int) -> Tensor:
    """How far the weights of one place are from where they began, as a flat vector."""
    return torch.cat([(part[place] - value).view(-1) for part, value in zip(parts, origin, strict=True)])


def _activated(activation: nn.Module, out: Tensor) -> Tensor:
    """In the memory of what it is given: that is the layer's own."""
    match activation:
        case nn.ReLU():
            return out.relu_()
        case nn.Tanh():
            return out.tanh_()
    return out.sigmoid_()


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
