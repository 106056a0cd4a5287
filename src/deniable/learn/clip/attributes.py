"""What a model holds beside its parameters, put back after every pass.

A model may keep something of its rows in an attribute: a running value, a counter, the last batch. What one
row left there would bear on the gradients of others, in this lot and in later ones, also where rows go
through the model one by one. So whatever can be reached from a module by its attributes, registers and hooks,
through modules, containers and tensors, is after each pass what it was before it; of parameters all but the
numbers, which the trainer looks after. Not reached is what lies elsewhere: a global name, a closure, an
object of a class of its own, an iterator.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import is_
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Where a tensor keeps its hooks: slots, which its dict of attributes does not have."""


class _Held(Protocol):
    """One object as it was."""

    def restore(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Owner:
    """An object with attributes: of which class it is, and which dict they are in."""

    value: Any
    kind: type
    own: dict[str, Any]

    def restore(self) -> None:
        if type(self.value) is not self.kind:
            object.__setattr__(self.value, "__class__", self.kind)
        if self.value.__dict__ is not self.own:
            object.__setattr__(self.value, "__dict__", self.own)


@dataclass(frozen=True, slots=True)
class _Dict:
    value: dict[Any, Any]
    keys: tuple[Any, ...]
    values: tuple[Any, ...]

    def restore(self) -> None:
        if not self.keys and not self.value:  # the usual case: no hooks
            return
        # By identity: what is equal may still differ (1 and True, 0.0 and -0.0).
        if _are_same(self.value, self.keys) and _are_same(dict.values(self.value), self.values):
            return
        # Not by the dict's own methods, which a subclass may forbid (`ModelOutput`).
        kind = OrderedDict if isinstance(self.value, OrderedDict) else dict
        kind.clear(self.value)
        for key, value in zip(self.keys, self.values, strict=True):
            kind.__setitem__(self.value, key, value)


@dataclass(frozen=True, slots=True)
class _Members:
    """A list, a set or a queue."""

    value: Any
    members: tuple[Any, ...]

    def restore(self) -> None:
        if _are_same(self.value, self.members):
            return
        # By the methods of the plain kind, as with a dict.
        match self.value:
            case list():
                list.__setitem__(self.value, slice(None), self.members)
            case set():
                set.clear(self.value)
                set.update(self.value, self.members)
            case deque():
                deque.clear(self.value)
                deque.extend(self.value, self.members)


@dataclass(frozen=True, slots=True)
class _Bytes:
    value: bytearray
    old: bytes

    def restore(self) -> None:
        self.value[:] = self.old


@dataclass(frozen=True, slots=True)
class _Array:
    value: np.ndarray[Any, Any]
    old: np.ndarray[Any, Any]

    def restore(self) -> None:
        self.value.setflags(write=True)
        if self.value.shape != self.old.shape:
            self.value.shape = self.old.shape
        np.copyto(self.value, self.old)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A tensor, but for its numbers and its dict of attributes."""

    value: Tensor
    requires_grad: bool
    grad_fn: Any
    grad: Tensor | None
    hooks: tuple[Any, ...]

    @classmethod
    def from_tensor(cls, value: Tensor) -> _Leaf:
        hooks = tuple(getattr(value, name, None) for name in HOOKS)
        return cls(value, value.requires_grad, value.grad_fn, _grad(value), hooks)

    def restore(self) -> None:
        value = self.value
        if value.grad_fn is not self.grad_fn:  # changed in place by what has a gradient: a graph of this row
            value.detach_()
        if value.requires_grad is not self.requires_grad:
            value.requires_grad_(self.requires_grad)
        if _grad(value) is not self.grad:
            value.grad = self.grad
        for name, hooks in zip(HOOKS, self.hooks, strict=True):
            if getattr(value, name, None) is not hooks:
                setattr(value, name, hooks)


@dataclass(frozen=True)
class Attributes:
    """All that the modules of a model hold beside their parameters' numbers."""

    contents: tuple[_Held, ...]
    tensors: tuple[tuple[Tensor, Tensor, Tensor], ...]
    """Each with its memory, which stays the same if the tensor is given another, and a copy."""

    @classmethod
    def snapshot(
        cls, model: nn.Module, previous: Attributes | None = None, *, criterion: object = None
    ) -> Attributes:
        """The attributes as they are now, those of a criterion that is a module among them. Copies of tensors
        that have not changed since `previous` are taken from there."""
        # A criterion may be a method of a module too.
        sources = (model, criterion, getattr(criterion, "__self__", None))
        roots = [source for source in sources if isinstance(source, nn.Module)]
        parameter_ids = {id(p) for root in roots for p in root.parameters()}
        copies = {} if previous is None else {id(each[0]): each for each in previous.tensors}
        contents: list[_Held] = []
        tensors: list[tuple[Tensor, Tensor, Tensor]] = []
        # Buffers by name too: those of a scripted module are in no dict.
        for value in _reach([*roots, *(b for root in roots for b in root.buffers())]):
            contents.extend(_holders(value))
            if isinstance(value, Tensor) and id(value) not in parameter_ids:
                tensors.append(_copy(value, copies))
        return cls(tuple(contents), tuple(tensors))

    def restore(self) -> None:
        for each in self.contents:
            each.restore()
        for value, memory, old in self.tensors:
            if _place(value) != _place(memory):
                value.data = memory
            # Always: what is written by `.data` or through numpy leaves no count of changes.
            with torch.inference_mode(memory.is_inference()), torch.no_grad():
                _flat(memory).copy_(old)


def _reach(roots: Iterable[Any]) -> Iterator[Any]:
    """All modules, containers and tensors that these lead to, each once."""
    waiting, known_ids = list(roots), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) not in known_ids and isinstance(value, _REACHED):
            known_ids.add(id(value))
            yield value
            waiting.extend(_list_parts(value))


