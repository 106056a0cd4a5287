"""What never changes and gives the neighbours away, in a target that may remember it.

A noisy count beside an exact key is the commonest fault of a query service. From outside it looks like a key
that was drawn once and is remembered since. So it is a violation if it is not remembered: a verdict of its
own. Copies of the neighbours under new names, each asked once, decide it: a service has nothing to remember
of a name that it never heard.
"""

from __future__ import annotations

import math
from dataclasses import replace
from textwrap import shorten
from typing import Any

import numpy as np

from deniable.audit.finding import Finding, Verdict
from deniable.audit.levels import COPIES, look_share
from deniable.audit.rules.classify import OutputView
from deniable.audit.rules.support import EITHER, Region, Support
from deniable.audit.runs.independence import Constant
from deniable.audit.runs.restart import COULD_NOT, explain_no_restart
from deniable.audit.runs.target import INSIDE, SHAPE, Called, column_paths, encode
from deniable.audit.sniper.attack import Attack, Tally
from deniable.audit.sniper.campaign import Campaign
from deniable.audit.statistics import from_guesses
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget

IF = "if"
"""The option of a finding that says what is a violation if it is not remembered."""
MOST_COPIES = 10_000
TO_PROVE = "To prove it,"
NAMED = 3
"""Coordinates that a sentence names."""


def telltale_attack(campaign: Campaign, attack: Attack) -> Attack | None:
    """The rule that guesses by what never changes; None if there is nothing like that."""
    places = campaign.constants.get(attack.pair.name)
    if not places or not attack.hidden:
        return None
    regions = [
        Region(constant.column, side, "at", value, 1)
        for constant in _main(campaign, places)
        for side, value in ((1, constant.first), (-1, constant.second))
        if value is not None
    ]
    return replace(
        attack,
        view=OutputView.RAW,
        model=Support(tuple(regions)),
        rule=EITHER,
        cuts=(),
        is_coupled=False,
        hidden=(),
    )


def judge_constants(campaign: Campaign, tally: Tally, finding: Finding) -> Finding:
    """The finding on the rest of the output, and what is a violation if it is not remembered."""
    attack, trials = tally.attack, int(tally.counts.sum())
    right, wrong, _ = tally.guesses
    bound = from_guesses(right, wrong, trials, delta=attack.delta, alpha=campaign.levels.accusing)
    if not bound > campaign.claim_at(attack):
        return finding
    claim = Budget(campaign.claim_at(attack), attack.delta)
    places = name_places(campaign, campaign.constants[attack.pair.name])
    few, many = (copies_needed(claim, level) for level in (campaign.alpha, COPIES))
    reasons = (
        f"Violation if what never changes is not remembered: {places}. The rest of the output changes from "
        "run to run.",
        f"{explain_no_restart(campaign.source.target)} If it did not draw this once and keep it, the "
        "claim is false.",
        _way_out(campaign, few, many),
    )
    condition = {"places": places, "model": attack.model.to_dict(), "epsilon": bound, "copies": many}
    verdict = Verdict.VIOLATION_IF
    if finding.verdict is Verdict.VIOLATION:
        verdict = finding.verdict
    options = {**(finding.options or {}), IF: condition}
    return replace(finding, verdict=verdict, reasons=(*finding.reasons, *reasons), options=options)


def _way_out(campaign: Campaign, fewest: int, copies: int) -> str:
    if explain_no_restart(campaign.source.target) == COULD_NOT:
        return f"{TO_PROVE} give the target as module:name, and let it hold no state."
    return (
        f"{TO_PROVE} renew the service before every run (--fresh COMMAND), or make {copies} copies of each "
        f"neighbour under new names and add --copies {copies} ({fewest} are enough for a confidence of "
        f"{1 - campaign.alpha:.4g}, {copies} for a verdict of violation)."
    )


# ------------------------------------------------------------------------------------------------ copies


def copies_needed(claim: Budget, alpha: float) -> int:
    """How many copies, all guessed right, refute the claim at this level: (e^ε/(1 + e^ε))ⁿ ≤ alpha for δ = 0.

    >>> [copies_needed(Budget(1), alpha) for alpha in (0.05, 0.01, COPIES)]
    [10, 15, 27]
    """
    copies = 1
    while from_guesses(copies, 0, copies, delta=float(claim.delta), alpha=alpha) <= float(claim.epsilon):
        copies += 1
        if copies > MOST_COPIES:
            raise InvalidParameter(f"No number of copies up to {MOST_COPIES:,} refutes the claim {claim}.")
    return copies


