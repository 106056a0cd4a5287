"""Certificates of a radius: the counts, the noise, the plan of looks, and the radius that follows from them.

`deniable verify` decides from the counts whether the radius holds. What is claimed about rounding follows
from the other fields and cannot be claimed on its own: "exact" is for whole-number noise, one fixed
evaluation of every noisy input that no other input can reach, and no bank.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from typing import Any

from deniable._version import VERSION
from deniable.accounting.radius.certified_radius import holds, radii
from deniable.accounting.radius.input_noise import NORMS, WIDEST, InputNoise, widest_steps
from deniable.accounting.radius.votes import Looks, bounds
from deniable.accounting.refusals import guard
from deniable.errors import DeniableError, InvalidCertificate, InvalidParameter
from deniable.loss import Node
from deniable.units import Unit

KIND, UNCHECKED_KIND = "radius 2", "radius 1"
"""What certificates are called; the older ones do not say whether inputs of a batch were kept apart."""
EXACT, ROUNDED = "exact", "up to rounding"


class Isolation(StrEnum):
    """What is known of a classifier's answers: whether each is of one noisy input alone."""

    PROVED = "proved"
    """The network was recorded as a program of one input, and the program voted."""
    ALONE = "alone"
    """Each noisy input was evaluated in a call of its own."""
    SEEN = "seen"
    """Its answers were compared among other companions, alone, and when asked again."""
    UNCHECKED = "not checked"
    """Certificates up to version 0.2.0."""


@dataclass(frozen=True)
class Votes:
    """What was counted: `label` chosen on `choosing`, then `counts` of an independent
    sample at the last look."""

    label: int
    choosing: tuple[int, ...]
    counts: tuple[int, ...]
    looks: Looks
    runner_up: bool = True

    def __post_init__(self) -> None:
        total = sum(self.counts)
        if (
            len(self.counts) < 2
            or len(self.choosing) != len(self.counts)
            or min(*self.counts, *self.choosing) < 0
        ):
            raise InvalidParameter(
                "Expected counts of the same two or more classes in both samples, none below 0."
            )
        if total not in self.looks.sizes:
            raise InvalidParameter(f"Expected the {total} votes of one of the looks {self.looks.sizes}.")
        if not 0 <= self.label < len(self.counts) or self.choosing[self.label] < max(self.choosing):
            raise InvalidParameter(
                f"Expected label={self.label} to be the class with the most votes of the choosing sample."
            )

    def radius(self, noise: InputNoise, norm: float, dimension: int) -> float:
        """The radius that these counts certify."""
        p_a, p_b = bounds([self.counts], [self.label], self.looks.share, runner_up=self.runner_up)
        return float(radii(noise, p_a, p_b, norm, dimension)[0])

    def hold(self, noise: InputNoise, radius: float, norm: float, dimension: int) -> bool:
        """Whether these counts certify this radius; nothing is searched for."""
        p_a, p_b = bounds([self.counts], [self.label], self.looks.share, runner_up=self.runner_up)
        return holds(noise, radius, float(p_a[0]), float(p_b[0]), norm, dimension)


@dataclass(frozen=True)
class Evaluation:
    """How the classifier was evaluated: which one, on inputs divided by `scale`, on
    batches of one size, with a bank or not.

    `fixed` says that its answers were seen to be the same, bit for bit, at every place of a batch.
    """

    model: str
    batch: int
    fixed: bool
    bank: bool = False
    scale: float = 1.0
    isolation: Isolation = Isolation.UNCHECKED


