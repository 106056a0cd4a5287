"""Chains of dense layers, five clients at a time: one batched product where a loop makes five small ones.

Every stack has five places and every batch the same number of rows; what a client lacks
is filled with zeros of weight zero. So what is computed for one client has the same
shapes whoever its companions are. A client whose rows are used up while others still have
some is put aside until the epoch ends: steps of weight zero are no steps only as long as
its numbers are finite (0 · ∞ is no number), and how many there are is told by its
companions. All memory but that of the activations is taken once and used again by the
next stack: fresh memory costs more than the arithmetic on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from deniable.federated.train.recipe import LocalRecipe, Pupil

STACK = 5
"""Clients in one product. More do not fit the cache, fewer leave the products small."""
LESSON = 1 << 19
"""So many numbers of input are laid out at once: they are still in the cache when they are used."""
ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid)
HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_parametrizations",
)


@dataclass
class Dense:
    """One layer of all clients of a stack: weights (clients, out, in), bias (clients, 1,
    out), and what follows it."""

    weight: Tensor
    bias: Tensor | None
    activation: nn.Module | None
    x: Tensor | None = None
    output: Tensor | None = None

    @property
    def parts(self) -> list[Tensor]:
        if self.bias is None:
            return [self.weight]
        return [self.weight, self.bias]

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        out = x.bmm(self.weight.mT) if self.bias is None else torch.baddbmm(self.bias, x, self.weight.mT)
        self.output = _activate(self.activation, out)
        return self.output

    def backward(self, g: Tensor, deeper: bool) -> Tensor | None:
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
                return torch.ops.aten.threshold_backward(g, self.output, 0)  # type: ignore[no-any-return]
            case nn.Tanh():
                return torch.ops.aten.tanh_backward(g, self.output)  # type: ignore[no-any-return]
            case nn.Sigmoid():
                return torch.ops.aten.sigmoid_backward(g, self.output)  # type: ignore[no-any-return]
        return g


@dataclass(frozen=True)
class Layer:
    """A dense layer of the model: where its weight and bias lie in the flat vector, and what follows it."""

    shape: torch.Size
    weight: slice
    bias: slice | None
    activation: nn.Module | None

    @property
    def stop(self) -> int:
        """Where the next layer begins."""
        last = self.bias or self.weight
        return int(last.stop)

    def make_stack(self, sample: Tensor, width: int) -> Dense:
        """Room for this layer of `width` clients."""
        bias: Tensor | None = None
        if self.bias is not None:
            bias = sample.new_empty(width, 1, self.shape[0])
        return Dense(sample.new_empty(width, *self.shape), bias, self.activation)

    def parts_of(self, vector: Tensor) -> list[Tensor]:
        """This layer's part of a flat vector, in the shape of one place of a stack."""
        parts = [vector[self.weight].view(self.shape)]
        if self.bias is not None:
            parts.append(vector[self.bias].view(1, -1))
        return parts


@dataclass(frozen=True)
class Lesson:
    """Room for some batches of a whole stack: inputs, wanted outputs, and the learning
    rate over the rows of the batch; each by client and row."""

    x: Tensor
    targets: Tensor
    share: Tensor

    @classmethod
    def empty(cls, sample: Tensor, width: int, rows: int, features: int, classes: int) -> Lesson:
        return cls(*(sample.new_empty(width, rows, count) for count in (features, classes, 1)))

    def lay_out(self, place: int, pupil: Pupil, order: Tensor, batch: int, learning_rate: float) -> None:
        """A client's rows in this order, at its place. What it lacks is zero in every part: what was there
        before is another client's."""
        count = len(order)
        rows = pupil.x.flatten(1)
        if rows.dtype == self.x.dtype and rows.shape[1:] == self.x.shape[2:]:  # else `out` would be resized
            torch.index_select(rows, 0, order, out=self.x[place, :count])
        else:
            self.x[place, :count] = rows[order]
        for part in (self.x[place, count:], self.targets[place], self.share[place, count:]):
            part.zero_()
        self.targets[place, :count].scatter_(1, pupil.y[order].long()[:, None], 1.0)
        full = count - count % batch
        self.share[place, :full] = learning_rate / batch
        if full < count:
            self.share[place, full:count] = learning_rate / (count - full)

    def batches(self, size: int, rows: int) -> Iterator[Lesson]:
        for first in range(0, rows, size):
            yield Lesson(*(part[:, first : first + size] for part in (self.x, self.targets, self.share)))


