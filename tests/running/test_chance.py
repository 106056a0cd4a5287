"""Thresholds have the chance that is stated, and tests that draw real noise state one."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from scipy import stats

from tests import chance
from tests.meta.source import ROOT
from tests.running import chancy

KNOWN = {
    "tests/local/numeric/test_numbers.py::test_private_directions_are_unbiased_with_the_error_they_state": (
        "a quarter is for the coordinate that is not estimated; noise moves the sum of errors by a hundredth"
    ),
}
"""Tests that draw real noise and hold a number that judges something else, each with what it judges."""


@pytest.fixture(autouse=True)
def uncounted() -> Iterator[None]:
    """What is stated here is about the words alone."""
    before = chance._stated.copy()
    yield
    chance._stated[:] = before


@pytest.mark.parametrize("stated", [1e-9, 1e-12, 3e-300])
def test_normal_noise_passes_its_reach_as_seldom_as_is_stated(stated: float) -> None:
    assert 2 * stats.norm.sf(chance.reach(stated)) == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize("scale", [0.3, 2.0, 77.0])
def test_laplace_noise_passes_its_reach_as_seldom_as_is_stated(scale: float) -> None:
    past = [2 * math.exp(-(k + 1) / scale) / (1 + math.exp(-1 / scale)) for k in (0, 1)]
    reach = chance.laplace_reach(scale)
    assert past[0] * math.exp(-reach / scale) <= chance.EACH
    assert past[0] * math.exp(-(reach - 2) / scale) > chance.EACH / math.exp(1 / scale) / 2


@pytest.mark.parametrize(("trials", "probability"), [(100, 0.05), (1000, 0.5), (2000, 0.001), (7, 0.9)])
def test_counts_pass_their_ends_as_seldom_as_is_stated(trials: int, probability: float) -> None:
    most, least = chance.most(trials, probability), chance.least(trials, probability)
    assert stats.binom.sf(most, trials, probability) <= chance.EACH
    assert most == 0 or stats.binom.sf(most - 1, trials, probability) > chance.EACH
    assert stats.binom.cdf(least - 1, trials, probability) <= chance.EACH


def test_what_is_stated_is_counted_and_a_larger_chance_refused() -> None:
    chance.take_sum()
    assert chance.allows(0.5)
    assert not chance.allows(1e-13, 1e-12)
    chance.reach(1e-10)
    assert chance.take_sum() == pytest.approx(1e-9 + 1e-12 + 1e-10)
    for wrong in (0.0, 1e-8, 0.05):
        with pytest.raises(ValueError, match="Expected a chance"):
            chance.state(wrong)


def judged_by_numbers() -> Iterator[str]:
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "SecureRandom" in path.read_text(encoding="utf-8"):
            for name, part in chancy.read_parts(path).items():
                if name.startswith("test_") and chancy.judges_by_number(
                    ast.unparse(part), chancy.read_closure(path, name)
                ):
                    yield f"{path.relative_to(ROOT)}::{name}"


def test_no_real_noise_is_judged_by_a_number() -> None:
    assert sorted(set(judged_by_numbers()) - KNOWN.keys()) == [], "state a chance: tests/chance.py"
    assert sorted(KNOWN.keys() - set(judged_by_numbers())) == [], "no longer needed"


@pytest.mark.parametrize(
    ("body", "outside", "by_number"),
    [
        ("assert stats.chisquare(draw(SecureRandom())).pvalue > 1e-9", True, True),
        ("assert abs(draw(SecureRandom()).mean()) < 6.2 * 0.5 / 100", True, True),
        ("assert abs(drawn().mean()) < 6.2 * 0.5 / 100", True, True),
        ("assert chance.allows(stats.chisquare(draw(SecureRandom())).pvalue)", True, False),
        ("assert stats.chisquare(draw(SeededRandom(1))).pvalue > 1e-9", False, False),
        ("subprocess.run(['ls'])", True, False),
        ("assert epsilon(loss) == pytest.approx(1, rel=1e-9)", False, False),
    ],
)
def test_a_planted_test_is_told(tmp_path: Path, body: str, outside: bool, by_number: bool) -> None:
    path = tmp_path / "test_planted.py"
    path.write_text(
        f"def drawn():\n    return draw(SecureRandom())\n\ndef test_it():\n    {body}\n", encoding="utf-8"
    )
    closure = chancy.read_closure(path, "test_it")
    assert chancy.is_chancy(closure) is outside
    assert chancy.judges_by_number(ast.unparse(chancy.read_parts(path)["test_it"]), closure) is by_number
