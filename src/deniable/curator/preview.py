"""What a query would cost and how far its answer may be off, before anything is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deniable.curator import notebook
from deniable.ledger import Left
from deniable.numbers import short_down, short_up


@dataclass(frozen=True)
class Preview:
    """A query that was checked and planned, and not run: nothing was charged and no data was opened.

    `epsilon` at `delta` is what it would cost; `free` says that the answer was given before and is paid for.
    `expected` tells for each number how far noise may move it, with probability `confidence`. `left` is the
    largest charge that would still fit afterwards; `refusal` the sentence with which the ledger would refuse.
    `more` is, of a query that is one of many (`of=`), how many like it still fit.
    `shares` say what part of ε goes where, if not all of it goes to the numbers; `remarks` what else is to be
    known of the answer beforehand.
    """

    epsilon: float
    delta: float
    expected: Mapping[str, str]
    confidence: float
    fits: bool
    free: bool
    left: Left
    refusal: str | None = None
    more: int | None = None
    shares: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values: what a service sends and the shell prints as JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "expected": dict(self.expected),
            "confidence": self.confidence,
            "fits": self.fits,
            "free": self.free,
            "left": dict(vars(self.left)),
            "refusal": self.refusal,
            "more": self.more,
            "shares": list(self.shares),
            "remarks": list(self.remarks),
            "text": str(self),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Preview:
        """The preview that `to_dict` wrote, here or in an earlier version, which said less."""
        left = {name: float(content["left"].get(name, 0.0)) for name in ("epsilon", "rho", "delta", "mu")}
        return cls(
            epsilon=float(content["epsilon"]),
            delta=float(content["delta"]),
            expected=content["expected"],
            confidence=content["confidence"],
            fits=content["fits"],
            free=content["free"],
            left=Left(**left),
            refusal=content["refusal"],
            more=content.get("more"),
            shares=tuple(content.get("shares", ())),
            remarks=tuple(content.get("remarks", ())),
        )

    def _repr_html_(self) -> str:
        return notebook.preview_view(self)

    def lines(self) -> list[str]:
        at = f" at δ = {self.delta:.4g}" if self.delta else ""
        cost = f"Cost: ε = {short_up(self.epsilon)}{at}."
        errors = [f"{name}: {error}" for name, error in self.expected.items()]
        head = ""
        if errors:
            head = f"Expected, with probability {self.confidence:.6g}:"
        many = ""
        if self.more is not None:
            many = f"Queries like it that fit, this one included: {self.more:,}."
        lines = (cost, *self.shares, head, *(f"  {line}" for line in errors), self._fate, many, *self.remarks)
        return [line for line in lines if line]

    @property
    def _fate(self) -> str:
        if self.free:
            return "This was asked before and is paid for: the answer is kept, and costs nothing."
        if self.fits:
            return f"Left afterwards for one charge: ε ≤ {short_down(self.left.epsilon)}."
        return str(self.refusal)
