"""Scores alone are audited: from arrays and from files, validly, in both directions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom, norm

from deniable.audit import Finding, Verdict
from deniable.audit.scores import read, scores
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from tests.audit.repeats import repeats


def normals(shift: float, size: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, size), rng.normal(0, 1, size)


def laplaces(epsilon: float, size: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, 5])
    return 1 + rng.laplace(0, 1 / epsilon, size), rng.laplace(0, 1 / epsilon, size)


def test_scores_that_tell_too_much_are_found() -> None:
    found = scores(*normals(2, 2000), Budget(1.0, 1e-3))
    assert found.verdict is Verdict.VIOLATION
    assert found.epsilon < np.log(norm.sf(1) / norm.sf(3)) + 3
    assert scores(*normals(0, 2000), Budget(1.0, 1e-3)).verdict is Verdict.NO_EVIDENCE
    assert scores(*normals(2, 40), Budget(9.0)).verdict is Verdict.UNDERPOWERED


@pytest.mark.parametrize("sign", [1, -1])
def test_the_direction_does_not_matter(sign: int) -> None:
    first, second = normals(3, 500)
    assert scores(sign * first, sign * second, Budget(0.5)).verdict is Verdict.VIOLATION


def test_most_of_a_true_epsilon_is_certified_and_seldom_more() -> None:
    runs = repeats(100)
    found = [scores(*laplaces(1.0, 3000, seed), Budget(1.0), seed=seed).epsilon for seed in range(runs)]
    assert sum(epsilon > 1.0 for epsilon in found) <= binom.ppf(1 - 1e-6, runs, 0.05)
    assert np.median(found) > 0.85


def test_disjoint_scores_differ_in_support() -> None:
    found = scores(np.ones(400), np.zeros(400), Budget(1.0))
    assert found.support_differs
    assert found.epsilon > 4.5
    assert found.estimate == math.inf


def test_a_finding_on_scores_can_be_kept_and_drawn() -> None:
    found = scores(*normals(2, 500), Budget(1.0))
    again = Finding.from_json(found.to_json())
    assert again == found
    assert found.witness is not None
    assert sum(a + b for a, b in found.witness.counts) == found.witness.trials
    assert (found.witness.right, found.witness.wrong) != (0, 0)


def test_coins_that_ask_for_more_scores_than_there_are_certify_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deniable.audit.scores.DEVIATIONS", -30.0)
    assert scores(np.ones(400), np.zeros(400), Budget(1.0)).epsilon == 0


# ------------------------------------------------------------------------------------------------ files


def test_files_of_scores_are_read(tmp_path: Path) -> None:
    text = tmp_path / "scores.csv"
    text.write_text("score,member\n1.5,1\n0.5,0\n2.5,1\n", encoding="utf-8")
    assert [part.tolist() for part in read(text)] == [[1.5, 2.5], [0.5]]
    binary = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"world": ["with", "a", "a"], "score": [3, 1, 2]}), binary)
    assert [part.tolist() for part in read(binary)] == [[3.0], [1.0, 2.0]]
    text.write_text("score,member\n1.5,true\n0.5,false\n", encoding="utf-8")
    assert [part.tolist() for part in read(text)] == [[1.5], [0.5]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "expected the columns score and member"),
        ("score,member\n1,0\n2,2\n3,1\n", "expected two labels beside the scores, like 0 and 1, got 3"),
        ("score,member\n1,1\n2,\n3,0\n", "expected two labels"),
        ("score,member\nhigh,1\nlow,0\n", "Expected scores that are numbers"),
        ("score,member\n,1\n1,0\n", "got NaN or nothing among them"),
        ("", "this is no table in CSV or parquet: Empty CSV file."),
    ],
)
def test_what_is_no_file_of_scores_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidParameter, match=said):
        read(path)


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_scores_that_tell_nothing_accuse_no_more_often_than_alpha(delta: float) -> None:
    """Coin flips as scores: ties everywhere."""
    accused, runs = 0, repeats(200)
    for seed in range(runs):
        first, second = np.random.default_rng([seed, 4]).integers(0, 2, (2, 100))
        accused += scores(first, second, (0.0, delta), seed=seed).epsilon > 0
    assert accused <= binom.ppf(1 - 1e-6, runs, 0.05)


def test_a_mechanism_that_gives_itself_away_with_probability_delta_is_not_accused() -> None:
    """(ε, δ) used up: randomized response, and with probability δ the truth."""
    epsilon, delta, passed, runs = 0.5, 0.1, 0, repeats(150)
    for seed in range(runs):
        rng = np.random.default_rng([seed, 5])
        told = [np.where(rng.random(1500) < delta, 2 * b - 0.5, _response(b, epsilon, rng)) for b in (1, 0)]
        passed += scores(*told, (epsilon, delta), seed=seed).epsilon > epsilon
    assert passed <= binom.ppf(1 - 1e-6, runs, 0.05)


def _response(bit: int, epsilon: float, rng: np.random.Generator) -> Any:
    return np.where(rng.random(1500) < 1 / (1 + math.exp(epsilon)), 1 - bit, bit)


def test_infinite_scores_are_scores() -> None:
    found = scores([np.inf] * 300 + [1.0] * 200, [-np.inf] * 300 + [1.0] * 200, 1.0)
    assert found.support_differs


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"none.csv: No such file\."):
        read(tmp_path / "none.csv")
    with pytest.raises(InvalidParameter, match="this is no table in CSV or parquet"):
        read(tmp_path)


def test_too_few_scores_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="Expected at least 20 scores on each side, got 5 and 30"):
        scores(np.ones(5), np.zeros(30), Budget(1.0))
    with pytest.raises(InvalidParameter, match="Expected confidence=0 in"):
        scores(np.ones(50), np.zeros(30), Budget(1.0), confidence=0)
