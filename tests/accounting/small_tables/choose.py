"""Choose the cases of the ordinary run: priced, quick, and among them every node, sample and relation.

python -m tests.accounting.small_tables.choose
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.accounting.small_tables.cases import build, cases, plans
from tests.accounting.small_tables.compare import compare

WANTED, LOOKED_AT = 500, 800


def choose() -> list[int]:
    """The quickest of each kind, then the quickest of the others."""
    every, spent, kinds = plans(), dict[int, float](), dict[int, set[Any]]()
    for number, case in cases():
        start = time.process_time()
        if compare(case, number) is None:
            continue
        leaf, sample, _, combinator, is_silenced = every[number % len(every)]
        spent[number] = time.process_time() - start
        kinds[number] = {
            *map(type, case.loss.walk()),
            (sample, is_silenced),
            (leaf, sample),
            (sample, combinator),
        }
        if len(spent) == LOOKED_AT:
            break
    numbers: set[int] = set()
    for kind in {kind for of_case in kinds.values() for kind in of_case}:
        numbers.add(min((number for number in spent if kind in kinds[number]), key=spent.__getitem__))
    rest = sorted(spent.keys() - numbers, key=spent.__getitem__)
    return sorted(numbers | set(rest[: WANTED - len(numbers)]))


if __name__ == "__main__":
    chosen = choose()
    assert len(chosen) == WANTED
    assert all(build(plans()[number % len(plans())], number) for number in chosen)
    Path(__file__).with_name("fixed.json").write_text(json.dumps(chosen) + "\n")