@dataclass(frozen=True)
class RadiusCertificate:
    """A claim that anybody can compute again: this model's smoothed answer at this input
    cannot change within `radius`."""

    noise: InputNoise
    norm: float
    radius: float
    dimension: int
    votes: Votes
    evaluation: Evaluation
    input: str
    version: str = VERSION

    @property
    def precision(self) -> str:
        """ "exact" where nothing is rounded between the theorem and the program."""
        how = self.evaluation
        if self.noise.integer and how.fixed and not how.bank and how.isolation is not Isolation.SEEN:
            return EXACT
        return ROUNDED

    @property
    def unit(self) -> Unit:
        return Unit.ball(self.norm, self.radius)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The sentences that the reader must grant."""
        return tuple(_claim_assumptions(self))

    def to_dict(self) -> dict[str, Any]:
        fields = self._fields()
        if self.evaluation.isolation is not Isolation.UNCHECKED:
            fields |= {"certificate": KIND, "isolation": self.evaluation.isolation.value}
        return fields

    def _fields(self) -> dict[str, Any]:
        return {
            "certificate": UNCHECKED_KIND,
            "noise": self.noise.to_dict(),
            "norm": next(name for name, p in NORMS.items() if p == self.norm),
            "radius": self.radius,
            "dimension": self.dimension,
            "alpha": self.votes.looks.alpha,
            "label": self.votes.label,
            "choosing": list(self.votes.choosing),
            "counts": list(self.votes.counts),
            "looks": list(self.votes.looks.sizes),
            "runner_up": self.votes.runner_up,
            "model": self.evaluation.model,
            "batch": self.evaluation.batch,
            "fixed": self.evaluation.fixed,
            "bank": self.evaluation.bank,
            "scale": self.evaluation.scale,
            "input": self.input,
            "precision": self.precision,
            "assumptions": list(self.assumptions),
            "version": self.version,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RadiusCertificate:
        """Read a certificate; nothing of it is believed until `verify_radius` has computed it again."""
        try:
            value = json.loads(text)
            if not _names_a_radius(value):
                raise InvalidCertificate(
                    f'This is no certificate of a radius: it lacks "certificate": "{KIND}".'
                )
            certificate = _read(value)
        except InvalidCertificate:
            raise
        except (DeniableError, ArithmeticError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise InvalidCertificate(
                f"This certificate cannot be read: {type(error).__name__}: {error}"
            ) from None
        if certificate.to_dict() != value:
            raise InvalidCertificate(
                "This certificate says more, less or other than its fields mean: its precision or its "
                "assumptions do not follow from them. Do not rely on it."
            )
        return certificate


def is_radius(text: str) -> bool:
    """Whether a certificate speaks of a radius; nothing else of it is looked at."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return _names_a_radius(value)


def _names_a_radius(value: object) -> bool:
    return isinstance(value, Mapping) and value.get("certificate") in (KIND, UNCHECKED_KIND)


def certify_radius(
    noise: InputNoise, norm: float, dimension: int, votes: Votes, evaluation: Evaluation, digest: str
) -> RadiusCertificate:
    """The certificate of these votes; the radius is rounded down to six digits so that
    every machine confirms it."""
    radius = _round_down(votes.radius(noise, norm, dimension))
    if radius == 0:
        raise InvalidParameter("These votes certify no radius: there is nothing to write a certificate of.")
    return RadiusCertificate(noise, norm, radius, dimension, votes, evaluation, digest)


def verify_radius(certificate: RadiusCertificate) -> float:
    """Check from the counts that the claimed radius holds, and return it; `InvalidCertificate` if it does
    not.

    Only the claimed radius is decided: to search for the largest may take any time.
    """
    claim = certificate
    try:
        certain = _confirm(claim)
    except DeniableError as error:
        raise InvalidCertificate(f"The radius could not be checked here. {error}") from None
    if not certain:
        raise InvalidCertificate(
            f"The certificate claims the radius {claim.radius:.6g}, but its counts do not certify it at "
            f"α = {claim.votes.looks.alpha:g}. Do not rely on it."
        )
    return claim.radius


@guard
def _confirm(claim: RadiusCertificate) -> bool:
    if widest_steps(claim.noise) > WIDEST:
        raise InvalidParameter(
            f"Its whole-number noise is wider than the {WIDEST:,} steps that are ever drawn: {claim.noise}."
        )
    return claim.radius > 0 and claim.votes.hold(claim.noise, claim.radius, claim.norm, claim.dimension)


