"""The loss of a DP-SGD run from the numbers that practitioners have: noise, lot, rows,
steps, and how the lots are made.

It removes two traps: in a sample of fixed size a record is exchanged for another, which
moves the clipped sum by **twice** the clip; and rows of one user that are drawn singly
are a group, where a user drawn as one is not.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

from deniable import checks
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import (
    POISSON,
    WITHOUT_REPLACEMENT,
    Allocated,
    CappedSample,
    DrawnSample,
    GaussianNoise,
    Loss,
    Number,
    Sampled,
    Silenced,
    exact,
)
from deniable.units import Relation, Unit, UnitKind


class LotSampling(StrEnum):
    """How the lot of each step is made."""

    POISSON = "poisson"
    """Each unit enters by its own coin of probability lot/n."""
    WITHOUT_REPLACEMENT = "without replacement"
    """A uniform subset of exactly `lot`."""
    WITH_REPLACEMENT = "with replacement"
    """`lot` draws, so that a row may come several times."""
    ALLOCATION = "allocation"
    """Each unit falls by its own draw into one step of a pass of ⌈n/lot⌉ steps."""
    SHUFFLED = "shuffled"
    """Fixed lots of a shuffled pass: no amplification is proved, so a pass costs one release."""


def dpsgd(
    noise: Number,
    lot: int,
    n: int,
    steps: int,
    *,
    sampling: LotSampling | str = LotSampling.POISSON,
    unit: Unit | None = None,
    by: str | None = None,
    cap: int | None = None,
) -> Loss:
    """The loss of `steps` steps, each a sum of contributions clipped to 1, with Gaussian
    noise of deviation `noise`.

    `noise` is always the deviation over the clip, whatever the sampling: what a record moves is worked out
    here. `lot` is the expected or fixed size of a lot among `n`, a public number that is not counted from the
    data. For a unit of several rows `by` says what is drawn and clipped: "unit" (one contribution for each
    drawn unit; lot and n count units) or "row" (rows singly; a unit with max_rows = k is then a group of k).
    `cap` cuts a Poisson lot to what an accelerator holds. A unit in a full lot puts another one out, silent
    or not, so the cap costs something for every relation.

    >>> print(dpsgd(1.1, 256, 60_000, 14_000))
    14,000 × (Gaussian noise of 1.1 × the sensitivity, on a Poisson sample of rate 8/1875)
    >>> print(dpsgd(1.1, 250, 60_000, 10, sampling="without replacement", unit=Unit.row(replace=True)))
    10 × (Gaussian noise of 11/20 × the sensitivity, on a fixed-size sample of rate 1/240, one record
    replaced)
    """
    who = Unit.row() if unit is None else unit
    _check(lot, n, steps, cap)
    lots = _lots(sampling)
    if cap is not None and lots is not LotSampling.POISSON:
        raise InvalidParameter(
            f"Expected a cap on Poisson lots only, got cap={cap} with lots made {lots.value}."
        )
    loss = _relation(lots, noise, lot, n, steps, cap, who.relation)
    if (size := _rows(who, by)) == 1:
        return loss
    return loss.grouped(size)


def _relation(
    lots: LotSampling, noise: Number, lot: int, n: int, steps: int, cap: int | None, relation: Relation
) -> Loss:
    """The run for a unit that is one row."""
    once, rate = GaussianNoise(noise), Fraction(lot, n)
    exchange = GaussianNoise(exact(noise) / 2)
    match lots:
        case LotSampling.POISSON if cap is not None:
            return _state_relation(CappedSample(rate, cap, n, once) * steps, relation, lots)
        case LotSampling.POISSON if relation is Relation.REPLACED:
            return Sampled(rate, once, POISSON, replace=True) * steps
        case LotSampling.POISSON:
            return _state_relation(once.sampled(rate) * steps, relation, lots)
        case LotSampling.ALLOCATION:
            return _state_relation(Allocated(-(-n // lot), once) * _passes(lot, n, steps), relation, lots)
        case LotSampling.WITHOUT_REPLACEMENT if relation is not Relation.SILENCED:
            return Sampled(rate, exchange, WITHOUT_REPLACEMENT, relation is Relation.REPLACED) * steps
        case LotSampling.WITH_REPLACEMENT if relation is Relation.REPLACED:
            return DrawnSample(lot, n, exchange) * steps
        case LotSampling.SHUFFLED if relation is Relation.REPLACED:
            return exchange * _passes(lot, n, steps)
        case _:
            raise _refusal(lots, relation)


def _state_relation(loss: Loss, relation: Relation, lots: LotSampling) -> Loss:
    if relation is Relation.REPLACED:
        raise _refusal(lots, relation)
    if relation is Relation.SILENCED:
        return Silenced(loss)
    return loss


def _refusal(lots: LotSampling, relation: Relation) -> Unaccountable:
    return Unaccountable(
        f"No loss is known for a unit that is {relation.value} where lots are made {lots.value}. Nothing was "
        "computed. Poisson lots are known for every relation, allocation for added and silenced units, the "
        "others for replaced ones."
    )


def _rows(unit: Unit, by: str | None) -> int:
    """How many rows of one unit are drawn singly."""
    if by not in (None, "unit", "row"):
        raise InvalidParameter(f'Expected by={by!r} to be "unit" or "row".')
    if unit.kind is not UnitKind.COLUMN or by == "unit":
        return 1
    if by is None:
        raise InvalidParameter(
            f'Expected by="unit" or by="row" for {unit}: is each drawn {unit.column_name} clipped as one, or '
            "each row by itself?"
        )
    if unit.max_rows is None:
        raise InvalidParameter(f'Expected max_rows of {unit} where rows are drawn singly, or by="unit".')
    return unit.max_rows


def _passes(lot: int, n: int, steps: int) -> int:
    length = -(-n // lot)
    if steps % length:
        raise InvalidParameter(
            f"Expected steps={steps} to be whole passes of {length} steps (n={n} in lots of {lot}): "
            "what a part of a pass costs is not known."
        )
    return steps // length


def _lots(sampling: LotSampling | str) -> LotSampling:
    if sampling not in list(LotSampling):
        raise InvalidParameter(f"Expected sampling={sampling!r} to be one of {', '.join(LotSampling)}.")
    return LotSampling(sampling)


def _check(lot: int, n: int, steps: int, cap: int | None) -> None:
    for name, value in (("lot", lot), ("n", n), ("steps", steps), ("cap", 1 if cap is None else cap)):
        checks.whole(name, value, at_least=1)
    if lot > n:
        raise InvalidParameter(f"Expected lot={lot} to be at most n={n}.")
