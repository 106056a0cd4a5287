"""How far sums and quotients of noisy numbers may be off, from the joint law of their independent noises.

A `LinearForm` is a number known up to noise: value + Σ sizeᵢ·noiseᵢ. Its `reach` is a t with
P(|Σ sizeᵢ·noiseᵢ| > t) ≤ β, and `quotients` are the true quotients of two forms that the noise does not rule
out (Fieller 1954).
Proofs: docs/theory/curator.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from deniable.loss import exact
from deniable.sql.plan.noise import Family, Noise

_UP = 1 + 1e-9
"""More than the rounding of the formulas below, which are good to 1e-12."""
_RATIOS = 1024
"""Ratios of two Laplace scales are rounded up to multiples of 1/1024, so that few quantiles are computed."""
_STEPS = 100

Bound = Noise | int
"""A noise, or a whole number that the error never passes."""
Ends = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class LinearForm:
    """value + Σ size·noise over the noises of `terms`, which are independent and known by their part;
    rounding may have moved it by `slack` besides.

    Where the rows that a bound leaves out are told, `counted` is the part of it that counts, and what is left
    out is on the `side` of 0 that its sign says: 1 for a count, 0 where either is possible."""

    value: Fraction
    terms: Mapping[int, tuple[Fraction, Bound]] = field(default_factory=dict)
    slack: Fraction = Fraction(0)
    counted: LinearForm | None = None
    side: int = 0

    @property
    def known(self) -> bool:
        """Whether there is no noise in it."""
        return not self.terms and not self.slack

    def times(self, by: Fraction) -> LinearForm:
        if not by:
            return LinearForm(Fraction(0))
        terms = {i: (s * by, n) for i, (s, n) in self.terms.items()}
        base = None
        if self.counted is not None:
            base = self.counted.times(by)
        side = self.side if by > 0 else -self.side
        return LinearForm(self.value * by, terms, self.slack * abs(by), base, side)

    def plus(self, other: LinearForm) -> LinearForm:
        terms = dict(self.terms)
        for i, (size, noise) in other.terms.items():
            before, _ = terms.get(i, (Fraction(0), noise))
            terms[i] = (size + before, noise)
        nonzero_terms = {i: term for i, term in terms.items() if term[0]}
        value, slack = self.value + other.value, self.slack + other.slack
        sides = {form.side for form in (self, other) if form.counted is not None}
        if not sides:
            return LinearForm(value, nonzero_terms, slack)
        base = (self.counted or self).plus(other.counted or other)
        return LinearForm(value, nonzero_terms, slack, base, sides.pop() if len(sides) == 1 else 0)

    def beside(self, left_out: LinearForm, side: int) -> LinearForm:
        """This number, which counts, and what is left out of it."""
        return replace(self.plus(left_out), counted=self, side=side)

    def reach(self, beta: float) -> Fraction:
        return self.slack + reach(self.terms.values(), beta)

    def ends(self, beta: float) -> Ends:
        """By the noise in it. What is left out has a sign where `side` says one, so the end of what counts is
        an end too: three ends, of which each fails with probability β/3 at most, since noise is symmetric."""
        if self.counted is None or not self.side:
            margin = self.reach(beta)
            return self.value - margin, self.value + margin
        margin, inner = self.reach(2 * beta / 3), self.counted.reach(2 * beta / 3)
        low, high = self.value - margin, self.value + margin
        if self.side > 0:
            return max(low, self.counted.value - inner), max(self.counted.value, high)
        return min(self.counted.value, low), min(high, self.counted.value + inner)


def reach(terms: Collection[tuple[Fraction, Bound]], beta: float) -> Fraction:
    """A t with P(|Σ size·noise| > t) ≤ β: the exact radius of one noise, else as in `_Reach`."""
    if len(terms) == 1:
        [(size, bound)] = terms
        return abs(size) * (bound if isinstance(bound, int) else bound.within(beta))
    if not terms:
        return Fraction(0)
    unit = max(abs(size) for size, _ in terms)
    return unit * exact(_Reach.of([(size / unit, bound) for size, bound in terms], beta)())


@dataclass(frozen=True)
class _Reach:
    """The reach of Σ size·noise in floats, from above: the smaller of two bounds, both growing with every
    size.

    One takes each of the k noises at β/k. The other rounds none of them: integer noise differs from
    continuous noise of the same scale, suitably coupled, by at most 1, and the sum of the continuous ones has
    a known law."""

    beta: float
    family: Family | None
    sizes: tuple[float, ...]
    scales: tuple[float, ...]
    radii: tuple[float, ...]
    sure: float

    @classmethod
    def of(cls, terms: Collection[tuple[Fraction, Bound]], beta: float, many: int = 0) -> _Reach:
        """Of these terms, or of these among `many`."""
        noises = [(float(abs(size)), noise) for size, noise in terms if isinstance(noise, Noise)]
        sure = math.fsum(float(abs(size)) * noise for size, noise in terms if isinstance(noise, int))
        share = beta / max(1, many, len(noises))
        return cls(
            beta,
            _coupled([noise for _, noise in noises]),
            tuple(size for size, _ in noises),
            tuple(size * float(noise.scale) for size, noise in noises),
            tuple(size * noise.within(share) for size, noise in noises),
            sure,
        )

    def __call__(self) -> float:
        return self.beside(0.0, None)

    def beside(self, times: float, other: _Reach | None) -> float:
        """Of this sum and `times` another one's, together."""
        if other is None:
            sizes, scales, radii, sure = self.sizes, self.scales, self.radii, self.sure
        else:
            sizes = (*self.sizes, *(times * size for size in other.sizes))
            scales = (*self.scales, *(times * scale for scale in other.scales))
            radii = (*self.radii, *(times * radius for radius in other.radii))
            sure = self.sure + times * other.sure
        apart = math.fsum(radii)
        if self.family is None or len(sizes) < 2:
            return (sure + apart) * _UP
        return (sure + min(apart, _together(self.family, scales, self.beta) + math.fsum(sizes))) * _UP


