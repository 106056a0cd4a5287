"""The demo's main act and the worked example show what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deniable import Budget, Curator, Unit
from deniable.cli.demo import curator as act
from deniable.datasets import real
from deniable.datasets.visits import visits as made_up_visits
from deniable.errors import InvalidParameter
from deniable.reproduce import hospital_visits
from tests.meta.source import ROOT


def test_the_main_act_asks_five_times_is_refused_twice_and_shows_the_ledger(
    capsys: pytest.CaptureFixture[str],
) -> None:
    act.play()
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("Refused:") == 2
    assert "over its limit ε = 3" in said
    assert "the data set was not charged" in said
    assert said.count(" run SELECT") == len(act.QUESTIONS) == 5


def visits(size: int = 4000) -> real.FileTable:
    """Made-up rows with the columns of the real set."""
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(values, size).tolist() for name, values in hospital_visits.KEYS.items()}
    columns |= {
        name: rng.integers(low, high + 1, size) for name, (low, high) in hospital_visits.BOUNDS.items()
    }
    specialty = rng.choice(["Cardiology", "Nephrology", "?"], size).tolist()
    table = pa.table(columns | {"patient_nbr": rng.integers(0, 3000, size), "medical_specialty": specialty})
    return real.FileTable(table, target="readmitted", person="patient_nbr")


def test_the_example_shows_true_and_private_answers_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "load", lambda name: visits())
    report = hospital_visits.run(tmp_path, lambda items, label: items)
    assert {row[0] for row in report.rows} == {f"Q{i + 1}" for i in range(6)}
    assert len(report.rows) == 2 + 3 + 20 + 4 + 3 + 1
    first = report.rows[0]
    assert first[:4] == ("Q1", "", "visits", "4,000")
    assert abs(int(str(first[4]).split(" ")[0].replace(",", "")) - 4000) < 1000
    assert "cost ε = 3" in report.reading
    assert report.figure.read_bytes().startswith(b"\x89PNG")


def test_the_example_script_runs() -> None:
    script = ROOT / "examples" / "curator.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "Nothing was run and nothing was charged" in done.stdout
    assert "emergency" in done.stdout


def test_a_curator_says_what_it_holds_whom_it_protects_and_what_is_spent() -> None:
    curator = Curator.open(
        made_up_visits(100),
        name="visits",
        unit=Unit.column("patient_id", max_rows=4),
        limit=Budget(3, 1e-6),
        ledger="sqlite://",
    )
    curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.5)
    assert repr(curator) == (
        "<Curator of visits: protects all rows of one patient_id (at most 4 count), added or removed; "
        "limit ε = 3 at δ = 1e-06, spent ε = 0.5000>"
    )
    curator.close()
    assert "object at" not in repr(curator)


@pytest.mark.parametrize(
    ("terms", "way"),
    [
        ({"unit": "patient_id"}, 'unit=Unit.column("patient_id"'),
        ({"limit": 3}, "limit=Budget(epsilon=3, delta=1e-6), got 3"),
    ],
)
def test_a_unit_or_limit_of_another_type_is_told_what_to_write(terms: dict[str, Any], way: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(way)):
        Curator.open(made_up_visits(10), name="visits", ledger="sqlite://", **terms)
    with pytest.raises(InvalidParameter, match=r"got Unit\(.patient_id.\)"):
        Unit("patient_id")  # type: ignore[arg-type]
