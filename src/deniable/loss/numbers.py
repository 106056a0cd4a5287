"""The numbers of a loss: what one means exactly, and how people write it."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

Number: TypeAlias = int | float | Fraction


def exact(x: Number) -> Fraction:
    """The rational number that `x` means: a float is the decimal that it prints.

    >>> exact(0.1), exact(1e-6), exact(Fraction(10, 3))
    (Fraction(1, 10), Fraction(1, 1000000), Fraction(10, 3))
    """
    return Fraction(repr(float(x))) if isinstance(x, float) else Fraction(x)


def show(x: Number) -> str:
    """A number as people write it.

    >>> show(10_000), show(0.01), show(Fraction(10, 3)), show(1e-6)
    ('10,000', '0.01', '10/3', '1e-06')
    """
    return f"{x:,}" if isinstance(x, int) else str(x) if isinstance(x, Fraction) else f"{x:g}"