@dataclass(frozen=True)
class Room:
    """What a stack is computed in."""

    chain: list[Dense]
    lesson: Lesson


@dataclass(frozen=True)
class StackWeights:
    """All weights of a stack, by layer, and those that the clients were sent."""

    parts: list[Tensor]
    origin: list[Tensor]

    def begin(self) -> None:
        for part, value in zip(self.parts, self.origin, strict=True):
            part.copy_(value)

    def pulls(self, share: Tensor, recipe: LocalRecipe) -> list[Tensor]:
        """FedProx: towards the weights that were sent, for clients that take this step."""
        if not recipe.proximal:
            return []
        factor = (share.amax(1, keepdim=True) > 0).to(share.dtype) * (recipe.learning_rate * recipe.proximal)
        return [factor * (part - value) for part, value in zip(self.parts, self.origin, strict=True)]

    def take_off(self, pulls: list[Tensor]) -> None:
        for part, pull in zip(self.parts, pulls, strict=False):
            part.sub_(pull)

    def copy_of(self, place: int) -> list[Tensor]:
        """The weights of one place as they are now."""
        return [part[place].clone() for part in self.parts]

    def restore(self, place: int, weights: list[Tensor]) -> None:
        for part, value in zip(self.parts, weights, strict=True):
            part[place] = value

    def change_of(self, place: int) -> Tensor:
        """How far the weights of one place are from where they began, as a flat vector."""
        pairs = zip(self.parts, self.origin, strict=True)
        return torch.cat([(part[place] - value).view(-1) for part, value in pairs])


@dataclass(frozen=True)
class Epoch:
    """One pass of a stack: how many rows each client has in it, and the weights of those that have used
    theirs up."""

    weights: StackWeights
    rows: list[int]
    final_weights: dict[int, list[Tensor]] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        return max(self.rows)

    def set_aside(self, first: int) -> None:
        """Before the batch that begins at row `first`: whoever has no row in it is done."""
        for place, count in enumerate(self.rows):
            if count <= first and place not in self.final_weights:
                self.final_weights[place] = self.weights.copy_of(place)

    def end(self) -> None:
        for place, weights in self.final_weights.items():
            self.weights.restore(place, weights)


