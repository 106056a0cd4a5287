"""Radii of integer noise against every shift inside them: the worst set is found by Neyman and Pearson, cell by cell."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from deniable.accounting.radius import radii
from deniable.accounting.radius.input_noise import IntegerGaussian, IntegerLaplace


def left_over(first: np.ndarray, second: np.ndarray, p: float) -> float:
    """The least probability under `second` of a set that has `p` under `first`, randomised at its edge."""
    order = np.argsort(second / np.maximum(first, 1e-300), kind="stable")
    mass = np.cumsum(first[order])
    edge = int(np.searchsorted(mass, p))
    inside = float(second[order][:edge].sum())
    rest = p - (float(mass[edge - 1]) if edge else 0.0)
    return inside + rest * float(second[order][edge] / first[order][edge])


@pytest.mark.parametrize("p", [0.7, 0.9, 0.99])
@pytest.mark.parametrize(
    ("noise", "norm"), [(IntegerGaussian(5), 2.0), (IntegerLaplace(4), 1.0)], ids=["gaussian", "laplace"]
)
def test_no_shift_inside_the_radius_turns_the_answer(
    noise: IntegerGaussian | IntegerLaplace, norm: float, p: float
) -> None:
    radius = float(radii(noise, np.array([p]), np.array([1 - p]))[0])
    grid = np.arange(-60, 61)

    def law(shift: int) -> np.ndarray:
        weights = np.exp(-np.abs(grid - shift) / 4 if norm == 1 else -((grid - shift) ** 2) / 50)
        total = np.exp(
            -np.abs(np.arange(-400, 401)) / 4 if norm == 1 else -(np.arange(-400, 401) ** 2) / 50
        ).sum()
        return np.asarray(weights / total)

    assert radius >= 1
    shifts = [
        v
        for v in itertools.product(range(int(radius) + 1), repeat=2)
        if 0 < np.linalg.norm(v, norm) <= radius
    ]
    still = np.outer(law(0), law(0)).ravel()
    assert all(left_over(still, np.outer(law(a), law(b)).ravel(), p) > 0.5 for a, b in shifts if a >= b)
