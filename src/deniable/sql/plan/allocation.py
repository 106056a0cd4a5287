"""How ε is divided among the parts of a query, from metadata only, to make the errors shown small.

Every part i has a use uᵢ: how much its own relative error weighs in the outputs that stand on it. Laplace
noise has the error 1/εᵢ, so Σ uᵢ/εᵢ under Σ εᵢ = ε is least at εᵢ ∝ √uᵢ. Gaussian noise has the error 1/√ρᵢ,
so Σ uᵢ/√ρᵢ under Σ ρᵢ = ρ is least at ρᵢ ∝ uᵢ^(2/3). (Both by Lagrange.)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from deniable.loss import Number, exact
from deniable.sql.plan.noise import Family, concentrated, optimistic

_STEPS = 1 << 12


def pure_shares(uses: Sequence[float]) -> tuple[Fraction, ...]:
    """Shares of ε in proportion to √u; they sum to at most 1.

    >>> pure_shares([1, 1, 1]) == (Fraction(1, 3),) * 3
    True
    """
    return _proportional([math.sqrt(u) for u in uses])


def concentrated_shares(uses: Sequence[float]) -> tuple[Fraction, ...]:
    """Shares of ρ in proportion to u^(2/3); they sum to at most 1."""
    return _proportional([u ** (2 / 3) for u in uses])


def _proportional(weights: Sequence[float]) -> tuple[Fraction, ...]:
    """Equal weights give equal shares exactly; others are rounded down to a 4096th, and what is left goes to
    the first."""
    if len(set(weights)) <= 1:
        return tuple(Fraction(1, len(weights)) for _ in weights)
    total = math.fsum(weights)
    shares = [Fraction(max(1, math.floor(_STEPS * w / total)), _STEPS) for w in weights]
    excess = 1 - sum(shares)
    if excess < 0:
        # Tiny weights were lifted to one step, which made the sum more than 1: all are scaled back, exactly.
        return tuple(share / (1 - excess) for share in shares)
    return (shares[0] + excess, *shares[1:])


# -------------------------------------------------------------------------------------------- the whole query


@dataclass(frozen=True)
class Item:
    """Something to be measured: its use, and for noise the ratio of its L2 to its L1 sensitivity (None for a
    choice)."""

    use: float
    ratio: float | None


@dataclass(frozen=True)
class Allotment:
    """`amounts` are the ε of each item under Laplace noise, its ρ under Gaussian noise; `reserved` is that of
    the part that was set aside for what is not an item. The selections of
    private keys, one for each grouping set that needs one, get `selection` = (ε, δ) each. Gaussian noise and
    all choices beside it are (noise_epsilon, noise_delta)-DP together."""

    family: Family
    amounts: tuple[Fraction, ...]
    selection: tuple[Fraction, Fraction]
    noise_epsilon: Fraction
    noise_delta: Fraction
    reserved: Fraction = Fraction(0)


def allot(
    items: Sequence[Item],
    selections: int,
    epsilon: Fraction,
    delta: Number,
    family: Family | None,
    beta: float,
    aside: Fraction = Fraction(0),
) -> Allotment:
    """Divide (ε, δ); without a family, by the one whose errors at failure `beta` are smaller in the sum by
    use. The share `aside` of ε, or of ρ, is kept for something else."""
    laplace = _by_laplace(items, selections, epsilon, delta, aside)
    if family is Family.LAPLACE or not items or (family is None and not delta):
        return laplace
    pair = _noise_pair(laplace, selections, epsilon, delta)
    # Solving for ρ is dear: where even a ρ that is too good loses, it is not solved.
    hope = optimistic(*pair)
    if family is None and _score(items, laplace, beta) <= _score(
        items, _by_gaussian(items, laplace, pair, hope, aside), beta
    ):
        return laplace
    gaussian = _by_gaussian(items, laplace, pair, concentrated(*pair), aside)
    if family is Family.GAUSSIAN or _score(items, gaussian, beta) < _score(items, laplace, beta):
        return gaussian
    return laplace


def _by_laplace(
    items: Sequence[Item], selections: int, epsilon: Fraction, delta: Number, aside: Fraction
) -> Allotment:
    shares = pure_shares([item.use for item in items] + [1.0] * selections)
    reserve = epsilon * aside
    left = epsilon - reserve
    amounts = tuple(left * share for share in shares[: len(items)])
    selection = (Fraction(0), Fraction(0))
    if selections:
        # δ adds up over the grouping sets, as ε does.
        selection = (left * shares[-1], exact(delta) / selections)
    return Allotment(
        Family.LAPLACE,
        amounts,
        selection,
        sum(amounts, reserve),
        Fraction(0),
        reserve,
    )


def _noise_pair(
    laplace: Allotment, selections: int, epsilon: Fraction, delta: Number
) -> tuple[Fraction, Fraction]:
    """What is left for Gaussian noise: private keys take their share of ε as beside Laplace noise, and half
    of δ."""
    if not selections:
        return epsilon, exact(delta)
    return laplace.noise_epsilon, exact(delta) / 2


def _by_gaussian(
    items: Sequence[Item],
    laplace: Allotment,
    pair: tuple[Fraction, Fraction],
    rho: float | Fraction,
    aside: Fraction,
) -> Allotment:
    reserve = exact(rho) * aside
    total = exact(rho) - reserve
    amounts = tuple(total * share for share in concentrated_shares([item.use for item in items]))
    epsilon, delta = laplace.selection
    return Allotment(Family.GAUSSIAN, amounts, (epsilon, delta / 2), *pair, reserve)


def _score(items: Sequence[Item], allotment: Allotment, beta: float) -> float:
    """The sum of errors in L1 sensitivities: ln(1/β)/ε of Laplace noise, z·(L2/L1)/√2ρ of Gaussian noise."""
    pairs = list(zip(items, allotment.amounts, strict=True))
    if allotment.family is Family.LAPLACE:
        return math.fsum(
            item.use * (math.log(1 / beta) if item.ratio else 1.0) / float(e) for item, e in pairs
        )
    z = NormalDist().inv_cdf(1 - beta / 2)
    terms = []
    for item, rho in pairs:
        size = 1 / math.sqrt(8 * float(rho))
        if item.ratio:
            size = z * item.ratio / math.sqrt(2 * float(rho))
        terms.append(item.use * size)
    return math.fsum(terms)
