"""Who teaches whom: each unit of privacy belongs to one teacher, whatever the other units are.

A split of positions ("the first 240 rows to the first teacher") is not this: removing one row moves every
later row by one place, and with it rows of all later teachers. Here a unit's teacher is its own uniform draw,
or a keyed hash of its name. Either way, the data with one unit more or less have the same parts but one:

- **draw**: the draws are independent of the data and of one another. Pair the draws of the units that both
  data sets share; a unit that replaces another takes over its draw. All parts but the one drawn are equal.
- **keyed hash**: a unit's teacher is a function of its name. Whether another unit is
  there changes nothing. A unit that replaces another has another name and may have
  another teacher, so two parts would change: refused for such units.

Draws must be fresh: with a known seed the i-th row has a known teacher, and that is a
split of positions again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import DataError, InvalidParameter
from deniable.mechanism import Random
from deniable.units import Unit, UnitKind

SHORTEST_KEY, LONGEST_KEY = 16, 64


def check(unit: Unit, key: bytes | None, people: object) -> None:
    """Whether units of this kind can be assigned so; raised before any data is looked at."""
    if unit.kind not in (UnitKind.ROW, UnitKind.COLUMN, UnitKind.CLIENT):
        raise InvalidParameter(f'Expected a unit that has rows (row, column or client), got "{unit}".')
    if unit.kind is not UnitKind.ROW and people is None:
        raise InvalidParameter(
            f'Expected people=, whose rows they are, for the unit "{unit}": all its rows stay together.'
        )
    if key is None:
        return
    if not isinstance(key, bytes) or not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise InvalidParameter(
            f"Expected a key of {SHORTEST_KEY} to {LONGEST_KEY} bytes, for example os.urandom(32)."
        )
    if unit.replace:
        raise InvalidParameter(
            f'Expected key=None for the unit "{unit}": what replaces a unit has another hash, so two '
            "teachers would change. Let the teachers be drawn."
        )


def assign(
    rows: int,
    teachers: int,
    *,
    rng: Random,
    key: bytes | None = None,
    people: Sequence[Any] | NDArray[Any] | None = None,
    content: NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """The teacher of each of `rows` rows. All rows of one of `people` share it; without
    `people` each row is a unit.

    >>> from deniable.randomness import SeededRandom
    >>> assign(4, 3, rng=SeededRandom(1), people=["ann", "bob", "ann", "eve"]).tolist()
    [1, 2, 1, 0]
    """
    if people is not None and len(people) != rows:
        raise DataError("Expected as many people as rows. Nothing was taught.")
    if key is not None:
        names = _contents(rows, content) if people is None else [_name(person) for person in people]
        return np.array([_assign(name, key, teachers) for name in names], np.int64)
    if people is None:
        return rng.uniform_integers(teachers, rows)
    codes: dict[bytes, int] = {}
    owner = np.array([codes.setdefault(_name(person), len(codes)) for person in people], np.int64)
    return np.asarray(rng.uniform_integers(teachers, len(codes))[owner])


def _assign(name: bytes, key: bytes, teachers: int) -> int:
    """Uniform but for a bias below teachers/2^128, which no guarantee rests on."""
    return int.from_bytes(hashlib.blake2b(name, key=key, digest_size=16).digest()) % teachers


def _name(person: Any) -> bytes:
    """The bytes of a name; 7 and "7" are two people, 7 and numpy's 7 are one."""
    key = person.item() if isinstance(person, np.generic) else person
    return key if isinstance(key, bytes) else f"{type(key).__name__}:{key}".encode()


def _contents(rows: int, content: NDArray[Any] | None) -> list[bytes]:
    """Rows without a name are hashed by what they hold; equal rows share a teacher."""
    if content is None or len(content) != rows:
        raise DataError(f"Expected the content of {rows} rows to hash.")
    return [np.ascontiguousarray(row).tobytes() for row in content]
