"""Choose which plans the long run looks at, and the cases of the ordinary run, by a survey of one case of every plan.

python -m tests.accounting.small_tables.choose
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path

from tests.accounting.small_tables.cases import case_of, numbered, plan_of, plans, steps
from tests.accounting.small_tables.compare import compare
from tests.accounting.small_tables.tables import Case

WANTED = 500
SECONDS = 18.0
"""CPU time that the cases of the ordinary run may take together."""

SLOW = 0.4
"""CPU seconds from which on the long run looks at a plan in every third turn only."""


def survey(indices: Iterable[int], turn: int = 0) -> Iterator[tuple[int, float]]:
    """Number and CPU seconds of each case that has a price."""
    for number in (numbered(index, turn) for index in indices):
        case = case_of(number)
        if case is None:
            continue
        start = time.process_time()
        comparison = compare(case, number)
        if comparison is not None:
            assert not comparison.why, f"Case {number}. {comparison}"
            yield number, time.process_time() - start


def strata(number: int, case: Case) -> set[Hashable]:
    """What a case stands for: nodes, and pairs of noise, sample, relation, combinator and number of steps."""
    leaf, sample, content, combinator, is_silenced = plan_of(number)
    own = {
        "noise": leaf,
        "sample": sample,
        "content": content,
        "combinator": combinator,
        "relation": case.relation,
        "silenced": is_silenced,
        "steps": steps(case.loss),
    }
    items = list(own.items())
    pairs = {(a, b) for i, a in enumerate(items) for b in items[i + 1 :]}
    return pairs | {type(node).__name__ for node in case.loss.walk()}


def choose(seconds: dict[int, float]) -> list[int]:
    """Draw one of every stratum by lot, then more of those that are rarest among the chosen, as long as time is left.

    Where a stratum is drawn it is by lot among its quicker half: that keeps what is typical, and leaves out what takes seconds.
    """
    draw, by_stratum = random.Random(0), dict[Hashable, list[int]]()
    own: dict[int, set[Hashable]] = {}
    for number in seconds:
        case = case_of(number)
        assert case is not None
        own[number] = strata(number, case)
        for stratum in own[number]:
            by_stratum.setdefault(stratum, []).append(number)
    counts, chosen = dict.fromkeys(by_stratum, 0), set[int]()

    def take(number: int) -> None:
        chosen.add(number)
        for stratum in own[number]:
            counts[stratum] += 1

    for stratum in sorted(by_stratum, key=lambda at: (len(by_stratum[at]), repr(at))):
        if not counts[stratum]:
            numbers = sorted(by_stratum[stratum], key=seconds.__getitem__)
            take(draw.choice(numbers[: (len(numbers) + 1) // 2]))
    rest = [number for number in seconds if number not in chosen]
    draw.shuffle(rest)
    while len(chosen) < WANTED:
        left = (SECONDS - sum(seconds[number] for number in chosen)) / (WANTED - len(chosen))
        # A case may take twice what is left for each, so that the quickest are not the only ones.
        number = next(number for number in rest if seconds[number] <= max(2 * left, 0.01))
        rest.remove(number)
        take(number)
    return sorted(chosen)


def write(seconds: dict[int, float]) -> None:
    place = Path(__file__).parent
    slow = sorted({number % len(plans()) for number, spent in seconds.items() if spent > SLOW})
    quick = sorted({number % len(plans()) for number in seconds} - set(slow))
    (place / "priced.json").write_text(json.dumps({"quick": quick, "slow": slow}) + "\n")
    (place / "fixed.json").write_text(json.dumps(choose(seconds)) + "\n")


if __name__ == "__main__":
    write(dict(survey(range(len(plans())))))