@dataclass(frozen=True)
class Stacked:
    """Classifiers by cross-entropy that are chains of dense layers."""

    layers: tuple[Layer, ...]
    classes: int
    width: int = STACK
    _rooms: dict[tuple[torch.dtype, int, int], Room] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_model(cls, model: nn.Module, criterion: object, width: int = STACK) -> Stacked | None:
        """The chain that a model is; None if it is another kind of model."""
        pairs = dense_pairs(chain_of(model))
        if not is_plain(criterion) or not is_ordinary(model) or not pairs:
            return None
        layers = _layers(pairs)
        if layers[-1].stop != sum(p.numel() for p in model.parameters()):
            return None  # a layer that stands twice in the chain has its weights once
        return cls(layers, pairs[-1][0].out_features, width)

    def updates(self, start: Tensor, pupils: Iterable[Pupil], recipe: LocalRecipe) -> Iterator[Tensor]:
        # All rows at once have as many shapes as there are clients: then each is computed alone.
        width = self.width if recipe.batch is not None else 1
        waiting = iter(pupils)
        while stack := list(itertools.islice(waiting, width)):
            yield from self._stack(start, stack, recipe, width)

    @torch.no_grad()
    def _stack(self, start: Tensor, pupils: list[Pupil], recipe: LocalRecipe, width: int) -> list[Tensor]:
        size = max(recipe.size(len(pupil.x)) for pupil in pupils)
        rows_at_once = size * max(1, LESSON // (width * size * self.layers[0].shape[1]))
        room = self._room(start, width, rows_at_once)
        weights = StackWeights(
            [part for dense in room.chain for part in dense.parts],
            [part for layer in self.layers for part in layer.parts_of(start)],
        )
        weights.begin()
        for orders in zip(*(pupil.orders(recipe) for pupil in pupils), strict=True):
            epoch = Epoch(weights, [len(order) for order in orders])
            for first in range(0, epoch.longest, rows_at_once):
                self._lay_out(room.lesson, pupils, [order[first:] for order in orders], size, recipe)
                self._take_steps(room, epoch, pupils, recipe, range(first, first + rows_at_once, size))
            epoch.end()
        return [weights.change_of(place) for place in range(len(pupils))]

    def _take_steps(
        self, room: Room, epoch: Epoch, pupils: list[Pupil], recipe: LocalRecipe, begins: range
    ) -> None:
        """A step for each batch of the lesson, by the row at which it begins, until somebody waits no
        longer."""
        rows = min(len(begins) * begins.step, epoch.longest - begins.start)
        for first, batch in zip(begins, room.lesson.batches(begins.step, rows), strict=False):
            for pupil in pupils:
                pupil.go_on()
            epoch.set_aside(first)
            pulls = epoch.weights.pulls(batch.share, recipe)
            _step(room.chain, batch)
            epoch.weights.take_off(pulls)

    def _room(self, start: Tensor, width: int, rows: int) -> Room:
        """Taken once, and kept: one for each kind of number, width of a stack and length of a lesson, the
        last one of each width only."""
        key = (start.dtype, width, rows)
        if key not in self._rooms:
            for old in [old for old in self._rooms if old[1] == width]:
                del self._rooms[old]
            chain = [layer.make_stack(start, width) for layer in self.layers]
            features = self.layers[0].shape[1]
            self._rooms[key] = Room(chain, Lesson.empty(start, width, rows, features, self.classes))
        return self._rooms[key]

    def _lay_out(
        self, lesson: Lesson, pupils: list[Pupil], orders: list[Tensor], size: int, recipe: LocalRecipe
    ) -> None:
        rows = lesson.x.shape[1]
        for place, (pupil, order) in enumerate(zip(pupils, orders, strict=True)):
            lesson.lay_out(place, pupil, order[:rows], size, recipe.learning_rate)
        for part in (lesson.x, lesson.targets, lesson.share):
            part[len(pupils) :].zero_()


def _step(chain: list[Dense], batch: Lesson) -> None:
    out = batch.x
    for dense in chain:
        out = dense.forward(out)
    g: Tensor | None = torch.softmax(out, 2).sub_(batch.targets).mul_(batch.share)
    for depth in range(len(chain) - 1, -1, -1):
        assert g is not None
        g = chain[depth].backward(g, depth > 0)


def _activate(activation: nn.Module | None, output: Tensor) -> Tensor:
    """The activation, in the memory of what it is given: that is the layer's own."""
    match activation:
        case nn.ReLU():
            return output.relu_()
        case nn.Tanh():
            return output.tanh_()
        case nn.Sigmoid():
            return output.sigmoid_()
    return output


def _layers(pairs: list[tuple[nn.Linear, nn.Module | None]]) -> tuple[Layer, ...]:
    layers, place = [], 0
    for module, activation in pairs:
        weight, bias = slice(place, place + module.weight.numel()), None
        if module.bias is not None:
            bias = slice(weight.stop, weight.stop + module.out_features)
        layers.append(Layer(module.weight.shape, weight, bias, activation))
        place = layers[-1].stop
    return tuple(layers)


def dense_pairs(modules: Iterable[nn.Module]) -> list[tuple[nn.Linear, nn.Module | None]]:
    """The dense layers of a chain, each with its activation, the last one without; none if it is another
    chain."""
    pairs: list[tuple[nn.Linear, nn.Module | None]] = []
    for module in itertools.dropwhile(is_flatten, modules):
        if type(module) is nn.Linear:
            pairs.append((module, None))
        elif type(module) in ACTIVATIONS and pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], module)
        else:
            return []
    if pairs and pairs[-1][1] is not None:
        return []
    return pairs


def is_flatten(module: nn.Module) -> bool:
    """Whether it makes one row of each example, and nothing else."""
    return type(module) is nn.Flatten and module.start_dim == 1 and module.end_dim == -1


def chain_of(model: nn.Module) -> Iterator[nn.Module]:
    """The modules of a chain in order; a module that is no `nn.Sequential` stands for itself."""
    if type(model) is nn.Sequential:
        for part in model:
            yield from chain_of(part)
    else:
        yield model


def is_ordinary(model: nn.Module) -> bool:
    """Whether its layers do what their classes say: no hooks, no forward of their own. Whatever else happens
    in a layer an ordinary loop finds out, and a chain run by hand does not."""
    return not any(
        "forward" in vars(module) or any(getattr(module, name, None) for name in HOOKS)
        for module in model.modules()
    )


def is_plain(criterion: object) -> bool:
    """Whether it is the mean of −ln p over rows and nothing else."""
    return (
        type(criterion) is nn.CrossEntropyLoss
        and criterion.weight is None
        and criterion.reduction == "mean"
        and criterion.label_smoothing == 0.0
        and criterion.ignore_index < 0
        and is_ordinary(criterion)
    )
