"""Which cases of a long list run in `make test`: as many as show every value once; `make soak` runs all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

Values = frozenset[tuple[str, str]]
"""What one case was made from: the place of each parameter and the name of its value."""


def mark_surplus(items: Iterable[pytest.Item]) -> None:
    """Of every test that is marked `sampled`, give the cases that `make test` can do without the marker `soak`."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in groups.values():
        mark = cases[0].get_closest_marker("sampled")
        assert mark is not None
        chosen = choose([read_values(case) for case in cases], *mark.args)
        for place, case in enumerate(cases):
            if place not in chosen:
                case.add_marker(pytest.mark.soak)


def read_values(item: pytest.Item) -> Values:
    # pytest numbers the cases and not the values, so these are told by their names.
    names = getattr(getattr(item, "callspec", None), "_idlist", ())
    return frozenset((str(place), name) for place, name in enumerate(names))


def choose(cases: Sequence[Values], most: int | None = None) -> set[int]:
    """The places of `most` cases, evenly spread; without a number, of so many that each value occurs in one.

    >>> sorted(choose([frozenset({("a", str(i))}) for i in range(10)], 3))
    [0, 3, 6]
    >>> sorted(choose([frozenset({("a", str(i)), ("b", str(j))}) for i in range(3) for j in range(2)]))
    [0, 3, 4]
    """
    if most is not None:
        count = min(most, len(cases))
        return {turn * len(cases) // count for turn in range(count)}
    chosen: set[int] = set()
    used: Counter[tuple[str, str]] = Counter()
    missing = set().union(*cases)
    while missing:
        # What shows most that is new, and of these what repeats least, so that no value stands beside one other alone.
        best = max(
            range(len(cases)),
            key=lambda place: (
                len(cases[place] & missing),
                -sum(used[value] for value in cases[place]),
                -place,
            ),
        )
        chosen.add(best)
        used.update(cases[best])
        missing -= cases[best]
    return chosen
