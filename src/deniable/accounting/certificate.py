"""Certificates: a claim with all that is needed to compute it again, and the check."""

from __future__ import annotations

from collections.abc import Iterator

from deniable._version import VERSION
from deniable.accounting.choose import epsilon
from deniable.accounting.refusals import guard
from deniable.errors import InvalidCertificate, UnitMismatch
from deniable.guarantee import Bound, Certificate
from deniable.loss import (
    POISSON,
    Allocated,
    CappedSample,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    DrawnSample,
    FiniteOutcomes,
    GaussianNoise,
    IntegerGaussianSum,
    LaplaceNoise,
    Loss,
    MixedGaussianNoise,
    Parallel,
    Sampled,
    Selected,
    Shuffled,
    UniformlyCappedSample,
    mismatch,
)
from deniable.units import Unit, UnitKind

_ROUNDING = 1e-6
"""Relative: two machines may differ in the last digits of a bracket that both have certified."""


@guard
def certify(
    loss: Loss, unit: Unit, delta: float, *, assumptions: tuple[str, ...] = (), head: str | None = None
) -> Certificate:
    """A certificate for `loss` at `delta`, with the sentences that its reader must grant."""
    if wrong := mismatch(loss, unit):
        raise UnitMismatch(wrong)
    sentences = (*dict.fromkeys((*_unit_assumptions(unit), *_rests_on(loss), *assumptions)),)
    return Certificate(loss, unit, float(delta), epsilon(loss, delta), sentences, VERSION, head)


@guard
def verify(certificate: Certificate) -> Bound:
    """Compute the claim again and return the bracket; `InvalidCertificate` says what does not hold."""
    if wrong := mismatch(certificate.loss, certificate.unit):
        raise InvalidCertificate(wrong)
    claim = certificate.bound
    bracket = epsilon(certificate.loss, certificate.delta)
    if claim.upper < bracket.lower * (1 - _ROUNDING):
        raise InvalidCertificate(
            f"The certificate is false: it claims ε ≤ {claim.upper:.6g} at δ = {certificate.delta:g}, "
            f"but a mechanism with its loss reaches ε ≥ {bracket.lower:.6g}. Do not rely on it."
        )
    if claim.upper < bracket.upper * (1 - _ROUNDING):
        raise InvalidCertificate(
            f"The certificate claims ε ≤ {claim.upper:.6g} at δ = {certificate.delta:g}, which could not "
            f"be confirmed: only ε ≤ {bracket.upper:.6g} is proved here."
        )
    if claim.lower > bracket.upper * (1 + _ROUNDING):
        raise InvalidCertificate(
            f"The certificate is false: it claims that ε ≥ {claim.lower:.6g} is reached, but its loss "
            f"never passes {bracket.upper:.6g}. Do not rely on it."
        )
    if claim.lower > bracket.lower * (1 + _ROUNDING):
        raise InvalidCertificate(
            f"The certificate claims that ε ≥ {claim.lower:.6g} is reached, which could not be confirmed: "
            f"only ε ≥ {bracket.lower:.6g} is known here."
        )
    missing = set(_unit_assumptions(certificate.unit)) | set(_rests_on(certificate.loss))
    missing -= set(certificate.assumptions)
    if missing:
        raise InvalidCertificate(f"The certificate hides an assumption its claim rests on: {min(missing)}")
    return bracket


def _unit_assumptions(unit: Unit) -> Iterator[str]:
    yield f"The unit of privacy is {unit}."
    if unit.kind is UnitKind.COLUMN and unit.max_rows:
        yield f"The mechanism itself counts at most {unit.max_rows} rows of each {unit.column_name}."


def _rests_on(loss: Loss) -> Iterator[str]:
    """What the nodes of the tree take for granted, one sentence each."""
    for node in loss.walk():
        sentence = _node_assumption(node)
        if sentence is not None:
            yield sentence


def _cap_words(node: Sampled | CappedSample | UniformlyCappedSample) -> str:
    match node:
        case UniformlyCappedSample():
            return (
                f". There are at most {node.rows:,} records, and of a sample of more than {node.cap:,} "
                "which are kept is drawn uniformly, in secret, anew for each sample"
            )
        case CappedSample():
            return f", and there are at most {node.rows:,} records"
        case _:
            return ""


def _node_assumption(node: Loss) -> str | None:
    match node:
        case Sampled(_, _, scheme, _) if scheme is not POISSON:
            return "Each sample is a secret uniform subset of fixed size, drawn anew for each sample."
        case Sampled() | CappedSample() | UniformlyCappedSample():
            most = _cap_words(node)
            return f"Each record enters a sample by its own secret coin, drawn anew for each sample{most}."
        case Allocated():
            return "Each unit falls into one step of a pass by its own secret draw, drawn anew for each pass."
        case DrawnSample():
            return "The records of a sample are drawn in secret, each from all, anew for each sample."
        case Parallel():
            return "All rows of one unit lie in one part."
        case Shuffled():
            return "The shuffler is trusted, and that many people report honestly."
        case Selected():
            return "The number of runs is drawn as stated and kept secret, and only the best run is shown."
        case LaplaceNoise() | GaussianNoise() | MixedGaussianNoise():
            return "The noise is continuous as in the theorem; floating-point noise only comes near it."
        case DiscreteLaplaceNoise() | DiscreteGaussianNoise():
            return "The integer noise is drawn exactly, from secret bits."
        case IntegerGaussianSum():
            return "That many parties add their integer noise as stated, drawn exactly, from secret bits."
        case FiniteOutcomes():
            return "The stated probabilities dominate those of every two neighbours."
        case _:
            return None
