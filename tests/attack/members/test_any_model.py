"""`attack.membership(train, data)` on models of other kinds: trees, a convolutional network, queries, a
private recipe, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier

from deniable import attack
from deniable.attack.members.coins import coins
from deniable.attack.members.evidence import Evidence, from_probabilities, scale_logits
from deniable.attack.members.scores import lira, rmia, rmia_offline
from deniable.audit import Verdict
from deniable.audit import membership as certify
from deniable.errors import InvalidParameter


def digits(rows: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return (x[:rows] / 16).astype(np.float32), y[:rows]


def tree(x: Any, y: Any, seed: int) -> Callable[[Any], Any]:
    return DecisionTreeClassifier(random_state=seed).fit(x, y).predict_proba


def test_a_tree_that_knows_its_rows_leaks_and_a_stump_does_not() -> None:
    def stump(x: Any, y: Any, seed: int) -> Callable[[Any], Any]:
        return DecisionTreeClassifier(max_depth=1, random_state=seed).fit(x, y).predict_proba

    data = digits(500)
    leaks, safe = (
        attack.membership(fit, data, models=16, targets=4, probabilities=True) for fit in (tree, stump)
    )
    assert leaks.train_accuracy == 1
    assert leaks.curves["lira"].area > 0.6
    assert abs(safe.curves["lira"].area - 0.5) < 0.08


def convolutional(x: torch.Tensor, y: torch.Tensor, seed: int) -> Callable[[Any], Any]:
    torch.manual_seed(seed)
    layers = (torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10))
    model = torch.nn.Sequential(*layers)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return lambda rows: model(rows).detach().numpy()


def test_a_convolutional_network_on_images_with_queries() -> None:
    x, y = digits(300)
    data = torch.from_numpy(x).reshape(-1, 1, 8, 8), torch.from_numpy(y)
    queries = [lambda rows: torch.roll(rows, 1, dims=3), lambda rows: torch.roll(rows, -1, dims=3)]
    found = attack.membership(convolutional, data, models=12, targets=3, queries=queries)
    assert found.train_accuracy > found.test_accuracy
    assert found.curves["lira"].area > 0.55


def test_several_queries_of_a_row_sharpen_the_attack() -> None:
    """Answers to each query scatter by themselves: their mean scatters less."""
    g = np.random.default_rng(2)
    members, labels = coins(16, 3000, 1), np.zeros(3000, np.int64)
    logits = np.zeros((16, 8, 3000, 2))
    logits[..., 0] = g.normal(size=(16, 8, 3000)) + 0.7 * members[:, None]
    areas = []
    for queries in (1, 8):
        seen = Evidence(logits[0, :queries], logits[1:, :queries], members[1:], labels)
        areas.append([attack_area(score(seen), members[0]) for score in (lira, rmia, rmia_offline)])
    assert all(many > few + 0.05 for few, many in zip(*areas, strict=True))


def attack_area(scores: np.ndarray, members: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(members, scores))


def test_rmia_is_the_published_share() -> None:
    """By a loop: of the population z, those with (p(x)/p̄(x))/(p(z)/p̄(z)) ≥ γ, p̄ half with and half
    without."""
    g = np.random.default_rng(4)
    members, labels = coins(6, 40, 2), g.integers(0, 3, 40)
    logits = g.normal(size=(6, 40, 3))
    population = np.arange(40) >= 20
    seen = Evidence(logits[0], logits[1:], members[1:], labels, population)
    p = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    p = p[:, np.arange(40), labels]
    usual = np.array(
        [
            sum(
                0.5 * (p[1:, i][kept].mean() if kept.any() else 1.0)
                for kept in (members[1:, i], ~members[1:, i])
            )
            for i in range(40)
        ]
    )  # fmt: skip
    ratio = p[0] / usual
    expected = [np.mean([ratio[i] / ratio[z] >= 2 for z in range(20, 40)]) for i in range(40)]
    outside = np.array(
        [p[1:, i][~members[1:, i]].mean() if (~members[1:, i]).any() else 1.0 for i in range(40)]
    )
    offline = p[0] / ((1.3 * outside + 0.7) / 2)
    expected_offline = [np.mean([offline[i] / offline[z] >= 2 for z in range(20, 40)]) for i in range(40)]
    # What decides among equals is less than one of the twenty.
    assert np.allclose(np.floor(rmia(seen, gamma=2) * 20 + 1e-9) / 20, expected)
    assert np.allclose(np.floor(rmia_offline(seen, gamma=2) * 20 + 1e-9) / 20, expected_offline)


def test_scores_of_one_target_certify_an_epsilon() -> None:
    """Coins are fair and of their own, so the scores go to the auditor as they are."""
    x, y = (
        digits(1500)[0],
        np.random.default_rng(0).integers(0, 10, 1500),
    )  # labels that can only be learnt by heart
    members = coins(9, len(y), 0)
    outputs = []
    for model in range(9):
        inside = np.flatnonzero(members[model])
        outputs.append(from_probabilities(tree(x[inside], y[inside], model)(x)))
    seen = Evidence(outputs[0], np.stack(outputs[1:]), members[1:], y)
    finding = certify(lira(seen), members[0], (1.0, 1e-5), confidence=0.99)
    assert finding.verdict is Verdict.VIOLATION
    assert finding.epsilon > 1


def test_probabilities_are_logits_in_other_words() -> None:
    g = np.random.default_rng(0)
    logits = g.normal(size=(7, 4))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = g.integers(0, 4, 7)
    assert np.allclose(scale_logits(logits, labels), scale_logits(from_probabilities(p), labels), atol=1e-5)
    assert np.isfinite(scale_logits(from_probabilities([[1.0, 0.0]]), np.zeros(1, np.int64))).all()


@pytest.mark.parametrize(
    ("train", "y", "message"),
    [
        (lambda x, y, seed: lambda rows: np.zeros(len(rows)), [0, 1], r"\(rows, classes\)"),
        (lambda x, y, seed: lambda rows: np.full((len(rows), 2), np.nan), [0, 1], "finite outputs"),
        (lambda x, y, seed: lambda rows: np.zeros((len(rows), 2)), [0, 2], "same 3 classes"),
        (lambda x, y, seed: lambda rows: np.zeros((len(rows), 2)), [0.0, 1.0], "whole numbers from 0"),
    ],
)
def test_what_cannot_be_attacked_is_said(train: Any, y: list[Any], message: str) -> None:
    rows = np.zeros((40, 2))
    labels = np.array(y * 20)
    with pytest.raises(InvalidParameter, match=message):
        attack.membership(train, (rows, labels), models=4, targets=1)


def test_evidence_of_other_shapes_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"\(models, rows, classes\)"):
        Evidence(np.zeros((5, 3)), np.zeros((4, 6, 3)), np.zeros((4, 5), bool), np.zeros(5, np.int64))
    with pytest.raises(InvalidParameter, match="members of shape"):
        Evidence(np.zeros((5, 3)), np.zeros((4, 5, 3)), np.zeros((3, 5), bool), np.zeros(5, np.int64))
    with pytest.raises(InvalidParameter, match="labels from 0 to 2"):
        Evidence(np.zeros((5, 3)), np.zeros((4, 5, 3)), np.zeros((4, 5), bool), np.full(5, 3))
