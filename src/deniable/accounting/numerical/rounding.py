"""What floating point may do, as numbers: every constant here is an assumption stated in
docs/theory/numerical.md."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import fft

Array: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.int64]
Masses: TypeAlias = tuple[Array, Array]

U = 2.0**-53
"""Unit roundoff of binary64."""
REACH = 600.0
"""Largest |loss| of one step: beyond it e^loss nears the end of the range of doubles."""
NEGLIGIBLE = 45.0
"""e^−45 ≈ 3e-20 is what cut-off parts may weigh against a tilted mass of 1."""


def relative(reach: float) -> float:
    """T5: relative error of a cell's mass and absolute error of a cell's end, if no loss exceeds `reach`.

    A normal tail at t loses t²/2 ulp, a difference of two of them at most eight times that, and t² ≤ 144 +
    2·reach for the losses kept; 2048 + 32·reach ulp cover it at least three times.
    """
    return 2.0**-42 * (1 + reach / 64)


def fft_error(n: int) -> float:
    """T4: relative L2 error of one transform of length n.

    Gentleman and Sande 1966, Ramos 1971: 1.06·(2r)^1.5·u for each pass of radix r; plus
    8u a pass for inexact twiddles.
    """
    total, left = 0.0, n
    for radix in (4, 2, 3, 5, 7, 11):
        while left % radix == 0:
            left //= radix
            total += 1.06 * (2 * radix) ** 1.5 + 8
    if left != 1:
        raise ArithmeticError(
            f"A transform of length {n} has no bound here: it is no product of 2, 3, 5, 7 and 11."
        )
    return total * U


def fast_length(n: int) -> int:
    """The next length that `fft_error` covers."""
    return int(fft.next_fast_len(max(n, 16), real=True))


def expm1(real: Any, imaginary: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """e^(real + i·imaginary) − 1 for real ≤ 0 without cancellation: both terms of the
    real part are ≤ 0 near 0.

    In the precision of its arguments (numpy's own complex expm1 promises nothing).
    """
    half = np.sin(imaginary / 2)
    real_part = np.expm1(real) * np.cos(imaginary) - 2 * half * half
    return np.asarray(real_part + 1j * (np.exp(real) * np.sin(imaginary)))
