"""What an unprotected release gives away, and that a protected one does not.

Each module is one attack; `compare` in it runs the attack against raw, anonymised, naively noisy and
protected releases of the same made-up data and gives a `Learnt` for each:

    reconstruct   bits of everybody from counts over random sets (Dinur, Nissim)
    difference    one person's bit from counts about many; averaging noise away
    sticky        noise per condition, and the arithmetic query that tricks it
    link          names joined to rows by zip, birth date and sex
    fuzzy         sparse ratings found by a few of them, known roughly
    series        six days of step counts as a fingerprint
    anonymity     k-anonymity, t-closeness, swapping: how they fail (`hide` compares them)
    tables        people from published counts, medians and means
    attribute     a sensitive column from a model's confidence
    points        models that are training points: support vectors, medians
    members       who was in the training data: `membership(train, data)` for any model, `Evidence` for outputs you have
    invert        what a model that recognises people shows of them (`stationary`: training images from weights)
    gradients     a client's images from the update that it sends to a server (of federated learning)
    poison        liars among local reports: what they reach, and what helps
    memorize      secrets that a text model remembers (`characters`: a small one to try it on)

`asking` holds the ways to ask a curator: in memory, through an account, through SQL.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from deniable.attack.learnt import Learnt

if TYPE_CHECKING:
    from deniable.attack.members.any_model import membership
    from deniable.attack.members.evidence import Evidence

__all__ = ["Evidence", "Learnt", "membership"]

_HOMES = {"Evidence": "members.evidence", "membership": "members.any_model"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
