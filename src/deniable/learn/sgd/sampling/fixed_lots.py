"""Lots for data that cannot be sampled: a row is in the same lot of every epoch, and noise is correlated
(DP-FTRL).

Nothing is gained by sampling here. In its place the noise of a step takes back part of what the steps before
it added, so that the sum of all gradients, which is what a model moves by, holds less of it: row t of C⁻¹·Z,
with C a banded matrix. Together the steps are one Gaussian release of the sensitivity of C, for a unit that
takes part once an epoch (docs/theory/matrices.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable import checks
from deniable.accounting.matrices import Participation, Toeplitz, banded, sensitivity
from deniable.errors import InvalidParameter
from deniable.learn.sgd.sampling.lots import Correlation, LotPlan, plan
from deniable.loss import Number, exact

MOST_BANDS = 64
"""As many steps of noise are kept in memory at most, where the number is chosen here."""
TRIED_STEPS = 1024
"""Bands are chosen by the error of so many steps at most."""


@dataclass(frozen=True)
class FixedLots:
    """What is drawn where nothing can be sampled: each row has one lot of every epoch, the same in every
    epoch.

    Which one is a draw of the row's own, made once; or, with `Arrivals(data, steps)`, the step at which it
    arrives. So a row takes part at most `epochs` times, and n/lot steps apart. `bands` steps of noise are
    correlated, which takes the memory of that many gradients in double precision; 1 is independent noise.
    Left out, they are chosen for the least error of running sums. The loss is that of one Gaussian release,
    without amplification.

    Reference: Kairouz et al. 2021 (DP-FTRL); Choquette-Choo et al. 2023 (banded matrices, b-min-separation);
               Kalinin, Lampert 2024 (banded square root).

    >>> FixedLots(n=1000, lot=50, epochs=4, bands=8).plan
    LotPlan(rate=Fraction(1, 20), lot=50.0, steps=80)
    """

    n: int
    lot: Number
    epochs: int = 1
    bands: int | None = None

    @cached_property
    def plan(self) -> LotPlan:
        epochs = checks.whole("epochs", self.epochs, at_least=1)
        draft = plan(self.n, self.lot, None, epochs, None)
        length = draft.pass_length
        if exact(draft.rate) * length != 1:
            raise InvalidParameter(
                f"Expected a whole number of lots in an epoch, got n={self.n} and lot={self.lot}. Nothing "
                "was charged. Take lots of n divided by a whole number."
            )
        bands = best_bands(draft.steps, length) if self.bands is None else self.bands
        if checks.whole("bands", bands, at_least=1) > length:
            raise InvalidParameter(
                f"Expected at most {length} bands, the lots of an epoch, got {bands}: noise that is "
                "correlated for longer would meet a row twice. Nothing was charged."
            )
        matrix = BandedCorrelation(bands, length)
        return LotPlan(draft.rate, draft.lot, draft.steps, correlation=matrix)


@dataclass(frozen=True)
class BandedCorrelation(Correlation):
    """The banded square root of `bands` coefficients, for units that take part once in `apart` steps,
    `apart` ≥ `bands`.

    The columns of C at which one unit takes part do not overlap then, so k of them have the norm √k·|c|
    (docs/theory/matrices.md, "Columns that do not overlap"); columns at the end are shorter.
    """

    bands: int
    apart: int

    @property
    def coefficients(self) -> tuple[float, ...]:
        return self._column.coefficients

    @cached_property
    def _column(self) -> Toeplitz:
        return banded(self.bands, self.bands)

    def sensitivity(self, steps: int) -> float:
        """The sensitivity of the first `steps` steps, in units of the clip, rounded up."""
        times = -(-steps // self.apart)
        norm = sensitivity(self._column, Participation(self.bands))
        return math.nextafter(math.nextafter(math.sqrt(times), math.inf) * norm, math.inf)


def best_bands(steps: int, limit: int) -> int:
    """The power of two, or `limit`, with the least deviation of noise in running sums, over steps that are
    public.

    >>> best_bands(80, 20)
    20
    """
    length = min(steps, TRIED_STEPS)
    bound = min(limit, MOST_BANDS)
    choices = sorted({*(1 << k for k in range(bound.bit_length())), bound} - {0})
    return min((b for b in choices if b <= bound), key=lambda b: _error(length, b))


def _error(steps: int, bands: int) -> float:
    matrix = banded(steps, bands)
    return float(np.sqrt(np.mean(matrix.error() ** 2)) * np.linalg.norm(matrix.coefficients))
