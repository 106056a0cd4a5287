"""What a model holds beside its parameters, put back after every pass.

A model may keep something of its rows in an attribute: a running value, a counter, the last batch. What one
row left there would bear on the gradients of others, in this lot and in later ones, also where rows go
through the model one by one. So attributes of modules (numbers and tensors in lists, dicts and sets among
them) and buffers are after each pass what they were before it. Not reached is what lies elsewhere: a global
name, a closure, an object of a class of its own.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

REGISTERS = ("_buffers", "_parameters")
CONTAINERS = (list, dict, set, deque, bytearray, np.ndarray)
ATOMS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, np.generic)


@dataclass(frozen=True)
class _Held:
    """One module: its attributes, what its registers name, and copies of what could be changed in place."""

    module: nn.Module
    values: dict[str, Any]
    registers: dict[str, dict[str, Any]]
    containers: dict[str, Any]

    @classmethod
    def from_module(cls, module: nn.Module) -> _Held:
        values = dict(vars(module))
        containers = {
            name: copy.deepcopy(value)
            for name, value in values.items()
            if isinstance(value, CONTAINERS) and name not in _OWN and _is_plain(value)
        }
        return cls(module, values, {name: dict(values[name]) for name in REGISTERS}, containers)

    def restore(self) -> None:
        own = vars(self.module)
        if len(own) != len(self.values) or any(own.get(k, own) is not v for k, v in self.values.items()):
            own.clear()
            own.update(self.values)
        for name, entries in self.registers.items():
            register = own[name]
            if len(register) != len(entries) or any(register.get(k) is not v for k, v in entries.items()):
                register.clear()
                register.update(entries)
        own.update((name, copy.deepcopy(value)) for name, value in self.containers.items())

    def tensors(self) -> Iterator[Tensor]:
        """Buffers, and tensors that are attributes."""
        yield from (value for value in self.registers["_buffers"].values() if value is not None)
        yield from (value for value in self.values.values() if isinstance(value, Tensor))


@dataclass(frozen=True)
class Attributes:
    """All that the modules of a model hold beside their parameters."""

    contents: tuple[_Held, ...]
    tensors: tuple[tuple[Tensor, int, Tensor], ...]
    """Each with its version, which grows when it is changed, and a copy."""

    @classmethod
    def snapshot(cls, model: nn.Module, previous: Attributes | None = None) -> Attributes:
        """The attributes as they are now. Copies of tensors that have not changed since `previous` are taken
        from there."""
        contents = tuple(_Held.from_module(module) for module in model.modules())
        copies = (
            {}
            if previous is None
            else {id(value): (value, version, old) for value, version, old in previous.tensors}
        )
        unique = {id(value): value for each in contents for value in each.tensors()}
        return cls(
            contents, tuple(_copy(value, copies) for value in unique.values() if not value.is_inference())
        )

    def restore(self) -> None:
        for each in self.contents:
            each.restore()
        for value, version, old in self.tensors:
            if value._version != version:
                with torch.no_grad():
                    value.copy_(old)


_OWN = frozenset(vars(nn.Module()))
"""What every module keeps for itself: registers and hooks."""


def _copy(value: Tensor, copies: Mapping[int, tuple[Tensor, int, Tensor]]) -> tuple[Tensor, int, Tensor]:
    same, version, old = copies.get(id(value), (None, -1, value))
    if same is value and version == value._version:
        return value, version, old
    return value, value._version, value.detach().clone()


def _is_plain(value: Any) -> bool:
    """Numbers, words and tensors without a gradient, however nested: a copy of it means the same."""
    match value:
        case Tensor():
            return not value.requires_grad
        case Mapping():
            return all(map(_is_plain, value.keys())) and all(map(_is_plain, value.values()))
        case np.ndarray():
            return bool(value.dtype.kind != "O")
        case bytearray():
            return True
        case list() | tuple() | set() | frozenset() | deque():
            return all(map(_is_plain, value))
    return isinstance(value, ATOMS)
