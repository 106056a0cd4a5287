"""Accounting with a deliberate fault, one at a time: the small tables find each of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from deniable.accounting import choose as choosing
from deniable.accounting.methods import amplify, attained, pure, relations, sampling, shuffle, steps
from deniable.accounting.numerical import samples, terms, uniform_cut
from deniable.accounting.numerical.pairs.continuous import SampledShape
from deniable.accounting.renyi import tree
from deniable.loss import (
    Allocated,
    BoundedRange,
    CappedSample,
    Composed,
    DrawnSample,
    FiniteOutcomes,
    GaussianNoise,
    Grouped,
    Loss,
    NegativeBinomialRuns,
    Parallel,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Scheme,
    Selected,
    Shuffled,
    Silenced,
    UniformlyCappedSample,
)
from deniable.units import Relation
from tests.accounting.small_tables.compare import Comparison, compare
from tests.accounting.small_tables.tables import Case, every_way

Patch = pytest.MonkeyPatch
RR, NEAR_LN_2 = ResponseNoise(Fraction(3, 4)), Pure(0.6931471805599454)
HALF = Fraction(1, 2)
OUTCOMES = FiniteOutcomes((HALF, HALF, 0), (Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)))
ROWS: dict[type[Loss], int] = {Repeated: 2, Parallel: 2, DrawnSample: 4, Shuffled: 4, Sampled: 4}
"""Tables that are as small as a fault needs, or as large as a loss states; else three records."""


def found(*losses: Loss) -> Comparison | None:
    """The first statement that a table passes, over several ε and δ."""
    for loss, number in itertools.product(losses, range(6)):
        relation = loss.relation or Relation.ADDED
        comparison = compare(Case(loss, relation, ROWS.get(type(loss), 3), every_way(loss)), number)
        if comparison is not None and comparison.why:
            return comparison
    return None


def _cap_dropped(patch: Patch) -> None:
    """A capped lot of a silent unit as a plain sample: what was shipped."""
    patch.setattr(relations, "_in_place", _without_cap)


def _without_cap(loss: Loss) -> Loss:
    if isinstance(loss, CappedSample):
        return Sampled(loss.rate, loss.of)
    return loss.with_children(_without_cap)


def _cap_free(patch: Patch) -> None:
    """A cap that displaces nobody, for added units."""
    patch.setattr(
        samples,
        "capped",
        lambda inside, twice, rate, cap, rows: samples.silenced(inside, inside, rate, rows, rows),
    )


def _cap_by_the_coin_down(patch: Patch) -> None:
    """A full lot with a silent unit as one whose coin is down."""
    patch.setattr(samples, "_pair_in_place", lambda once, twice, rate: SampledShape(once, rate))


def _kept_too_seldom(patch: Patch) -> None:
    """A uniform cut that keeps the own unit half as often."""
    full_lots = uniform_cut.full_lots

    def seldom(cap: int, rows: int, rate: float, total: float) -> uniform_cut.FullLots:
        lots = full_lots(cap, rows, rate, total)
        return replace(lots, shares=lots.shares / 2)

    patch.setattr(uniform_cut, "full_lots", seldom)


def _most_units_are_worst(patch: Patch) -> None:
    """A uniform cut for as many units as there may be, never for fewer: what dp-accounting states."""
    patch.setattr(
        uniform_cut,
        "_most_between",
        lambda cap, last, others, rate: (
            samples.over(cap, others + 1, rate) - samples.over(last + 1, others + 1, rate)
        ),
    )


def _uniform_cut_puts_nobody_out(patch: Patch) -> None:
    patch.setattr(
        terms,
        "uniformly_capped",
        lambda inside, twice, *sample: uniform_cut.uniformly_capped(inside, inside, *sample),
    )


def _half_the_rate(patch: Patch) -> None:
    patch.setattr(terms, "mix", lambda pair, rate: samples.mix(pair, rate / 2))


def _rate_squared(patch: Patch) -> None:
    patch.setattr(sampling, "exact", lambda rate: Fraction(rate) ** 2)


def _groups_as_one(patch: Patch) -> None:
    """The factor of a group dropped."""
    patch.setattr(terms, "grouped", lambda loss, size: loss)


def _replaced_as_added(patch: Patch) -> None:
    """A replaced record on a Poisson sample as one that is added."""
    patch.setattr(terms, "_poisson_replace", lambda node, rate: terms.what(replace(node, replace=False)))


def _one_order(patch: Patch) -> None:
    """Removing a unit, never adding one."""
    patch.setattr(SampledShape, "sided", property(lambda self: False))


def _one_step_less(patch: Patch) -> None:
    flatten = terms.flatten
    patch.setattr(
        terms, "flatten", lambda loss, times=1: {n: max(1, k - 1) for n, k in flatten(loss, times).items()}
    )


def _longer_pass(patch: Patch) -> None:
    """A pass of twice as many steps."""
    allocated = samples.allocated
    patch.setattr(samples, "allocated", lambda inside, steps: allocated(inside, 2 * steps))


def _drawn_once(patch: Patch) -> None:
    """Draws with replacement that never draw a record twice."""
    patch.setattr(
        terms,
        "_drawn",
        lambda node: terms.what(Sampled(Fraction(1, node.rows), node.of, Scheme.WITHOUT_REPLACEMENT, True)),
    )


def _fixed_size_as_half(patch: Patch) -> None:
    """Half the share, above and below: one side alone would contradict the other, and no number would be told."""
    patch.setattr(terms, "SampledShape", lambda pair, rate: SampledShape(pair, rate / 2))
    patch.setattr(terms, "mix", lambda pair, rate: samples.mix(pair, rate / 2))


def _moved_parts_as_one(patch: Patch) -> None:
    """A unit that leaves one part and enters another, as if it were in one of them."""
    patch.setattr(
        choosing,
        "rewrite_silenced",
        lambda loss: replace(loss, replace=False) if isinstance(loss, Parallel) else loss,
    )


def _crowd(patch: Patch) -> None:
    """Ten times as many reports as were shuffled."""
    delta, epsilon = shuffle.delta, shuffle.epsilon
    patch.setattr(shuffle, "delta", lambda loss, at: delta(replace(loss, reports=10 * loss.reports), at))
    patch.setattr(shuffle, "epsilon", lambda loss, at: epsilon(replace(loss, reports=10 * loss.reports), at))


def _best_as_one_run(patch: Patch) -> None:
    patch.setattr(pure, "pure_epsilon", lambda epsilon, runs: epsilon)


def _sample_of_moved_masses(patch: Patch) -> None:
    """Masses moved to the safe side of one order before they are mixed: what was shipped."""
    patch.setattr(samples, "mix", SampledShape)
    patch.setattr(terms, "mix", SampledShape)


UNIFORM = UniformlyCappedSample(HALF, 1, 4, NEAR_LN_2)
TWINS: list[tuple[Callable[[Patch], None], tuple[Loss, ...]]] = [
    (_cap_dropped, (Silenced(CappedSample(HALF, 1, 4, NEAR_LN_2)),)),
    (_cap_free, (CappedSample(HALF, 1, 4, NEAR_LN_2),)),
    (_cap_by_the_coin_down, (Silenced(CappedSample(HALF, 1, 4, NEAR_LN_2)),)),
    (_kept_too_seldom, (UniformlyCappedSample(1, 1, 3, GaussianNoise(0.5)),)),
    (_most_units_are_worst, (UniformlyCappedSample(1, 1, 4, GaussianNoise(0.5)),)),
    (_uniform_cut_puts_nobody_out, (UNIFORM,)),
    (_half_the_rate, (Sampled(HALF, RR), CappedSample(HALF, 1, 4, NEAR_LN_2))),
    (_rate_squared, (Sampled(HALF, RR, Scheme.POISSON, True),)),
    (_groups_as_one, (Grouped(2, NEAR_LN_2), Sampled(HALF, NEAR_LN_2).grouped(2))),
    (
        _replaced_as_added,
        (Sampled(HALF, RR, Scheme.POISSON, True), Sampled(HALF, NEAR_LN_2, Scheme.POISSON, True)),
    ),
    (_one_order, (Repeated(3, Sampled(HALF, RR)), Repeated(3, Sampled(HALF, NEAR_LN_2)))),
    (_one_step_less, (Repeated(2, RR),)),
    (_longer_pass, (Allocated(2, RR),)),
    (_drawn_once, (DrawnSample(3, 4, NEAR_LN_2),)),
    (_fixed_size_as_half, (Sampled(HALF, RR, Scheme.WITHOUT_REPLACEMENT, True),)),
    (_moved_parts_as_one, (Parallel((NEAR_LN_2, NEAR_LN_2), True),)),
    (_crowd, (Shuffled(4, RR),)),
    (
        _sample_of_moved_masses,
        (Sampled(Fraction(2, 3), Composed((BoundedRange(0.2231435513142098), OUTCOMES))),),
    ),
    (_best_as_one_run, (Selected(NEAR_LN_2, NegativeBinomialRuns(1, Fraction(1, 4))),)),
]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Nothing that a twin computed is remembered."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for module in (terms, samples, tree, steps, amplify, attained):
        for value in vars(module).values():
            clear: Any = getattr(value, "cache_clear", None)
            if callable(clear):
                clear()


@pytest.mark.parametrize(("break_it", "losses"), TWINS, ids=[twin.__name__.strip("_") for twin, _ in TWINS])
def test_a_broken_accountant_is_found(
    break_it: Callable[[Patch], None], losses: tuple[Loss, ...], monkeypatch: Patch
) -> None:
    assert found(*losses) is None
    _forget()
    break_it(monkeypatch)
    assert found(*losses) is not None
