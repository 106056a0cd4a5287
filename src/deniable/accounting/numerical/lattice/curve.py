"""A certified side of δ(ε): sums of compositions read off at any ε, or searched for the ε of a δ."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deniable.accounting.numerical.lattice.compose import Composition


@dataclass(frozen=True)
class BoundCurve:
    """One side (`sign` 1: above, −1: below) of the true curve.

    `safe` ≥ 1 and `shift` ≥ 0 are what rounding of the masses may have done to δ and ε
    (T5); `beyond` is the mass revealed outright: for the upper side all that was left
    out, for the lower side only what is certainly there.
    """

    parts: tuple[Composition, ...]
    sign: int
    safe: float
    shift: float
    beyond: float

    def node(self, j: int, sign: int) -> float:
        return sum(part.delta(j, sign) for part in self.parts)

    def delta(self, epsilon: float) -> float:
        """The bound on δ at ε: between nodes the chord, in e^ε, of two bounds (δ is
        convex there, the law's own linear)."""
        first = self.parts[0]
        # Losses may be off by `shift`: read that far to the left, where δ is larger, or to the right, for
        # below.
        at = epsilon - self.sign * self.shift
        j = math.floor((at - first.base) / first.dt)
        left, right = self.node(j, self.sign), self.node(j + 1, self.sign)
        share = math.expm1(at - first.base - j * first.dt) / math.expm1(first.dt)
        value = left + (right - left) * min(max(share, 0.0), 1.0)
        if self.sign > 0:
            return min(1.0, self.beyond + self.safe * max(value, 0.0))
        return min(1.0, self.beyond + max(value, 0.0) / self.safe)

    def epsilon(self, delta: float) -> float:
        """The bound on the least ε whose δ is at most `delta`."""
        left = delta - self.beyond
        if left <= 0:
            return math.inf
        # Rounding may have moved the curve by a factor `safe`: the δ to meet is smaller above, larger below.
        root = self.solve(left / self.safe if self.sign > 0 else left * self.safe, self.sign)
        return max(0.0, root + self.sign * self.shift)

    def estimate(self, delta: float) -> float:
        """The same without error terms: steers the next pass, claims nothing."""
        return self.solve(max(delta - self.beyond, 1e-3 * delta), 0)

    def node_estimate(self, epsilon: float) -> float:
        """δ at the node below ε without error terms: steers the next pass, claims nothing."""
        return self.beyond + max(
            self.node(math.floor((epsilon - self.parts[0].base) / self.parts[0].dt), 0), 0.0
        )

    def noise(self, epsilon: float) -> float:
        """Numerical error as a share of δ at ε."""
        j = math.floor((epsilon - self.parts[0].base) / self.parts[0].dt)
        value = self.node(j, 0)
        if value > 0:
            return abs(self.node(j, 1) - value) / value
        return math.inf

    def solve(self, target: float, sign: int) -> float:
        """Least ε ≥ 0 where the curve is ≤ target, on the chord between two nodes; ±the error by `sign`."""
        first = self.parts[0]
        zero = math.floor(-first.base / first.dt)
        end = max(part.low + part.size for part in self.parts) - 1
        if end <= zero:
            if sign > 0 and self.node(zero, sign) > target:
                return math.inf
            return 0.0
        low, high, step = min(max(first.middle, zero), end - 1), end, first.size // 16 + 1
        while (a := self.node(low, sign)) <= target:
            # Left of the mean the error may hide δ: go no further than needed.
            if low <= zero:
                if sign >= 0:
                    return max(0.0, first.base + low * first.dt)
                return 0.0
            high, low = low, max(zero, low - step)
        if (b := self.node(high, sign)) > target:
            if sign > 0:
                return math.inf
            return first.base + high * first.dt
        # The chord is linear in e^ε, as in `delta`, so its root has a closed form.
        low, a, b = self._close(low, high, a, b, target, sign)
        return max(
            0.0, first.base + low * first.dt + math.log1p(math.expm1(first.dt) * (a - target) / (a - b))
        )

    def _close(
        self, low: int, high: int, a: float, b: float, target: float, sign: int
    ) -> tuple[int, float, float]:
        """Neighbouring nodes around the target: secant on log δ, with bisection as the safeguard."""
        halve = False
        while high - low > 1:
            fa = math.log(a) - math.log(target)
            fb = -70.0
            if b > 0:
                fb = max(math.log(b) - math.log(target), -70.0)
            width = high - low
            k = (low + high) // 2
            if not halve:
                k = min(max(low + round(width * fa / (fa - fb)), low + 1), high - 1)
            d = self.node(k, sign)
            low, high, a, b = (k, high, d, b) if d > target else (low, k, a, d)
            halve = not halve and high - low > width // 2
        return low, a, b
