"""A silenced unit (zero-out) costs what an added or removed one does: the tree without its `Silenced` nodes.

Why: docs/theory/batches.md, "Zero-out". A pair that dominates adding or removing a unit is, for every node allowed under
`Silenced`, the pair of a step with the unit's contribution against the same step without it; silencing gives just that.
"""

from __future__ import annotations

from dataclasses import replace

from deniable.loss import CappedSample, Composed, Grouped, Loss, Parallel, Repeated, Sampled, Selected, Silenced


def as_added(loss: Loss) -> Loss:
    """`loss` with every `Silenced` part written for a unit that is added or removed: the same pairs, the same ε."""
    match loss:
        case Silenced(of):
            return _without_cap(of)
        case Composed(parts) | Parallel(parts, _):
            inner = tuple(map(as_added, parts))
            unchanged = all(new is old for new, old in zip(inner, parts, strict=True))
            return loss if unchanged else replace(loss, parts=inner)
        case Repeated(_, of) | Grouped(_, of) | Selected(of, _) | Sampled(_, of):
            plain = as_added(of)
            return loss if plain is of else replace(loss, of=plain)
        case _:
            return loss


def _without_cap(loss: Loss) -> Loss:
    """A silent unit keeps its place in the lot, so a cap displaces nobody on its account: a plain Poisson sample."""
    match loss:
        case CappedSample(rate, _, _, of):
            return Sampled(rate, _without_cap(of))
        case Composed(parts) | Parallel(parts, _):
            return replace(loss, parts=tuple(map(_without_cap, parts)))
        case Repeated(_, of) | Grouped(_, of) | Selected(of, _) | Sampled(_, of):
            return replace(loss, of=_without_cap(of))
        case _:
            return loss
