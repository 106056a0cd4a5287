"""The event of an attack in words: which outputs give the neighbours away."""

from __future__ import annotations

import numpy as np

from deniable.audit.rules.classify import OutputView
from deniable.audit.rules.support import Region, Support
from deniable.audit.rules.tables import Array, Flags, Rows
from deniable.audit.runs.independence import Record
from deniable.audit.sniper.attack import Attack, hide
from deniable.audit.sniper.constants import place_name

ALIKE = 0.98
"""The share of outputs for which a simple sentence must say the same as the attack."""
LISTED = 6
"""Values that a sentence lists."""
DIGITS = 0.30103
"""Decimal digits for each binary one."""


def describe_event(attack: Attack, record: Record, columns: list[str]) -> str:
    """A sentence, from the outputs that chose the attack; what it guesses in words only if that fits."""
    if isinstance(attack.model, Support):
        return " ".join(
            f"Guessed to be the {_neighbour(region.side)} neighbour: {_say_region(region, columns)}."
            for region in attack.model.regions[:2]
        )
    rows = attack.view.see(hide(np.concatenate([record.first, record.second]), attack.hidden))
    scores = attack.model.score(rows)
    sentences = []
    for side, mask in ((1, scores >= attack.rule.high), (-1, scores < attack.rule.low)):
        if mask.any():
            words = _say_set(rows, mask, attack.view, columns)
            sentences.append(f"Guessed to be the {_neighbour(side)} neighbour: {words}.")
    return " ".join(sentences)


def _neighbour(side: int) -> str:
    return "first" if side == 1 else "second"


def _say_region(region: Region, columns: list[str]) -> str:
    place = place_name(columns, region.column)
    if region.kind == "at":
        return f"{place} is {region.edge:.6g}, which the other neighbour was never seen to give"
    return f"{place} is {region.kind} {region.edge:.6g}, where the other neighbour was never seen"


def _say_set(rows: Rows, mask: Flags, view: OutputView, columns: list[str]) -> str:
    """The coordinate that tells a set of rows from the others, and how."""
    shares = [_by_values(rows[:, i], mask) for i in range(rows.shape[1])]
    best = int(np.argmax([share for share, _ in shares]))
    place = place_name(columns, best)
    if view is OutputView.DIFFERENCES and best:
        place = f"{place}, less the coordinate before it,"
    if shares[best][0] < ALIKE:
        return f"a score of {rows.shape[1]} coordinates is large, {place} most of all"
    if view is OutputView.BITS:
        return _say_digits(place, shares[best][1], rows[:, best])
    return f"{place} is {_say_values(shares[best][1], rows[:, best])}"


def _by_values(column: Array, mask: Flags) -> tuple[float, Array]:
    """How well the values of one coordinate alone say which rows are guessed, and those values."""
    values, place = np.unique(column, return_inverse=True)
    times = np.bincount(place)
    hits = np.bincount(place, weights=mask)
    selection = hits > times / 2
    if len(values) > len(column) / 4:  # a continuous coordinate: only an interval says something
        inside = column[mask]
        selection = (values >= inside.min()) & (values <= inside.max())
    agreement = float(np.mean(selection[place] == mask))
    return agreement, values[selection]


def _say_values(selection: Array, column: Array) -> str:
    if len(selection) == 0:
        return "rare"
    low, high = float(selection.min()), float(selection.max())
    outside = np.setdiff1d(column, selection)
    if not np.any((outside > low) & (outside < high)):
        if high >= column.max():
            return f"at least {low:.6g}"
        if low <= column.min():
            return f"at most {high:.6g}"
        return f"between {low:.6g} and {high:.6g}"
    if len(selection) <= LISTED:
        return "one of " + ", ".join(f"{value:.6g}" for value in selection)
    return f"one of {len(selection)} values from {low:.6g} to {high:.6g}"


def _say_digits(place: str, selection: Array, column: Array) -> str:
    """Which of the last binary digits of a floating-point number is the lowest that is set."""
    digits = _say_values(selection, column)
    last = max(1, round(-float(selection.max()) * DIGITS))
    return (
        f"the lowest binary digit that is set in {place} is 2^k with k {digits}, that is from about the "
        f"{last}th decimal place on. Floating-point noise leaves gaps in these digits, and the gaps depend "
        "on the data"
    )
