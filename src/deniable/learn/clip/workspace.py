"""Memory for what a pass over a model computes and the next one computes again."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ALIGNED = 64
"""Bytes that processors load at once. PyTorch's own memory begins at multiples of it, and how a product is
rounded may depend on that."""

Bytes = NDArray[np.uint8]


class Workspace:
    """Memory that one pass after another writes to: pages that are asked of the system for every pass cost
    more than what is computed there.

    Nothing that somebody still holds is written again. Each piece is lent as an array of its own, and every
    tensor made from it keeps that array alive: a view, what autograd saved for its way back, what the code of
    a model or a criterion put away. Where such an array is still there when a pass begins, its place is left
    out. So no caller has to know who else may hold a tensor. Each loan also has a storage of its own, so that
    writing to one does not count as a change of another (autograd counts changes by storage).
    """

    def __init__(self) -> None:
        self._block, self._used_bytes = _empty_bytes(0), 0
        self._loans: list[_Loan] = []
        self._open_loans: list[_Loan] = []
        """What earlier passes took and somebody has not let go."""

    def begin(self) -> None:
        """Begin a pass, which writes where earlier passes wrote, as far as nobody holds it."""
        if self._used_bytes > len(self._block):
            self._loans.clear()  # whoever holds some of the old block has it alone from here on
            self._block = _empty_bytes(0)  # the old one goes before the new one comes
            self._block = _empty_bytes(self._used_bytes)
        self._open_loans = [loan for loan in self._loans if loan.array() is not None]
        self._loans, self._used_bytes = self._open_loans.copy(), 0

    def take(self, shape: Sequence[int], sample: Tensor) -> Tensor:
        """Memory for numbers of the kind of `sample`, which hold anything."""
        if sample.device.type != "cpu":
            return sample.new_empty(shape)
        start = self._used_bytes
        stop = start + math.prod(shape) * sample.element_size()
        self._used_bytes = -(-stop // ALIGNED) * ALIGNED
        if stop > len(self._block) or any(
            loan.start < stop and start < loan.stop for loan in self._open_loans
        ):
            return sample.new_empty(shape)
        array = self._block[start:stop]
        self._loans.append(_Loan(start, stop, weakref.ref(array)))
        return torch.from_numpy(array).view(sample.dtype).view(tuple(shape))


class _Loan(NamedTuple):
    """A piece of the block, from byte `start` up to `stop`, as the array that it was lent as."""

    start: int
    stop: int
    array: weakref.ref[Bytes]


def large(size: int, sample: Tensor) -> Tensor:
    """So many numbers of the kind of `sample` that hold anything. On the CPU numpy asks the system for large
    pages, of which there are few, PyTorch for small ones."""
    if sample.device.type != "cpu":
        return sample.new_empty(size)
    return torch.from_numpy(_empty_bytes(size * sample.element_size())).view(sample.dtype)


def _empty_bytes(size: int) -> Bytes:
    memory = np.empty(size + ALIGNED, np.uint8)
    start = -memory.ctypes.data % ALIGNED
    return memory[start : start + size]
