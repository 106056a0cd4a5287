"""Principal directions from a noisy second-moment matrix."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.learn.bounded import readable
from deniable.learn.recipes import exact
from deniable.loss import Number
from deniable.loss import exact as fraction
from deniable.mechanism import Random

LOG = logging.getLogger(__name__)
NORM = 1 << 12
"""Grid units in a row of length 1."""
CHUNK = 2048
LEAST = 1e-4
"""The least strength, relative to the first, that is divided by."""


@dataclass(frozen=True)
class Projection:
    """`components` [k, features], orthonormal, the strongest first, and their
    `strengths`: the noisy sums of squares along them.

    A private release, to be used as one likes. `noise` is the strength that noise alone has, about: 2s√d for
    deviation s of each entry of a symmetric d × d matrix (Wigner 1955).
    """

    components: NDArray[np.float64]
    strengths: NDArray[np.float64]
    noise: float = 0.0

    @property
    def above_noise(self) -> int:
        """How many components are stronger than what noise alone would make."""
        return int((self.strengths > self.noise).sum())

    def transform(self, rows: Any, *, power: float = 0.0) -> NDArray[np.float64]:
        """Rows scaled to length 1, as they were for the fit, in the k directions.

        Each direction is divided by its strength, relative to the first, to `power`: ½ whitens, ¼ goes half
        the way. The strengths are released already, so this costs nothing.
        """
        x = np.nan_to_num(readable(rows, self.components.shape[1]).astype(np.float64))
        length = np.linalg.norm(x, axis=1, keepdims=True)
        relative = np.maximum(self.strengths / max(self.strengths[0], 1.0), LEAST) ** power
        return np.asarray((x / np.where(length > 0, length, 1)) @ self.components.T / relative)


@dataclass(frozen=True)
class PrivatePCA(exact.NoisySums):
    """The `components` strongest directions of rows of `features` numbers, each row scaled to length 1 first.

    Guarantee: `GaussianNoise(noise_multiplier)` for one row added or removed, or ε-DP with `epsilon` in its
               place: xxᵀ of a row has Frobenius norm |x|² ≤ 1, and what lies on and above its diagonal has L1
               norm (|x|₁² + |x|²)/2 ≤ (features + 1)/2.
    Assumes:   nothing of the data: a row that is not finite, no numbers, or 0, is left out. Sums are exact
               and noise is integer noise (`recipes.exact`). The number of rows is not used.
    Error:     not known before data is seen: it depends on the gaps between the eigenvalues.
    Reference: Dwork, Talwar, Thakurta, Zhang 2014 (Analyze Gauss); the preprocessing of
               Abadi et al. 2016, Section 4.

    >>> PrivatePCA(features=784, components=60, noise_multiplier=4).loss
    GaussianNoise(multiplier=4)
    >>> pure = PrivatePCA(features=3, components=2, epsilon=0.5)
    >>> from deniable.loss import DiscreteLaplaceNoise
    >>> pure.loss == DiscreteLaplaceNoise(4 * NORM**2, 2 * NORM**2)
    True
    """

    features: int
    components: int
    noise_multiplier: float | None = None
    epsilon: Number | None = None

    def __post_init__(self) -> None:
        d = checks.whole("features", self.features, at_least=1)
        if checks.whole("components", self.components, at_least=1) > d:
            raise InvalidParameter(f"Expected components={self.components} to be at most features={d}.")
        exact.one_noise(self.noise_multiplier, self.epsilon)

    @classmethod
    def for_budget(cls, epsilon: float, delta: float, *, features: int, components: int) -> PrivatePCA:
        """The least noise for (ε, δ): Gaussian, or Laplace where δ = 0."""
        if delta == 0:
            return cls(features, components, epsilon=epsilon)
        return cls(features, components, exact.multiplier_for(epsilon, delta))

    def __call__(self, data: Any, *, rng: Random) -> Projection:
        sums = self.moments(data)
        if self.noise_multiplier is not None:
            noisy = exact.noisy_symmetric(sums, self.noise_multiplier, NORM**2, rng)
        else:
            noisy = exact.laplace_symmetric(sums, Fraction(self._l1) / fraction(self.epsilon or 1), rng)
        values, vectors = (part.flip(-1)[..., : self.components] for part in torch.linalg.eigh(noisy))
        projection = Projection(vectors.T.contiguous().numpy(), values.numpy() / NORM**2, self.noise)
        if projection.above_noise < self.components:  # from what is released and public
            LOG.warning(
                "%d of %d components are no stronger than noise alone makes them (%.3g): keep fewer, take a "
                "larger ε%s, or fewer features.",
                self.components - projection.above_noise,
                self.components,
                self.noise,
                "" if self.noise_multiplier is not None else " or a δ above 0, whose noise is far smaller",
            )
        return projection

    @property
    def noise(self) -> float:
        """The strength of the strongest direction of noise alone, about, for rows of length 1."""
        laplace = math.sqrt(2) * self._l1 / NORM**2 / float(self.epsilon or 1)
        # An entry beside the diagonal stands for two of the Frobenius norm, and has noise over √2.
        deviation = laplace if self.noise_multiplier is None else float(self.noise_multiplier) / math.sqrt(2)
        return 2 * deviation * math.sqrt(self.features)

    def moments(self, data: Any) -> torch.Tensor:
        """Σ xxᵀ in grid units: integers, exact below 2^29 rows."""
        rows = readable(data, self.features)
        total = torch.zeros(self.features, self.features, dtype=torch.float64)
        for start in range(0, len(rows), CHUNK):
            with np.errstate(over="ignore"):  # what is too large is infinite, and its row is left out
                part = rows[start : start + CHUNK].astype(np.float32)
            integers = exact.units(torch.from_numpy(part), NORM, NORM).double()
            total += integers.T @ integers
        return total

    @property
    def _l1(self) -> int:
        return math.ceil(Fraction(self.features + 1, 2) * NORM**2)
