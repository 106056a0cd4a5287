"""The picture of memorisation: exposure in bits against how often a secret stood in the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deniable.plots import COLOURS, axes, save


def exposures(
    copies: Sequence[int], bits: Mapping[str, Sequence[float]], *, ceiling: float, title: str, path: Path
) -> Path:
    """Bars for each model beside one another; the line is a secret known by heart."""
    picture, plane = axes(title=title, x="copies of the secret in the text", y="exposure in bits")
    width = 0.8 / len(bits)
    for k, (name, values) in enumerate(bits.items()):
        places = [i + (k - (len(bits) - 1) / 2) * width for i in range(len(copies))]
        plane.bar(places, values, width=0.92 * width, color=COLOURS[1 + k], label=name)
    plane.axhline(ceiling, color="black", linestyle=":", label="known by heart")
    plane.set_xticks(range(len(copies)), [str(c) for c in copies])
    plane.set_ylim(0, 1.08 * ceiling)
    plane.grid(visible=False, axis="x")
    picture.legend(frameon=False, fontsize=9, loc="outside right upper")
    return save(picture, path)
