"""Rows that go through a model together, and which of them are one example."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from deniable.learn.nests import length, map_parts, take_apart, tensors


@dataclass(frozen=True)
class Batch:
    """A nest of tensors with a row for each place of their first axis; `multiplicity`
    rows in turn are one example.

    An example's loss is the sum of its rows' losses times `weights`, or their mean where there are none. The
    values of rows that are `public` (made up) may be read before anything is charged.
    """

    rows: Any
    multiplicity: int = 1
    weights: Tensor | None = None
    public: bool = False

    @cached_property
    def examples(self) -> int:
        return length(self.rows) // self.multiplicity

    @property
    def device(self) -> torch.device:
        return tensors(self.rows)[0].device

    def to(self, device: torch.device) -> Batch:
        """The same rows there."""
        if device == self.device:
            return self
        weights = None if self.weights is None else self.weights.to(device)
        return replace(self, rows=map_parts(lambda part: part.to(device), self.rows), weights=weights)

    def to_autograd(self) -> Batch:
        """The same rows for autograd, which saves no tensor that was made in inference mode: those are
        copied."""
        if not any(part.is_inference() for part in tensors(self.rows)):
            return self
        return replace(
            self, rows=map_parts(lambda part: part.clone() if part.is_inference() else part, self.rows)
        )

    def part(self, start: int, stop: int) -> Batch:
        """The examples from `start` up to `stop`."""
        own = slice(start * self.multiplicity, stop * self.multiplicity)
        weights = None if self.weights is None else self.weights[own]
        return replace(self, rows=map_parts(lambda part: part[own], self.rows), weights=weights)

    def fill(self, size: int, example: Any) -> Batch:
        """The batch with the rows of a made-up example in the places that are missing to so many examples."""
        missing = size - self.examples
        if missing <= 0:
            return self
        structure, parts = take_apart(self.rows)
        # A made-up row that is known to go through: zeros might be words or lengths that the model refuses.
        ends = [each.repeat(missing, *[1] * (each.dim() - 1)) for each in tensors(example)]
        rows = structure.build([torch.cat(pair) for pair in zip(parts, ends, strict=True)])
        weights = self.weights
        if weights is not None:
            weights = torch.cat([weights, weights.new_zeros(missing * self.multiplicity)])
        return replace(self, rows=rows, weights=weights)

    def with_rows(self, rows: Any) -> Batch:
        """Other rows, put together in the same way."""
        return replace(self, rows=rows)

    def split(self, values: Tensor) -> Tensor:
        """(examples, multiplicity, …)."""
        return torch.unflatten(values, 0, (-1, self.multiplicity))

    def shares(self, losses: Tensor) -> Tensor:
        """What each row's loss is multiplied by in its example's."""
        if self.weights is None:
            return torch.full_like(losses, 1 / self.multiplicity)
        return self.weights.to(losses)

    def of_examples(self, losses: Tensor) -> Tensor:
        """The loss of each example, from those of its rows."""
        if self.weights is None:
            return losses if self.multiplicity == 1 else self.split(losses).mean(1)
        return self.split(losses * self.weights.to(losses)).sum(1)


def shape_of(batch: Batch) -> tuple[object, ...]:
    """Shape and type of each part of a row, and how many rows are one example."""
    parts = ((tuple(part.shape[1:]), part.dtype) for part in tensors(batch.rows))
    return (*parts, batch.multiplicity)
