"""Pictures of local privacy: estimates against the truth, and error against the number of users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deniable.plots import COLOURS, axes, save


def estimates(
    truth: Sequence[float], estimate: Sequence[float], half_widths: Sequence[float], *, title: str, path: Path
) -> Path:
    """Estimated users by rank, with error bars, beside the true number."""
    picture, plane = axes(title=title, x="rank of the word", y="users")
    rank = range(1, len(truth) + 1)
    plane.errorbar(
        rank,
        estimate,
        yerr=half_widths,
        fmt="o",
        markersize=3.5,
        color=COLOURS[0],
        elinewidth=1,
        label="estimate, 95 % interval",
    )
    plane.plot(rank, truth, "_", color=COLOURS[1], markersize=9, markeredgewidth=2, label="truth")
    plane.set_yscale("log", nonpositive="clip")
    plane.set_ylim(bottom=0.3 * min(truth))
    plane.legend(frameon=False)
    return save(picture, path)


def errors(users: Sequence[int], curves: Mapping[str, Sequence[float]], *, title: str, path: Path) -> Path:
    """Error of an estimated share by the number of users, a line for each model, on logarithmic axes."""
    picture, plane = axes(title=title, x="users", y="error of an item's share (root mean square)")
    for (name, curve), style, colour in zip(curves.items(), ("-o", "-s", "-^", "-D"), COLOURS, strict=False):
        plane.plot(users, curve, style, color=colour, label=name, markersize=4)
    plane.set_xscale("log")
    plane.set_yscale("log")
    plane.legend(frameon=False)
    return save(picture, path)
