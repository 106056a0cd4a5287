"""The types that users see: a script of theirs is read by pyright as it is meant."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import deniable as dp

bound = dp.epsilon(dp.GaussianNoise(4).sampled(0.01) * 10_000, delta=1e-5)
reveal_type(bound.upper)
reveal_type(dp.Curator.open("visits.csv").sql("SELECT COUNT(*) FROM visits", epsilon=1))
dp.Budget("three")
"""


@pytest.mark.soak
@pytest.mark.needs("node")
def test_pyright_reads_our_types(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(SCRIPT, encoding="utf-8")
    command = ["npx", "--yes", "pyright@1", "--outputjson", "--pythonpath", sys.executable, "use.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = json.loads(run.stdout)["generalDiagnostics"]
    assert [d["message"] for d in told if "upper" in d["message"]] == ['Type of "bound.upper" is "float"']
    assert any(d["message"].endswith('is "Answer"') for d in told)
    (wrong,) = [d for d in told if d["severity"] == "error"]
    assert wrong["range"]["start"]["line"] == SCRIPT.splitlines().index('dp.Budget("three")')
