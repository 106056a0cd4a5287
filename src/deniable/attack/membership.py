"""Membership inference: was this row among those a model was trained on?

Everything an attack sees is the target's logits on the row, and the logits of shadow models of which it knows the training
rows. Each attack gives a score, larger for members:

    loss      the target's loss, below a threshold (Yeom et al. 2018)
    shokri    a classifier of members learnt on the shadow models' confidences (Shokri et al. 2017)
    lira      the likelihood ratio of the row's logit-scaled confidence under shadow models with and without it; `offline` knows
              only those without (Carlini et al. 2022)
    rmia      how often the row's ratio of confidence to that of shadow models beats other rows' (Zarifzadeh et al. 2024)

The figure of merit is the true-positive rate at a small false-positive rate, not the average case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp, ndtr
from scipy.stats import beta, norm, rankdata
from sklearn.linear_model import LogisticRegression

from deniable.accounting.meaning import advantage, attacker_power
from deniable.attack.learnt import Learnt, percent, percent_up
from deniable.attack.shadow import Booleans, Floats, Plain, Private, Watch, halves, unwatched

ATTACK = "membership"
Logits: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]
RATES = (0.001, 0.01)


@dataclass(frozen=True)
class Evidence:
    """The target's logits (rows, classes), the shadows' (models, rows, classes), whose members are known, and the labels."""

    target: Logits
    shadows: Logits
    members: Booleans
    labels: Labels


# ------------------------------------------------------------------------------------------------ attacks


def loss(seen: Evidence) -> Floats:
    """Minus the target's loss."""
    return np.asarray(_log_confidence(seen.target[None], seen.labels)[0])


def shokri(seen: Evidence) -> Floats:
    """Log odds of a classifier trained on all shadow models' outputs, sorted, with the confidence in the label."""
    known = np.concatenate([_features(one, seen.labels) for one in seen.shadows])
    fitted = LogisticRegression(max_iter=200).fit(known, seen.members.ravel())
    return np.asarray(fitted.decision_function(_features(seen.target, seen.labels)), np.float64)


def lira(seen: Evidence) -> Floats:
    """ln N(φ; in) − ln N(φ; out), φ = ln p/(1 − p) of the label, mean per row, one deviation for all rows: with a few dozen
    shadow models a deviation per row is worse than none (Carlini et al. 2022, section VI.C)."""
    phi, shadows = _scaled(seen.target[None], seen.labels)[0], _scaled(seen.shadows, seen.labels)
    inside, outside = (_fit(shadows, kept) for kept in (seen.members, ~seen.members))
    return np.asarray(norm.logpdf(phi, *inside) - norm.logpdf(phi, *outside), np.float64)


def lira_offline(seen: Evidence) -> Floats:
    """The probability that a model without the row is less sure of it."""
    phi, shadows = _scaled(seen.target[None], seen.labels)[0], _scaled(seen.shadows, seen.labels)
    mean, deviation = _fit(shadows, ~seen.members)
    return np.asarray(ndtr((phi - mean) / deviation), np.float64)


def rmia(seen: Evidence) -> Floats:
    """The share of the other rows z with (p(x)/E p(x)) ≥ (p(z)/E p(z)), p the target's confidence and E over the shadows.

    Models with the row and without it weigh half each. A mean over all shadows would tell by itself: every row is in half of all
    models, so it is in fewer of the others if it is in the target.
    """
    mine = _log_confidence(seen.target[None], seen.labels)[0]
    others = _log_confidence(seen.shadows, seen.labels)
    usual = np.logaddexp(*(_log_mean(others, kept) for kept in (seen.members, ~seen.members)))
    return np.asarray(rankdata(mine - usual) / len(mine), np.float64)


ATTACKS: Mapping[str, Callable[[Evidence], Floats]] = {
    "loss": loss,
    "shokri": shokri,
    "lira": lira,
    "lira offline": lira_offline,
    "rmia": rmia,
}


def _log_confidence(logits: Logits, labels: Labels) -> Floats:
    logs = log_softmax(logits.astype(np.float64), axis=2)
    return np.asarray(logs[:, np.arange(len(labels)), labels])


def _log_mean(logs: Floats, kept: Booleans) -> Floats:
    """ln of the mean of what is kept in each column."""
    return np.asarray(logsumexp(np.where(kept, logs, -np.inf), axis=0) - np.log(np.maximum(kept.sum(axis=0), 1)))


def _scaled(logits: Logits, labels: Labels) -> Floats:
    """ln p/(1 − p) of the label, from logits, so that it does not saturate."""
    z = logits.astype(np.float64)
    rows = np.arange(len(labels))
    label = z[:, rows, labels].copy()
    z[:, rows, labels] = -np.inf
    return np.asarray(label - logsumexp(z, axis=2))


def _fit(signals: Floats, kept: Booleans) -> tuple[Floats, float]:
    """The mean of each row's kept signals, and the deviation around them of all rows together."""
    counts = np.maximum(kept.sum(axis=0), 1)
    mean = np.where(kept, signals, 0).sum(axis=0) / counts
    freedom = max(int((counts - 1).sum()), 1)
    return mean, max(math.sqrt(float((np.where(kept, signals - mean, 0) ** 2).sum()) / freedom), 1e-9)


