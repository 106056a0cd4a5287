"""PATE: many teachers learn from disjoint parts of private data, and only noisy votes of theirs leave it.

    parts (draw or keyed hash) ──► teachers ──► votes ──► aggregator in an account ──► labels ──► student

`teach` makes the teachers: `Estimators` (anything with fit and predict), `Networks` (torch, stacked),
`KernelRidge` (closed form), each also `OnPool` of public examples. `NoisyVote`, `GNMax` and `ConfidentGNMax`
sell labels. `analysis` tells the owner what the votes themselves would say, `publish` releases a noisy upper
bound of that, and pays for it. `Student` learns from labels and public examples.

>>> from deniable.learn.pate import GNMax
>>> from deniable.loss import DiscreteGaussianNoise
>>> GNMax(classes=10, sigma=40, answers=100).loss == DiscreteGaussianNoise(40, 1, 1) * 200
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.learn.pate import analysis, cautionary, graph
    from deniable.learn.pate.aggregate import ConfidentGNMax, GNMax, NoisyVote
    from deniable.learn.pate.publish import DependentBound
    from deniable.learn.pate.student import Student
    from deniable.learn.pate.teachers.estimators import Estimators
    from deniable.learn.pate.teachers.kernel import KernelRidge
    from deniable.learn.pate.teachers.networks import Networks
    from deniable.learn.pate.teachers.pool import OnPool
    from deniable.learn.pate.teachers.voting import Ensemble, TeacherRecipe, TeacherRows, Voter, teach

__all__ = [
    "ConfidentGNMax",
    "DependentBound",
    "Ensemble",
    "Estimators",
    "GNMax",
    "KernelRidge",
    "Networks",
    "NoisyVote",
    "OnPool",
    "Student",
    "TeacherRecipe",
    "TeacherRows",
    "Voter",
    "analysis",
    "cautionary",
    "graph",
    "teach",
]

_PARTS = ("analysis", "cautionary", "graph")
_HOMES = {
    "aggregate": "ConfidentGNMax GNMax NoisyVote",
    "teachers.estimators": "Estimators",
    "teachers.kernel": "KernelRidge",
    "teachers.networks": "Networks",
    "teachers.pool": "OnPool",
    "publish": "DependentBound",
    "student": "Student",
    "teachers.voting": "Ensemble TeacherRows TeacherRecipe Voter teach",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name in _PARTS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
