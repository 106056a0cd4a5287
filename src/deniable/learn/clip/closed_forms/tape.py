"""Where taps write what backward brings them: one term per use of a trainable parameter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor, nn

from deniable.learn.clip.closed_forms.terms import One, Term, combined
from deniable.learn.clip.rounding import summing
from deniable.learn.clip.workspace import Workspace


class Uncovered(Exception):
    """No closed form covers this use of a parameter; the caller falls back to gradients
    held example by example."""


class Reordered(Uncovered):
    """Examples are put into an order of the model's own, which may be theirs in another pass."""

    def __init__(self) -> None:
        super().__init__("examples are put into an order of the model's own")


class Saved:
    """A tensor that is needed later as it is now. Tensors count how often they were changed in place, and
    what was changed in between is not used: the caller falls back, as it does for what is not covered."""

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor, self._version = tensor, _version(tensor)

    def read(self) -> Tensor:
        if _version(self._tensor) != self._version:
            raise Uncovered("a tensor that the way back needs was overwritten")
        return self._tensor


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


@dataclass(frozen=True)
class ParameterKey:
    """A parameter, or some of its rows (attention packs three matrices), in the layout its taps sum in.

    `last` says that the second axis was moved to the end: convolutions sum with channels last. `single` is
    one matrix of a stack."""

    name: str
    start: int = 0
    stop: int | None = None
    last: bool = False
    single: bool = False

    def shape(self, parameter: Tensor) -> tuple[int, int]:
        """The matrix p × d that the terms of this key sum into."""
        if self.single:
            return parameter.shape[1], parameter.shape[2]
        first, *rest = parameter.shape or (1,)
        return len(range(first)[self.start : self.stop]), math.prod(rest)

    @property
    def whole(self) -> bool:
        return self.start == 0 and self.stop is None and not self.single

    def place(self, total: Tensor, into: Tensor) -> None:
        """Add the summed matrix where it belongs in the parameter's own layout."""
        target = _axes(into)[self.start : self.stop]
        if self.last:
            target += total.view(target.shape[0], *target.shape[2:], target.shape[1]).movedim(-1, 1)
        else:
            target += total.view_as(target)


def _axes(x: Tensor) -> Tensor:
    """x with at least one axis."""
    return x if x.dim() else x.view(1)


@dataclass(frozen=True)
class Part:
    """A weight as a tap sees it: its numbers, and the key under which its gradient is
    written if it is trained."""

    value: Tensor
    key: ParameterKey | None

    @property
    def trained(self) -> bool:
        return self.key is not None


@dataclass(frozen=True)
class Tape:
    """The uses of all trainable parameters in one pass over n examples of `multiplicity` rows each."""

    parameters: Mapping[str, nn.Parameter]
    examples: int
    multiplicity: int = 1
    uses: dict[ParameterKey, list[One]] = field(default_factory=dict)
    saved: list[Saved] = field(default_factory=list)
    """The tensors of all terms."""
    names: dict[int, str] = field(default_factory=dict)
    for_all: set[str] = field(default_factory=set)
    """Tables of which rows are looked up for all examples at once."""
    room: Workspace = field(default_factory=Workspace)

    def __post_init__(self) -> None:
        self.names.update({id(p): name for name, p in self.parameters.items()})

    @property
    def rows(self) -> int:
        return self.examples * self.multiplicity

    def part(self, value: Tensor, last: bool = False) -> Part:
        name = self.names.get(id(value))
        if name is None and value.requires_grad:
            raise Uncovered("a weight is computed from a parameter")
        return Part(value.detach(), None if name is None else ParameterKey(name, last=last))

    def tracks(self, *values: object) -> bool:
        """Whether one of them is a trainable parameter of the model."""
        return any(id(value) in self.names for value in values)

    def expect(self, x: Tensor) -> None:
        """The first axis must be that of the examples. The probe has seen two sizes, so
        it is no coincidence."""
        if x.dim() < 2 or x.shape[0] != self.rows:
            raise Uncovered("the first axis of a layer's input is not that of the examples")

    def fold(self, x: Tensor) -> Tensor:
        """(rows, …, d) as (examples, positions, d): the rows of one example are more positions."""
        return (
            x.reshape(self.examples, -1, x.shape[-1])
            if x.numel()
            else x.new_zeros(self.examples, 1, x.shape[-1])
        )

    def write(self, part: Part, term: One) -> None:
        if part.key is not None:
            self.uses.setdefault(part.key, []).append(term)
            self.saved.extend(Saved(value) for value in vars(term).values() if isinstance(value, Tensor))

    @torch.no_grad()
    def terms(self) -> dict[ParameterKey, Term]:
        """One term per key; keys of one parameter must not overlap."""
        for value in self.saved:
            value.read()
        for name in {key.name for key in self.uses}:
            _disjoint(key for key in self.uses if key.name == name)
        return {
            key: combined(uses, self._like(key), self.room) if uses[1:] else uses[0]
            for key, uses in self.uses.items()
        }

    def _like(self, key: ParameterKey) -> Tensor:
        parameter = self.parameters[key.name]
        kind = summing(parameter.dtype)
        return torch.empty(key.shape(parameter), dtype=kind, device=parameter.device)


def _disjoint(keys: Iterable[ParameterKey]) -> None:
    sequence = sorted(keys, key=lambda key: key.start)
    for before, after in pairwise(sequence):
        if before.stop is None or before.stop > after.start or before.last != after.last:
            raise Uncovered(f"{before.name} is used in ways that overlap")
