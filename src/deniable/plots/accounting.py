"""Pictures of privacy accounting: what a run costs by method, Figure 2 of Abadi et al.
2016, and the best attacker."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.plots import COLOURS, axes, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("-", "--", "-.", ":")


def cost(steps: Sequence[int], curves: Mapping[str, Sequence[float]], *, delta: float, path: Path) -> Path:
    """ε by the number of releases, a line for each method that has a bound; the last
    line, the tight one, is heavier."""
    picture, plane = axes(
        title=f"What a run costs, by method (δ = {delta:g})", x="releases", y="ε (upper bound)"
    )
    bounds = {name: curve for name, curve in curves.items() if any(map(math.isfinite, curve))}
    for i, (name, curve) in enumerate(bounds.items()):
        label, style, width = name, STYLES[1 + i % 3], 1.4
        if name == "numerical":
            label, style, width = "numerical (tight)", STYLES[0], 2.4
        values = [value if math.isfinite(value) else math.nan for value in curve]
        plane.plot(steps, values, style, color=COLOURS[i % len(COLOURS)], label=label, linewidth=width)
    if len(steps) > 1:
        plane.set_xscale("log")
    plane.set_yscale("log")
    plane.legend(frameon=False, fontsize=9)
    return save(picture, path)


def epochs(
    epoch: Sequence[int],
    curves: Mapping[str, Sequence[float]],
    paper_points: Sequence[tuple[int, float, str]],
    *,
    title: str,
    path: Path,
) -> Path:
    """ε by epoch: our curves as lines, the numbers a paper prints as points (epoch, ε, label)."""
    picture, plane = axes(title=title, x="epoch", y="ε")
    for name, curve, style, colour in zip(
        curves, curves.values(), (":", "-.", "-", "--"), COLOURS, strict=False
    ):
        plane.plot(epoch, curve, style, color=colour, label=name, linewidth=1.8)
    for marker, label in zip("os^D", dict.fromkeys(label for _, _, label in paper_points), strict=False):
        points = [(x, y) for x, y, of in paper_points if of == label]
        plane.plot(*zip(*points, strict=True), marker, color="black", markerfacecolor="none", label=label)
    plane.set_yscale("log")
    plane.set_xlim(left=0)
    _plain_ticks(plane)
    plane.legend(frameon=False, fontsize=9, ncols=2, loc="lower right")
    return save(picture, path)


def attacker(power: Callable[[float], float], *, title: str, path: Path) -> Path:
    """The most true positives any attacker can have at each rate of false alarms, on logarithmic axes."""
    picture, plane = axes(title=title, x="false alarms (FPR)", y="members found (TPR)", width=5.4, height=4.8)
    rates = [10 ** (-4 + 4 * i / 400) for i in range(401)]
    best = [power(rate) for rate in rates]
    plane.fill_between(rates, rates, best, color=COLOURS[0], alpha=0.15, linewidth=0)
    plane.plot(rates, best, color=COLOURS[0], linewidth=2, label="the best attacker there can be")
    plane.plot(rates, rates, "--", color=COLOURS[7], label="guessing")
    plane.set_xscale("log")
    plane.set_yscale("log")
    plane.set_xlim(1e-4, 1)
    plane.set_ylim(1e-4, 1.2)
    for axis in (plane.xaxis, plane.yaxis):
        axis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    plane.legend(frameon=False, loc="lower right")
    return save(picture, path)


def _plain_ticks(plane: Axes) -> None:
    """0.5, 1, 2, 5, 10 instead of powers of ten."""
    low, high = plane.get_ylim()
    marks = [base * 10.0**power for power in range(-4, 5) for base in (1, 2, 5)]
    plane.set_yticks([mark for mark in marks if low <= mark <= high], minor=False)
    plane.set_yticks([], minor=True)
    plane.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
