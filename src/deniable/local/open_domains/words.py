"""Words as numbers: five bits a letter, first letter highest, so that a prefix of the
bits is a prefix of the word.

>>> number = spell(["deniable"], length=8)
>>> read(number, length=8)
['deniable']
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from deniable.local.arrays import Words
from deniable.local.hashing import name_items

LETTER = 5
LETTERS = " abcdefghijklmnopqrstuvwxyz'-.·"
"""Letter 0 ends a word; the last one stands for every other character."""
LONGEST = 12
_CODES = {letter: i for i, letter in enumerate(LETTERS)}


def spell(words: Sequence[str] | NDArray[np.str_], length: int) -> Words:
    """Each word's first `length` letters (at most 12) as one number; capitals are lowered."""
    return name_items(words, lambda word: _spell(str(word), length))


def _spell(word: str, length: int) -> int:
    number = 0
    for letter in word.lower()[:length].ljust(length):
        number = number << LETTER | _CODES.get(letter, len(LETTERS) - 1)
    return number


def read(numbers: Iterable[int] | Words, length: int) -> list[str]:
    """The words that `spell` turned into these numbers; an unused code reads as the last letter."""
    shifts = range(LETTER * (length - 1), -1, -LETTER)
    return [
        "".join(LETTERS[min(int(n) >> s & 31, len(LETTERS) - 1)] for s in shifts).rstrip() for n in numbers
    ]
