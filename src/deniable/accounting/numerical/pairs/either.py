"""One of several pairs, drawn with known weights, and told which: H is the mean of their curves.

It bounds any mixture of them from above (joint convexity: not being told reveals no more).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deniable.accounting.numerical.pairs.continuous import Atoms, Pair, Shape, Swapped, swap
from deniable.accounting.numerical.pairs.finite import Sided
from deniable.accounting.numerical.rounding import Array, Masses


@dataclass(frozen=True)
class Either(Shape):
    """(weight, pair) for each; the weights sum to 1, or to less, `left` being what is revealed outright."""

    parts: tuple[tuple[float, Pair], ...]
    left: float = 0.0

    @property
    def sided(self) -> bool:
        return any(pair.sided for _, pair in self.parts)

    def turned(self) -> Pair:
        """The other direction. Parts that know their masses up to a factor are turned one by one."""
        if not self.sided:
            return self
        if any(isinstance(pair, Sided) for _, pair in self.parts):
            return Either(tuple((weight, swap(pair)) for weight, pair in self.parts), self.left)
        return Swapped(self)

    @property
    def one_way(self) -> bool:
        return any(pair.one_way for _, pair in self.parts)

    @property
    def smooth(self) -> bool:
        return any(pair.smooth for _, pair in self.parts)

    @property
    def slack(self) -> float:
        return self.left + sum(weight * pair.slack for weight, pair in self.parts)

    @property
    def edge(self) -> float | None:
        return max(self.parts, key=lambda part: part[0])[1].edge

    @property
    def atoms(self) -> Atoms:
        parts = [(weight, pair.atoms) for weight, pair in self.parts]
        losses = np.concatenate([at for _, (at, _, _) in parts])
        order = np.argsort(losses, kind="stable")
        p = np.concatenate([weight * at for weight, (_, at, _) in parts])
        q = np.concatenate([weight * at for weight, (_, _, at) in parts])
        return losses[order], p[order], q[order]

    def cells(self, losses: Array) -> Masses:
        p, q = np.zeros(len(losses) - 1), np.zeros(len(losses) - 1)
        for weight, pair in self.parts:
            one_p, one_q = pair.cells(losses)
            p, q = p + weight * one_p, q + weight * one_q
        return p, q

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        # The tail of a pair counts by its weight, and all parts share `tail`.
        spans = [pair.span(min(tail / (len(self.parts) * part), 1.0), weight) for part, pair in self.parts]
        return min(low for low, _ in spans), max(high for _, high in spans)

    def grid(self, tail: float) -> Array:
        return np.unique(np.concatenate([pair.grid(min(tail / part, 1.0)) for part, pair in self.parts]))

    def tails(self, loss: float, above: bool) -> tuple[float, float]:
        logs = [(math.log(weight), pair.tails(loss, above)) for weight, pair in self.parts]
        return (
            float(np.logaddexp.reduce([w + p for w, (p, _) in logs])),
            float(np.logaddexp.reduce([w + q for w, (_, q) in logs])),
        )