def _features(logits: Logits, labels: Labels) -> Floats:
    logs = log_softmax(logits.astype(np.float64), axis=1)
    top = -np.sort(-np.exp(logs), axis=1)[:, :3]
    return np.column_stack([top, np.exp(logs[np.arange(len(labels)), labels]), _scaled(logits[None], labels)[0]])


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class Curve:
    """How well scores tell members: the whole ROC, its area, and rates with 95 % intervals.

    Intervals take the rows as independent; rows of one model are not quite so, so read them as a guide to the scatter.
    """

    false_rates: Floats
    true_rates: Floats
    area: float
    area_interval: tuple[float, float]
    members: int
    others: int

    @classmethod
    def of(cls, scores: Floats, members: Booleans) -> Curve:
        order = np.argsort(-scores, kind="stable")
        ends = np.r_[np.flatnonzero(np.diff(-scores[order])), len(scores) - 1]
        hits, alarms = np.cumsum(members[order])[ends], np.cumsum(~members[order])[ends]
        inside, outside = int(members.sum()), int((~members).sum())
        area = (rankdata(scores)[members].sum() - inside * (inside + 1) / 2) / (inside * outside)
        rates = (np.r_[0.0, alarms / outside], np.r_[0.0, hits / inside])
        return cls(*rates, float(area), _area_interval(float(area), inside, outside), inside, outside)

    def at(self, rate: float) -> float:
        """The true-positive rate at a false-positive rate of at most `rate`."""
        return float(self.true_rates[np.searchsorted(self.false_rates, rate, side="right") - 1])

    def interval(self, rate: float) -> tuple[float, float]:
        """Of `at(rate)`, by Clopper and Pearson."""
        k, n = round(self.at(rate) * self.members), self.members
        low = float(beta.ppf(0.025, k, n - k + 1)) if k else 0.0
        return low, float(beta.ppf(0.975, k + 1, n - k)) if k < n else 1.0

    @property
    def area_reach(self) -> float:
        """Half of the interval of the area, to its farther end."""
        return max(self.area - self.area_interval[0], self.area_interval[1] - self.area)

    @property
    def advantage(self) -> float:
        """The largest difference of the two rates."""
        return float((self.true_rates - self.false_rates).max())


def _area_interval(area: float, inside: int, outside: int) -> tuple[float, float]:
    """Hanley, McNeil 1982."""
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (inside - 1) * (q1 - area**2) + (outside - 1) * (q2 - area**2)
    reach = 1.96 * math.sqrt(max(variance, 0.0) / (inside * outside))
    return max(0.0, area - reach), min(1.0, area + reach)


@dataclass(frozen=True)
class Measured:
    """A training recipe under every attack: its accuracy on rows it saw and did not see, and the curves."""

    name: str
    seen: float
    unseen: float
    curves: Mapping[str, Curve]
    epsilon: float | None = None
    delta: float = 0.0

    @property
    def best(self) -> str:
        """The attack with the largest true-positive rate at a false-positive rate of 1 %."""
        return max(self.curves, key=lambda name: self.curves[name].at(0.01))

    def ceiling(self, rate: float) -> float:
        """What the guarantee allows to any attack at this false-positive rate: everything, where there is none."""
        return 1.0 if self.epsilon is None else attacker_power(rate, self.epsilon, self.delta)

    @property
    def most_advantage(self) -> float:
        """What the guarantee allows to any attack as a difference of the two rates."""
        return 1.0 if self.epsilon is None else advantage(self.epsilon, self.delta)

    def learnt(self) -> Learnt:
        curve, rate = self.curves[self.best], 0.01
        ceiling = None if self.epsilon is None else self.ceiling(rate)
        low, high = (percent(end) for end in curve.interval(rate))
        most = max(one.advantage for one in self.curves.values())
        bound = (
            ""
            if ceiling is None
            else f" Its guarantee allows {percent_up(ceiling)} to any attack, and an advantage of {self.most_advantage:.3f}; the "
            f"largest one found is {most:.3f}."
        )
        reading = (
            f"{self.name}: right for {percent(self.seen)} of the rows it was trained on and {percent(self.unseen)} of others. "
            f"The best attack ({self.best}) names {percent(curve.at(rate))} of the members (95 %: {low} to {high}) and accuses "
            f"1 % of the others, AUC {curve.area:.3f}.{bound}"
        )
        facts = {
            name: {
                "auc": c.area,
                "auc_interval": c.area_interval,
                "advantage": c.advantage,
                **{f"tpr_at_{r:g}": c.at(r) for r in RATES},
                **{f"tpr_at_{r:g}_interval": c.interval(r) for r in RATES},
            }
            for name, c in self.curves.items()
        }
        right = round(curve.at(rate) * curve.members)
        details = {
            "attacks": facts,
            "accuracy_seen": self.seen,
            "accuracy_unseen": self.unseen,
            "advantage_bound": self.most_advantage,
            **{f"tpr_bound_at_{r:g}": self.ceiling(r) for r in RATES},
        }
        return Learnt(ATTACK, self.name, right, curve.members, rate, reading, ceiling, details)


def measure(
    recipe: Plain | Private,
    x: NDArray[np.float32],
    y: Labels,
    *,
    name: str,
    models: int = 32,
    targets: int = 4,
    seed: int = 0,
    watch: Watch = unwatched,
) -> Measured:
    """Train `models` at once; the first `targets` of them are attacked in turn, all others being the shadows."""
    members = halves(models, len(y), seed)
    logits = recipe.train(x, y, members, int(y.max()) + 1, seed, watch).logits(x)
    right = logits.argmax(axis=2) == y
    scores: dict[str, list[Floats]] = {attack: [] for attack in ATTACKS}
    for k in watch(range(targets), "Attacking"):
        others = np.arange(models) != k
        seen = Evidence(logits[k], logits[others], members[others], y)
        for attack, score in ATTACKS.items():
            scores[attack].append(score(seen))
    truth = members[:targets].ravel()
    curves = {attack: Curve.of(np.concatenate(found), truth) for attack, found in scores.items()}
    promise = (recipe.epsilon, recipe.delta) if isinstance(recipe, Private) else (None, 0.0)
    return Measured(name, float(right[members].mean()), float(right[~members].mean()), curves, *promise)
