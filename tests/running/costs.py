"""What tests cost: processor seconds of each folder, those of processes that it started included, beside its share."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

AIM = 24 * 60
"""Processor seconds that `make test` may take, lint and types included."""

SHARES = {
    "tests/accounting": 170,
    "tests/adversarial": 80,
    "tests/attack": 40,
    "tests/audit": 90,
    "tests/audited": 40,
    "tests/cli": 80,
    "tests/contract": 50,
    "tests/curator": 80,
    "tests/datasets": 5,
    "tests/federated": 80,
    "tests/learn": 170,
    "tests/ledger": 70,
    "tests/local": 30,
    "tests/mechanisms": 50,
    "tests/meta": 60,
    "tests/plots": 10,
    "tests/randomness": 10,
    "tests/reproduce": 20,
    "tests/running": 1,
    "tests/server": 120,
    "tests/smooth": 20,
    "tests/sql": 120,
    "tests/stored": 5,
    "tests": 5,
    "src": 30,
}
"""Processor seconds of each folder. Who adds tests makes others cheaper, or takes the seconds from another folder."""

COLLECTION = "collecting"
SERVERS = "Java, browsers"


def read_clock() -> float:
    """Processor seconds of this process and of those children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def read_children(process: int) -> float:
    """Processor seconds of all that still runs below a process, where Linux tells."""
    tick = os.sysconf("SC_CLK_TCK")
    rows = dict(_read_processes())
    below = {process}
    while more := {child for child, (parent, _) in rows.items() if parent in below} - below:
        below |= more
    return sum(rows[child][1] for child in below - {process}) / tick


def _read_processes() -> Iterator[tuple[int, tuple[int, int]]]:
    """Each process with its parent and its ticks, of children that it has waited for too."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        fields = text.rpartition(")")[2].split()
        yield int(path.parent.name), (int(fields[1]), sum(map(int, fields[11:15])))


def name_folder(nodeid: str) -> str:
    """The folder whose share pays for a test.

    >>> name_folder("tests/sql/read/test_clock.py::test_a"), name_folder("src/deniable/units.py::deniable.units")
    ('tests/sql', 'src')
    >>> name_folder("tests/test_units.py::test_a")
    'tests'
    """
    parts = nodeid.partition("::")[0].split("/")
    if parts[0] != "tests":
        return parts[0]
    return "/".join(parts[:2] if len(parts) > 2 else parts[:1])


def report(seconds: Mapping[str, float]) -> Iterator[str]:
    """A line for each folder, dearest first; ✗ where it takes more than its share."""
    yield f"{'processor seconds':<24}{'taken':>8}{'share':>8}"
    for folder, taken in Counter(seconds).most_common():
        share = SHARES.get(folder)
        over = share is not None and taken > share
        yield f"{folder:<24}{taken:>8.1f}{share if share is not None else '':>8}{' ✗' if over else ''}"
    yield f"{'together':<24}{sum(seconds.values()):>8.1f}{AIM:>8}"
