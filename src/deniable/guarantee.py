"""What is promised: a `Budget` to stay under, a `Bound` that brackets the truth, a
`Certificate` that others can check."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable import strict_json
from deniable.errors import DeniableError, InvalidBudget, InvalidCertificate, InvalidParameter
from deniable.loss import Loss, Number, show
from deniable.numbers import integral, short_down, short_up
from deniable.strict_json import MOST_DIGITS, shown
from deniable.units import Unit

NONE_KNOWN = "none known"

DEFAULT_DELTA = 1e-5
"""The δ at which a training run is stated where none is named. δ is the chance that the
promise of ε fails, so it must lie well below 1 ÷ the number of people: for more than
some ten thousand of them name a smaller one."""

QUERY_SHARE = 100
"""A query's δ is this part of its data set's where none is named: a hundred queries that
need one fit under the limit."""


def query_delta(limit_delta: Number) -> Number:
    """The δ of one query under a limit, where none is named.

    >>> query_delta(1e-6)
    1e-08
    """
    return limit_delta / QUERY_SHARE


@dataclass(frozen=True)
class Budget:
    """A limit: (ε, δ) that everything leaving a data set together must stay under.

    >>> print(Budget(epsilon=3, delta=1e-6))
    ε = 3 at δ = 1e-06
    """

    epsilon: Number
    delta: Number = 0

    def __post_init__(self) -> None:
        for name, value, top in (("epsilon", self.epsilon, math.inf), ("delta", self.delta, 1)):
            good = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
            if not (good and 0 <= value < top):
                raise InvalidBudget(
                    f"Expected {name}={shown(value)} of a budget in [0, {top:g}).".replace("inf", "∞")
                )
            if (
                not isinstance(value, float)
                and max(value.numerator, value.denominator).bit_length() > 3.33 * MOST_DIGITS
            ):
                raise InvalidBudget(f"Expected {name} of a budget in at most {MOST_DIGITS:,} digits.")
            object.__setattr__(self, name, float(value) if isinstance(value, float) else value)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """ε, or ε and δ.

        >>> print(Budget.parse("3:1e-6"))
        ε = 3 at δ = 1e-06
        """
        epsilon, _, delta = text.partition(":")
        try:
            return cls(integral(float(epsilon)), integral(float(delta or 0)))
        except ValueError:
            raise InvalidParameter(
                f"Expected limit={text!r} to be an ε, or an ε and a δ like 3:1e-6."
            ) from None

    def __str__(self) -> str:
        return f"ε = {show(self.epsilon)}" + (f" at δ = {show(self.delta)}" if self.delta else "")


@dataclass(frozen=True)
class Bound:
    """`lower` ≤ the true value ≤ `upper`, both certified.

    The truth is the worst case over all mechanisms with this loss. `method` names what gave `upper`;
    `attained` what gave `lower`: "none known" means that `lower` is the trivial 0.
    """

    lower: float
    upper: float
    method: str
    attained: str = NONE_KNOWN

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= self.upper:
            raise ArithmeticError(f"A bracket must have 0 ≤ lower ≤ upper, got [{self.lower}, {self.upper}].")

    @property
    def gap(self) -> float:
        """upper − lower; ∞ where no upper bound is known."""
        if math.isinf(self.upper):
            return math.inf
        return self.upper - self.lower

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __str__(self) -> str:
        return f"[{short_down(self.lower, 6)}, {short_up(self.upper, 6)}] ({self.method})"


@dataclass(frozen=True)
class Certificate:
    """A claim that anybody can compute again: `deniable verify certificate.json`.

    No field depends on data. `bound` brackets ε at `delta` for `loss` as seen by `unit`; `assumptions` are
    the sentences the claim rests on; `head` is the ledger's head at the time, if the release came from one.
    """

    loss: Loss
    unit: Unit
    delta: float
    bound: Bound
    assumptions: tuple[str, ...]
    version: str
    head: str | None = None

    def to_dict(self) -> dict[str, Any]:
        bound = {
            "lower": self.bound.lower,
            "upper": self.bound.upper if math.isfinite(self.bound.upper) else "inf",
        }
        return {
            "certificate": 1,
            "loss": self.loss.to_dict(),
            "unit": self.unit.to_dict(),
            "delta": self.delta,
            "epsilon": bound | {"method": self.bound.method, "attained": self.bound.attained},
            "assumptions": list(self.assumptions),
            "version": self.version,
            "head": self.head,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate; its numbers are not believed until `accounting.verify` has computed them again.

        Strict: exactly the fields that `to_json` writes, each once and of its own type,
                so that no two readers can see two
        claims in one text. Numbers that contradict each other (`upper` below `lower`)
        are called what they are: false.
        """
        value = strict_json.parse(text, InvalidCertificate, "a certificate")
        if not isinstance(value, dict) or not _is_version(value.get("certificate")):
            raise InvalidCertificate('This is no certificate of version 1: it lacks "certificate": 1.')
        _fields(value, FIELDS, "a certificate")
        try:
            loss, unit = Loss.from_dict(value["loss"]), Unit.from_dict(value["unit"])
        except DeniableError as error:
            raise InvalidCertificate(f"This certificate cannot be read: {error}") from None
        return cls(
            loss=loss,
            unit=unit,
            delta=_share(value["delta"]),
            bound=_claim(value["epsilon"]),
            assumptions=_sentences(value["assumptions"]),
            version=_text("version", value["version"]),
            head=None if value["head"] is None else _text("head", value["head"]),
        )


FIELDS = ("certificate", "loss", "unit", "delta", "epsilon", "assumptions", "version", "head")


def _is_version(value: object) -> bool:
    return type(value) is int and value == 1  # `True == 1.0 == 1` in Python, not in a text


def _fields(value: Mapping[str, Any], names: tuple[str, ...], what: str) -> None:
    if set(value) != set(names):
        odd = sorted(set(value) ^ set(names))[0]
        problem = "lacks the field" if odd in names else "has an unknown field"
        raise InvalidCertificate(f'This certificate cannot be read: {what} {problem} "{odd[:60]}".')


def _claim(value: object) -> Bound:
    if not isinstance(value, dict):
        raise InvalidCertificate('This certificate cannot be read: "epsilon" is no object.')
    _fields(value, ("lower", "upper", "method", "attained"), '"epsilon"')
    upper = math.inf
    if value["upper"] != "inf":
        upper = _number("upper", value["upper"])
    lower = _number("lower", value["lower"])
    if not 0 <= lower <= upper:
        raise InvalidCertificate(
            f"The certificate is false: it claims that ε lies in [{lower:.6g}, {upper:.6g}], "
            "which holds no number from 0 on. Do not rely on it."
        )
    return Bound(lower, upper, _text("method", value["method"]), _text("attained", value["attained"]))


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidCertificate(
            f"This certificate cannot be read: expected {name}={shown(value)} to be a number."
        )
    try:
        return float(value)
    except OverflowError:
        raise InvalidCertificate(
            f"This certificate cannot be read: {name} is beyond the range of doubles."
        ) from None


def _share(value: object) -> float:
    share = _number("delta", value)
    if not 0 <= share < 1:
        raise InvalidCertificate(f"This certificate cannot be read: expected delta={share!r} in [0, 1).")
    return share


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidCertificate(
            f"This certificate cannot be read: expected {name}={shown(value)} to be text."
        )
    return value


def _sentences(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidCertificate('This certificate cannot be read: "assumptions" is no list.')
    return tuple(_text("an assumption", line) for line in value)
