"""Draw one of many with probability exactly proportional to a weight, however the weights are known.

One uniform number U decides. First its leading 64 bits are compared with cumulative sums in floats; where U
lies farther from every border than the floats can be wrong, the choice is settled. Else the *same* U is
compared with integer brackets at growing precision (`certified.invert`). Both find the cell of U under the
exact weights, so the draw is exact; the second is seldom needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.mechanism import Random
from deniable.randomness.certified import exp_bounds, invert, normalized


class Weights(Protocol):
    """Positive numbers, the largest at least 1, as floats and as integer brackets."""

    def floats(self) -> tuple[NDArray[np.float64], float]:
        """Each weight w as a float v with |v − w| ≤ error·w + 1e-280, and that error."""

    def brackets(self, bits: int) -> tuple[Sequence[int], int]:
        """Integers low with low ≤ 2^bits·w ≤ low + slack for all weights, and `slack`."""


def draw(weights: Weights, rng: Random) -> int:
    """An index with probability exactly proportional to its weight."""
    # Exact by stages: 64 bits and floats settle nearly every draw. Where they do not, U gets more bits and
    # the weights closer brackets until its cell is sure, so the law is that of the real weights.
    u = rng.uniform_integers(1 << 64)
    index = _by_floats(*weights.floats(), u)
    if index is not None:
        return index

    def cumulative(bits: int) -> tuple[list[int], int]:
        low, slack = weights.brackets(bits + 8)
        sums = list(accumulate(low))
        parts, spread = normalized(sums[:-1], sums[-1], slack * len(low), 0, bits)
        return [*parts, 1 << bits], spread

    return invert(_Words(rng), u, 64, cumulative)


def _by_floats(weights: NDArray[np.float64], error: float, u: int) -> int | None:
    """The cell of U, if floats settle it.

    With n weights of relative error e each, the float sums cₖ and their total T obey |cₖ/T − c*ₖ/T*| ≤ 2e +
    2n·2^-53 up to squares of these, adding in any order (Higham 2002, §4.2); u/2^64 as a float is off by
    2^-53 and truncates U by 2^-64.
    """
    sums = np.cumsum(weights)
    # Several times what the proof asks for: a margin too wide costs time, never the law.
    place, margin = u / 2**64 * sums[-1], sums[-1] * (3 * error + (len(weights) + 8) * 2.0**-50)
    k = int(np.searchsorted(sums, place, side="right"))
    inside = (
        # The first and the last cell have one edge only: U lies in [0, 1).
        k < len(sums)
        and (k == 0 or sums[k - 1] + margin < place)
        and (k == len(sums) - 1 or place + margin < sums[k])
    )
    if inside:
        return k
    return None


class _Words:
    """The bits of `rng` as `certified` reads them."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def bits(self, n: int) -> NDArray[np.uint64]:
        return np.array([self.rng.uniform_integers(1 << 64) for _ in range(n)], np.uint64)

    def halves(self, n: int) -> NDArray[np.uint32]:
        return self.rng.uniform_integers(1 << 32, n).astype(np.uint32)

    def cells(self, n: int) -> NDArray[np.uint16]:
        return self.rng.uniform_integers(1 << 16, n).astype(np.uint16)


@dataclass(frozen=True)
class Exponentials:
    """Weights mᵢ·exp(−rate·dᵢ): whole multiplicities m ≥ 1 and whole distances d ≥ 0, of which one is 0."""

    rate: Fraction
    distances: NDArray[np.int64]
    multiplicities: NDArray[np.int64] | None = None

    def floats(self) -> tuple[NDArray[np.float64], float]:
        """The argument of exp is off by at most 4 roundings of at most 745, beyond which
        exp is below 1e-300."""
        # Cut at 700: e^−700 is below the 1e-280 that a float may be off.
        powers = np.exp(-np.minimum(self.distances.astype(float) * float(self.rate), 700.0))
        return powers if self.multiplicities is None else powers * self.multiplicities, 2e-12

    def brackets(self, bits: int) -> tuple[Sequence[int], int]:
        distances = self.distances.tolist()
        times = [1] * len(distances) if self.multiplicities is None else self.multiplicities.tolist()
        # A weight that counts m times needs as many more bits as m has.
        width = bits + (2 * max(times)).bit_length()
        weights = {d: exp_bounds(self.rate * d, width)[0] for d in set(distances)}
        extra = width - bits
        # m times the 2 units of `exp_bounds` come to less than one after the shift, which drops less than
        # one.
        return [(m * weights[d]) >> extra for m, d in zip(times, distances, strict=True)], 2
