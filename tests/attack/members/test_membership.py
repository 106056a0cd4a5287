"""Membership inference: each attack on made-up evidence, the curve by hand, the stack against autograd, and
models that leak."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score, roc_curve

from deniable.accounting import epsilon
from deniable.accounting.meaning import advantage
from deniable.attack import examples
from deniable.attack.members.coins import coins, iterate_silently
from deniable.attack.members.curve import Curve
from deniable.attack.members.evidence import Evidence
from deniable.attack.members.scores import ATTACKS
from deniable.attack.members.shadow import PlainRecipe, PrivateRecipe, Stack, measure
from deniable.errors import InvalidParameter


def evidence(seed: int, leak: float, rows: int = 400, models: int = 24) -> tuple[Evidence, np.ndarray]:
    """Logits that differ from row to row, and are larger by `leak` at the label of a member."""
    g = np.random.default_rng(seed)
    members = coins(models, rows, seed)
    labels = g.integers(0, 3, rows)
    logits = g.normal(size=(rows, 3)) * 2 + 0.3 * g.normal(size=(models, rows, 3))
    logits[:, np.arange(rows), labels] += leak * members
    return Evidence(
        logits[0].astype(np.float32), logits[1:].astype(np.float32), members[1:], labels
    ), members[0]


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_finds_members_that_stand_out(attack: str) -> None:
    seen, members = evidence(0, 3.0)
    assert Curve.from_scores(ATTACKS[attack](seen), members).area > 0.6


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_finds_members_where_nothing_leaks(attack: str) -> None:
    areas = [
        Curve.from_scores(ATTACKS[attack](seen), members).area
        for seen, members in (evidence(s, 0.0) for s in range(5))
    ]
    assert abs(float(np.mean(areas)) - 0.5) < 0.05


def exact_halves(models: int, rows: int) -> np.ndarray:
    """Every row in exactly half of the models."""
    return np.asarray(np.random.default_rng(0).random((models, rows)).argsort(axis=0) < models // 2)


@pytest.mark.parametrize("attack", ATTACKS)
def test_that_a_row_is_in_half_of_all_models_does_not_tell_which(attack: str) -> None:
    """Shadows that leak, and a target that leaks nothing: who is in it cannot be known, but could be
    counted."""
    g = np.random.default_rng(0)
    members, labels = exact_halves(8, 4000), g.integers(0, 3, 4000)
    logits = 0.1 * g.normal(size=(8, 4000, 3))
    logits[1:, np.arange(4000), labels] += 2.0 * members[1:]
    seen = Evidence(logits[0].astype(np.float32), logits[1:].astype(np.float32), members[1:], labels)
    assert Curve.from_scores(ATTACKS[attack](seen), members[0]).area < 0.5 + 6.2 * 0.0092


def test_knowing_each_row_beats_one_threshold_for_all() -> None:
    seen, members = evidence(1, 1.0)
    by = {name: Curve.from_scores(score(seen), members) for name, score in ATTACKS.items()}
    assert by["lira"].area > by["lira offline"].area - 0.02 > by["loss"].area
    assert by["lira"].power_at(0.01) > 3 * by["loss"].power_at(0.01)


def test_the_curve_is_scikit_learns() -> None:
    g = np.random.default_rng(0)
    members = g.random(300) < 0.4
    scores = np.round(members + g.normal(size=300), 1)  # with ties
    curve = Curve.from_scores(scores, members)
    false_rates, true_rates, _ = roc_curve(members, scores, drop_intermediate=False)
    assert curve.area == pytest.approx(roc_auc_score(members, scores))
    assert np.allclose(curve.false_rates, false_rates)
    assert np.allclose(curve.true_rates, true_rates)
    assert curve.power_at(0.1) == true_rates[false_rates <= 0.1].max()
    low, high = curve.area_interval
    assert low < curve.area < high


def test_a_rate_is_never_read_beyond_its_false_positives() -> None:
    curve = Curve.from_scores(np.array([3.0, 2.0, 1.0, 0.0]), np.array([False, True, True, False]))
    assert curve.power_at(0.01) == 0
    assert curve.power_at(0.5) == 1
    assert curve.advantage == 0.5


def test_who_is_in_a_model_says_nothing_of_the_others() -> None:
    members = coins(8, 20_000, 0)
    counts = members[1:].sum(axis=0)
    inside, outside = counts[members[0]], counts[~members[0]]
    assert abs(float(inside.mean() - outside.mean())) < 6.2 * math.sqrt(7 / 4 * 4 / 20_000)
    with pytest.raises(InvalidParameter, match="at least 2"):
        coins(1, 50, 0)


def test_the_stack_has_the_gradients_and_norms_of_autograd() -> None:
    torch.manual_seed(0)
    stack = Stack.random(2, 5, 7, 3, 0)
    x, y = torch.randn(6, 5), torch.randint(0, 3, (6,))
    rows = torch.cat([x, torch.ones(6, 1)], 1)
    found: list[torch.Tensor] = []

    def weigh(norms: torch.Tensor) -> torch.Tensor:
        found.append(norms)
        return torch.ones_like(norms)

    sums = stack.gradients(rows, torch.nn.functional.one_hot(y, 3).float(), weigh)
    for k in range(2):
        total = [torch.zeros(6, 7), torch.zeros(8, 3)]
        for i in range(6):
            first, second = stack.first[k].clone().requires_grad_(), stack.second[k].clone().requires_grad_()
            hidden = torch.cat([torch.relu(rows[i] @ first), torch.ones(1)])
            torch.nn.functional.cross_entropy((hidden @ second)[None], y[i : i + 1]).backward()
            assert first.grad is not None
            assert second.grad is not None
            norm = math.sqrt(float((first.grad**2).sum() + (second.grad**2).sum()))
            assert float(found[0][k, i]) == pytest.approx(norm, rel=1e-4)
            total = [total[0] + first.grad, total[1] + second.grad]
        assert torch.allclose(sums[0][k], total[0], atol=1e-5)
        assert torch.allclose(sums[1][k], total[1], atol=1e-5)


def test_the_private_recipe_costs_what_it_says() -> None:
    recipe = PrivateRecipe(2.0, steps=20)
    assert epsilon(recipe.loss, 1e-5).upper <= 2.0 + 1e-9


def test_without_its_noise_the_private_recipe_still_bounds_each_row() -> None:
    class Silent(PrivateRecipe):
        @property
        def noise_multiplier(self) -> float:
            return 0.0

    x, y = examples.rows("digits", 100)
    members = np.ones((1, 100), bool)
    less = members.copy()
    less[0, 0] = False
    one, other = (
        Silent(1.0, steps=1, clip=0.1).train(x, y, m, 10, 0, iterate_silently) for m in (members, less)
    )
    moved = math.sqrt(
        float(((one.first - other.first) ** 2).sum() + ((one.second - other.second) ** 2).sum())
    )
    assert 0 < moved <= 0.1 * 2.0 / 50 * (1 + 1e-4)


def test_the_overfitted_model_leaks_and_the_private_one_stays_under_its_bound() -> None:
    x, y = examples.rows("digits", 400)
    plain = measure(PlainRecipe(hidden=48, epochs=60), x, y, name="plain", models=24)
    private = measure(PrivateRecipe(2.0, steps=20, hidden=48), x, y, name="private", models=24)
    leak = plain.curves[plain.best]
    assert leak.interval(0.01)[0] > 0.02
    assert plain.train_accuracy > 0.99
    for curve in private.curves.values():
        assert curve.power_at(0.01) <= private.ceiling(0.01)
        assert curve.advantage <= advantage(2.0, 1e-5)
    assert private.curves[private.best].power_at(0.01) < leak.power_at(0.01)
    assert "names" in plain.learnt().reading
    assert f"an advantage of {advantage(2.0, 1e-5):.3f}" in private.learnt().reading
    assert private.learnt().facts["advantage_bound"] == advantage(2.0, 1e-5)
    assert private.learnt().ceiling == private.ceiling(0.01) < plain.ceiling(0.01)


def test_where_confidence_rounds_to_one_rows_are_still_in_order() -> None:
    """As a loss all of these are 0 in double precision."""
    logits = np.array([[40.0, 0.0], [60.0, 0.0], [50.0, 0.0]])
    seen = Evidence(logits, np.stack([logits] * 4), np.ones((4, 3), bool), np.zeros(3, np.int64))
    assert seen.target_confidence().tolist() == [[0.0, 0.0, 0.0]]
    assert np.argsort(ATTACKS["loss"](seen)).tolist() == [0, 2, 1]


def test_unknown_data_is_told_apart() -> None:
    with pytest.raises(InvalidParameter, match="digits"):
        examples.rows("faces")
    with pytest.raises(InvalidParameter, match="between 100"):
        examples.rows("digits", 5)
