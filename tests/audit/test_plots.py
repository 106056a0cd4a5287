"""Pictures of audits are pictures, and a finding without a witness has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.audit import Finding, audit, sgd
from deniable.audit.bench import case
from deniable.audit.finding import down
from deniable.audit.one_run import one_run
from deniable.audit.sgd import Training
from deniable.errors import InvalidParameter
from deniable.plots import audit as plots

HALVED = audit(case("HalvedNoise"), case("HalvedNoise").pairs(), seed=0, samples=50_000)
TWICE = audit(case("ReusedSeed"), case("ReusedSeed").pairs(), seed=0, samples=20_000)


@pytest.mark.parametrize("draw", [plots.overview, plots.roc, plots.bound_by_samples])
@pytest.mark.parametrize("finding", [HALVED, TWICE], ids=lambda f: f.target)
def test_a_finding_can_be_drawn(
    draw: Callable[[Finding, Path], Path], finding: Finding, tmp_path: Path
) -> None:
    assert draw(finding, tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidParameter, match="has no witness to draw"):
        draw(replace(finding, witness=None), tmp_path / "none.png")


RNG = np.random.default_rng(0)
INSIDE = RNG.random(600) < 0.5
SCORES = RNG.normal(1.5 * INSIDE, 1)
RUNS = {
    family: one_run(SCORES, INSIDE, (8.0, 1e-5), family=family, name="my run")
    for family in ("distribution-free", "gaussian", "independent")
}


def words(path: Path) -> str:
    """All that is written in an SVG picture: matplotlib leaves each text as a comment beside its outlines."""
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("family", RUNS)
def test_canaries_of_one_run_are_drawn_with_the_thresholds_used(family: str, tmp_path: Path) -> None:
    finding = RUNS[family]
    witness = finding.witness
    assert witness is not None
    said = words(plots.overview(finding, tmp_path / "both.svg"))
    assert "guessed in from here on" in said
    assert ("guessed out below" in said) == (family != "independent")
    assert f"{witness.right:,} right and {witness.wrong:,} wrong guesses" in said
    assert ("allowed by a Gaussian run of" in said) == (family != "distribution-free")
    assert f"claimed ε = 8 at δ = 1e-05, certified ε ≥ {down(finding.epsilon)}" in said
    assert "guessed in" in words(plots.canaries(finding, tmp_path / "canaries.svg"))


def test_canary_gradients_are_drawn_under_the_curve_of_a_step(tmp_path: Path) -> None:
    claim = Training(2.0, 1.0, 10, 1.0, 1, 1e-5)

    def half(gradients: Any, rng: np.random.Generator) -> Any:
        return (np.sign(gradients).sum(axis=0) + rng.standard_normal(gradients.shape[1])) / 10

    finding = sgd.canaries(half, claim, dimension=20, each=20, rounds=40)
    assert finding.exit_code == 1
    said = words(plots.overview(finding, tmp_path / "step.svg"))
    assert "allowed by a step of noise multiplier 2" in said
    assert "guessed in from here on" in said


def test_canaries_have_no_bound_by_samples(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="Canaries have no bound by samples "):
        plots.bound_by_samples(RUNS["gaussian"], tmp_path / "none.png")


def test_an_audit_is_drawn_with_its_region_and_its_samples(tmp_path: Path) -> None:
    said = words(plots.overview(HALVED, tmp_path / "both.svg"))
    assert "allowed by ε = 0.1" in said
    assert "certifying samples" in said
    assert "this audit" in said


def test_odd_scores_are_drawn(tmp_path: Path) -> None:
    """All equal, infinite, and whole numbers."""
    for values in (np.ones(600), np.where(INSIDE, np.inf, 0.0), np.rint(SCORES)):
        plots.overview(one_run(values, INSIDE, (8.0, 1e-5)), tmp_path / "odd.svg")
        assert "canaries" in words(tmp_path / "odd.svg")


def test_many_findings_make_a_ladder(tmp_path: Path) -> None:
    assert (
        plots.ladder([HALVED, TWICE], tmp_path / "ladder.svg")
        .read_text(encoding="utf-8")
        .count("HalvedNoise")
        >= 1
    )
