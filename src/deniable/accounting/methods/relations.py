"""A silenced unit (zero-out) costs what an added or removed one does, save where its place in a lot costs
another unit its own.

Why: docs/theory/batches.md, "Zero-out" and "A cap and a silent unit". A pair that dominates adding or
     removing a unit is, for every node allowed under `Silenced` but a capped sample, the pair of a step with
     the unit's contribution against the same step without it; silencing gives just that.
"""

from __future__ import annotations

from dataclasses import dataclass

from deniable.loss import CappedSample, Loss, Number, Silenced, UniformlyCappedSample
from deniable.units import Relation


@dataclass(frozen=True)
class SilencedLot(Loss, abstract=True):
    """What `rewrite_silenced` writes for a capped sample under `Silenced`: with its coin up the silent unit
    takes its place and puts another out. It is a word between accounting's own functions, never stored."""

    rate: Number
    cap: int
    rows: int
    of: Loss

    @property
    def relation(self) -> Relation:
        return Relation.ADDED

    def __str__(self) -> str:
        return f"{CappedSample(self.rate, self.cap, self.rows, self.of)}, for a unit that is silenced"


def rewrite_silenced(loss: Loss) -> Loss:
    """`loss` with every `Silenced` part written for a unit that is added or removed: the
    same pairs, the same ε. A capped sample in it becomes a `SilencedLot`."""
    match loss:
        case Silenced(of):
            return _in_place(of)
        case _:
            return loss.with_children(rewrite_silenced)


def _in_place(loss: Loss) -> Loss:
    match loss:
        case CappedSample(rate, cap, rows, of) | UniformlyCappedSample(rate, cap, rows, of):
            return SilencedLot(rate, cap, rows, _in_place(of))
        case _:
            return loss.with_children(_in_place)
