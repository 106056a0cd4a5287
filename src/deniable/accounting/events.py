"""Runs that other tools describe: dp-accounting's `DpEvent` and OpenDP's measurements as
losses, and losses as events.

The neighbour relation is part of what is converted: an event says it nowhere, and the
same numbers mean different things.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from deniable.accounting.rounding import ceil_float, floor_float
from deniable.errors import MissingExtra, Unaccountable
from deniable.loss import (
    POISSON,
    WITHOUT_REPLACEMENT,
    Approximate,
    CappedSample,
    Composed,
    DiscreteLaplaceNoise,
    DrawnSample,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    MixedGaussianNoise,
    NegativeBinomialRuns,
    Number,
    PoissonRuns,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Selected,
    Silenced,
    UniformlyCappedSample,
    Zcdp,
    exact,
)
from deniable.units import Relation, Unit, UnitKind

# ---------------------------------------------------------------------------------------------- dp-accounting


def from_event(event: Any, relation: Relation = Relation.ADDED) -> Loss:
    """The loss of a dp-accounting event, read for this neighbour relation (its
    `NeighboringRelation`, by our words).

    Refused where the event means different things to dp-accounting's own accountants: plain noise under
    REPLACE_ONE moves by one sensitivity for its Rényi accountant and by two for its PLD accountant.
    """
    inner = _event(event, relation)
    if relation is not Relation.SILENCED:
        return inner
    if inner.relation is Relation.SILENCED:
        return inner
    return Silenced(inner)


def _event(event: Any, relation: Relation) -> Loss:
    name = type(event).__name__
    is_addition = relation is not Relation.REPLACED
    match name:
        case "NoOpDpEvent":
            return Composed(())
        case "ComposedDpEvent":
            return Composed(tuple(_event(part, relation) for part in event.events))
        case "SelfComposedDpEvent":
            return Repeated(int(event.count), _event(event.event, relation))
        case "ZCDpEvent" if not event.xi:
            return Zcdp(_origin(event.rho))
        case "RandomizedResponseDpEvent" if not is_addition:
            noise = exact(float(event.noise_parameter))
            return ResponseNoise(1 - noise + noise / event.num_buckets, int(event.num_buckets))
        case "RepeatAndSelectDpEvent" if event.shape == math.inf:
            return Selected(_event(event.event, relation), PoissonRuns(event.mean))
        case "RepeatAndSelectDpEvent" if event.shape == 1 and event.mean > 1:
            return Selected(
                _event(event.event, relation), NegativeBinomialRuns(1, 1 / exact(float(event.mean)))
            )
        case _ if is_addition and name in _NOISES:
            return _noise(event)
        case _:
            return _sample(event, relation)


def _sample(event: Any, relation: Relation) -> Loss:
    """A release on a sample; anything that is none is refused."""
    is_addition = relation is not Relation.REPLACED
    match type(event).__name__:
        case "PoissonSampledDpEvent":
            # A coin takes a record out or puts one in, whatever the relation: its content is read for added
            # records.
            rate = _origin(event.sampling_probability)
            return Sampled(rate, _event(event.event, Relation.ADDED), POISSON, not is_addition)
        case "SampledWithoutReplacementDpEvent" if not is_addition:
            rate = Fraction(int(event.sample_size), int(event.source_dataset_size))
            return Sampled(rate, _noise(event.event), WITHOUT_REPLACEMENT, replace=True)
        case "SampledWithReplacementDpEvent" if not is_addition:
            return DrawnSample(int(event.sample_size), int(event.source_dataset_size), _noise(event.event))
        case "TruncatedSubsampledGaussianDpEvent" if is_addition:
            noise = GaussianNoise(_origin(event.noise_multiplier))
            rate, cap = _origin(event.sampling_probability), int(event.truncated_batch_size)
            return UniformlyCappedSample(rate, cap, int(event.dataset_size), noise)
        case name:
            raise Unaccountable(_refusal(name, relation))


_NOISES = ("GaussianDpEvent", "LaplaceDpEvent", "DiscreteLaplaceDpEvent", "MixtureOfGaussiansDpEvent")


def _noise(event: Any) -> Loss:
    """Noise, stated for whatever its sample gives it."""
    match type(event).__name__:
        case "GaussianDpEvent" if _origin(event.noise_multiplier) > 0:
            return GaussianNoise(_origin(event.noise_multiplier))
        case "LaplaceDpEvent" if _origin(event.noise_multiplier) > 0:
            return LaplaceNoise(_origin(event.noise_multiplier))
        case "DiscreteLaplaceDpEvent" if isinstance(event.noise_parameter, RoundedDouble):
            return DiscreteLaplaceNoise(event.noise_parameter.origin, int(event.sensitivity))
        case "DiscreteLaplaceDpEvent" if event.noise_parameter > 0:
            return DiscreteLaplaceNoise(1 / exact(float(event.noise_parameter)), int(event.sensitivity))
        case "MixtureOfGaussiansDpEvent" if _origin(event.standard_deviation) > 0:
            shifts, weights = map(_origin, event.sensitivities), map(_origin, event.sampling_probs)
            return MixedGaussianNoise(_origin(event.standard_deviation), tuple(shifts), tuple(weights))
        case name:
            raise Unaccountable(_refusal(name, Relation.ADDED))


def _refusal(name: str, relation: Relation) -> str:
    return (
        f"No loss is known for the event {name} and a unit that is {relation.value}: it has no meaning for "
        "this relation, or more than one. Nothing was converted. State the loss itself, or its (ε, δ) as "
        "Approximate."
    )


def to_event(loss: Loss) -> Any:
    """The dp-accounting event of `loss`, its noise rounded down and its rates up; for its
    `NeighboringRelation` see `loss.relation`.

    `from_event` reads it back as the loss it came from, with `Silenced` outermost: an event in memory knows
    which number each double was rounded from. One that was written to a file and read by others has the
    rounded doubles alone, which never state less.
    """
    try:
        from dp_accounting import dp_event
    except ImportError:
        raise MissingExtra("Events need dp-accounting: pip install dp-accounting.") from None
    return _to_event(loss, dp_event)


def _to_event(loss: Loss, events: Any) -> Any:
    match loss:
        case Silenced(of):  # an event says its relation nowhere
            return _to_event(of, events)
        case Composed(parts):
            if parts:
                return events.ComposedDpEvent([_to_event(part, events) for part in parts])
            return events.NoOpDpEvent()
        case Repeated(times, of):
            return events.SelfComposedDpEvent(_to_event(of, events), times)
        case Sampled(rate, of, scheme) if scheme is POISSON:
            return events.PoissonSampledDpEvent(_ceil_double(rate), _to_event(of, events))
        case _:
            return _noise_event(loss, events)


def _noise_event(loss: Loss, events: Any) -> Any:
    match loss:
        case Zcdp(rho):
            return events.ZCDpEvent(_ceil_double(rho))
        case GaussianNoise(multiplier):
            return events.GaussianDpEvent(_floor_double(multiplier))
        case LaplaceNoise(multiplier):
            return events.LaplaceDpEvent(_floor_double(multiplier))
        case DiscreteLaplaceNoise(scale, sensitivity):
            return events.DiscreteLaplaceDpEvent(_round(ceil_float(1 / exact(scale)), scale), sensitivity)
        case MixedGaussianNoise(sigma, shifts, weights):
            # Weight may move to larger shifts, never away from them.
            least = min(shifts)
            chances = [
                _floor_double(weight) if shift == least else _ceil_double(weight)
                for shift, weight in zip(shifts, weights, strict=True)
            ]
            return events.MixtureOfGaussiansDpEvent(
                _floor_double(sigma), [_ceil_double(shift) for shift in shifts], chances
            )
        case CappedSample() | UniformlyCappedSample():
            # There a table has exactly so many records; here at most so many, and fewer may reveal more.
            raise Unaccountable(
                f"dp-accounting has no event for {type(loss).__name__} ({loss}): its truncated samples are "
                "cut uniformly, of a number of records that is known exactly, and may cost less. Nothing was "
                "converted. Account for it here."
            )
        case _:
            raise Unaccountable(
                f"dp-accounting has no event for {type(loss).__name__} ({loss}). Nothing was converted."
            )


class RoundedDouble(float):
    """A double for those who need one, and the number of a loss that it was rounded from."""

    origin: Number


def _round(near: float, origin: Number) -> RoundedDouble:
    double = RoundedDouble(near)
    double.origin = origin
    return double


def _origin(x: Any) -> Any:
    """The number that a double of an event was rounded from, or the double itself where others wrote it."""
    if isinstance(x, RoundedDouble):
        return x.origin
    return x


def _floor_double(x: Number) -> float:
    """The nearest double at or below `x`. A double stays what it is: both tools print the same decimal for
    it, and it is read back as it was."""
    if isinstance(x, float):
        return x
    return _round(floor_float(exact(x)), x)


def _ceil_double(x: Number) -> float:
    """The nearest double at or above `x`, by the same rule."""
    if isinstance(x, float):
        return x
    return _round(ceil_float(exact(x)), x)


# ------------------------------------------------------------------------------------------------ OpenDP

_METRICS = {
    "SymmetricDistance()": {Relation.ADDED: 1, Relation.REPLACED: 2},
    "InsertDeleteDistance()": {Relation.ADDED: 1, Relation.REPLACED: 2},
    "ChangeOneDistance()": {Relation.REPLACED: 1},
    "HammingDistance()": {Relation.REPLACED: 1},
}
"""How far apart neighbours are, by the metric on data sets that a measurement starts from."""


def from_opendp(measurement: Any, unit: Unit) -> Loss:
    """The loss that the map of an OpenDP measurement states for one `unit`: Pure, Zcdp or Approximate.

    The distance of neighbours is worked out here, from the measurement's input metric
    and the unit's relation and rows; a measurement that starts from numbers rather than
    a data set is refused, since it says nothing about units.
    """
    metric = str(measurement.input_metric)
    steps = _METRICS.get(metric, {}).get(unit.relation)
    if steps is None:
        raise Unaccountable(
            f"The metric {metric} of this measurement says nothing about {unit}. Nothing was converted. "
            f"Chain it to a transformation from a data set, with one of {', '.join(_METRICS)}."
        )
    if unit.kind is UnitKind.COLUMN and unit.max_rows is None:
        raise Unaccountable(f"Expected max_rows of {unit}: without it no distance of neighbours is known.")
    distance = measurement.map(steps * (unit.max_rows or 1))
    measure = str(measurement.output_measure).replace(" ", "")
    match measure:
        case "MaxDivergence" | "MaxDivergence()" | "MaxDivergence(f64)":
            return Pure(distance)
        case (
            "ZeroConcentratedDivergence" | "ZeroConcentratedDivergence()" | "ZeroConcentratedDivergence(f64)"
        ):
            return Zcdp(distance)
        case _ if measure.startswith(("Approximate(MaxDivergence", "FixedSmoothedMaxDivergence")):
            return Approximate(*distance)
        case _:
            raise Unaccountable(f"No loss is known for OpenDP's measure {measure}. Nothing was converted.")
