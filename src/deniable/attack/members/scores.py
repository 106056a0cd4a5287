"""Membership attacks. Each gives a score for every row, larger where it seems to be a member:

loss      the target's loss, below a threshold (Yeom et al. 2018)
shokri    a classifier of members learnt on the shadow models' confidences (Shokri et al. 2017)
lira      the likelihood ratio of the row's logit-scaled confidence under shadow models with and without it;
          `offline` knows only those without (Carlini et al. 2022), `stacked` learns from the shadow models
          which parts of it speak for a member
rmia      how often the row's ratio of confidence to that of shadow models beats other rows'; `offline` knows
          only models without the row (Zarifzadeh et al. 2024)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import log_softmax, logsumexp
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression

from deniable.attack.members.deviations import Side, predict_side, predict_sides
from deniable.attack.members.evidence import Booleans, Evidence, Floats, Labels, Logits, scale_logits
from deniable.attack.members.stacked import stack

GAMMA = 1.0
"""The factor by which a row must beat another: 1 in the authors' own tool; they find that it matters
little."""
OFFLINE = 0.3
"""The a of their guess of a row's usual confidence from models without it: ((1 + a)·p_out + 1 − a)/2."""


def loss(evidence: Evidence) -> Floats:
    """The target's logit-scaled confidence in the label: it orders rows as minus the loss does, also where
    the loss rounds to 0."""
    return np.asarray(evidence.target_scaled().mean(axis=0))


def shokri(evidence: Evidence) -> Floats:
    """Log odds of a classifier trained on all shadow models' outputs, sorted, with the confidence in the
    label."""
    features = np.concatenate([_features(shadow[0], evidence.labels) for shadow in evidence.shadows])
    classifier = LogisticRegression(max_iter=200).fit(features, evidence.members.ravel())
    return np.asarray(
        classifier.decision_function(_features(evidence.target[0], evidence.labels)), np.float64
    )


def lira(evidence: Evidence) -> Floats:
    """ln p(φ | in) − ln p(φ | out), φ = ln p/(1 − p) of the label, with a mean and a deviation per row,
    shrunk as far as the shadow models say (`deviations`); over several queries the mean of these, as their
    authors do."""
    target, shadows = evidence.target_scaled(), evidence.shadows_scaled()
    ratios = [_ratio(phi, shadows[:, query], evidence.members) for query, phi in enumerate(target)]
    return np.asarray(np.mean(ratios, axis=0))


def lira_offline(evidence: Evidence) -> Floats:
    """The probability that a model without the row is less sure of it."""
    target, shadows = evidence.target_scaled(), evidence.shadows_scaled()
    chances = [
        predict_side(Side.from_signals(shadows[:, query], ~evidence.members)).cdf(phi)
        for query, phi in enumerate(target)
    ]
    return np.asarray(np.mean(chances, axis=0))


def rmia(evidence: Evidence, gamma: float = GAMMA) -> Floats:
    """The share of the population z with (p(x)/E p(x)) ≥ γ·(p(z)/E p(z)), p the target's confidence and E
    over the shadows.

    Models with the row and without it weigh half each. A mean over all shadows would tell by itself where
    every row is in half of all models: it is in fewer of the others if it is in the target."""
    others = evidence.shadows_confidence()
    sides = [_log_mean(others, side[:, None]) for side in (evidence.members, ~evidence.members)]
    return _share_beaten(evidence, np.logaddexp(*sides) - np.log(2), gamma)


def rmia_offline(evidence: Evidence, gamma: float = GAMMA, a: float = OFFLINE) -> Floats:
    """`rmia` with models without the row alone, E p(x) guessed as ((1 + a)·p_out + 1 − a)/2."""
    outside = np.exp(_log_mean(evidence.shadows_confidence(), ~evidence.members[:, None]))
    return _share_beaten(evidence, np.log(((1 + a) * outside + 1 - a) / 2), gamma)


ATTACKS: Mapping[str, Callable[[Evidence], Floats]] = {
    "loss": loss,
    "shokri": shokri,
    "lira": lira,
    "lira offline": lira_offline,
    "lira stacked": stack,
    "rmia": rmia,
    "rmia offline": rmia_offline,
}


def _ratio(phi: Floats, shadows: Floats, members: Booleans) -> Floats:
    with_it, without = predict_sides(
        Side.from_signals(shadows, members), Side.from_signals(shadows, ~members)
    )
    return with_it.log_density(phi) - without.log_density(phi)


def _share_beaten(evidence: Evidence, baseline: Floats, gamma: float) -> Floats:
    """The share of z that each row beats by γ, over several queries the mean share. The share is a growing
    function of the row's own ratio, so among rows that beat all or none, the ratio itself decides: rows of
    one share are not one row."""
    ratios = evidence.target_confidence() - baseline
    population = (
        np.ones(evidence.rows, np.bool_)
        if evidence.population is None
        else np.asarray(evidence.population, np.bool_)
    )
    shares = [
        np.searchsorted(np.sort(ratio[population]), ratio - np.log(gamma), side="right") / population.sum()
        for ratio in ratios
    ]
    order = rankdata(ratios.mean(axis=0)) / (evidence.rows + 1)
    return np.asarray(np.mean(shares, axis=0) + order / (evidence.queries * population.sum()))


def _log_mean(logs: Floats, mask: Booleans) -> Floats:
    """ln of the mean over the models that are kept; 0, the confidence of one that is sure, where none is."""
    models = mask.sum(axis=0)
    with np.errstate(divide="ignore"):
        mean = logsumexp(np.where(mask, logs, -np.inf), axis=0) - np.log(np.maximum(models, 1))
    return np.where(models > 0, mean, 0.0)


def _features(logits: Logits, labels: Labels) -> Floats:
    logs = log_softmax(logits.astype(np.float64), axis=1)
    top = -np.sort(-np.exp(logs), axis=1)[:, :3]
    return np.column_stack([top, np.exp(logs[np.arange(len(labels)), labels]), scale_logits(logits, labels)])
