"""What forgetting leaves: the kept model knows the forgotten, the others do not."""

from __future__ import annotations

from pathlib import Path

from deniable.reproduce import forgetting


def test_only_the_kept_model_knows_the_forgotten(tmp_path: Path) -> None:
    report = forgetting.run(tmp_path, lambda items, label: items)
    told = {str(row[0]): (float(str(row[2])), float(str(row[3])), float(str(row[4]))) for row in report.rows}
    kept, anew, step = told["keep the model"], told["train anew"], told["a Newton step"]
    assert kept[1] > anew[1] + 0.2
    assert abs(step[1] - anew[1]) < 0.1
    assert step[0] < kept[0] / 3
    assert anew[2] > 0.15
    assert report.figure.read_bytes().startswith(b"\x89PNG")
