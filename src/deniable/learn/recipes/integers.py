"""Products of integer matrices without rounding, on the processor's 8-bit instructions where these are exact.

A product of 8-bit integers summed in 32 bits has one value: it depends neither on the order of the terms nor
on which rows share a batch. Processors without such instructions may saturate pairs of terms in 16 bits, and
then a sum of contributions is no sum any more; so the products of the largest entries are compared with their
known values first (`exact_at`), at the very shapes used, and where they differ 32-bit floats do the work in
pieces whose sums stay below 2^24, where they too are exact.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from deniable.learn.recipes import exact

MOST = 127
"""The largest 8-bit entry that is used."""
DIGIT = 16
"""Residuals up to LARGEST are written as DIGIT·high + low."""
LARGEST = 512
FINE = 128
"""Weights are rounded to 1/(127·FINE) of the largest and written as FINE·high + low."""
TERMS = 1 << 17
"""TERMS · MOST² < 2^31: more terms than these might not fit into 32 bits."""
EXACT_FLOAT = 1 << 24


@lru_cache(maxsize=64)
def exact_at(rows: int, columns: int, width: int) -> bool:
    """Whether [rows, columns]·[columns, width] and [width, rows]·[rows, columns] are
    exact for the largest 8-bit entries, and made by instructions for them: without those
    they are some thirty times slower than floats, which are as exact."""
    if max(rows, columns) > TERMS or not hasattr(torch, "_int_mm") or not _has_dot_products():
        return False
    try:
        return all(_true_at(rows, columns, width, a, b) for a in (MOST, -MOST) for b in (MOST, -MOST))
    except RuntimeError:  # no kernel for this machine
        return False


@lru_cache(maxsize=1)
def _has_dot_products() -> bool:
    """Whether the processor multiplies and adds 8-bit numbers in one instruction; where
    torch cannot tell, it is believed to."""
    ask = getattr(torch.cpu, "_is_vnni_supported", None)
    return True if ask is None else bool(ask())


def _true_at(rows: int, columns: int, width: int, a: int, b: int) -> bool:
    matrix = torch.full((rows, columns), a, dtype=torch.int8)
    scores = torch._int_mm(matrix, torch.full((columns, width), b, dtype=torch.int8))
    sums = torch._int_mm(torch.full((width, rows), b, dtype=torch.int8), matrix)
    return bool((scores == a * b * columns).all() and (sums == a * b * rows).all())


def product(left: Tensor, right: Tensor) -> Tensor:
    """left [n, k]ᵀ · right [n, d], exact, in 64-bit floats: `left` holds integers up to
    `LARGEST` as floats, `right` 8 bits.

    >>> product(torch.tensor([[500.0], [-2.0]]), torch.tensor([[3, 127], [4, -1]], dtype=torch.int8)).tolist()
    [[1492.0, 63502.0]]
    """
    if not exact_at(*right.shape, 2 * left.shape[1]):
        return _by_floats(left, right)
    high = (left / DIGIT).round()
    digits = torch.cat([high, left - DIGIT * high], 1).T.to(torch.int8, memory_format=torch.contiguous_format)
    sums = torch._int_mm(digits, right).double()
    return sums[: left.shape[1]] * DIGIT + sums[left.shape[1] :]


def _by_floats(left: Tensor, right: Tensor) -> Tensor:
    total = torch.zeros(left.shape[1], right.shape[1], dtype=torch.float64)
    chunk = max(1, (EXACT_FLOAT - 1) // (MOST * LARGEST))
    with exact.full_precision():
        for start in range(0, len(right), chunk):
            part = slice(start, start + chunk)
            total += left[part].T @ right[part].float()
    return total


def scores(features: Tensor, weights: Tensor) -> Tensor:
    """features [n, d] in 8 bits · weights [k, d]ᵀ, in 32-bit floats; weights are rounded
    to 15 bits of the largest first.

    A row's scores do not depend, to the bit, on the other rows: they are whole numbers, times one unit.
    """
    unit = float(weights.abs().max()) / (MOST * FINE) or 1.0
    levels = (weights / unit).round()
    high = (levels / FINE).round()
    digits = torch.cat([high, levels - FINE * high]).to(torch.int8).T.contiguous()
    if exact_at(*features.shape, 2 * len(weights)):
        products = torch._int_mm(features, digits).double()
    else:
        products = _whole_by_floats(features, digits)
    return ((products[:, : len(weights)] * FINE + products[:, len(weights) :]) * unit).float()


def _whole_by_floats(left: Tensor, right: Tensor) -> Tensor:
    """left [n, d] · right [d, k], both in 8 bits: pieces whose sums stay below 2^24,
    where floats are exact in any order."""
    total = torch.zeros(len(left), right.shape[1], dtype=torch.float64)
    chunk = (EXACT_FLOAT - 1) // 128**2
    with exact.full_precision():
        for start in range(0, left.shape[1], chunk):
            part = slice(start, start + chunk)
            total += left[:, part].float() @ right[part].float()
    return total
