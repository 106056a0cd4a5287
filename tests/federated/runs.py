"""Federated runs from the names of the fields of their values, as tests vary them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import nn

from deniable.federated import ClientPrivacy, Cohorts, FedAvg, LocalRecipe, RoundExecution

KINDS: dict[str, type] = {
    "cohorts": Cohorts,
    "privacy": ClientPrivacy,
    "local": LocalRecipe,
    "how": RoundExecution,
}
RENAMED = {"local_epochs": "epochs", "local_steps": "steps"}


def run_of(model: nn.Module, criterion: Any, **terms: Any) -> FedAvg:
    terms = {RENAMED.get(name, name): value for name, value in terms.items()}
    for name, kind in KINDS.items():
        own = [field.name for field in fields(kind) if field.name in terms]
        terms[name] = kind(**{field: terms.pop(field) for field in own})
    return FedAvg(model, criterion, **terms)
