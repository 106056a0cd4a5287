"""Checks of a node's fields where it is made: every number in its range, every part a
loss, one relation in one tree."""

from __future__ import annotations

import math
from numbers import Integral, Real
from operator import ge, gt, le, lt

from deniable.errors import InvalidLoss
from deniable.loss.node import DEEPEST, MOST_NODES, LossTree, Node
from deniable.numbers import Number, plain
from deniable.strict_json import MOST_DIGITS, shown
from deniable.units import Relation


def check_number(
    node: Node,
    name: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> None:
    """Check a field and store it as int, float or Fraction (numpy scalars and whole Fractions become
    plain)."""
    value = getattr(node, name)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidLoss(f"Expected {name}={shown(value)} of {type(node).__name__} to be a number.")
    number = plain(value)
    _check_digits(node, name, number)
    ends = ((above, gt), (at_least, ge), (below, lt), (at_most, le))
    is_finite = not isinstance(number, float) or math.isfinite(number)
    if not is_finite or not all(holds(number, end) for end, holds in ends if end is not None):
        interval = _interval(above, at_least, below, at_most)
        raise InvalidLoss(f"Expected {name}={value} of {type(node).__name__} in {interval}.")
    object.__setattr__(node, name, number)


def _interval(above: float | None, at_least: float | None, below: float | None, at_most: float | None) -> str:
    left, right = "(−∞", "∞)"
    if at_least is not None:
        left = f"[{at_least:g}"
    if above is not None:
        left = f"({above:g}"
    if at_most is not None:
        right = f"{at_most:g}]"
    if below is not None:
        right = f"{below:g})"
    return f"{left}, {right}"


def _check_digits(node: Node, name: str, value: Number) -> None:
    """Numbers of thousands of digits are refused where they enter: exact sums with them would take for
    ever."""
    if isinstance(value, float):
        return
    bits = max(abs(value.numerator), value.denominator).bit_length()
    if bits > 3.33 * MOST_DIGITS:
        raise InvalidLoss(
            f"Expected {name} of {type(node).__name__} in at most {MOST_DIGITS:,} digits, "
            f"got about {round(bits * 0.30103):,}. Round it."
        )


def check_integer(node: Node, name: str, *, at_least: int) -> None:
    value = getattr(node, name)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidLoss(f"Expected {name}={shown(value)} of {type(node).__name__} to be a whole number.")
    _check_digits(node, name, int(value))
    if value < at_least:
        raise InvalidLoss(f"Expected {name}={value} of {type(node).__name__} to be at least {at_least}.")
    object.__setattr__(node, name, int(value))


def check_boolean(node: Node, name: str) -> None:
    if not isinstance(getattr(node, name), bool):
        raise InvalidLoss(
            f"Expected {name}={shown(getattr(node, name))} of {type(node).__name__} to be True or False."
        )


def replaced_or_added(replace: bool) -> Relation:
    if replace:
        return Relation.REPLACED
    return Relation.ADDED


def check_relation(node: Node, relation: Relation, *parts: LossTree) -> None:
    """Neighbour relations never mix in one tree: a loss for added rows says nothing about replaced ones."""
    for part in parts:
        part_relation = part.relation
        if part_relation is not None and part_relation is not relation:
            raise InvalidLoss(
                f"{type(node).__name__} needs losses stated for a unit {relation.value}, "
                f"but ({part}) is for one {part_relation.value}."
            )


def check_loss(node: Node, name: str) -> None:
    if not isinstance(getattr(node, name), LossTree):
        raise InvalidLoss(
            f"Expected {name}={shown(getattr(node, name))} of {type(node).__name__} to be a Loss."
        )
    _count_tree(node, (getattr(node, name),))


def check_losses(node: Node, name: str) -> None:
    value = getattr(node, name)
    if not isinstance(value, tuple | list) or not all(isinstance(p, LossTree) for p in value):
        raise InvalidLoss(f"Expected {name}={shown(value)} of {type(node).__name__} to be a tuple of losses.")
    object.__setattr__(node, name, tuple(value))
    _count_tree(node, tuple(value))


def _count_tree(node: Node, parts: tuple[LossTree, ...]) -> None:
    """Refuse a tree that a reader could not walk; each level adds to what its parts have counted already."""
    depth = 1 + max((part.tree_depth for part in parts), default=0)
    size = 1 + sum(part.tree_size for part in parts)
    if depth > DEEPEST:
        raise InvalidLoss(
            f"This loss would be a tree of {depth} levels, over the {DEEPEST} that are read. "
            "Put the parts side by side in one Composed, and count equal ones by Repeated."
        )
    if size > MOST_NODES:
        raise InvalidLoss(
            f"This loss would be a tree of {size:,} nodes, over the {MOST_NODES:,} that are read. "
            "Count equal parts by Repeated, or state several losses."
        )
    object.__setattr__(node, "tree_depth", depth)
    object.__setattr__(node, "tree_size", size)
