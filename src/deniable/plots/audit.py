"""Pictures of audits: guesses against the claimed region, the bound against samples,
canaries, claimed against found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from deniable.accounting import calibrate_noise
from deniable.accounting.meaning import attacker_power
from deniable.accounting.proportion import lower, upper
from deniable.audit.finding import Finding, Witness
from deniable.audit.one_run import CURVE
from deniable.audit.sniper import COUPLED
from deniable.audit.statistics import Array, from_guesses, from_pairs
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.numbers import down
from deniable.plots import COLOURS, axes, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLIVER = 0.25
"""Below this advantage the allowed region is too thin to be seen along the diagonal."""
LEAST = 1e-3
LEGEND = (
    ("|", "black", "black", "claimed"),
    ("o", COLOURS[2], COLOURS[2], "certified, within the claim"),
    ("o", COLOURS[1], COLOURS[1], "certified, beyond it"),
    ("o", COLOURS[2], "white", "nothing certified"),
)


def overview(finding: Finding, path: Path) -> Path:
    """What a finding rests on, side by side: guesses against the claim, and the bound by
    samples or the canaries' scores."""
    witness = _drawable_witness(finding)
    picture, left, right = _panels(finding)
    if finding.by_canaries:
        _scores(left, finding, witness)
        _roc(right, finding, witness)
    else:
        _roc(left, finding, witness)
        _by_samples(right, finding, witness)
    return save(picture, path)


def roc(finding: Finding, path: Path) -> Path:
    """True against false positives of the witness, with exact intervals, and the region
    that the claim allows.

    A small claim leaves a sliver along the diagonal, so there the diagonal is taken off:
    true less false positives.
    """
    witness = _drawable_witness(finding)
    picture, plane = axes(title=f"{_shorten(finding.target)}: guesses and the claim", x="", y="", width=5.4)
    _roc(plane, finding, witness)
    return save(picture, path)


def bound_by_samples(finding: Finding, path: Path) -> Path:
    """The certified ε that the same guesses would have given from fewer or more samples,
    the shares held fixed."""
    witness = _drawable_witness(finding)
    if finding.by_canaries:
        raise InvalidParameter(f'Canaries have no bound by samples (the finding on "{finding.target}").')
    picture, plane = axes(title=f"{_shorten(finding.target)}: certified ε by samples", x="", y="")
    _by_samples(plane, finding, witness)
    return save(picture, path)


def canaries(finding: Finding, path: Path) -> Path:
    """The scores of the canaries of one run, in and out, and where they were guessed from."""
    witness = _drawable_witness(finding)
    picture, plane = axes(title=f"{_shorten(finding.target)}: scores of canaries", x="", y="")
    _scores(plane, finding, witness)
    return save(picture, path)


def _drawable_witness(finding: Finding) -> Witness:
    if finding.witness is None or not finding.witness.counts:
        raise InvalidParameter(
            f'The finding on "{finding.target}" has no witness to draw (method: {finding.method}).'
        )
    return finding.witness


def _panels(finding: Finding) -> tuple[Figure, Axes, Axes]:
    """Two planes beside one another, under one title that says what was certified."""
    picture, left = axes(title="", x="", y="", width=11.0)
    grid = picture.add_gridspec(1, 2)
    left.set_subplotspec(grid[0])
    right = picture.add_subplot(grid[1])
    right.grid(visible=True, color="#dddddd", linewidth=0.6)
    right.set_axisbelow(True)
    for side in ("top", "right"):
        right.spines[side].set_visible(False)
    title = (
        f"{_shorten(finding.target, 60)}: {finding.verdict}, claimed {finding.claim}, certified ε ≥ "
        f"{down(finding.epsilon)}"
    )
    picture.suptitle(title, x=0.01, ha="left", fontsize=11)
    return picture, left, right


LOWER_RIGHT, BEST = 4, 0
"""Places of a legend, as matplotlib numbers them."""


