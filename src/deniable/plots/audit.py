"""Pictures of audits: guesses against the claimed region, the bound against samples, claimed against found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deniable.accounting.meaning import attacker_power
from deniable.audit.finding import Finding, Witness
from deniable.audit.sniper import COUPLED
from deniable.audit.statistics import from_coupled, from_guesses, lower, upper
from deniable.errors import InvalidParameter
from deniable.plots import COLOURS, axes, save

SLIVER = 0.25
"""Below this advantage the allowed region is too thin to be seen along the diagonal."""
LEAST = 1e-3
LEGEND = (
    ("|", "black", "black", "claimed"),
    ("o", COLOURS[2], COLOURS[2], "certified, within the claim"),
    ("o", COLOURS[1], COLOURS[1], "certified, beyond it"),
    ("o", COLOURS[2], "white", "nothing certified"),
)


def roc(finding: Finding, path: Path) -> Path:
    """True against false positives of the witness, with exact intervals, and the region that the claim allows.

    A small claim leaves a sliver along the diagonal, so there the diagonal is taken off: true less false positives.
    """
    witness = finding.witness
    if witness is None or not witness.counts:
        raise InvalidParameter(f'The finding on "{finding.target}" has no witness to draw (method: {finding.method}).')
    claim, flat = finding.claim, _advantage(finding) < SLIVER
    y = "true − false positives" if flat else "true positives"
    picture, plane = axes(title=f"{_short(finding.target)}: guesses and the claim", x="false positives", y=y, width=5.4)
    rates = np.concatenate([[0.0], np.geomspace(1e-7, 1, 300)])
    ceiling = np.array([attacker_power(float(r), claim.epsilon, claim.delta) for r in rates])
    floor = rates * (not flat)
    plane.fill_between(rates, floor, ceiling - rates * flat, color=COLOURS[0], alpha=0.15, label=f"allowed by {claim}")
    counts = np.array(witness.counts, np.int64)
    above, totals = np.cumsum(counts[::-1], axis=0)[::-1], counts.sum(axis=0)
    middle, low, high = above / totals, lower(above, totals, 0.025), upper(above, totals, 0.025)
    if flat:  # both rates' intervals add up
        shown, least, most = middle[:, 0] - middle[:, 1], low[:, 0] - high[:, 1], high[:, 0] - low[:, 1]
    else:
        shown, least, most = middle[:, 0], low[:, 0], high[:, 0]
    wide = None if flat else np.maximum(0, [middle[:, 1] - low[:, 1], high[:, 1] - middle[:, 1]])
    plane.errorbar(
        middle[:, 1], shown, xerr=wide, yerr=np.maximum(0, [shown - least, most - shown]),
        fmt="o-", color=COLOURS[1], markersize=3, linewidth=1, label="found (95 % intervals)",
    )  # fmt: skip
    plane.plot([0, 1], [0, 0 if flat else 1], color="#999999", linewidth=0.8)
    plane.legend(frameon=False, fontsize=9, loc="best" if flat else "lower right")
    return save(picture, path)


def _advantage(finding: Finding) -> float:
    """The largest true − false positive rate that the claim allows."""
    grow = math.exp(min(float(finding.claim.epsilon), 50.0))
    return (grow - 1 + 2 * float(finding.claim.delta)) / (grow + 1)


def _short(name: str, most: int = 34) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def bound_by_samples(finding: Finding, path: Path) -> Path:
    """The certified ε that the same guesses would have given from fewer or more samples, the shares held fixed."""
    witness = finding.witness
    if witness is None:
        raise InvalidParameter(f'The finding on "{finding.target}" has no witness to draw (method: {finding.method}).')
    sides = int(witness.high < math.inf) + int(witness.low > -math.inf)
    sizes = np.unique(np.geomspace(200, 10 * witness.trials, 60).astype(int))
    bounds = [_scaled(finding, witness, int(n), sides) for n in sizes]
    title = f"{_short(finding.target)}: certified ε by samples"
    picture, plane = axes(title=title, x="certifying samples", y="certified ε")
    plane.plot(sizes, bounds, color=COLOURS[1], linewidth=1.8, label="certified, if the shares stay as they are")
    plane.plot([witness.trials], [finding.epsilon], "o", color=COLOURS[1], label="this audit")
    plane.axhline(float(finding.claim.epsilon), color=COLOURS[0], linestyle="--", label=f"claimed: {finding.claim}")
    plane.set_xscale("log")
    plane.legend(frameon=False, fontsize=9)
    return save(picture, path)


def _scaled(finding: Finding, witness: Witness, n: int, sides: int) -> float:
    """What `n` samples with the same shares would certify, by the bound that this audit used."""
    share, alpha = n / witness.trials, 1 - finding.confidence
    if finding.method == COUPLED and finding.options:
        right, wrong, both = finding.options["pairs"]
        return from_coupled(math.floor(right * share), math.ceil(wrong * share), math.floor(both * share), alpha=alpha)
    guesses = math.floor(witness.right * share), math.ceil(witness.wrong * share)
    return from_guesses(*guesses, max(n, sum(guesses)), delta=finding.delta, alpha=alpha, sides=sides)


def ladder(findings: Sequence[Finding], path: Path) -> Path:
    """Claimed and certified ε of many targets, one below the other, on a logarithmic axis."""
    picture, plane = axes(title="Claimed and found", x="ε", y="", width=7, height=max(2.5, 0.28 * len(findings) + 1.2))
    for row, finding in enumerate(findings):
        claimed, found = max(float(finding.claim.epsilon), LEAST), max(finding.epsilon, LEAST)
        colour = COLOURS[1] if finding.exit_code == 1 else COLOURS[2]
        # What was not certified at all sits at the edge, hollow: a logarithmic axis has no 0.
        full = colour if finding.epsilon > LEAST else "white"
        plane.plot([claimed, found], [row, row], color=colour, linewidth=1)
        plane.plot([claimed], [row], "|", color="black", markersize=11)
        plane.plot([found], [row], "o", color=colour, markerfacecolor=full)
    for marker, colour, full, label in LEGEND:
        plane.plot([], [], marker, color=colour, markerfacecolor=full, label=label, linestyle="none")
    plane.set_yticks(range(len(findings)), [_short(finding.target) for finding in findings], fontsize=8)
    plane.set_xscale("log")
    plane.invert_yaxis()
    plane.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return save(picture, path)
