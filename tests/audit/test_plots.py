"""Pictures of audits are pictures, and a finding without a witness has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deniable.audit import Finding, audit
from deniable.audit.bench import case
from deniable.errors import InvalidParameter
from deniable.plots import audit as plots

HALVED = audit(case("HalvedNoise"), case("HalvedNoise").pairs(), samples=50_000)
TWICE = audit(case("ReusedSeed"), case("ReusedSeed").pairs(), samples=20_000)


@pytest.mark.parametrize("draw", [plots.roc, plots.bound_by_samples])
@pytest.mark.parametrize("finding", [HALVED, TWICE], ids=lambda f: f.target)
def test_a_finding_can_be_drawn(draw: Callable[[Finding, Path], Path], finding: Finding, tmp_path: Path) -> None:
    assert draw(finding, tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidParameter, match="has no witness to draw"):
        draw(replace(finding, witness=None), tmp_path / "none.png")


def test_many_findings_make_a_ladder(tmp_path: Path) -> None:
    assert plots.ladder([HALVED, TWICE], tmp_path / "ladder.svg").read_text(encoding="utf-8").count("HalvedNoise") >= 1