_KEPT_APART: dict[Isolation, tuple[str, ...]] = {
    Isolation.UNCHECKED: (),
    Isolation.PROVED: (
        "Each noisy input was evaluated on its own: the network was recorded as a program of one input, and "
        "PyTorch applies that program to each input of a batch alone (torch.func.vmap).",
        "The program is the network: they gave the same scores, up to rounding, where they were compared.",
    ),
    Isolation.ALONE: (
        "Each noisy input was evaluated in a call of its own, and the classifier keeps nothing from one call "
        "for another.",
        "The classifier is one fixed function: nothing that it reads besides its input changes its answers.",
    ),
    Isolation.SEEN: (
        "The classifier answers each noisy input on its own. This was seen, not proved: its answers stayed "
        "the same among other inputs, alone, and when asked again.",
        "The classifier is one fixed function: nothing that it reads besides its input changes its answers.",
    ),
}


def _claim_assumptions(claim: RadiusCertificate) -> list[str]:
    alpha, looks = claim.votes.looks.alpha, len(claim.votes.looks.sizes)
    when = "once"
    if looks != 1:
        when = f"at {looks} sizes fixed beforehand, or fewer"
    sentences = [
        f"The claim is about {claim.unit}: the likeliest class of the noisy input stays the same.",
        "The counts are of independent noise, drawn after the input was fixed; they mislead with "
        f"probability {alpha:g} at most.",
        f"The class was chosen on a sample of its own, and the counts that bound it were looked at {when}.",
    ]
    if claim.evaluation.bank:
        sentences.append("The inputs were fixed before the noise bank was drawn, and it was not used again.")
    sentences += _KEPT_APART[claim.evaluation.isolation]
    if claim.precision == EXACT:
        if claim.norm:
            sentences.append("The input is whole numbers, and so is every input it is compared with.")
        sentences.append(
            f"The classifier is one fixed function, evaluated {claim.evaluation.batch} noisy inputs at a "
            "time; its answers were seen to be the same, bit for bit, wherever an input stands among them."
        )
    else:
        sentences.append(
            "Noise and classifier are as in the theorem up to rounding: floating-point numbers only come "
            "near it."
        )
    return sentences


def _read(value: Mapping[str, Any]) -> RadiusCertificate:
    noise = Node.from_dict(value["noise"])
    if not isinstance(noise, InputNoise):
        raise InvalidParameter(f"Expected the noise of an input, got {type(noise).__name__}.")
    looks = Looks(tuple(_check_integer(size) for size in value["looks"]), _number(value["alpha"]))
    votes = Votes(
        _check_integer(value["label"]),
        tuple(_check_integer(count) for count in value["choosing"]),
        tuple(_check_integer(count) for count in value["counts"]),
        looks,
        _flag(value["runner_up"]),
    )
    evaluation = Evaluation(
        str(value["model"]),
        _check_integer(value["batch"]),
        _flag(value["fixed"]),
        _flag(value["bank"]),
        _number(value["scale"]),
        _isolation(value),
    )
    return RadiusCertificate(
        noise,
        NORMS[value["norm"]],
        _number(value["radius"]),
        _check_integer(value["dimension"]),
        votes,
        evaluation,
        str(value["input"]),
        str(value["version"]),
    )


def _isolation(value: Mapping[str, Any]) -> Isolation:
    if value["certificate"] == UNCHECKED_KIND:
        return Isolation.UNCHECKED
    return Isolation(value["isolation"])


def _check_integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidParameter(f"Expected a whole number of at least 0, got {value!r}.")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidParameter(f"Expected a positive number, got {value!r}.")
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidParameter(f"Expected true or false, got {value!r}.")
    return value


def _round_down(radius: float) -> float:
    if radius:
        return float(Context(prec=6, rounding=ROUND_FLOOR).create_decimal(Decimal(radius)))
    return 0.0