_REACHED = (
    nn.Module,
    Tensor,
    dict,
    list,
    tuple,
    set,
    frozenset,
    deque,
    bytearray,
    np.ndarray,
    SimpleNamespace,
)


def _list_parts(value: Any) -> Iterator[Any]:
    own = getattr(value, "__dict__", None)
    if own is not None:
        yield own
    match value:
        case Tensor():
            yield _grad(value)
            yield from (getattr(value, name, None) for name in HOOKS)
        case dict():
            yield from dict.keys(value)
            yield from dict.values(value)
        case list() | tuple() | set() | frozenset() | deque():
            yield from value
        case np.ndarray() if value.dtype.kind == "O":
            yield from value.flat


def _holders(value: Any) -> Iterator[_Held]:
    match value:
        case nn.Module():
            yield _Owner(value, type(value), vars(value))
        case Tensor():
            yield _Leaf.from_tensor(value)
        case dict():
            yield _Dict(value, tuple(dict.keys(value)), tuple(dict.values(value)))
        case list() | set() | deque():
            yield _Members(value, tuple(value))
        case bytearray():
            yield _Bytes(value, bytes(value))
        case np.ndarray() if value.flags.writeable:
            yield _Array(value, value.copy())


def _are_same(values: Iterable[Any], old: tuple[Any, ...]) -> bool:
    return len(values) == len(old) and all(map(is_, values, old))  # type: ignore[arg-type]


def _grad(value: Tensor) -> Tensor | None:
    # That of a tensor inside a graph is none of its own, and PyTorch warns where it is asked for.
    return value.grad if value.is_leaf else None


def _copy(
    value: Tensor, copies: Mapping[int, tuple[Tensor, Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    # `.data` has a count of changes of its own: a graph that needs the tensor still goes back after a
    # restore. What is written to that of a sparse tensor does not reach the tensor.
    memory = value.data if value.layout is torch.strided else value
    same, _, old = copies.get(id(value), (None, memory, memory))
    if same is value and _is_same(_flat(memory), old):
        return value, memory, old
    return value, memory, _flat(memory).detach().clone()


def _place(value: Tensor) -> tuple[object, ...]:
    """Where a tensor's numbers are, and how they are read."""
    if value.layout is not torch.strided:
        return ()
    return value.data_ptr(), value.shape, value.stride(), value.dtype


def _flat(value: Tensor) -> Tensor:
    """The same memory, in which each number is once: what is expanded cannot be written as it is."""
    if value.layout is not torch.strided or not value.numel():
        return value
    pairs = tuple(zip(value.shape, value.stride(), strict=True))
    if all(step or size == 1 for size, step in pairs):
        return value
    return value.as_strided([size if step else 1 for size, step in pairs], value.stride())


def _is_same(value: Tensor, old: Tensor) -> bool:
    """Whether two tensors are alike in every bit: numbers that are equal may differ in their sign, and NaN is
    never equal."""
    if value.layout is not torch.strided or value.shape != old.shape or value.dtype != old.dtype:
        return False
    if any(each.is_conj() or each.is_neg() or each.is_quantized or each.is_meta for each in (value, old)):
        return False  # such bits cannot be read as they are, or there are none
    left, right = (each.reshape(-1).view(torch.uint8) for each in (value, old))
    return torch.equal(left, right)
