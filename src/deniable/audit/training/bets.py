"""Bets on rare but telling scores: a certified μ where few canaries, or few runs, give themselves away.

A guess about every coin (`one_run.independent_mu`) is the strongest where all scores tell a little. Where one
in a hundred tells everything, as behind noise that is cut off, a coordinate that is not clipped, a step
without noise, it drowns. Here two sets of scores are bet on, one for "in" and one for "out" (which may be
empty): a coin that fell as was bet wins λ, the other loses λ·c, any other score changes nothing.

Theorem. Under μ-Gaussian privacy, given all that happened before, E[1 + λX] ≤ 1 + λ·k·h(μ)/2 with k sets that
are not empty and the hockey-stick h(μ) = Φ(μ/2 − ln c/μ) − c·Φ(−μ/2 − ln c/μ), which is at least
P(S) − c·Q(S) and at least Q(S) − c·P(S) (Dong, Roth, Su 2022, Cor. 2.13). So the wealth
Π (1 + λXᵢ)/(1 + λ·k·h(μ)/2) is a supermartingale that starts at 1, and its largest value passes 1/α with
probability at most α (Ville 1939), whatever the canaries depend on. Sets, c and λ may be learnt from all
scores that came before: each part of the scores, longer than the one before it, has its own, and an even
share of the wealth is put in at the beginning of each, so that first bets, learnt from little, cannot ruin
later ones. The largest value counts, so what only the first steps told is not forgotten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from deniable.audit.rules.thresholds import candidates
from deniable.audit.statistics import Array

Booleans = NDArray[np.bool_]

FIRST, GROWTH = 0.02, 3
"""The share of scores that the first bet is learnt from; then so many times as many for each further one."""
BINS = 120
ODDS = np.exp(np.linspace(0.2, 5, 13))
"""What a lost bet costs, in units of what a won one brings: c."""
STAKES = (0.1, 0.3, 0.6, 0.9)
"""λ·c: the share of the wealth that one lost bet takes."""
DOUBT = 0.5
"""Lost bets that are added to those of the learning part, for each set that is tried."""
PROMISE = 2.0
"""ln of what a set must have won on the scores that it is learnt from: the best of many has won a little by
luck."""
OFTEN, DIGITS = 1e-3, 9
"""From this share on a value, to so many digits, is one that comes again."""
LARGEST = 30.0


@dataclass(frozen=True)
class Bet:
    """`edges` cut the scores into bins, `sides` says for each bin 1 for a bet on "in", −1 on "out", 0 for
    none; `odds` is c and `stake` λ."""

    edges: Array
    sides: NDArray[np.int64]
    odds: float
    stake: float

    def gains(self, scores: Array, coins: Booleans) -> Array:
        """ln of what one unit becomes by each score."""
        bets = self.sides[np.searchsorted(self.edges, scores, side="right")]
        wins = bets == np.where(coins, 1, -1)
        outcome = np.where(wins, math.log1p(self.stake), math.log1p(-self.stake * self.odds))
        return np.where(bets != 0, outcome, 0.0)

    def largest_gain(self, mu: float) -> float:
        """ln of what one unit becomes at most on average, by one score under μ-Gaussian privacy."""
        sets = int(np.any(self.sides > 0)) + int(np.any(self.sides < 0))
        return math.log1p(self.stake * sets * hockey_stick(mu, self.odds) / 2)


def hockey_stick(mu: float, odds: float) -> float:
    """sup over S of P(S) − odds·Q(S) for N(μ, 1) and N(0, 1).

    >>> round(hockey_stick(1.0, 1.0), 4), hockey_stick(0.0, 2.0)
    (0.3829, 0.0)
    """
    if mu <= 0:
        return max(0.0, 1 - odds)
    cut = math.log(odds) / mu
    return max(0.0, float(ndtr(mu / 2 - cut) - odds * ndtr(-mu / 2 - cut)))


def mu_from_bets(scores: Array, coins: Booleans, alpha: float, claim_mu: float) -> float:
    """The largest μ that these scores contradict, but for a chance of alpha; 0 if there is none.

    `claim_mu` is the μ that the bet is made against: it decides how much is found, never if that is true.
    """
    gains, bets = [], []
    start = max(2, int(FIRST * len(scores)))
    while start < len(scores):
        stop = min(len(scores), GROWTH * start)
        bet = _learn_bet(scores[:start], coins[:start], claim_mu)
        if bet is not None:
            gains.append(bet.gains(scores[start:stop], coins[start:stop]))
            bets.append(bet)
        start = stop
    if not bets:
        return 0.0

    def excess(mu: float) -> float:
        parts = [part - bet.largest_gain(mu) for part, bet in zip(gains, bets, strict=True)]
        return _richest(parts) + math.log(alpha)

    if excess(0.0) <= 0:
        return 0.0
    if excess(LARGEST) > 0:
        return LARGEST
    root = float(brentq(excess, 0.0, LARGEST, xtol=1e-9))
    return max(0.0, root - 1e-8)


def _richest(parts: list[Array]) -> float:
    """ln of the largest wealth of one unit that is shared out evenly, one share put in at the beginning of
    each part."""
    wealth = np.concatenate([[0.0], np.cumsum(np.concatenate(parts))])
    begins = np.concatenate([[0], np.cumsum([len(part) for part in parts])])[:-1]
    # A share that is not yet put in is worth what it was.
    shares = [np.where(np.arange(len(wealth)) < begin, 0.0, wealth - wealth[begin]) for begin in begins]
    return float(np.max(np.logaddexp.reduce(shares, axis=0))) - math.log(len(parts))


def _edges(scores: Array) -> Array:
    """Quantiles, dense in the tails, and values that come again and again, each in a bin of its own."""
    values, counts = np.unique(np.round(scores, DIGITS), return_counts=True)
    often = values[(counts >= OFTEN * len(scores)) & (counts > 1) & np.isfinite(values)]
    width = 10.0**-DIGITS
    around = np.concatenate([often[:BINS] - width, often[:BINS] + width])
    return np.unique(np.concatenate([candidates(scores, BINS), around]))


def _learn_bet(scores: Array, coins: Booleans, claim_mu: float) -> Bet | None:
    """The bet that would have grown fastest against `claim_mu`, among unions of the bins that speak most for
    "in"."""
    if len(scores) < 2:
        return None
    edges = _edges(scores)
    bins = np.searchsorted(edges, scores, side="right")
    with_it = np.bincount(bins[coins], minlength=len(edges) + 1)
    without = np.bincount(bins[~coins], minlength=len(edges) + 1)
    ratio = (with_it + DOUBT) / (without + DOUBT)
    orders = np.argsort(-ratio, kind="stable"), np.argsort(ratio, kind="stable")
    for_in = np.cumsum(with_it[orders[0]]), np.cumsum(without[orders[0]]) + DOUBT
    for_out = np.cumsum(without[orders[1]]), np.cumsum(with_it[orders[1]]) + DOUBT
    best, choice = 0.0, None
    for odds, share in product(ODDS, STAKES):
        stake = share / odds
        price = len(scores) * math.log1p(stake * hockey_stick(claim_mu, odds) / 2)
        growths = [
            wins * math.log1p(stake) + losses * math.log1p(-share) - price
            for wins, losses in (for_in, for_out)
        ]
        ends = [int(np.argmax(growth)) for growth in growths]
        tops = [float(growth[end]) for growth, end in zip(growths, ends, strict=True)]
        sizes = [end + 1 if top > PROMISE else 0 for top, end in zip(tops, ends, strict=True)]
        total = sum(top for top in tops if top > PROMISE)
        if total > best:
            best, choice = total, (sizes, float(odds), stake)
    if choice is None:
        return None
    (first, second), odds, stake = choice
    sides = np.zeros(len(edges) + 1, np.int64)
    sides[orders[1][:second]] = -1
    sides[orders[0][:first]] = 1
    return Bet(edges, sides, odds, stake)
