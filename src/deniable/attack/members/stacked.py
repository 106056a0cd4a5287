"""A likelihood ratio that is learnt: which of what LiRA knows of a row speaks for a member, and how much.

LiRA's laws of what the next model says are models of the data, and their tails decide where false alarms are
rare. But every shadow model can play the target of the others, and of it the members are known: so the ratio
is a feature, beside the pieces it is made of, of a classifier over all rows of all shadow models (boosted
trees). The target is scored by what was learnt on the others alone, so its scores stay fair."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from deniable.attack.members.deviations import Side, predict_sides
from deniable.attack.members.evidence import Booleans, Evidence, Floats

TREES, LEAVES, RATE, RIDGE = 60, 15, 0.1, 5.0
LEAST_IN_LEAF = 200
FEWEST_SHADOWS = 4
"""With fewer, what the others say of one of them is no ratio."""


def stack(evidence: Evidence) -> Floats:
    """Log odds of the classifier; over several queries of their mean features."""
    target, shadows = evidence.target_scaled(), evidence.shadows_scaled()
    own = _features(target, shadows, evidence.members)
    if len(shadows) < FEWEST_SHADOWS:
        return own[:, 0]
    others = ~np.eye(len(shadows), dtype=np.bool_)
    features = np.concatenate(
        [
            _features(shadow, shadows[rest], evidence.members[rest])
            for shadow, rest in zip(shadows, others, strict=True)
        ]
    )
    trees = HistGradientBoostingClassifier(
        learning_rate=RATE, max_iter=TREES, max_leaf_nodes=LEAVES, l2_regularization=RIDGE,
        min_samples_leaf=min(LEAST_IN_LEAF, max(1, len(features) // 20)), early_stopping=False,
    ).fit(features, evidence.members.ravel())  # fmt: skip
    return np.asarray(trees.decision_function(own), np.float64)


def _features(target: Floats, shadows: Floats, members: Booleans) -> Floats:
    """(rows, features): nothing of how many shadows hold a row, which may tell who is in the target."""
    queries = range(len(target))
    return np.asarray(np.mean([_of_query(target[q], shadows[:, q], members) for q in queries], axis=0))


def _of_query(phi: Floats, shadows: Floats, members: Booleans) -> Floats:
    with_it, without = predict_sides(
        Side.from_signals(shadows, members), Side.from_signals(shadows, ~members)
    )
    return np.column_stack(
        [
            with_it.log_density(phi) - without.log_density(phi),
            (phi - without.centre) / without.scale,
            (phi - with_it.centre) / with_it.scale,
            (with_it.centre - without.centre) / without.scale,
            np.log(without.scale),
            np.log(with_it.scale / without.scale),
            without.centre,
            phi,
        ]
    )
