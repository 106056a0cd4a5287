"""A question as every door brings it: the text, and on which terms. Numbers are exact, so that one question
has one price and one answer.

>>> text = "SELECT COUNT(*) FROM visits"
>>> Question.of(text, epsilon="0.10") == Question.of(text, epsilon=0.1)
True
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from deniable.errors import InvalidParameter


@dataclass(frozen=True)
class Question:
    """What `Curator.sql` is asked."""

    text: str
    epsilon: Fraction | None = None
    within: Fraction | None = None
    delta: Fraction | None = None
    confidence: float = 0.95
    at_least: int | None = None
    max_groups: int | None = None
    noise: str = "auto"
    discover: bool = False

    @classmethod
    def of(cls, text: str, **terms: Any) -> Question:
        values = {name: value for name, value in terms.items() if value is not None}
        for name in ("epsilon", "within", "delta"):
            if name in values:
                values[name] = number(name, values[name])
        return cls(text, **values)

    @property
    def terms(self) -> dict[str, Any]:
        """The keyword arguments of `Curator.sql` and `Curator.preview`."""
        return {name: value for name, value in asdict(self).items() if name != "text"}

    @property
    def digest(self) -> str:
        """What tells this question from another."""
        content = json.dumps({name: str(value) for name, value in asdict(self).items()}, sort_keys=True)
        return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()


NUMBER = re.compile(r"[+-]?(\d{1,20}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?")


def number(name: str, value: Any) -> Fraction:
    """A number in decimal digits, as it was written: 0.1 is a tenth. Few digits, so that none takes long to
    read."""
    if isinstance(value, Fraction):
        return value
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or NUMBER.fullmatch(text) is None:
        raise InvalidParameter(
            f"Expected {name} as a decimal number, got {text[:40]!r}. Nothing was charged and nothing was "
            "run."
        )
    return Fraction(text)
