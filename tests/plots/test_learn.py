"""Pictures of learning show what they are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deniable.plots import learn


def drawn(curves: dict[str, dict[int, float]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plane, before it is saved."""
    pictures: list[Any] = []

    def keep(picture: Any, path: Path) -> Path:
        pictures.append(picture)
        return path

    monkeypatch.setattr(learn, "save", keep)
    learn.by_round(curves, title="", path=Path("x.png"))
    return pictures[0].axes[0]


@pytest.mark.parametrize("best", [0.1, 0.35, 0.55, 0.97])
def test_the_ends_of_all_curves_are_on_the_plane(best: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = drawn({"low": {1: 0.05, 9: best}, "high": {1: 0.5, 9: 0.98}}, monkeypatch)
    low, high = plane.get_ylim()
    assert low <= 100 * best - 10 or low == 0
    assert high > 98


def test_no_two_curves_of_ten_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = drawn({str(k): {1: 0.9, 2: 0.95} for k in range(10)}, monkeypatch)
    assert len({(line.get_color(), line.get_linestyle()) for line in plane.lines}) == 10