def _roc(plane: Axes, finding: Finding, witness: Witness) -> None:
    claim, flat = finding.claim, _advantage(finding) < SLIVER
    plane.set_xlabel("false positives")
    name, ceiling = _claim_curve(finding)
    rates = np.unique([0.0, *np.geomspace(1e-7, 1, 300), *_corners(claim)])
    top = np.array([ceiling(float(r)) for r in rates])
    floor = rates * (not flat)
    plane.fill_between(
        rates, floor, top - rates * flat, color=COLOURS[0], alpha=0.15, label=f"allowed by {name}"
    )
    counts = np.array(witness.counts, np.int64)
    above, totals = np.cumsum(counts[::-1], axis=0)[::-1], np.maximum(counts.sum(axis=0), 1)
    middle, low, high = above / totals, lower(above, totals, 0.025), upper(above, totals, 0.025)
    heights, least, most = middle[:, 0], low[:, 0], high[:, 0]
    wide = np.maximum(0, [middle[:, 1] - low[:, 1], high[:, 1] - middle[:, 1]])
    name_of_heights, corner, place = "true positives", 1, LOWER_RIGHT
    if flat:  # both rates' intervals add up
        heights, least, most = middle[:, 0] - middle[:, 1], low[:, 0] - high[:, 1], high[:, 0] - low[:, 1]
        wide = None
        name_of_heights, corner, place = "true − false positives", 0, BEST
    plane.set_ylabel(name_of_heights)
    plane.errorbar(
        middle[:, 1], heights, xerr=wide, yerr=np.maximum(0, [heights - least, most - heights]),
        fmt="o-", color=COLOURS[1], markersize=3, linewidth=1, elinewidth=0.6, label="found (95 % intervals)",
    )  # fmt: skip
    plane.plot([0, 1], [0, corner], color="#999999", linewidth=0.8)
    plane.legend(frameon=False, fontsize=9, loc=place)


def _claim_curve(finding: Finding) -> tuple[str, Callable[[float], float]]:
    """What the claim allows to true positives: (ε, δ), or a Gaussian curve where the
    audit assumed one: the run's or a step's."""
    claim, step = finding.claim, (finding.options or {}).get("claimed_mu")
    if step is not None:
        return f"a step of noise multiplier {1 / step:.4g}", lambda rate: float(ndtr(ndtri(rate) + step))
    if CURVE in finding.assumes and claim.delta:
        mu = 1 / calibrate_noise(float(claim.epsilon), float(claim.delta))
        return f"a Gaussian run of {claim}", lambda rate: float(ndtr(ndtri(rate) + mu))
    return str(claim), lambda rate: attacker_power(rate, claim.epsilon, claim.delta)


def _corners(claim: Budget) -> tuple[float, ...]:
    """Where the edge of the claim's region turns: e^ε·x + δ = 1 − e^−ε·(1 − δ − x)."""
    return ((1 - float(claim.delta)) / (1 + math.exp(min(float(claim.epsilon), 50.0))),)


def _scores(plane: Axes, finding: Finding, witness: Witness) -> None:
    """Steps of equal area for canaries in and out; the tails beyond the outermost cuts
    are drawn one step wide."""
    cuts, counts = _drop_slivers(witness)
    step = 1.0
    if len(cuts) > 1:
        step = float(np.median(np.diff(cuts)))
    edges = np.concatenate([[cuts[0] - step], cuts, [cuts[-1] + step]])
    for k, (name, colour) in enumerate(((witness.first, COLOURS[1]), (witness.second, COLOURS[0]))):
        heights = counts[:, k] / np.maximum(np.diff(edges), 1e-300) * step
        label = f"{name}: {int(counts[:, k].sum()):,} canaries"
        plane.stairs(heights, edges, color=colour, fill=True, alpha=0.25)
        plane.stairs(heights, edges, color=colour, label=label)
    for edge, style, label in _thresholds(witness):
        plane.axvline(
            edge, ymax=0.76, color="black", linewidth=1, linestyle=style, label=label
        )  # not through the legend
    plane.set_xlabel(f"score ({witness.right:,} right and {witness.wrong:,} wrong guesses)")
    plane.set_ylabel("canaries per step")
    plane.set_ylim(0, 1.35 * plane.get_ylim()[1])
    plane.legend(frameon=False, fontsize=9, loc="upper left", ncols=2)


