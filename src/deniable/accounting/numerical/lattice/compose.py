"""Composition on a lattice with a certified error: T3 (tilt and window), T4 (FFT path), T6 (few frequencies).

δ(ε) = e^(log_mass − θε) · (kernel ± error): the laws are tilted by e^(θ·loss), so that every error is
measured against the Chernoff bound of δ and not against 1. Proofs: docs/theory/numerical.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import fft, optimize

from deniable.accounting.numerical.lattice.discretise import LossLaw
from deniable.accounting.numerical.rounding import (
    NEGLIGIBLE,
    Array,
    Indices,
    U,
    expm1,
    fast_length,
    fft_error,
)
from deniable.accounting.refusals import check_time
from deniable.errors import Unaccountable

Complex: TypeAlias = npt.NDArray[np.complexfloating[Any, Any]]
Kernel: TypeAlias = Callable[[int], float]
Part: TypeAlias = tuple[LossLaw, int]
MOST_NODES = 1 << 24
"""Nodes of one window."""
FEW = 64
"""Up to so many steps the FFT path is taken, above it the direct one if it is certified."""


@dataclass(frozen=True)
class Tilted:
    """One law after tilting: weights that sum to 1, their nodes, and how far these lie from the tilted
    mean."""

    weight: Array
    index: Indices
    away: Array
    times: int

    @property
    def variance(self) -> float:
        return float(self.weight @ self.away**2)


@dataclass(frozen=True)
class NodeWindow:
    """Nodes low..high: outside lies at most `alias` of the weighted tilted mass;
    `slopes` are the Chernoff parameters."""

    low: int
    high: int
    alias: float
    slopes: tuple[float, float]


@dataclass(frozen=True)
class Composition:
    """δ at the losses base + dt·j: e^(log_mass − θ·loss)·(kernel ± error).

    `middle` is the node of the tilted mean; `total` bounds the P mass, and so δ, where
    the window does not reach.
    """

    theta: float
    log_mass: float
    base: float
    dt: float
    low: int
    size: int
    middle: int
    kernel: Kernel
    error: float
    circular: bool
    slopes: tuple[float, float]
    total: float

    def delta(self, j: int, sign: int) -> float:
        """sign = 1: an upper bound; −1: a lower bound; 0: the value without its error (steering only)."""
        i = j - self.low
        # Left of the window nothing was computed, and no δ exceeds the whole mass.
        if i < 0 and sign > 0:
            return self.total
        # Right of it lies less than the error.
        if i >= self.size:
            return max(sign, 0) * self.scale(j) * self.error
        i = max(i, 0)
        return self.scale(self.low + i) * (self.kernel(i) + sign * (self.error + self.lap(i)))

    def scale(self, j: int) -> float:
        return math.exp(min(self.log_mass - self.theta * (self.base + j * self.dt), 700))

    def lap(self, i: int) -> float:
        """T6: the kernel, which has no end, runs on round the circle."""
        if not self.circular:
            return 0.0
        return math.exp(-self.theta * self.dt * (self.size - i)) / -math.expm1(
            -self.theta * self.dt * self.size
        )


def log_moment(s: float, parts: Sequence[tuple[Array, Array, int]]) -> float:
    """Σ times·log Σ weight·e^(s·place), part by part: for one s the arrays of many parts are not joined."""
    total = 0.0
    for weight, place, times in parts:
        z = s * place
        top = float(z.max())
        # The largest exponent is taken out: no term overflows, and the one that counts keeps its digits.
        z -= top
        np.exp(z, out=z)
        total += times * (top + math.log(float(weight @ z)))
    return total


class LogMoments:
    """s ↦ Σ times·log Σ weight·e^(s·place), many parts in one array."""

    def __init__(self, parts: Sequence[tuple[Array, Array, int]]) -> None:
        self._weight = np.concatenate([weight for weight, _, _ in parts])
        self._place = np.concatenate([place for _, place, _ in parts])
        self._times = np.array([float(times) for _, _, times in parts])
        sizes = np.array([len(weight) for weight, _, _ in parts])
        self._starts = np.append(0, np.cumsum(sizes)[:-1])
        self._sizes = sizes

    def __call__(self, s: float) -> float:
        z = s * self._place
        tops = np.maximum.reduceat(z, self._starts)
        z -= np.repeat(tops, self._sizes)
        np.exp(z, out=z)
        z *= self._weight
        return float(self._times @ (tops + np.log(np.add.reduceat(z, self._starts))))


def compose(
    parts: Sequence[Part],
    theta: float,
    eta: float,
    *,
    slopes: tuple[float, float] | None = None,
    reach: tuple[float, float] | None = None,
    wide: bool = False,
    log_weight: float = 0.0,
) -> Composition:
    """Compose laws that share one dt. `reach`: losses that the window must hold; `wide`: use long doubles."""
    dt = parts[0][0].dt
    log_mass = log_total = log_weight
    base, mean, laws = 0.0, 0.0, []
    for law, times in parts:
        part, log_part = _tilt(law, theta, times)
        laws.append(part)
        log_mass += times * log_part
        log_total += times * math.log(float(law.mass.sum()))
        base += times * law.offset
        mean += times * float(part.index[0] - part.away[0])
    window = _window(laws, mean, dt, theta, eta, slopes)
    low, high = window.low, window.high
    if reach is not None:
        low, high = (
            min(low, math.floor((reach[0] - base) / dt) - 2),
            max(high, math.ceil((reach[1] - base) / dt) + 2),
        )
    if high - low > MOST_NODES:
        raise Unaccountable(
            f"The numerical accountant would need {high - low:,} nodes for this composition, over the "
            f"{MOST_NODES:,} it takes: its losses are of too different sizes. Nothing was computed; another "
            "method may know a bound."
        )
    steps = sum(times for _, times in parts)
    # Under a slight tilt the kernel would run round the circle undiminished (T6's `lap`); the FFT path has no
    # circle.
    fades = theta * dt * (high - mean) > 20
    direct = None
    if steps > FEW and fades:
        direct = _direct(laws, low, high, dt, theta, wide)
    size, kernel, error = direct if direct is not None else _by_fft(laws, low, high, dt, theta)
    return Composition(
        theta=theta,
        log_mass=log_mass,
        base=base,
        dt=dt,
        low=low,
        size=size,
        middle=int(mean),
        kernel=kernel,
        error=error + window.alias,
        circular=direct is not None,
        slopes=window.slopes,
        total=1.01 * math.exp(log_total),
    )


def _tilt(law: LossLaw, theta: float, times: int) -> tuple[Tilted, float]:
    """T3: weights mass·e^(θ·loss)/M and log M."""
    z = theta * law.losses
    top = float(z[law.mass > 0].max())
    # Places without mass may lie above `top`: cut off, their weight is 0 and not 0·∞.
    weight = law.mass * np.exp(np.minimum(z - top, 600))
    total = float(weight.sum())
    weight = weight / total
    mean = float(weight @ law.index)
    keep: Any = weight > 0
    keep = slice(None) if keep.all() else keep  # a view, not a copy, of the many that are
    index = law.index[keep]
    return Tilted(weight[keep], index, np.asarray(index - mean, dtype=np.float64), times), top + math.log(
        total
    )


def _window(
    tilted: Sequence[Tilted],
    mean: float,
    dt: float,
    theta: float,
    eta: float,
    slopes: tuple[float, float] | None,
) -> NodeWindow:
    """Chernoff on the tilted law: at most eta outside, both sides together."""
    goal = math.log(2 / eta)
    variance = sum(t.times * t.variance for t in tilted)
    coarse = [_coarse(t) for t in tilted]
    full = [(t.weight, t.away, t.times) for t in tilted]
    exponents, ends = [], []
    for sign, slope in zip((-1, 1), slopes or (None, None), strict=True):
        # Every s is a valid Chernoff parameter: one of a coarse law, or of a like composition, will do.
        s = slope if slope is not None else _slope(coarse, sign, goal, variance)
        # No sum lies beyond the ends of all laws, whatever Chernoff says.
        far = sum(t.times * float(t.away[-1] if sign > 0 else -t.away[0]) for t in tilted) + 1
        ends.append(mean + sign * min((goal + log_moment(sign * s, full)) / s, far))
        exponents.append(s)
    low, high = math.floor(ends[0]) - 1, math.ceil(ends[1]) + 1
    if sum(t.times for t in tilted) > FEW:
        # On the path of few frequencies the circle is long enough for the kernel to fade (T6).
        high = max(high, math.ceil(mean + min(40 / (theta * dt), 8 * (high - mean))))
    # The kernel's weight e^(−θa)(1 − e^−a) is at most θ^θ/(1+θ)^(1+θ).
    peak = math.exp(-theta * math.log1p(1 / theta)) / (1 + theta)
    return NodeWindow(low, high, 1.01 * eta * peak, (exponents[0], exponents[1]))


def _coarse(tilted: Tilted) -> tuple[Array, Array, int]:
    """At most 200 atoms with the same mean: for choosing a Chernoff parameter, which is
    then used on the full law."""
    cut = np.arange(0, len(tilted.weight), max(1, len(tilted.weight) // 200))
    weight = np.add.reduceat(tilted.weight, cut)
    keep = weight > 0
    place = np.add.reduceat(tilted.weight * tilted.away, cut)[keep] / weight[keep]
    return weight[keep], place, tilted.times


def _slope(coarse: Sequence[tuple[Array, Array, int]], sign: int, goal: float, variance: float) -> float:
    # The best slope of a Gaussian of this variance; the law's own is not far from it.
    start = math.log(math.sqrt(2 * goal / max(variance, 1e-9)))
    moment = LogMoments(coarse)

    def end(v: float) -> float:
        return (goal + moment(sign * math.exp(v))) * math.exp(-v)

    minimum = optimize.minimize_scalar(
        end, bounds=(start - 7, start + 3), method="bounded", options={"xatol": 0.05}
    )
    return math.exp(float(minimum.x))


def _power(f: Complex, times: int) -> Complex:
    """f**times by squaring: times − 1 complex products in the error, each √5·u (Brent,
    Percival, Zimmermann 2007)."""
    out: Complex | None = None
    while True:
        if times & 1:
            out = f.copy() if out is None else out * f
        times >>= 1
        if not times:
            assert out is not None
            return out
        f = f * f


def _raise_in_place(f: Complex, times: int) -> None:
    """f becomes f**times, slice by slice, so that no second long array is needed. Frequencies whose power
    stays below e^−45 are left at 0; the error has e^−45 a part for them."""
    for start in range(0, len(f), SLICE):
        part = f[start : start + SLICE]
        keep = np.abs(part) > math.exp(-NEGLIGIBLE / times)
        powers = _power(part[keep], times)
        part[:] = 0
        part[keep] = powers


def _by_fft(
    tilted: Sequence[Tilted], low: int, high: int, dt: float, theta: float
) -> tuple[int, Kernel, float]:
    """T4: transform, power, transform back, and a dot product with the kernel's weight."""
    size = fast_length(high - low + 1)
    rho = fft_error(size)
    total: Complex | None = None
    pairs, error = _paired(tilted, size)
    growth = 0.0
    for t in pairs:
        check_time()
        f = fft.rfft(np.bincount(t.index % size, t.weight, size))
        norm = float(np.linalg.norm(t.weight))
        error += rho * t.times * norm
        growth += 2 * t.times * (rho * math.sqrt(size) * norm + len(t.weight) * U)
        _raise_in_place(f, t.times)
        if total is None:
            total = f
        else:
            total *= f
    y = np.roll(fft.irfft(total, size), -(low % size))
    # From here on the kernel's weight is below e^−45, the last term of the error.
    count = min(size, int(NEGLIGIBLE / (theta * dt)) + 2)
    a = dt * np.arange(count)
    w = np.exp(-theta * a) * -np.expm1(-a)
    steps = sum(t.times for t in pairs)
    error = error * math.exp(min(growth, 700)) + 1.01 * rho + 1.01 * math.sqrt(5) * U * (steps + len(pairs))
    error = (error + len(pairs) * math.exp(-NEGLIGIBLE)) * float(np.linalg.norm(w)) * 1.01 + math.exp(
        -NEGLIGIBLE
    )
    return size, lambda i: float(y[i : i + count] @ w[: size - i]), error


