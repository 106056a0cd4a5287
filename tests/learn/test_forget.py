"""Forgetting: shards as if trained without, a Newton step within its reach, and audits of both beside lazy
twins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from deniable.audit import Verdict, audit
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.forget import Removal, Shards
from deniable.randomness import SeededRandom


def means(x: Any, y: Any) -> Callable[[Any], Any]:
    """A model that is the mean of its rows' labels."""
    mean = float(np.mean(y)) if len(y) else 0.0
    return lambda rows: np.full((len(rows), 1), mean)


def data(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    x = g.normal(size=(rows, 3)) / 3
    return x, np.where(x[:, 0] + 0.2 * g.normal(size=rows) > 0, 1.0, -1.0)


X, Y = data(400)


def test_a_forgotten_row_leaves_the_shards_that_never_saw_it() -> None:
    whole = Shards.fit(means, X, Y, shards=5, rng=SeededRandom(0))
    after = whole.forget([7, 7, 31])
    kept = np.ones(400, bool)
    kept[[7, 31]] = False
    for shard, model in enumerate(after.models):
        rows = (whole.shard == shard) & kept
        assert float(model(X[:1])[0, 0]) == pytest.approx(Y[rows].mean())
    touched = set(whole.shard[[7, 31]].tolist())
    assert [a is b for a, b in zip(whole.models, after.models, strict=True)] == [
        k not in touched for k in range(5)
    ]
    assert whole.present.all()
    assert after.forget([7]).models == after.models


def test_where_the_others_are_says_nothing_of_who_left() -> None:
    """The first row's shard has the same law whether or not there is a second row: with equal shards it would
    not."""
    draws = [Shards.fit(means, X[:2], Y[:2], shards=2, rng=SeededRandom(seed)).shard for seed in range(400)]
    together = sum(int(a == b) for a, b in draws)
    assert abs(together - 200) < 6.2 * 10


@pytest.mark.parametrize("lazy", [False, True])
def test_shards_are_audited(lazy: bool) -> None:
    """Trained with a row and told to forget it, or never having seen it: the same, but for a twin that does
    nothing."""
    x, y = np.zeros((3, 1)), np.array([0.0, 0.0, 1.0])

    def target(with_it: bool, rng: Any) -> list[float]:
        rows = 3 if with_it else 2
        made = Shards.fit(means, x[:rows], y[:rows], shards=2, rng=rng)
        made = made.forget([2]) if with_it and not lazy else made
        return [float(made.predict(x[:1])[0, 0]) + 0.1 * rng.discrete_gaussian(1 << 20) / (1 << 20)]

    found = audit(target, (True, False), Budget(0.1), seed=0, samples=3000, confidence=1 - 1e-6, workers=1)
    assert (found.verdict is Verdict.VIOLATION) == lazy, str(found)


def test_a_newton_step_comes_near_the_model_trained_anew() -> None:
    how = Removal(1.0, 1e-5, 3, ridge=1.0)
    model = how.fit(X, Y)
    after = model.forget([3, 8])
    anew = how.fit(np.delete(X, [3, 8], axis=0), np.delete(Y, [3, 8]))
    moved = float(np.linalg.norm(model.weights - anew.weights))
    left = float(np.linalg.norm(after.weights - anew.weights))
    assert left < moved / 20
    assert left <= after.distance <= how.reach
    assert not after.trained_anew
    assert after.publish(rng=SeededRandom(0)).shape == (3,)


@pytest.mark.parametrize("gone", [1, 5, 40])
def test_the_distance_holds_by_brute_force(gone: int) -> None:
    """The minimiser without the forgotten, to twelve digits by other means; the noise by its exact δ."""
    how = Removal(1.0, 1e-5, 3, ridge=1.0, reach=0.05)
    after = how.fit(X, Y).forget(range(gone))
    x = X[gone:] / np.maximum(1, np.linalg.norm(X[gone:], axis=1, keepdims=True))
    y = Y[gone:]

    def objective(w: Any) -> tuple[float, Any]:
        margins = y * (x @ w)
        value = float(np.logaddexp(0, -margins).sum() + 0.5 * how.ridge * w @ w)
        return value, x.T @ (-y / (1 + np.exp(margins))) + how.ridge * w

    best = minimize(objective, after.weights, jac=True, method="BFGS", options={"gtol": 1e-10}).x
    assert not after.trained_anew
    assert float(np.linalg.norm(after.weights - best)) <= after.distance <= how.reach
    ratio = how.reach / float(how.noise.sigma)
    exact = norm.cdf(ratio / 2 - 1 / ratio) - math.e * norm.cdf(-ratio / 2 - 1 / ratio)
    assert exact <= 1e-5


def test_what_the_step_leaves_adds_up_until_the_model_is_trained_anew() -> None:
    how = Removal(1.0, 1e-5, 3, ridge=0.3, reach=2e-4)
    model, anew = how.fit(X, Y), 0
    for start in range(0, 200, 20):
        model = model.forget(range(start, start + 20))
        anew += model.trained_anew
        assert model.distance <= how.reach
    assert anew > 0


OUTLIER = np.vstack([X, [[1.0, 0.0, 0.0]]]), np.append(Y, -1.0)


@pytest.mark.parametrize("lazy", [False, True])
def test_removal_is_audited(lazy: bool) -> None:
    """Published after forgetting an outlier, or after never having seen it; the lazy twin publishes what it
    had."""
    how = Removal(1.0, 1e-3, 3, ridge=5.0, reach=2e-3)
    seen = how.fit(*OUTLIER)
    forgotten = replace(seen) if lazy else seen.forget([400])
    never = how.fit(X, Y)
    assert lazy or not forgotten.trained_anew

    def target(model: Any, rng: Any) -> Any:
        return model.publish(rng=rng)

    confidence = 0.95 if lazy else 1 - 1e-6
    found = audit(
        target, (forgotten, never), Budget(1.0, 1e-3), samples=4000, seed=0, confidence=confidence, workers=1
    )
    assert (found.verdict is Verdict.VIOLATION) == lazy, str(found)


def test_the_noise_is_for_the_reach() -> None:
    """Two states a reach apart are told apart up to the claim, and no better."""
    how = Removal(1.0, 1e-3, 1, reach=0.01)
    base = how.fit(X[:, :1], Y)

    def apart(times: float) -> Verdict:
        other = replace(base, weights=base.weights + times * how.reach)
        pair = (base, other)
        claim = Budget(1.0, 1e-3)
        found = audit(
            lambda m, rng: m.publish(rng=rng), pair, claim, samples=4000, seed=0, confidence=0.999, workers=1
        )
        return found.verdict

    assert apart(1.0) is not Verdict.VIOLATION
    assert apart(4.0) is Verdict.VIOLATION


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: Shards.fit(means, X, Y, shards=0), "shards=0"),
        (lambda: Shards.fit(means, X, Y[:3]), "a label for each row"),
        (lambda: Shards.fit(means, X, Y).forget([400]), "from 0 to 399"),
        (lambda: Removal(1.0, 1e-5, 3).fit(X, Y).forget([-1]), "from 0 to 399"),
        (lambda: Removal(1.0, 1e-5, 3, reach=1e-9), "reach=1e-09"),
        (lambda: Removal(1.0, 1e-5, 3).fit(X, np.full(400, np.nan)), "labels that are numbers"),
    ],
)
def test_what_cannot_be_done_is_said(act: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        act()
