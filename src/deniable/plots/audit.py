"""Pictures of audits: guesses against the claimed region, the bound against samples, claimed against found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deniable.accounting.meaning import attacker_power
from deniable.audit.finding import Finding
from deniable.audit.statistics import from_guesses, lower, upper
from deniable.errors import InvalidParameter
from deniable.plots import COLOURS, axes, save


def roc(finding: Finding, path: Path) -> Path:
    """True against false positives of the witness, with exact intervals, and the region that the claim allows."""
    witness = finding.witness
    if witness is None or not witness.counts:
        raise InvalidParameter(f'The finding on "{finding.target}" has no witness to draw (method: {finding.method}).')
    picture, plane = axes(
        title=f"{finding.target}: guesses and the claim", x="false positives", y="true positives", width=5.4
    )
    rates = np.concatenate([[0.0], np.geomspace(1e-7, 1, 300)])
    ceiling = [attacker_power(float(r), finding.claim.epsilon, finding.claim.delta) for r in rates]
    plane.fill_between(rates, rates, ceiling, color=COLOURS[0], alpha=0.15, label=f"allowed by {finding.claim}")
    counts = np.array(witness.counts, np.int64)
    above, totals = np.cumsum(counts[::-1], axis=0)[::-1], counts.sum(axis=0)
    middle = above / totals
    low, high = lower(above, totals, 0.025), upper(above, totals, 0.025)
    plane.errorbar(
        middle[:, 1], middle[:, 0],
        xerr=np.maximum(0, [middle[:, 1] - low[:, 1], high[:, 1] - middle[:, 1]]),
        yerr=np.maximum(0, [middle[:, 0] - low[:, 0], high[:, 0] - middle[:, 0]]),
        fmt="o-", color=COLOURS[1], markersize=3, linewidth=1, label="found (95 % intervals)",
    )  # fmt: skip
    plane.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    plane.legend(frameon=False, fontsize=9, loc="lower right")
    return save(picture, path)


def bound_by_samples(finding: Finding, path: Path) -> Path:
    """The certified ε that the same guesses would have given from fewer or more samples, the shares held fixed."""
    witness = finding.witness
    if witness is None:
        raise InvalidParameter(f'The finding on "{finding.target}" has no witness to draw (method: {finding.method}).')
    sides = int(witness.high < math.inf) + int(witness.low > -math.inf)
    sizes = np.unique(np.geomspace(200, 10 * witness.trials, 60).astype(int))
    bounds = [_scaled(witness.right, witness.wrong, witness.trials, int(n), finding, sides) for n in sizes]
    picture, plane = axes(title=f"{finding.target}: certified ε by samples", x="certifying samples", y="certified ε")
    plane.plot(
        sizes, bounds, color=COLOURS[1], linewidth=1.8, label="certified, same shares of right and wrong guesses"
    )
    plane.plot([witness.trials], [finding.epsilon], "o", color=COLOURS[1], label="this audit")
    plane.axhline(float(finding.claim.epsilon), color=COLOURS[0], linestyle="--", label=f"claimed: {finding.claim}")
    plane.set_xscale("log")
    plane.legend(frameon=False, fontsize=9)
    return save(picture, path)


def _scaled(right: int, wrong: int, trials: int, n: int, finding: Finding, sides: int) -> float:
    scaled = (math.floor(right * n / trials), math.ceil(wrong * n / trials))
    return from_guesses(*scaled, max(n, sum(scaled)), delta=finding.delta, alpha=1 - finding.confidence, sides=sides)


def ladder(findings: Sequence[Finding], path: Path) -> Path:
    """Claimed and certified ε of many targets, one below the other, on a logarithmic axis."""
    picture, plane = axes(title="Claimed and found", x="ε", y="", width=7, height=max(2.5, 0.28 * len(findings) + 1.2))
    for row, finding in enumerate(findings):
        claimed, found = float(finding.claim.epsilon), finding.epsilon
        colour = COLOURS[1] if finding.exit_code == 1 else COLOURS[2]
        plane.plot([max(claimed, 1e-3), max(found, 1e-3)], [row, row], color=colour, linewidth=1)
        plane.plot(
            [max(claimed, 1e-3)], [row], "|", color="black", markersize=11, label="claimed" if row == 0 else None
        )
        plane.plot([max(found, 1e-3)], [row], "o", color=colour, label="certified lower bound" if row == 0 else None)
    plane.set_yticks(range(len(findings)), [finding.target for finding in findings], fontsize=8)
    plane.set_xscale("log")
    plane.invert_yaxis()
    plane.legend(frameon=False, fontsize=9)
    return save(picture, path)