def _coupled(noises: Collection[Noise]) -> Family | None:
    """The one family of these noises where integer noise is proved to lie within 1 of continuous noise: of
    Laplace noise, and of Gaussian noise of σ ≥ 1."""
    families = {noise.family for noise in noises}
    if families == {Family.LAPLACE}:
        return Family.LAPLACE
    wide = all(noise.scale >= 1 for noise in noises)
    if families == {Family.GAUSSIAN} and wide:
        return Family.GAUSSIAN
    return None


def _together(family: Family, scales: tuple[float, ...], beta: float) -> float:
    """The quantile of |Σ continuous noises|, from above."""
    if family is Family.GAUSSIAN:
        return _normal(beta) * math.hypot(*scales)
    first, second, *rest = sorted(scales, reverse=True)
    # The two largest have an exact law, the rest are taken at β/k each.
    part = beta / len(scales)
    share = 0
    if first:
        share = math.ceil(second / first * _RATIOS)
    return first * _two_laplace(share, 2 * part) + math.fsum(rest) * math.log(1 / part)


def _normal(beta: float) -> float:
    return -NormalDist().inv_cdf(beta / 2)


@lru_cache(maxsize=1 << 14)
def _two_laplace(share: int, beta: float) -> float:
    """The least t with P(|L₁ + r·L₂| > t) ≤ β, r = share/1024 ≤ 1, for Laplace noises of scale 1.

    The tail is (e^−t − r²·e^(−t/r))/(1 − r²) = e^−t·(1 + r·t/(1 + r)·φ(t·(1 − r)/r)) with φ(x) = (1 −
    e^−x)/x, which loses no digits at r = 1. It is e^−t times what grows slowly, so t = ln(·/β) is iterated,
    from below."""
    r, log = min(1.0, share / _RATIOS), math.log(1 / beta)
    if not share:
        return log
    t = log
    for _ in range(60):
        x = t * (1 - r) / r
        t = log + math.log1p(r * t / (1 + r) * (-math.expm1(-x) / x if x > 0 else 1.0))
    return t


