"""What a file holds, by a digest that two copies share: a copy of registered data is no other data.

The digest is of the size and of blocks spread over the file, so that it costs the same for any large file.
Files with the same bytes always have the same digest; files that differ in other blocks alone have it too,
and are likely the same data. It is for a warning to the owner: her word on what is one data set stands.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from deniable.errors import InvalidParameter

BLOCK, BLOCKS = 1 << 16, 64


def digest(path: Path) -> str:
    """The digest of a file: of all of it up to 4 MiB, else of 64 blocks from its first byte to its last."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        hasher = hashlib.sha256(f"{size}:".encode())
        for i in range(BLOCKS):
            file.seek(i * max(size - BLOCK, 0) // (BLOCKS - 1) if size > BLOCK * BLOCKS else i * BLOCK)
            hasher.update(file.read(BLOCK))
    return hasher.hexdigest()


def digests(places: Mapping[str, str], private: frozenset[str]) -> list[str]:
    """The digests of the files among the sources of private tables. A database has none."""
    paths = [Path(place) for table, place in places.items() if table in private and "://" not in place]
    try:
        return sorted({digest(path) for path in paths if path.is_file()})
    except OSError:
        raise InvalidParameter("A source cannot be opened. Nothing was registered.") from None
