"""The order of a run: what is quick and fails most often first, in every process of pytest-xdist."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

FIRST = ("tests/meta", "tests/test_", "src/")
"""What a change breaks most often and what takes no time: rules of the house, small words, doctests."""


def deal(items: Sequence[pytest.Item], spark: set[pytest.Item], workers: int) -> list[pytest.Item]:
    """File by file, so that what a file shares is made once, to as many hands as there are processes.

    pytest-xdist gives each process one run of neighbours to begin with. All that needs Spark lies
    in the first hand, for one process alone then starts a Java."""
    files: dict[tuple[bool, str], list[pytest.Item]] = {}
    for item in items:
        files.setdefault((item in spark, item.nodeid.partition("::")[0]), []).append(item)
    hands: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for (on_spark, _), cases in sorted(files.items(), key=lambda file: rank(*file[0])):
        hand = hands[0] if on_spark else min(hands, key=len)
        hand += cases
    return [item for hand in hands for item in hand]


def rank(on_spark: bool, path: str) -> tuple[bool, int]:
    early = next((place for place, start in enumerate(FIRST) if path.startswith(start)), len(FIRST))
    return not on_spark, early


def count_workers() -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
