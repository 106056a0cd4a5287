"""Pictures of attacks: what each release gave away, success against noise, and the bound
of the exhaustive attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deniable.plots import COLOURS, axes, save


def releases(
    names: Sequence[str],
    shares: Sequence[float],
    chances: Sequence[float],
    *,
    title: str,
    secrets: str,
    path: Path,
    protected_count: int = 1,
) -> Path:
    """The share of secrets learnt from each release as a bar, and what chance gives as a mark on it."""
    picture, plane = axes(title=title, x=f"{secrets} learnt", y="", width=7.6, height=1.5 + 0.42 * len(names))
    places = range(len(names))
    # The last releases are the protected ones.
    colours = [COLOURS[1]] * (len(names) - protected_count) + [COLOURS[2]] * protected_count
    plane.barh(places, [100 * share for share in shares], color=colours, height=0.62)
    plane.plot(
        [100 * chance for chance in chances],
        places,
        "|",
        color="black",
        markersize=15,
        markeredgewidth=2,
        label="by chance",
        clip_on=False,
    )
    for place, share, chance in zip(places, shares, chances, strict=True):
        beside = chance if 0 <= chance - share < 0.12 else share  # not under the mark of chance
        plane.text(
            100 * beside + 1.4, place, f"{100 * share:.3g} %", va="center", fontsize=8.5, color="#333333"
        )
    plane.set_yticks(list(places), list(names), fontsize=9)
    plane.invert_yaxis()
    plane.set_xlim(0, 112)
    plane.set_xticks(range(0, 101, 20))
    plane.xaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    plane.grid(visible=False, axis="y")
    picture.legend(frameon=False, fontsize=9, loc="outside lower right")
    return save(picture, path)


def reconstruction(
    theory: tuple[Sequence[float], Sequence[float]],
    points: Sequence[tuple[float, float]],
    run: tuple[float, float],
    levels: Mapping[str, float],
    *,
    title: str,
    path: Path,
) -> Path:
    """The share of bits found against noise c·√n: a line for what is expected, points for what was found."""
    picture, plane = axes(title=title, x="c: the noise has deviation c·√n", y="bits found")
    plane.plot(*theory, "-", color=COLOURS[0], label="expected (n → ∞)")
    plane.plot(*zip(*points, strict=True), "o", color=COLOURS[1], label="found (n ≤ 1,024)", zorder=3)
    if run[0] > 0:
        plane.plot(*run, "*", color="black", markersize=12, label="this run", zorder=4)
    for (name, share), style in zip(levels.items(), ("--", "-.", ":"), strict=False):
        plane.axhline(share, linestyle=style, color=COLOURS[2], label=name)
    plane.axhline(0.5, color=COLOURS[7], linewidth=1, label="guessing")
    plane.set_xscale("log")
    plane.set_ylim(0.45, 1.02)
    plane.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    plane.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    plane.legend(frameon=False, fontsize=9)
    return save(picture, path)


def exhaustive(
    errors: Sequence[float],
    wrong_bits: Mapping[str, Sequence[int]],
    bound: Sequence[float],
    *,
    title: str,
    path: Path,
) -> Path:
    """Wrong bits of the exhaustive attack against the largest error of an answer, under the theorem's
    line."""
    picture, plane = axes(title=title, x="E: every answer is within E of the truth", y="wrong bits")
    plane.fill_between(errors, bound, color=COLOURS[0], alpha=0.1, linewidth=0)
    plane.plot(errors, bound, "-", color=COLOURS[0], label="4E: never more (Dinur, Nissim 2003)")
    for (name, counts), marker, colour in zip(wrong_bits.items(), "os", COLOURS[1:], strict=False):
        plane.plot(
            errors, counts, marker, color=colour, label=f"{name} errors", markersize=7, markerfacecolor="none"
        )
    plane.set_ylim(bottom=-0.3)
    plane.legend(frameon=False, fontsize=9, loc="upper left")
    return save(picture, path)


def poisoning(
    shares: Mapping[str, tuple[float, float, float]], truth: float, *, title: str, path: Path
) -> Path:
    """The estimated share of one item by protocol: without liars, with them, and made consistent."""
    picture, plane = axes(title=title, x="", y="estimated share of the item", width=7.2, height=3.8)
    for at, name in enumerate(("without liars", "with liars", "with liars, made consistent")):
        places = [place + 0.27 * (at - 1) for place in range(len(shares))]
        plane.bar(places, [each[at] for each in shares.values()], 0.25, color=COLOURS[at], label=name)
    plane.axhline(truth, color="black", linewidth=1, label="truth")
    plane.set_xticks(range(len(shares)), list(shares))
    plane.grid(visible=False, axis="x")
    plane.legend(frameon=False, fontsize=9)
    return save(picture, path)
