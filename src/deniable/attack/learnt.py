"""What an attack learnt, as a value that prints, travels as JSON and can be compared with chance."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable.strict_json import plain

Bits: TypeAlias = NDArray[np.int8]
Whole: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Learnt:
    """`right` of `total` secrets were learnt from `release`; `chance` is the share that
    guessing without it gets right.

    `ceiling` is the largest expected share that the release's own guarantee allows to any attack, where there
    is one. `facts` are further plain numbers, `reading` says in words what happened.
    """

    attack: str
    release: str
    right: int
    total: int
    chance: float
    reading: str
    ceiling: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of the secrets that were learnt."""
        return self.right / self.total if self.total else 0.0

    def __str__(self) -> str:
        return self.reading

    def to_dict(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "attack": self.attack,
            "release": self.release,
            "right": self.right,
            "of": self.total,
        }
        body |= {"share": self.share, "chance": self.chance, "ceiling": self.ceiling}
        return body | {"facts": plain(self.facts), "reading": self.reading}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def percent(share: float) -> str:
    """A share as people read it.

    >>> percent(0.9351), percent(1), percent(0.0004)
    ('93.5 %', '100 %', '0.04 %')
    """
    return f"{100 * share:.3g} %"


def percent_up(share: float) -> str:
    """An upper bound as people read it, rounded up to the next hundredth of a percent.

    >>> percent_up(0.731058), percent_up(1)
    ('73.11 %', '100 %')
    """
    return f"{math.ceil(share * 1e4) / 100:g} %"
