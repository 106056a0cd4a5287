"""Bounds of Clopper and Pearson at their hard ends."""

from __future__ import annotations

import math

import pytest

from deniable.accounting.proportion import lower, upper


@pytest.mark.parametrize("alpha", [1e-9, 1e-6, 1e-3])
def test_bounds_beside_0_and_1_end_and_hold(alpha: float) -> None:
    """One miss in many: the bound lies so near to 1 that a part of what is left is less than a float."""
    for trials in (10, 1000, 750_000, 1_000_000):
        high = float(upper(trials - 1, trials, alpha))
        assert high**trials >= 1 - alpha * (1 + 1e-9)
        assert 1 - high <= alpha
        low = float(lower(1, trials, alpha))
        assert trials * math.log1p(-low) >= math.log1p(-alpha)
