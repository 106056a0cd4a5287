"""What every node of a loss is: a frozen value with a stable JSON form, and a tree that can be walked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Self

from deniable import strict_json
from deniable.errors import InvalidLoss
from deniable.strict_json import shown
from deniable.units import Relation

DEEPEST = 64
"""Levels of a tree: every walk over it is a recursion that must fit on the stack."""
MOST_NODES = 100_000
"""Nodes of a tree, a part that is used twice counted twice: every walk visits each."""


class Scheme(StrEnum):
    """How a sample is drawn from the data before a mechanism sees it."""

    POISSON = "poisson"
    """Each record enters by its own coin of probability `rate`."""
    WITHOUT_REPLACEMENT = "without replacement"
    """A uniform subset of fixed size; `rate` is its share of the data."""
    SHUFFLED = "shuffled"
    """Fixed batches of a shuffled pass. Not Poisson, and never accounted as if it were."""


POISSON = Scheme.POISSON
WITHOUT_REPLACEMENT = Scheme.WITHOUT_REPLACEMENT
SHUFFLED = Scheme.SHUFFLED


class Node:
    """A frozen dataclass with a stable JSON form: `{"node": "Pure", "epsilon": 0.1}`, every field, in
    order."""

    kinds: ClassVar[dict[str, type[Node]]] = {}
    tree_depth: ClassVar[int] = 1
    tree_size: ClassVar[int] = 1
    """Levels and nodes of the tree; a combinator counts its own once, when it is made (`_count_tree`)."""

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        if not abstract:
            Node.kinds[cls.__name__] = cls

    def to_dict(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {"node": type(self).__name__} | {f.name: _encode(getattr(self, f.name)) for f in fields}

    def to_json(self) -> str:
        """The canonical text: the same loss always gives the same bytes."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_dict(cls, value: object) -> Self:
        node = _decode(value)
        if not isinstance(node, cls):
            raise InvalidLoss(f"Expected a {cls.__name__} in JSON, got {type(node).__name__}.")
        return node

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote. Anything else is refused with the reason."""
        return cls.from_dict(strict_json.parse(text, InvalidLoss, "a loss"))


class LossTree(Node, abstract=True):
    """A node with a neighbour relation: all but the numbers of runs. `Loss` is the one kind of it."""

    @property
    def relation(self) -> Relation | None:
        """The neighbour relation this loss is stated for; None if the tree does not say (a leaf holds for
        whatever relation its mechanism was made for)."""
        return None

    @property
    def replaces(self) -> bool | None:
        """Whether a unit is replaced; None if the tree does not say."""
        relation = self.relation
        if relation is None:
            return None
        return relation is Relation.REPLACED


def _encode(value: object) -> Any:
    match value:
        case Node():
            return value.to_dict()
        case tuple():
            return [_encode(v) for v in value]
        case Fraction():
            return f"{value.numerator}/{value.denominator}"
        case _:
            return value


def _decode(value: object, level: int = 1) -> Node:
    if not isinstance(value, Mapping):
        raise InvalidLoss(f'Expected a JSON object with a "node", got {type(value).__name__}.')
    if level > DEEPEST:
        raise InvalidLoss(f"The JSON of this loss has over {DEEPEST} levels, more than are read.")
    name = value.get("node")
    kind = None
    if isinstance(name, str):
        kind = Node.kinds.get(name)
    if kind is None:
        raise InvalidLoss(f"Unknown loss node {shown(name)}.")
    fields = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    names = set(value) - {"node"}
    if names != fields:
        raise InvalidLoss(
            f"Expected the fields {sorted(fields)} of {kind.__name__}, got {shown(sorted(map(str, names)))}."
        )
    return kind(**{name: _decode_field(name, value[name], level) for name in fields})


def _decode_field(name: str, value: object, level: int) -> object:
    match value:
        case dict():
            return _decode(value, level + 1)
        case list():
            if level > DEEPEST:
                raise InvalidLoss(f"The JSON of this loss has over {DEEPEST} levels, more than are read.")
            return tuple(_decode_field(name, v, level + isinstance(v, list)) for v in value)
        case str() if name == "scheme":
            if value not in list(Scheme):
                raise InvalidLoss(f"Expected scheme={shown(value)} to be one of {', '.join(Scheme)}.")
            return Scheme(value)
        case str():
            return _fraction(name, value)
        case _:
            return value


def _fraction(name: str, text: str) -> Fraction:
    if "/" not in text:
        raise InvalidLoss(f"Expected {name}={shown(text)} to be a number or a fraction like 10/3.")
    return strict_json.rational(text, InvalidLoss, name)
