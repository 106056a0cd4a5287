"""The journal for other tools: JSON lines, which lose nothing, and CSV, which opens in a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from typing import TextIO

from deniable.ledger.journal.entries import COLUMNS, Entry


def json_lines(entries: Iterable[Entry], file: TextIO) -> int:
    """One entry to a line; returns how many."""
    count = 0
    for entry in entries:
        file.write(json.dumps(entry.to_dict(), ensure_ascii=False) + "\n")
        count += 1
    return count


def comma_separated(entries: Iterable[Entry], file: TextIO) -> int:
    """Loss, unit and details are JSON in their cells. Text that a spreadsheet would run
    as a formula gets an apostrophe."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for entry in entries:
        writer.writerow([_cell(value) for value in entry])
        count += 1
    return count


def _cell(value: str | int | None) -> str | int:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    if value is None:
        return ""
    return value