def ask_copies(
    finding: Finding, target: Any, names: list[tuple[Any, Any]], seed: int, look: int | None = None
) -> Finding:
    """Decide a "violation if" by copies of the neighbours that the target was never asked about.

    A fair coin picks one copy of each pair of `names`; the target is asked about it once. The rule was fixed
    before, and no name serves twice, so the guesses are independent whatever the target remembers by name.
    """
    condition, witness = (finding.options or {}).get(IF), finding.witness
    if condition is None or witness is None:
        return finding
    model, columns = Support.from_dict(condition["model"]), list(witness.columns or ())
    coins = np.random.default_rng([seed, len(names)]).integers(2, size=len(names)).tolist()
    right = wrong = 0
    for coin, pair in zip(coins, names, strict=True):
        score = float(model.score(encode([target(pair[coin])], columns))[0])
        right += int(score == 1 - 2 * coin)
        wrong += int(score == 2 * coin - 1)
    share = look_share(look) if look is not None else 1.0
    alpha, delta = share * min(COPIES, 1 - finding.confidence), finding.delta
    bound = from_guesses(right, wrong, len(names), delta=delta, alpha=alpha)
    reason = f"Of {len(names)} copies under new names {right} were guessed right and {wrong} wrong."
    if not bound > float(finding.claim.epsilon):
        enough = copies_needed(finding.claim, alpha)
        more = f" That is no proof; {enough} copies would be one, if all of them are guessed right."
        reasons = (text for text in finding.reasons if not text.startswith(TO_PROVE))
        return replace(finding, reasons=(*reasons, reason + more))
    proof = (
        f"What never changes is not remembered: {condition['places']}.",
        f"{reason} A sound target is accused with a probability of at most 0.001.",
    )
    bound = from_guesses(right, wrong, len(names), delta=delta, alpha=share * (1 - finding.confidence))
    return replace(
        finding,
        verdict=Verdict.VIOLATION,
        reasons=proof,
        epsilon=max(bound, finding.epsilon),
    )


# ------------------------------------------------------------------------------------------------ words


def _main(campaign: Campaign, constants: list[Constant]) -> list[Constant]:
    """The coordinates that say it best: values that are always there on both neighbours, else all. What is
    inside a text that never changes says nothing beside it."""
    columns = column_paths(campaign.source.target)
    places = _outermost(columns, constants)
    both = [
        constant
        for constant in places
        if _is_number(constant.first)
        and _is_number(constant.second)
        and not _is_shape(columns, constant.column)
    ]
    shape = [constant for constant in places if _is_shape(columns, constant.column)]
    return (both + shape) or places


def _outermost(columns: list[str], constants: list[Constant]) -> list[Constant]:
    """The constants without the places inside of a text that is among them itself."""
    paths = {
        constant.column: columns[constant.column] for constant in constants if constant.column < len(columns)
    }
    texts = set(paths.values())

    def is_inner(path: str) -> bool:
        return INSIDE in path and path.partition(INSIDE)[0] in texts

    return [constant for constant in constants if not is_inner(paths.get(constant.column, ""))]


def name_places(campaign: Campaign, constants: list[Constant]) -> str:
    """What never changes, in words, with its value on each neighbour."""
    columns, target = column_paths(campaign.source.target), campaign.source.target
    texts = target.texts if isinstance(target, Called) else {}
    parts = []
    for constant in _main(campaign, constants)[:NAMED]:
        if _is_shape(columns, constant.column):
            counts = [_rows_on(columns, constants, side) for side in (0, 1)]
            parts.append(
                f"the number of rows ({counts[0]} on the first neighbour, {counts[1]} on the second)"
            )
            continue
        first, second = (_say(value, texts) for value in (constant.first, constant.second))
        parts.append(
            f"{place_name(columns, constant.column)} ({first} on the first neighbour, {second} on the second)"
        )
    return " and ".join(parts)


def place_name(columns: list[str], column: int) -> str:
    """A coordinate in words.

    >>> place_name([SHAPE, ".0.0", ".1.0"], 2), place_name([SHAPE, ".0", ".1.rows.0.n"], 2), place_name([], 1)
    ('value 1 of row 2', 'rows.0.n of the answer', 'coordinate 2 of the output')
    >>> place_name([SHAPE, ".note", f".note{INSIDE}2"], 2)
    'number 2 in note of the answer'
    """
    path = columns[column].strip(".") if column < len(columns) else ""
    path, inside, place = path.partition(INSIDE)
    if inside:
        part = f"number {place}" if place.isdigit() else "the words without the numbers"
        return f"{part} in {place_name([path], 0)}"
    parts = path.split(".")
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        return f"value {int(parts[1]) + 1} of row {int(parts[0]) + 1}"
    if len(parts) > 1:
        return f"{'.'.join(parts[parts[0].isdigit() :])} of the answer"
    if path and not path.isdigit():
        return f"{path} of the answer"
    return f"coordinate {column + 1} of the output" if column or path else "the output"


def _is_shape(columns: list[str], column: int) -> bool:
    return column < len(columns) and columns[column] == SHAPE


def _is_number(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _rows_on(columns: list[str], constants: list[Constant], side: int) -> int:
    """How many rows one neighbour's answer has: those whose places are not all missing on it."""
    missing = {
        constant.column
        for constant in constants
        if math.isnan((constant.first, constant.second)[side] or 0.0)
    }
    lists = {
        "." + ".".join(path.split(".")[1:-1]) for path in columns if path != SHAPE and INSIDE not in path
    }
    return len(
        {
            prefix
            for prefix in lists
            if any(
                path.rpartition(".")[0] == prefix and place not in missing
                for place, path in enumerate(columns)
            )
        }
    )


def _say(value: float | None, texts: dict[float, str]) -> str:
    if value is None:
        return "changing"
    if math.isnan(value):
        return "missing"
    if value in texts:
        return f'"{shorten(texts[value], 60, placeholder=" …")}"'
    return f"{value:.10g}"
