"""The test bench: mechanisms of the literature and planted bugs, each with its true ε
derived in the docstring.

A `Case` says what it claims (`loss`, `unit`), what is true (`true_epsilon`, at the claim's δ), which pairs to
search, and draws in batches. Cases use numpy's generator and floating point: they exist to be attacked and
protect nobody. Those that stand for real-valued noise release it on a grid of 2⁻²⁰, far above the float's own
steps, so that what is found is the algorithm's flaw; `FloatLaplace` is there for the float's.
"""

from __future__ import annotations

from deniable.audit.bench.additive import (
    HalvedNoise,
    Laplace,
    LaplaceParallel,
    NoisyHist1,
    NoisyHist2,
    PrefixSum,
    TruncatedGeometric,
    WrongSensitivity,
)
from deniable.audit.bench.bugs import ClippedBatch, ReusedSeed, ShuffledAsPoisson, UnnoisedKeys
from deniable.audit.bench.case import Case
from deniable.audit.bench.floats import FloatLaplace, Snapping
from deniable.audit.bench.gaussian import ClassicalGaussian, MisprintedLog, MisprintedRoot
from deniable.audit.bench.local import OneTimeRappor, Rappor
from deniable.audit.bench.noisy_max import NoisyMax1, NoisyMax2, NoisyMax3, NoisyMax4
from deniable.audit.bench.nulls import NullDigits, NullLaplace, NullVector
from deniable.audit.bench.sparse_vector import SVT1, SVT2, SVT3, SVT4, SVT5, SVT6, NumericalSVT
from deniable.errors import InvalidParameter

CASES: tuple[Case, ...] = (
    Laplace(), TruncatedGeometric(), NoisyHist1(), NoisyHist2(), NoisyMax1(), NoisyMax2(), NoisyMax3(),
    NoisyMax4(), SVT1(), SVT2(), SVT3(), SVT4(), SVT5(), SVT6(), Rappor(), OneTimeRappor(), LaplaceParallel(),
    PrefixSum(), NumericalSVT(), FloatLaplace(), Snapping(), MisprintedLog(), MisprintedRoot(), HalvedNoise(),
    WrongSensitivity(), ClassicalGaussian(), ReusedSeed(), UnnoisedKeys(), ShuffledAsPoisson(),
    ClippedBatch(),
)  # fmt: skip
NULLS: tuple[Case, ...] = (NullLaplace(), NullDigits(), NullVector())

__all__ = ["CASES", "NULLS", "Case", "case"]


def case(name: str) -> Case:
    """The case of this name."""
    for entry in (*CASES, *NULLS):
        if entry.name.lower() == name.lower():
            return entry
    raise InvalidParameter(
        f'Expected name="{name}" to be a case of the bench: {", ".join(c.name for c in (*CASES, *NULLS))}.'
    )