# ------------------------------------------------------------------------------------------------ quotients


def quotients(top: LinearForm, bottom: LinearForm, beta: float, between: Ends | None = None) -> Ends | None:
    """Ends of {ρ : |top − ρ·bottom| ≤ reach of that}, which holds the true quotient with probability 1 − β;
    None if unbounded.

    `between` is where quotients lie for sure. None where the denominator's own interval holds 0. A part in
    both is taken out of the numerator by a/b = c + (a − c·b)/b; where that is not possible, all quotients of
    the two intervals are taken. Where the denominator's left-out rows are told, these are taken too, at β/2
    each: their noise may hide a denominator that what counts still bounds."""
    if bottom.counted is None:
        return _fieller(top, bottom, beta, between)
    pairs = _fieller(top, bottom, beta / 2, between), _apart(top, bottom, beta / 2)
    intervals = [ends for ends in pairs if ends is not None]
    if not intervals:
        return None
    low, high = max(ends[0] for ends in intervals), min(ends[1] for ends in intervals)
    return min(low, high), max(low, high)


def _fieller(top: LinearForm, bottom: LinearForm, beta: float, between: Ends | None) -> Ends | None:
    if bottom.value < 0:
        top, bottom = top.times(Fraction(-1)), bottom.times(Fraction(-1))
    ratios = [top.terms[i][0] / bottom.terms[i][0] for i in top.terms if i in bottom.terms]
    common = ratios[0] if ratios else Fraction(0)
    rest = top.plus(bottom.times(-common))
    if any(i in bottom.terms for i in rest.terms):
        return _apart(top, bottom, beta)
    start = _apart(rest, bottom, beta) if between is None else (between[0] - common, between[1] - common)
    if start is None or bottom.value <= bottom.reach(beta):
        return None
    reach_by_size = _quotient_reach(rest, bottom, beta)
    low = -_upper(-rest.value, bottom.value, reach_by_size, -start[0])
    return low + common, _upper(rest.value, bottom.value, reach_by_size, start[1]) + common


def _apart(top: LinearForm, bottom: LinearForm, beta: float) -> Ends | None:
    """All quotients of the two intervals at β/2 each."""
    above, below = top.ends(beta / 2), bottom.ends(beta / 2)
    if below[0] <= 0:
        return None
    ends = [a / b for a in above for b in below]
    return min(ends), max(ends)


def _quotient_reach(top: LinearForm, bottom: LinearForm, beta: float) -> Callable[[float], float]:
    """The reach of top − ρ·bottom by |ρ|."""
    many = len(top.terms) + len(bottom.terms)
    above, below = (_Reach.of(form.terms.values(), beta, many) for form in (top, bottom))
    slack = float(top.slack), float(bottom.slack)

    def reached(size: float) -> float:
        return (slack[0] + size * slack[1] + above.beside(size, below)) * _UP

    return reached


def _upper(a: Fraction, b: Fraction, reached: Callable[[float], float], start: Fraction) -> Fraction:
    """The upper end of {ρ : |a − ρ·b| ≤ q(|ρ|)}, b > 0 and q growing, given that it is at most `start`.

    Every ρ in [0, u] of the set obeys ρ·b ≤ a + q(u), so u may be lowered to (a + q(u))/b, again and again.
    If none is positive, then a < 0, and the one nearest to 0 lies between a/b and 0, where q is at most
    q(|a/b|)."""
    top, bottom, u = float(a), float(b), float(start)
    for _ in range(_STEPS):
        if u <= 0:
            break
        last, u = u, min(u, (top + reached(u) + 1e-12 * abs(top)) / bottom)
        if u > 0 and last - u <= abs(last - top / bottom) / 1000:
            break
    far = min(start, Fraction(0)) if u <= 0 else start
    if a >= 0 and u <= 0:
        return far
    return min(far, (a + exact(reached(u if u > 0 else -top / bottom))) / b)
