"""Norms rounded up and weights rounded down, so that no float error lets an example
contribute more than its clip.

The argument, with every constant used here, is in docs/theory/clipping.md.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

LIMIT = 2.0**60
"""What lies beyond it, in a factor or in a norm, counts as infinite: an example with
such a number contributes zero. Below it, no square overflows that matters, no weight is
subnormal, and underflow adds less than 2⁻⁹⁰ per entry."""
LEAST_CLIP, MOST_CLIP = 1e-9, 1e18
NARROW = frozenset({torch.bfloat16})
"""Precisions in which a model may be, but no norm, weight or sum is."""
BLOCK = 1024
"""Numbers summed in the data's own precision at a stretch; blocks are added in float64."""


@cache
def ulp(dtype: torch.dtype) -> float:
    """The unit roundoff u of a dtype: 2⁻²⁴ for float32."""
    return float(torch.finfo(dtype).eps) / 2


def row_squares(x: Tensor) -> Tensor:
    """An upper bound, in float64, on the sum of squares of each row of x (n, d); inf or
    NaN where a row is not finite.

    For any order of summation of m non-negative terms the relative error is at most mu/(1 − mu) (Higham 2002,
    §4.2); root, square and product add 5u. Each product may lose the smallest normal number by underflow,
    also where subnormals are flushed to zero.
    """
    factor, least = _margins(x.shape[1], x.dtype, x.device)
    norms = _norms(x)
    return torch.addcmul(least, norms, norms, value=factor)


@cache
def _margins(d: int, dtype: torch.dtype, device: torch.device) -> tuple[float, Tensor]:
    # 1.01 is for mu/(1 − mu) instead of mu; blocks of BLOCK terms are summed in `dtype`, and all d in
    # float64.
    factor = 1 + 1.01 * (min(d, BLOCK) + 8) * ulp(dtype) + d * 2.0**-52
    return factor, torch.full((), d * torch.finfo(dtype).tiny, dtype=torch.float64, device=device)


def summing(dtype: torch.dtype) -> torch.dtype:
    """The precision that gradients of a model in `dtype` are measured and added in."""
    return torch.float32 if dtype in NARROW else dtype


def widen(x: Tensor) -> Tensor:
    """The same numbers in that precision."""
    return x.float() if x.dtype in NARROW else x


def _norms(x: Tensor) -> Tensor:
    """Norms of rows, in float64 between blocks."""
    d = x.shape[1]
    border = d - d % BLOCK
    if d <= BLOCK:
        return _norm(x, 1).double()
    blocks = _norm(torch.unflatten(x[:, :border], 1, (-1, BLOCK)), 2).double()
    return _norm(blocks if d == border else torch.cat([blocks, _norms(x[:, border:])[:, None]], 1), 1)


def _norm(x: Tensor, axis: int) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x, dim=axis)
    return norms


def bound_squares(squares: Tensor) -> Tensor:
    """Squares as they are, or inf where they are not a number or their root is beyond LIMIT."""
    return torch.where(squares <= LIMIT**2, squares, torch.inf)


def weights(norms: Tensor, clip: float, dtype: torch.dtype) -> Tensor:
    """min(1, clip/norm) in `dtype`, never above its true value, and zero where the norm is infinite.

    The quotient is taken in float64 and lowered by 4u before it is rounded to nearest, which raises it by at
    most u. A norm below the clip by as much has the weight 1.
    """
    return (clip * (1 - 4 * ulp(dtype)) / norms).clamp_max_(1).to(dtype)
