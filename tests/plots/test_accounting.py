"""Pictures are written, show what they are given, and without matplotlib say which extra brings it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from deniable import extras
from deniable.errors import InvalidParameter, MissingExtra
from deniable.plots import accounting, axes, save


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=re.escape(extras.install("plot"))):
        axes(title="", x="", y="")


@pytest.mark.parametrize(("name", "head"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")])
def test_the_ending_chooses_the_format(tmp_path: Path, name: str, head: bytes) -> None:
    picture, _ = axes(title="t", x="x", y="y")
    assert save(picture, tmp_path / name).read_bytes().startswith(head)


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"to end in \.png, \.pdf, \.svg"):
        save(axes(title="t", x="x", y="y")[0], tmp_path / "a.doc")


def test_a_method_without_a_bound_is_not_drawn(tmp_path: Path) -> None:
    curves = {"basic": [1.0, 2.0], "shuffle": [float("inf")] * 2, "numerical": [0.5, 0.9]}
    said = accounting.cost([1, 10], curves, delta=1e-5, path=tmp_path / "c.svg").read_text(encoding="utf-8")
    assert "<!-- basic -->" in said
    assert "<!-- shuffle -->" not in said


def test_figure_and_attacker_are_drawn(tmp_path: Path) -> None:
    accounting.epochs(
        [1, 2], {"tight": [1.0, 2.0]}, [(1, 1.1, "printed")], title="t", path=tmp_path / "e.png"
    )
    accounting.attacker(lambda rate: min(1.0, 3 * rate), title="t", path=tmp_path / "a.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("e.png", "a.png"))
