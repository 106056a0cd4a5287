"""What an audit found, as a value that prints, travels as JSON, sets an exit code and can be run again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.loss import Approximate, Loss, Pure
from deniable.numbers import down
from deniable.strict_json import plain

VERSION = 1
ADDED = ("reasons", "event")
"""What findings of this version did not always have."""


class Verdict(StrEnum):
    """How an audit ends. `exit_code` is what a command line returns, for continuous integration."""

    VIOLATION = "violation"
    CONSISTENT = "consistent"
    UNDERPOWERED = "underpowered"
    NO_EVIDENCE = "no evidence"
    """Nothing was guessed: the outputs on both neighbours look alike, and nothing is
    shown for or against the claim."""
    REPEATS = "answers repeat"
    """Runs depend on one another, as where noise is used again; what counts runs as
    independent certifies nothing."""
    VIOLATION_IF = "violation if"
    """A part of the output never changes and gives the neighbours away: a violation if the target does not
    remember it, which could not be found out."""
    LOOK_AGAIN = "look again"
    """The claim is refuted at the confidence that was asked for, which is too little for an accusation."""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self]


EXIT_CODES = {
    Verdict.CONSISTENT: 0, Verdict.VIOLATION: 1, Verdict.UNDERPOWERED: 3, Verdict.NO_EVIDENCE: 4,
    Verdict.REPEATS: 5, Verdict.VIOLATION_IF: 6, Verdict.LOOK_AGAIN: 7,
}  # fmt: skip
"""2 is bad input."""


NOTHING = "Nothing was guessed: the outputs that were to choose a rule look alike on both neighbours."


@dataclass(frozen=True)
class Witness:
    """All that is needed to run the decisive part again.

    `first` and `second` are the neighbours, `model` (seen through `view`) scores an
    output, at least `high` is guessed to come from `first`, below `low` from `second`.
    `counts[i]` are the outputs of `first` and of `second` whose score lies between the
    cuts i − 1 and i of `cuts`. The samples were drawn in `chunks` of `chunk`, from `seed`.
    """

    pair: str
    first: Any
    second: Any
    view: str
    model: dict[str, Any]
    high: float
    low: float
    trials: int
    right: int
    wrong: int
    seed: int
    chunk: int
    chunks: int
    cuts: tuple[float, ...] = ()
    counts: tuple[tuple[int, int], ...] = ()
    columns: tuple[str, ...] | None = None
    hidden: tuple[int, ...] = ()
    """Coordinates that the attack does not look at, since they may be remembered."""


@dataclass(frozen=True)
class Finding:
    """The verdict of an audit with its evidence.

    `epsilon` is a certified lower bound on the true ε at `delta`: it holds with probability `confidence` over
    the samples. `estimate` is the plain ratio and certifies nothing. `detectable` is the smallest true ε that
    this many samples could have told from the claim with probability .95, by a perfect guesser on the easiest
    target; anything below could not be seen. `curve` holds (δ, certified ε) pairs which are valid together,
    at `confidence`. `reasons` say in sentences what a verdict rests on, `event` which outputs give the
    neighbours away.
    """

    verdict: Verdict
    target: str
    claim: Budget
    epsilon: float
    delta: float
    confidence: float
    estimate: float
    detectable: float
    samples: int
    seconds: float
    support_differs: bool = False
    witness: Witness | None = None
    curve: tuple[tuple[float, float], ...] = ()
    assumes: tuple[str, ...] = ()
    cannot_see: tuple[str, ...] = ()
    method: str = "sniper"
    options: Mapping[str, Any] | None = None
    reasons: tuple[str, ...] = ()
    event: str = ""

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code

    @property
    def by_canaries(self) -> bool:
        """Whether guesses were about which canaries were in, and not about which neighbour was run."""
        return self.method.startswith(("one run", "canary"))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        at = f" at δ = {self.delta:g}" if self.delta else ""
        lines = [
            f"{self.verdict.upper()}: {self.target}, claimed {self.claim}.",
            *self.reasons,
            f"Certified: ε ≥ {down(self.epsilon)}{at} with confidence {self.confidence:.10g} (estimate "
            f"{self.estimate:.4g}).",
        ]
        if self.verdict is Verdict.REPEATS:
            return [*lines[:-1], "Nothing was certified."]
        if self.support_differs:
            lines.append(
                "The support differs: the attack set was met on one neighbour and never on the other."
            )
        if self.witness is not None:
            w = self.witness
            noun = "canaries" if self.by_canaries else "trials"
            lines.append(
                f'Witness: pair "{w.pair}", {w.right:,} right and {w.wrong:,} wrong guesses in {w.trials:,} '
                f"{noun}."
            )
        if self.event:
            lines.append(self.event)
        lines.append(
            f"The smallest ε that could have been told from the claim: {self.detectable:.4g}."
            if math.isfinite(self.detectable)
            else "Too little was run to tell any ε from the claim."
        )
        lines += [f"Assumes {sentence}" for sentence in self.assumes]
        return lines + [f"Cannot see {sentence}" for sentence in self.cannot_see]

    def to_dict(self) -> dict[str, Any]:
        body = asdict(self) | {
            "claim": {"epsilon": float(self.claim.epsilon), "delta": float(self.claim.delta)}
        }
        return {"finding": VERSION} | body

    def to_json(self) -> str:
        return json.dumps(plain(self.to_dict()), indent=1, allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Finding:
        """Read what `to_json` wrote. It proves nothing until it is replayed."""
        try:
            value = json.loads(text)
            if not isinstance(value, Mapping) or value.get("finding") != VERSION:
                raise InvalidParameter(
                    f'This is no finding of version {VERSION}: it lacks "finding": {VERSION}.'
                )
            return cls._from_mapping(value)
        except InvalidParameter:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidParameter(f"This finding cannot be read: {type(error).__name__}: {error}") from None

    @classmethod
    def _from_mapping(cls, value: Mapping[str, Any]) -> Finding:
        names = {f.name for f in fields(cls)}
        body: dict[str, Any] = {name: value[name] for name in names if name in value or name not in ADDED}
        if body["witness"] is not None:
            body["witness"] = _witness(body["witness"])
        body |= {"verdict": Verdict(body["verdict"]), "claim": Budget(**body["claim"])}
        body |= {"curve": tuple((float(d), float(e)) for d, e in body["curve"])}
        body |= {k: tuple(body.get(k, ())) for k in ("assumes", "cannot_see", "reasons")}
        return cls(**body | {k: float(body[k]) for k in ("epsilon", "estimate", "detectable")})


def judge(
    epsilon: float, surely: float, claim_epsilon: float, detectable_epsilon: float, guesses: int
) -> Verdict:
    """`surely` is the bound at the level of an accusation, `epsilon` that at the confidence asked for.

    Underpowered: even the easiest target with twice the claimed ε would not have been caught.
    """
    if surely > claim_epsilon:
        return Verdict.VIOLATION
    if epsilon > claim_epsilon:
        return Verdict.LOOK_AGAIN
    if detectable_epsilon > max(2 * claim_epsilon, claim_epsilon + 0.1):
        return Verdict.UNDERPOWERED
    return Verdict.CONSISTENT if guesses else Verdict.NO_EVIDENCE


def at_one_delta(claim: Loss | Budget | float | tuple[float, float]) -> Budget:
    """A claim as a budget, for audits of scores that were collected beforehand: these look at one δ.

    >>> at_one_delta(1), at_one_delta((1, 1e-5))
    (Budget(epsilon=1.0, delta=0), Budget(epsilon=1, delta=1e-05))
    """
    match claim:
        case Budget():
            return claim
        case Pure(epsilon):
            return Budget(epsilon)
        case Approximate(epsilon, delta) | (epsilon, delta):
            return Budget(epsilon, delta)
        case int() | float():
            return Budget(float(claim))
        case _:
            raise InvalidParameter(
                f"Expected an ε, (ε, δ) or a Budget to compare scores with, got {type(claim).__name__}. A "
                "loss that claims a whole curve is stated at one δ: Budget(accounting.epsilon(loss, "
                "1e-5).upper, 1e-5)."
            )


def _witness(value: Mapping[str, Any]) -> Witness:
    body = dict(value)
    body |= {"high": float(body["high"]), "low": float(body["low"]), "cuts": tuple(map(float, body["cuts"]))}
    body |= {"counts": tuple((int(a), int(b)) for a, b in body["counts"])}
    body["hidden"] = tuple(map(int, body.get("hidden", ())))
    return Witness(**body | {"columns": None if body["columns"] is None else tuple(body["columns"])})