SLICE = 2**18
"""Frequencies that are raised to a power at once."""
FOURTH = 4
"""Of many unlike steps this part of them is asked how wide the band of frequencies is."""
MANY = 16
"""From so many unlike steps on, short laws are convolved two by two before the long transforms."""


def _paired(tilted: Sequence[Tilted], size: int) -> tuple[Sequence[Tilted], float]:
    """T10: unlike single steps convolved in pairs, round by round, while their laws are
    short against `size`; and the L2 error.

    A thousand transforms of the whole window become a few, and the short ones add up to
    ten times the length of all laws.
    """
    single = [t for t in tilted if t.times == 1]
    if len(single) < MANY:
        return tilted, 0.0
    rest = [t for t in tilted if t.times != 1]
    laws = sorted((_dense(t) for t in single), key=lambda law: len(law.mass))
    while len(laws) > 1 and len(laws[0].mass) + len(laws[1].mass) <= size // 2:
        room = [law for law in laws if 2 * len(law.mass) <= size // 2]
        pairs = [_convolved(a, b) for a, b in zip(room[0::2], room[1::2], strict=False)]
        if not pairs:
            break
        left = []
        if len(room) % 2:
            left = room[-1:]
        laws = sorted([*pairs, *left, *laws[len(room) :]], key=lambda law: len(law.mass))
    return [*rest, *(law.tilted() for law in laws)], 1.01 * sum(law.error for law in laws)


@dataclass(frozen=True)
class _Dense:
    """Weights at successive nodes from `first` on, and the L2 error they may have."""

    first: int
    mass: Array
    error: float

    def tilted(self) -> Tilted:
        index = self.first + np.arange(len(self.mass), dtype=np.int64)
        mean = float(self.mass @ index)
        return Tilted(self.mass, index, np.asarray(index - mean, dtype=np.float64), 1)


def _dense(t: Tilted) -> _Dense:
    first = int(t.index.min())
    return _Dense(first, np.bincount(t.index - first, t.weight).astype(np.float64, copy=False), 0.0)


def _convolved(a: _Dense, b: _Dense) -> _Dense:
    """a ∗ b by one transform each: what Young's inequality and T4 leave as the error, measured in L2."""
    count = len(a.mass) + len(b.mass) - 1
    size = fast_length(count)
    rho, root = fft_error(size), math.sqrt(size)
    mass = fft.irfft(fft.rfft(a.mass, size) * fft.rfft(b.mass, size), size)[:count]
    norms = [float(np.linalg.norm(factor.mass)) for factor in (a, b)]
    # ‖FFT‖∞ ≤ ‖·‖₁ ≤ 1 + √n·error, which `heavy` covers for both factors.
    heavy = 1 + root * (a.error + b.error + 2 * rho * sum(norms))
    fresh = (2 * rho * sum(norms) + (math.sqrt(5) + 1) * U * min(norms)) * heavy
    return _Dense(a.first + b.first, mass, (a.error + b.error + fresh) * heavy)


def _direct(
    tilted: Sequence[Tilted], low: int, high: int, dt: float, theta: float, wide: bool
) -> tuple[int, Kernel, float] | None:
    """T6: only the low frequencies of a certified band are summed, and the kernel's
    transform has a closed form."""
    size = high - low + 1
    band = _band(tilted, size)
    if band is None or band * sum(len(t.weight) for t in tilted) > 60 * size + 2e6:
        return None
    real, cplx = (np.longdouble, np.clongdouble) if wide else (np.float64, np.complex128)
    u = float(np.finfo(real).eps) / 2
    k = np.arange(band + 1)
    phi = 2 * np.arccos(real(-1)) / size
    g: Complex = np.ones(band + 1, cplx)
    spoilt, shifts = np.zeros(band + 1), 0
    for t in tilted:
        shift = round(float(t.index[0] - t.away[0]))
        shifts += t.times * shift
        f = _frequencies(t, shift, phi, band, cplx)
        phase = float(phi) * float(np.abs(t.index - shift).max())
        error = (
            (40 + math.log2(len(t.weight)) + k * (6 + 3 * phase))
            * u
            / np.maximum(np.abs(f).astype(float), 1e-300)
        )
        spoilt += np.expm1(np.minimum(1.01 * t.times * (error + math.sqrt(5) * u), 700))
        g = g * _power(f, t.times)
    turn = phi * k
    fall, rest = -real(theta) * real(dt), -real(dt)
    transform = np.exp(fall + 1j * turn) * -np.expm1(rest) / (expm1(fall, turn) * expm1(fall + rest, turn))
    gw = g * transform * (2 / real(size))
    # Every frequency but 0 stands for its conjugate too.
    gw[0] /= 2
    error = float(np.abs(gw) @ (spoilt + (8 * k + 32) * u)) + math.exp(-NEGLIGIBLE) * float(abs(transform[0]))

    def kernel(i: int) -> float:
        return float((gw @ np.exp(1j * phi * (k * ((low + i - shifts) % size) % size))).real)

    return size, kernel, error


def _band(tilted: Sequence[Tilted], size: int) -> int | None:
    """How many low frequencies matter: outside, |F|^T < e^−45, certified on a coarse sample of
    frequencies."""
    spread = math.sqrt(sum(t.times * t.variance for t in tilted))
    count = fast_length(int(2.5 * spread) + 64)
    if count > 4e6:
        return None
    some = _some(tilted)
    band = _certified_band(some, count, size)
    if band is not None or len(some) == len(tilted):
        return band
    return _certified_band(tilted, count, size)


def _certified_band(tilted: Sequence[Tilted], count: int, size: int) -> int | None:
    """|F|² has second derivative ≤ 2·variance, so between samples h apart it exceeds the larger end by ≤
    h²·variance/4; the sample's own rounding (T4) is added.
    """
    h = 2 * math.pi / count
    bound = np.zeros(count // 2)
    for t in tilted:
        f = np.abs(fft.rfft(np.bincount(t.index % count, t.weight, count))) ** 2
        rounding = 4 * fft_error(count) * math.sqrt(count) * float(np.linalg.norm(t.weight)) + 8 * U
        largest = np.maximum(f[:-1], f[1:])[: len(bound)] + h * h * t.variance / 4 + rounding
        bound += 0.5 * t.times * np.log(largest)
    loud = np.flatnonzero(bound > -NEGLIGIBLE)
    last = 1
    if len(loud):
        last = int(loud[-1]) + 1
    if last <= count // 4:
        return math.ceil(last * size / count) + 1
    return None


def _some(tilted: Sequence[Tilted]) -> Sequence[Tilted]:
    """Of many unlike steps every fourth, by variance: no |F| exceeds 1, so they alone
    certify a band, about twice as wide.

    Steps of all sizes, because two that are alike grow loud again at the same high frequency.
    """
    if len(tilted) < MANY:
        return tilted
    return sorted(tilted, key=lambda t: t.variance)[::FOURTH]


def _frequencies(
    t: Tilted, shift: int, phi: Any, band: int, cplx: type[np.complexfloating[Any, Any]]
) -> Complex:
    """Σ weight·e^(−iφk·(index − shift)) for k = 0..band by repeated multiplication."""
    z = np.exp(1j * phi * (shift - t.index)).astype(cplx)
    current = t.weight.astype(cplx)
    out = np.empty(band + 1, cplx)
    # One rounding more with each k: `_direct` charges the k-th frequency for k of them.
    for k in range(band + 1):
        out[k] = current.sum()
        current *= z
    return out
