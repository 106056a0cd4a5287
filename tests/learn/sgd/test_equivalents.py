"""Who types an argument of Opacus is told what it is here."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from torch import nn

from deniable.learn.sgd import DPSGD, Learning, Lots, Privacy
from deniable.learn.sgd.equivalents import EQUIVALENTS


@pytest.mark.parametrize(
    ("kind", "argument", "here"),
    [
        (Privacy, {"target_epsilon": 3}, "Privacy(epsilon=…)"),
        (Privacy, {"max_grad_norm": 1.0}, "Privacy(clip=…)"),
        (Lots, {"batch_size": 32}, "Lots(lot=…)"),
        (Learning, {"lr": 0.1}, "Learning(learning_rate=…)"),
    ],
)
def test_a_name_of_opacus_is_refused_with_its_equivalent(
    kind: Any, argument: dict[str, Any], here: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(f"Here it is {here}")):
        kind(**argument)
    with pytest.raises(TypeError, match=re.escape(f"Here it is {here}")):
        DPSGD(nn.Linear(2, 2), nn.CrossEntropyLoss(), **argument)


def test_no_name_of_ours_is_refused() -> None:
    for kind in (Privacy, Lots, Learning, DPSGD):
        assert not EQUIVALENTS.keys() & inspect.signature(kind).parameters.keys()
