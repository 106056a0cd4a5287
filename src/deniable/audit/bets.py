"""Bets on rare but telling scores: a certified μ where few canaries, or few runs, give themselves away.

A guess about every coin (`one_run.independent_mu`) is the strongest where all scores tell a little. Where one in
a hundred tells everything, as behind noise that is cut off, a coordinate that is not clipped, a step without
noise, it drowns. Here one set S of scores is bet on: a coin that fell "in" behind a score of S wins λ, one that
fell "out" loses λ·c, any other score changes nothing.

Theorem. Under μ-Gaussian privacy, given all that happened before, E[1 + λX] ≤ 1 + λ·h(μ)/2 with the
hockey-stick h(μ) = Φ(μ/2 − ln c/μ) − c·Φ(−μ/2 − ln c/μ) ≥ P(S) − c·Q(S) (Dong, Roth, Su 2022, Cor. 2.13). So the
wealth Π (1 + λXᵢ)/(1 + λh(μ)/2) is a supermartingale that starts at 1 and passes 1/α with probability at most α
(Ville 1939), whatever the canaries depend on. S, c and λ are learnt on scores of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from deniable.audit.statistics import Array
from deniable.audit.thresholds import candidates

Booleans = NDArray[np.bool_]

LEARN = 0.3
BINS = 120
ODDS = np.exp(np.linspace(0.2, 5, 13))
"""What a lost bet costs, in units of what a won one brings: c."""
STAKES = (0.1, 0.3, 0.6, 0.9)
"""λ·c: the share of the wealth that one lost bet takes."""
DOUBT = 0.5
"""Lost bets that are added to those of the learning part, for each set that is tried."""
OFTEN, DIGITS = 1e-3, 9
"""From this share on a value, to so many digits, is one that comes again."""
LARGEST = 30.0


@dataclass(frozen=True)
class Bet:
    """`edges` cut the scores into bins, `members` are the bins of S; `odds` is c and `stake` λ."""

    edges: Array
    members: Booleans
    odds: float
    stake: float

    def placed(self, scores: Array) -> Booleans:
        return np.asarray(self.members[np.searchsorted(self.edges, scores, side="right")])

    def wealth(self, won: int, lost: int, trials: int, mu: float) -> float:
        """ln of what one unit has become, beyond what μ-Gaussian privacy allows on average."""
        gain = won * math.log1p(self.stake) + lost * math.log1p(-self.stake * self.odds)
        return gain - trials * math.log1p(self.stake * hockey_stick(mu, self.odds) / 2)


def hockey_stick(mu: float, odds: float) -> float:
    """sup over S of P(S) − odds·Q(S) for N(μ, 1) and N(0, 1).

    >>> round(hockey_stick(1.0, 1.0), 4), hockey_stick(0.0, 2.0)
    (0.3829, 0.0)
    """
    if mu <= 0:
        return max(0.0, 1 - odds)
    cut = math.log(odds) / mu
    return max(0.0, float(ndtr(mu / 2 - cut) - odds * ndtr(-mu / 2 - cut)))


def mu_from_bets(scores: Array, inside: Booleans, alpha: float, claimed: float) -> float:
    """The largest μ that these scores contradict, but for a chance of alpha; 0 if there is none.

    `claimed` is the μ that the bet is made against: it decides how much is found, never whether that is true.
    """
    start = int(LEARN * len(scores))
    bet = _learnt(scores[:start], inside[:start], claimed)
    if bet is None:
        return 0.0
    bets, coins = bet.placed(scores[start:]), inside[start:]
    wins, losses = int(np.count_nonzero(bets & coins)), int(np.count_nonzero(bets & ~coins))

    def excess(mu: float) -> float:
        return bet.wealth(wins, losses, len(coins), mu) + math.log(alpha)

    if excess(0.0) <= 0:
        return 0.0
    if excess(LARGEST) > 0:
        return LARGEST
    root = float(brentq(excess, 0.0, LARGEST, xtol=1e-9))
    return max(0.0, root - 1e-8)


def _edges(scores: Array) -> Array:
    """Quantiles, dense in the tails, and values that come again and again, each in a bin of its own."""
    values, counts = np.unique(np.round(scores, DIGITS), return_counts=True)
    often = values[(counts >= OFTEN * len(scores)) & (counts > 1) & np.isfinite(values)]
    width = 10.0**-DIGITS
    around = np.concatenate([often[:BINS] - width, often[:BINS] + width])
    return np.unique(np.concatenate([candidates(scores, BINS), around]))


def _learnt(scores: Array, inside: Booleans, claimed: float) -> Bet | None:
    """The bet that would have grown fastest against `claimed`, among unions of the bins that speak most for "in"."""
    if len(scores) < 2:
        return None
    edges = _edges(scores)
    bins = np.searchsorted(edges, scores, side="right")
    with_it = np.bincount(bins[inside], minlength=len(edges) + 1)
    without = np.bincount(bins[~inside], minlength=len(edges) + 1)
    order = np.argsort(-(with_it + DOUBT) / (without + DOUBT), kind="stable")
    wins, losses = np.cumsum(with_it[order]), np.cumsum(without[order]) + DOUBT
    best, choice = 0.0, None
    for odds, share in product(ODDS, STAKES):
        stake = share / odds
        growth = wins * math.log1p(stake) + losses * math.log1p(-share)
        growth = growth - len(scores) * math.log1p(stake * hockey_stick(claimed, odds) / 2)
        at = int(np.argmax(growth))
        if growth[at] > best:
            best, choice = float(growth[at]), (at, float(odds), stake)
    if choice is None:
        return None
    members = np.zeros(len(edges) + 1, np.bool_)
    members[order[: choice[0] + 1]] = True
    return Bet(edges, members, choice[1], choice[2])
