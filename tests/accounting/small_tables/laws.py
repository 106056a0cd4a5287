"""Laws with finitely many outcomes, noise on a line among them, and the exact δ of two laws.

A law is a dict from outcomes (tuples) to chances. Numbers are `Fraction` where a δ is stated and `float` where the worst of many
tables is looked for. An entry of an outcome that is a `Line` stands for a real answer: noise of known shape around a mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import mpmath
import numpy as np
from scipy.special import ndtr

Law = dict[tuple[Any, ...], Any]
DIGITS = 80
"""Sums of so many digits: a δ of 1e-33 is what is left of probabilities near one."""
FARTHEST = 8
"""No small table moves a real answer farther from zero: four units, a shift of two each."""


class NotStated(Exception):
    """The docstring of a node says nothing about such neighbours or such a table, or it is not listed here."""


class Line(NamedTuple):
    """Noise around an integer: `gaussian` of a deviation, or `laplace` of a scale."""

    kind: str
    scale: Fraction
    mean: int


def mixture(parts: Iterable[tuple[Any, Law]]) -> Law:
    """One of several laws, drawn by weights that nobody sees."""
    total: Law = {}
    for weight, law in parts:
        for outcome, chance in law.items():
            total[outcome] = total.get(outcome, 0) + weight * chance
    return total


def delta(p: Law, q: Law, x: Fraction) -> Fraction:
    """sup over events S of P(S) − x·Q(S): a finite sum, or, for noise on a line, an integral that is cut where the sign changes.

    Intervals cut a little beside the zeros would give a little less, never more.
    """
    finite, lines = _divide(p, q)
    total = sum((max(a - x * b, Fraction(0)) for a, b in finite), Fraction(0))
    for (kind, scale), means in lines:
        with mpmath.workdps(DIGITS):
            weights = {mean: _real(a - x * b) for mean, (a, b) in means.items()}
            total += _fraction(_positive_part(kind, _real(scale), weights))
    return total


def _divide(
    p: Law, q: Law
) -> tuple[list[tuple[Any, Any]], list[tuple[tuple[str, Fraction], dict[int, list[Any]]]]]:
    """Outcomes without a real answer as pairs of chances; those with one by all else that is seen beside it."""
    finite: list[tuple[Any, Any]] = []
    lines: dict[Any, dict[int, list[Any]]] = {}
    for outcome in p.keys() | q.keys():
        answers = [part for part in outcome if isinstance(part, Line)]
        chances = [p.get(outcome, 0), q.get(outcome, 0)]
        if not answers:
            finite.append((chances[0], chances[1]))
            continue
        if len(answers) > 1:
            raise NotStated("Two real answers would be a plane.")
        answer = answers[0]
        beside = tuple(part for part in outcome if not isinstance(part, Line))
        place = lines.setdefault((answer.kind, answer.scale, beside), {}).setdefault(answer.mean, [0, 0])
        place[0] += chances[0]
        place[1] += chances[1]
    return finite, [((kind, scale), means) for (kind, scale, _), means in lines.items()]


CELLS = 360
"""Cells of a line, narrow enough to find the worst of many tables."""


@lru_cache(maxsize=256)
def cell_masses(kind: str, scale: Fraction, mean: int) -> Any:
    """The masses of narrow cells of the line, the same cells for every mean that small tables have."""
    width = float(scale)
    ends = np.linspace(-FARTHEST - 9 * width, FARTHEST + 9 * width, CELLS + 1)
    t = (ends - mean) / width
    if kind == "gaussian":
        return np.diff(ndtr(t))
    return np.diff(np.where(t < 0, np.exp(np.minimum(t, 0)) / 2, 1 - np.exp(-np.maximum(t, 0)) / 2))


def _positive_part(kind: str, scale: Any, weights: dict[int, Any]) -> Any:
    """∫ (Σ wₘ·f(t − m))₊ dt."""
    zeros = (_gaussian_zeros if kind == "gaussian" else _laplace_zeros)(scale, weights)
    ends = [-mpmath.inf, *sorted(zeros), mpmath.inf]
    total = mpmath.mpf(0)
    for left, right in itertools.pairwise(ends):
        mass = sum(
            w * (_below(kind, (right - m) / scale) - _below(kind, (left - m) / scale))
            for m, w in weights.items()
        )
        total += max(mass, 0)
    return total


def _below(kind: str, t: Any) -> Any:
    if mpmath.isinf(t):
        return mpmath.mpf(t > 0)
    if kind == "gaussian":
        return mpmath.ncdf(t)
    return mpmath.exp(t) / 2 if t < 0 else 1 - mpmath.exp(-t) / 2


def _gaussian_zeros(scale: Any, weights: dict[int, Any]) -> list[Any]:
    """With z = e^(t/σ²) the sum is a polynomial Σ wₘ·e^(−m²/2σ²)·z^m, times what is positive."""
    low, high = min(weights), max(weights)
    terms = [
        weights.get(m, mpmath.mpf(0)) * mpmath.exp(-(mpmath.mpf(m) ** 2) / (2 * scale**2))
        for m in range(low, high + 1)
    ]
    if len(terms) < 2:
        return []
    roots = np.roots([float(term) for term in terms[::-1]])
    positive = [root.real for root in roots if abs(root.imag) < 1e-6 * abs(root) and root.real > 0]
    return [scale**2 * mpmath.log(mpmath.mpf(root)) for root in positive]


def _laplace_zeros(scale: Any, weights: dict[int, Any]) -> list[Any]:
    """Between two means the sum is a·e^(t/b) + c·e^(−t/b): at most one zero, and the means themselves are cuts."""
    means = sorted(weights)
    cuts = [mpmath.mpf(m) for m in means]
    for left, right in itertools.pairwise(means):
        rising = sum(weights[m] * mpmath.exp(-m / scale) for m in means if m >= right)
        falling = sum(weights[m] * mpmath.exp(m / scale) for m in means if m <= left)
        if rising and -falling / rising > 0:
            zero = scale / 2 * mpmath.log(-falling / rising)
            if left < zero < right:
                cuts.append(zero)
    return cuts


def _real(x: Any) -> Any:
    x = Fraction(x)
    return mpmath.mpf(x.numerator) / x.denominator


def _fraction(x: Any) -> Fraction:
    sign, mantissa, exponent, _ = mpmath.mpf(x)._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def rational(x: Any) -> Fraction:
    """A number of mpmath, as it is."""
    return _fraction(x)
