"""A silenced unit (zero-out) costs what an added or removed one does: the tree without its `Silenced` nodes.

Why: docs/theory/batches.md, "Zero-out". A pair that dominates adding or removing a unit
     is, for every node allowed under
`Silenced`, the pair of a step with the unit's contribution against the same step without
it; silencing gives just that.
"""

from __future__ import annotations

from deniable.loss import CappedSample, Loss, Sampled, Silenced


def as_added(loss: Loss) -> Loss:
    """`loss` with every `Silenced` part written for a unit that is added or removed: the
    same pairs, the same ε."""
    match loss:
        case Silenced(of):
            return _without_cap(of)
        case _:
            return loss.with_children(as_added)


def _without_cap(loss: Loss) -> Loss:
    """A silent unit keeps its place in the lot, so a cap displaces nobody on its
    account: a plain Poisson sample."""
    match loss:
        case CappedSample(rate, _, _, of):
            return Sampled(rate, _without_cap(of))
        case _:
            return loss.with_children(_without_cap)