def _drop_slivers(witness: Witness) -> tuple[Array, Array]:
    """Cuts and counts without those at the thresholds, which would stand as slivers between even steps."""
    cuts, counts = np.array(witness.cuts), np.array(witness.counts, np.float64)
    mask = ~np.isin(cuts, (witness.high, witness.low))
    if mask.sum() < 2:
        return cuts, counts
    return cuts[mask], np.add.reduceat(counts, np.concatenate([[0], 1 + np.flatnonzero(mask)]), axis=0)


def _thresholds(witness: Witness) -> list[tuple[float, str, str]]:
    if witness.high == witness.low:
        return [(witness.high, "--", "guessed in from here on")]
    return [(witness.high, "--", "guessed in from here on"), (witness.low, ":", "guessed out below")]


def _advantage(finding: Finding) -> float:
    """The largest true − false positive rate that the claim allows."""
    grow = math.exp(min(float(finding.claim.epsilon), 50.0))
    return (grow - 1 + 2 * float(finding.claim.delta)) / (grow + 1)


def _shorten(name: str, limit: int = 34) -> str:
    if len(name) <= limit:
        return name
    return name[: limit - 1] + "…"


def _by_samples(plane: Axes, finding: Finding, witness: Witness) -> None:
    sides = int(witness.high < math.inf) + int(witness.low > -math.inf)
    sizes = np.unique(np.geomspace(200, max(10 * witness.trials, 2000), 60).astype(int))
    bounds = [_bound_at(finding, witness, int(n), sides) for n in sizes]
    plane.plot(
        sizes, bounds, color=COLOURS[1], linewidth=1.8, label="certified, if the shares stay as they are"
    )
    plane.plot([witness.trials], [finding.epsilon], "o", color=COLOURS[1], label="this audit")
    plane.axhline(
        float(finding.claim.epsilon), color=COLOURS[0], linestyle="--", label=f"claimed: {finding.claim}"
    )
    plane.set_xlabel("certifying samples")
    plane.set_ylabel("certified ε")
    plane.set_xscale("log")
    ticks = [step * 10**power for power in range(2, 10) for step in (1, 3)]
    within = [tick for tick in ticks if sizes[0] <= tick <= sizes[-1]]
    plane.set_xticks(within, [f"{tick:,}" for tick in within], fontsize=9)
    plane.minorticks_off()
    plane.set_ylim(0, 1.3 * max(*bounds, finding.epsilon, float(finding.claim.epsilon), LEAST))
    plane.legend(frameon=False, fontsize=9, loc="upper left")


def _bound_at(finding: Finding, witness: Witness, n: int, sides: int) -> float:
    """What `n` samples with the same shares would certify, by the bound that this audit used."""
    share, alpha = n / witness.trials, 1 - finding.confidence
    if finding.method == COUPLED and finding.options:
        right, wrong, both = finding.options["pairs"]
        return from_pairs(
            math.floor(right * share), math.ceil(wrong * share), math.floor(both * share), alpha=alpha
        )
    guesses = math.floor(witness.right * share), math.ceil(witness.wrong * share)
    return from_guesses(*guesses, max(n, sum(guesses)), delta=finding.delta, alpha=alpha, sides=sides)


def ladder(findings: Sequence[Finding], path: Path) -> Path:
    """Claimed and certified ε of many targets, one below the other, on a logarithmic axis."""
    picture, plane = axes(
        title="Claimed and found", x="ε", y="", width=7, height=max(2.5, 0.28 * len(findings) + 1.2)
    )
    for row, finding in enumerate(findings):
        claim, bound = max(float(finding.claim.epsilon), LEAST), max(finding.epsilon, LEAST)
        colour = COLOURS[1] if finding.exit_code == 1 else COLOURS[2]
        # What was not certified at all sits at the edge, hollow: a logarithmic axis has no 0.
        full = colour if finding.epsilon > LEAST else "white"
        plane.plot([claim, bound], [row, row], color=colour, linewidth=1)
        plane.plot([claim], [row], "|", color="black", markersize=11)
        plane.plot([bound], [row], "o", color=colour, markerfacecolor=full)
    for marker, colour, full, label in LEGEND:
        plane.plot([], [], marker, color=colour, markerfacecolor=full, label=label, linestyle="none")
    plane.set_yticks(range(len(findings)), [_shorten(finding.target) for finding in findings], fontsize=8)
    plane.set_xscale("log")
    plane.invert_yaxis()
    plane.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return save(picture, path)
