"""The zero-out relation: a unit that falls silent, but is still there."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.errors import InvalidLoss
from deniable.loss.fields import check_loss, check_relation
from deniable.loss.node import WITHOUT_REPLACEMENT
from deniable.loss.tree import Loss, Sampled
from deniable.units import Relation


@dataclass(frozen=True)
class Silenced(Loss):
    """`of`, for a unit that is silenced (zero-out): its contribution becomes zero, while it stays in every
    sample, keeps its place in a lot and adds its own noise.

    `of` is written for a unit that is added or removed, with noise in multiples of what
    silencing one unit moves. The relation never mixes with the two others in one tree.
    Reference: Kairouz et al. 2021 (DP-FTRL, Definition 1.1).
    """

    of: Loss

    def __post_init__(self) -> None:
        check_loss(self, "of")
        check_relation(self, Relation.ADDED, self.of)
        if _has_fixed_size(self.of):
            raise InvalidLoss(
                "A sample of fixed size has no zero-out form of its own: a sample with the silent unit and "
                f"one without it differ in another unit too ({self.of}). State it with replace=True for "
                "Unit.row(replace=True), of which silencing is a case."
            )

    @property
    def relation(self) -> Relation:
        return Relation.SILENCED

    def __str__(self) -> str:
        return f"{self.of}, for a unit that is silenced"


def _has_fixed_size(loss: Loss) -> bool:
    return any(isinstance(node, Sampled) and node.scheme is WITHOUT_REPLACEMENT for node in loss.walk())
