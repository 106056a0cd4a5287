"""What an unprotected release gives away, and that a protected one does not.

Each module is one attack, in one of five rooms; `compare` in it runs the attack against raw, anonymised,
naively noisy and protected releases of the same made-up data and gives a `Learnt` for each:

    counts       answers: reconstruct, solve, difference, sticky, baselines, tables
    linkage      published rows: link, fuzzy, series, anonymity, hide
    models       weights and confidences: attribute, sensitive, points, invert, stationary, memorize,
                 characters
    members      who was in the training data: `membership(train, data)` for any model, `Evidence` for outputs
                 that you have
    gradients    a client's images from the update that it sends to a server (of federated learning)
    poison       liars among local reports: what they reach, and what helps

Each module is also a name of this package: `from deniable.attack import reconstruct`.
`asking` holds the ways to ask a curator: in memory, through an account, through SQL.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from deniable.attack.learnt import Learnt

if TYPE_CHECKING:
    from deniable.attack.counts import baselines, difference, reconstruct, solve, sticky, tables
    from deniable.attack.linkage import anonymity, fuzzy, hide, link, series
    from deniable.attack.members.any_model import membership
    from deniable.attack.members.evidence import Evidence
    from deniable.attack.models import (
        attribute,
        characters,
        examples,
        invert,
        memorize,
        points,
        sensitive,
        sentences,
        stationary,
    )

__all__ = [
    "Evidence",
    "Learnt",
    "anonymity",
    "attribute",
    "baselines",
    "characters",
    "difference",
    "examples",
    "fuzzy",
    "hide",
    "invert",
    "link",
    "membership",
    "memorize",
    "points",
    "reconstruct",
    "sensitive",
    "sentences",
    "series",
    "solve",
    "stationary",
    "sticky",
    "tables",
]

_NAMES = {"Evidence": "members.evidence", "membership": "members.any_model"}
_ROOMS = {
    "counts": ("baselines", "difference", "reconstruct", "solve", "sticky", "tables"),
    "linkage": ("anonymity", "fuzzy", "hide", "link", "series"),
    "models": (
        "attribute",
        "characters",
        "examples",
        "invert",
        "memorize",
        "points",
        "sensitive",
        "sentences",
        "stationary",
    ),
}
_MODULES = {module: room for room, modules in _ROOMS.items() for module in modules}


def __getattr__(name: str) -> object:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
