"""What each loss node says, as a list of weighted lots: written from its docstring alone, without a line of accounting.

A *lot* is a tuple of units. `Meaning.law(loss, lot)` is the law of what a mechanism with this loss shows of the lot: noise
around a statistic of the units' values, on every sample that the tree draws, each with its chance. What a loss leaves open to
its mechanism (which statistic, who is cut from a full lot, whether later steps look at earlier answers) is in `Ways`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple, TypeVar

import mpmath

from deniable.loss import (
    POISSON,
    SHUFFLED,
    WITHOUT_REPLACEMENT,
    Allocated,
    Approximate,
    BoundedRange,
    CappedSample,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    DrawnSample,
    FiniteOutcomes,
    GaussianNoise,
    Grouped,
    IntegerGaussianSum,
    LaplaceNoise,
    Loss,
    MixedGaussianNoise,
    NegativeBinomialRuns,
    Parallel,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Selected,
    Shuffled,
    Silenced,
    UniformlyCappedSample,
    Zcdp,
    exact,
)
from tests.accounting.small_tables.laws import Law, Line, NotStated, mixture, rational


class Member(NamedTuple):
    """One unit: its contribution, the part of the data it lies in, and how many records it is (a group that changes together)."""

    value: int
    part: int = 0
    records: int = 1


Lot = tuple[Member, ...]
Weighted = Iterator[tuple[Fraction, Any]]
LARGEST = 4
"""Records of a table, so no sum of contributions is larger."""


@dataclass(frozen=True)
class Ways:
    """What a mechanism may choose: to add noise to the `sum`, to answer by its `parity`, or to take a report of each
    record; whom a cap cuts (`first` in the table's order are kept, or a `random` subset); whether it adapts; where a choice
    starts."""

    statistic: str = "sum"
    cut: str = "first"
    adaptive: bool = False
    offset: int = 0

    @property
    def ordered(self) -> bool:
        """Whether the order of a table counts: for whom a cap keeps."""
        return self.cut == "first"


@dataclass(frozen=True)
class Seen:
    """Where a node stands: how far neighbours that it is stated for move a sum (1 where a unit is added, removed or silenced,
    2 where one of values in [−1, 1] is replaced), and whether the answers before have turned the statistic round."""

    moved: int
    sign: int = 1


class Meaning:
    """One mechanism for every loss, by `ways`, on tables whose samples of fixed size are drawn from `rows` records."""

    def __init__(self, ways: Ways, rows: int, number: Callable[[Any], Any]) -> None:
        self.ways, self.rows, self.number = ways, rows, number
        self._memory: dict[Any, Law] = {}

    def law(self, loss: Loss, lot: Lot, seen: Seen) -> Law:
        if not self.ways.ordered:
            lot = tuple(sorted(lot))  # the same units, looked up once
        key = (loss, lot, seen)
        if key not in self._memory:
            self._memory[key] = REFERENCES[type(loss)](self, loss, lot, seen)
        return self._memory[key]

    def mixed(self, weighted: Weighted, of: Loss, seen: Seen) -> Law:
        return mixture((self.number(weight), self.law(of, lot, seen)) for weight, lot in weighted)

    def noise(self, law: dict[Any, Fraction]) -> Law:
        return {(outcome,): self.number(chance) for outcome, chance in law.items()}

    def sum(self, lot: Lot, seen: Seen) -> int:
        return seen.sign * sum(unit.value for unit in lot)


Reference = Callable[[Meaning, Any, Lot, Seen], Law]
REFERENCES: dict[type[Loss], Reference] = {}
Kind = TypeVar("Kind", bound=Reference)


def means(*kinds: type[Loss]) -> Callable[[Kind], Kind]:
    """Enter a reference for these nodes."""

    def enter(reference: Kind) -> Kind:
        REFERENCES.update(dict.fromkeys(kinds, reference))
        return reference

    return enter


# ------------------------------------------------------------------------------------------------ samples


def poisson(rate: Fraction, lot: Lot) -> Weighted:
    """Each record enters by its own coin of probability `rate`."""
    for coins in itertools.product((0, 1), repeat=len(lot)):
        drawn = tuple(unit for unit, coin in zip(lot, coins, strict=True) if coin)
        yield rate ** len(drawn) * (1 - rate) ** (len(lot) - len(drawn)), drawn


def fixed_size(size: int, lot: Lot) -> Weighted:
    """A uniform subset of fixed size."""
    subsets = list(itertools.combinations(lot, size))
    for subset in subsets:
        yield Fraction(1, len(subsets)), subset


def capped(rate: Fraction, cap: int, lot: Lot, cut: str) -> Weighted:
    """A Poisson sample of which no more than `cap` are kept: the first in a fixed or in a random order."""
    for weight, drawn in poisson(rate, lot):
        if len(drawn) <= cap or cut == "first":
            yield weight, drawn[:cap]
            continue
        for share, subset in fixed_size(cap, drawn):
            yield weight * share, subset


def cut_uniformly(rate: Fraction, cap: int, lot: Lot) -> Weighted:
    """A Poisson sample; of one of more than `cap` units a uniform subset of so many."""
    for weight, drawn in poisson(rate, lot):
        for share, subset in fixed_size(min(cap, len(drawn)), drawn):
            yield weight * share, subset


def drawn_again(draws: int, lot: Lot) -> Weighted:
    """Each of `draws` records drawn from all with replacement."""
    for record in itertools.product(lot, repeat=draws):
        yield Fraction(1, len(lot) ** draws), record


def allocated(steps: int, lot: Lot) -> Weighted:
    """Each unit falls by its own uniform draw into one of the steps: as many lots as steps."""
    for places in itertools.product(range(steps), repeat=len(lot)):
        lots = tuple(
            tuple(unit for unit, at in zip(lot, places, strict=True) if at == step) for step in range(steps)
        )
        yield Fraction(1, steps ** len(lot)), lots


def shuffled_pass(batches: int, lot: Lot) -> Weighted:
    """A shuffled pass cut into batches of fixed size."""
    size, rest = divmod(len(lot), batches)
    if rest:
        raise NotStated("Batches of fixed size need a table of whole batches.")
    orders = list(itertools.permutations(lot))
    for order in orders:
        yield Fraction(1, len(orders)), tuple(order[i : i + size] for i in range(0, len(order), size))


@means(Sampled)
def _sampled(meaning: Meaning, loss: Sampled, lot: Lot, seen: Seen) -> Law:
    rate = exact(loss.rate)
    if loss.scheme is POISSON:
        return meaning.mixed(poisson(rate, lot), loss.of, replace(seen, moved=1))
    if loss.scheme is WITHOUT_REPLACEMENT:
        size = rate * meaning.rows
        if size.denominator != 1 or size > len(lot):
            raise NotStated("No sample of this size can be drawn.")
        return meaning.mixed(fixed_size(int(size), lot), loss.of, replace(seen, moved=2))
    assert loss.scheme is SHUFFLED
    if (1 / rate).denominator != 1:
        raise NotStated("A pass has a whole number of batches.")
    weighted = shuffled_pass(int(1 / rate), lot)
    return mixture(
        (meaning.number(w), _in_turn(meaning, [(loss.of, batch) for batch in lots], seen))
        for w, lots in weighted
    )


@means(CappedSample)
def _capped(meaning: Meaning, loss: CappedSample, lot: Lot, seen: Seen) -> Law:
    if len(lot) > loss.rows:
        raise NotStated("There are at most `rows` units.")
    return meaning.mixed(
        capped(exact(loss.rate), loss.cap, lot, meaning.ways.cut), loss.of, replace(seen, moved=1)
    )


@means(UniformlyCappedSample)
def _uniformly_capped(meaning: Meaning, loss: UniformlyCappedSample, lot: Lot, seen: Seen) -> Law:
    """If more than `cap` coins came up, `cap` of those units are kept: a uniform subset."""
    if len(lot) > loss.rows:
        raise NotStated("There are at most `rows` units.")
    lots = cut_uniformly(exact(loss.rate), loss.cap, lot)
    return meaning.mixed(lots, loss.of, replace(seen, moved=1))


@means(DrawnSample)
def _drawn(meaning: Meaning, loss: DrawnSample, lot: Lot, seen: Seen) -> Law:
    if len(lot) != loss.rows:
        raise NotStated("Records are drawn from all `rows`.")
    return meaning.mixed(drawn_again(loss.draws, lot), loss.of, replace(seen, moved=2))


@means(Allocated)
def _allocated(meaning: Meaning, loss: Allocated, lot: Lot, seen: Seen) -> Law:
    inside = replace(seen, moved=1)
    return mixture(
        (meaning.number(weight), _in_turn(meaning, [(loss.of, batch) for batch in lots], inside))
        for weight, lots in allocated(loss.steps, lot)
    )


# ------------------------------------------------------------------------------------------------ relations and combinators


@means(Silenced)
def _silenced(meaning: Meaning, loss: Silenced, lot: Lot, seen: Seen) -> Law:
    """The unit is in the same samples and keeps its place: only its value, in the table, is zero."""
    return meaning.law(loss.of, lot, replace(seen, moved=1))


@means(Grouped)
def _grouped(meaning: Meaning, loss: Grouped, lot: Lot, seen: Seen) -> Law:
    """Units of several records are those records, which change together."""
    records: list[Member] = []
    for unit in lot:
        if unit.records >= loss.size:
            records += [unit._replace(records=unit.records // loss.size)] * loss.size
        else:
            records.append(unit)
    return meaning.law(loss.of, tuple(records), seen)


@means(Repeated)
def _repeated(meaning: Meaning, loss: Repeated, lot: Lot, seen: Seen) -> Law:
    return _in_turn(meaning, [(loss.of, lot)] * loss.times, seen)


@means(Composed)
def _composed(meaning: Meaning, loss: Composed, lot: Lot, seen: Seen) -> Law:
    return _in_turn(meaning, [(part, lot) for part in loss.parts], seen)


def _in_turn(meaning: Meaning, runs: list[tuple[Loss, Lot]], seen: Seen) -> Law:
    """One after another; those that adapt turn their statistic round where the answer before was a high one."""
    total: Law = {(): meaning.number(Fraction(1))}
    for loss, lot in runs:
        step: Law = {}
        for outcome, chance in total.items():
            for answer, share in meaning.law(loss, lot, _turned(meaning, seen, outcome)).items():
                step[outcome + answer] = step.get(outcome + answer, 0) + chance * share
        total = step
    return total


def _turned(meaning: Meaning, seen: Seen, outcome: tuple[Any, ...]) -> Seen:
    if meaning.ways.adaptive and outcome and isinstance(outcome[-1], int) and outcome[-1] > 0:
        return Seen(seen.moved, -seen.sign)
    return seen


@means(Parallel)
def _parallel(meaning: Meaning, loss: Parallel, lot: Lot, seen: Seen) -> Law:
    parts = [(part, tuple(u for u in lot if u.part == i)) for i, part in enumerate(loss.parts)]
    return _in_turn(meaning, parts, replace(seen, moved=1))


@means(Shuffled)
def _shuffled(meaning: Meaning, loss: Shuffled, lot: Lot, seen: Seen) -> Law:
    """A report of each, by itself, of which only the multiset is seen."""
    if len(lot) < loss.reports:
        raise NotStated("At least so many people report.")
    total: Law = {(): meaning.number(Fraction(1))}
    for unit in lot:
        step: Law = {}
        reports = meaning.law(loss.of, (unit,), replace(seen, moved=2))
        if any(isinstance(part, Line) for report in reports for part in report):
            raise NotStated("A report is one of a list.")
        for (report, chance), (others, share) in itertools.product(reports.items(), total.items()):
            multiset = tuple(sorted((*others, *report)))
            step[multiset] = step.get(multiset, 0) + chance * share
        total = step
    return {
        (number,): chance for number, (_, chance) in zip(_codes(total), sorted(total.items()), strict=True)
    }


def _codes(law: Law) -> Iterator[int]:
    """A number for each multiset, the same in all tables: its reports as digits."""
    for multiset in sorted(law):
        yield sum((digit + 50) * 100**i for i, digit in enumerate(multiset))


@means(Selected)
def _selected(meaning: Meaning, loss: Selected, lot: Lot, seen: Seen) -> Law:
    """The largest of a random number of answers: P(best ≤ y) is the generating function of that number at P(answer ≤ y)."""
    once = meaning.law(loss.of, lot, seen)
    if any(isinstance(part, Line) for outcome in once for part in outcome):
        raise NotStated("The best of real answers is not listed here.")
    generating = _generating(loss.runs) if meaning.number is Fraction else _rough_generating(loss.runs)
    zero, one = meaning.number(0), meaning.number(1)
    total, below, reached = {(-99,): generating(zero)}, generating(zero), zero
    for outcome in sorted(once):
        reached += once[outcome]
        upto = generating(min(reached, one))
        total[outcome], below = upto - below, upto
    return total


def _generating(runs: Any) -> Callable[[Fraction], Fraction]:
    def value(x: Fraction) -> Fraction:
        with mpmath.workdps(60):
            t = mpmath.mpf(x.numerator) / x.denominator
            if not isinstance(runs, NegativeBinomialRuns):
                return rational(mpmath.exp(_real(runs.mean) * (t - 1)))
            eta, gamma = _real(runs.eta), _real(runs.gamma)
            if eta == 0:
                return rational(mpmath.log(1 - (1 - gamma) * t) / mpmath.log(gamma))
            return rational(((1 - (1 - gamma) * t) ** -eta - 1) / (gamma**-eta - 1))

    return value


def _rough_generating(runs: Any) -> Callable[[float], float]:
    """The same in doubles."""
    if not isinstance(runs, NegativeBinomialRuns):
        return lambda t: math.exp(float(runs.mean) * (t - 1))
    eta, gamma = float(runs.eta), float(runs.gamma)
    if eta == 0:
        return lambda t: math.log(1 - (1 - gamma) * t) / math.log(gamma)
    return lambda t: ((1 - (1 - gamma) * t) ** -eta - 1) / (gamma**-eta - 1)


def _real(number: Any) -> Any:
    return mpmath.mpf(exact(number).numerator) / exact(number).denominator


# ------------------------------------------------------------------------------------------------ noise


@cache
def odds(epsilon: Fraction) -> Fraction:
    """A fraction of at most e^ε, and as near as makes no difference."""
    with mpmath.workdps(40):
        top = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        short = Fraction(float(top)).limit_denominator(50)
        near = mpmath.mpf(short.numerator) / short.denominator
        if near <= top < near * (1 + mpmath.mpf("1e-12")):
            return short
        return Fraction(int(mpmath.floor(top * 2**44)), 2**44)


@cache
def _root(x: Fraction) -> Fraction:
    with mpmath.workdps(40):
        return rational(mpmath.sqrt(mpmath.mpf(x.numerator) / x.denominator))


def _answer(truth: Fraction, options: int, at: int) -> dict[Any, Fraction]:
    return {i: truth if i == at else (1 - truth) / (options - 1) for i in range(options)}


def _yes_or_no(odd: Fraction, at: int) -> dict[Any, Fraction]:
    return _answer(odd / (1 + odd), 2, at % 2)


@cache
def _geometric(base: Fraction, at: int, reach: int) -> dict[Any, Fraction]:
    """P(y) ∝ base^−|y − at|, what lies beyond all sums taken together: there the ratio is constant. A sum beyond `reach`,
    of units that are drawn several times, is cut to it, which moves neighbours no farther apart."""
    at = max(-reach, min(reach, at))
    law = {y: (base - 1) / (base + 1) * base ** -abs(y - at) for y in range(1 - reach, reach)}
    law[reach], law[-reach] = (base ** (1 - abs(end - at)) / (base + 1) for end in (reach, -reach))
    return law


@means(Pure)
def _pure(meaning: Meaning, loss: Pure, lot: Lot, seen: Seen) -> Law:
    total = meaning.sum(lot, seen)
    if meaning.ways.statistic != "sum":
        return meaning.noise(_yes_or_no(odds(exact(loss.epsilon)), total))
    base = odds(exact(loss.epsilon) / seen.moved)
    if base == 1:
        return {(0,): meaning.number(Fraction(1))}
    return meaning.noise(_geometric(base, total, LARGEST))


@means(Approximate)
def _approximate(meaning: Meaning, loss: Approximate, lot: Lot, seen: Seen) -> Law:
    at, shown = meaning.sum(lot, seen) % 2, exact(loss.delta)
    law = {i: (1 - shown) * chance for i, chance in _yes_or_no(odds(exact(loss.epsilon)), at).items()}
    return meaning.noise(law | {2 + at: shown})


@means(Zcdp)
def _zcdp(meaning: Meaning, loss: Zcdp, lot: Lot, seen: Seen) -> Law:
    """Gaussian noise of σ² = 1/(2ρ), or an answer of ε = √(2ρ) (Bun, Steinke 2016, Propositions 1.6 and 1.4)."""
    if meaning.ways.statistic == "sum":
        return _line(meaning, "gaussian", _root(1 / (2 * exact(loss.rho))), lot, seen)
    return meaning.noise(_yes_or_no(odds(_root(2 * exact(loss.rho))), meaning.sum(lot, seen)))


@means(BoundedRange)
def _choice(meaning: Meaning, loss: BoundedRange, lot: Lot, seen: Seen) -> Law:
    """Two options, the log-odds of which move by ε between neighbours: the two log-ratios then span ε."""
    odd = odds(exact(loss.epsilon) / seen.moved) ** (meaning.sum(lot, seen) + meaning.ways.offset)
    return meaning.noise({0: 1 / (1 + odd), 1: odd / (1 + odd)})


@means(ResponseNoise)
def _response(meaning: Meaning, loss: ResponseNoise, lot: Lot, seen: Seen) -> Law:
    """One answer about all units; or, where the number of records is public, an answer of each record."""
    truth = exact(loss.truth)
    if meaning.ways.statistic == "reports" and seen.moved == 2:
        law: Law = {(): meaning.number(Fraction(1))}
        for unit in lot:
            step: Law = {}
            answer = _answer(truth, loss.options, (seen.sign * unit.value) % loss.options)
            for (others, chance), (report, share) in itertools.product(law.items(), answer.items()):
                # A sample is a set: who stood where in the table is not seen.
                reports = tuple(sorted((*others, report)))
                step[reports] = step.get(reports, 0) + chance * meaning.number(share)
            law = step
        return law
    return meaning.noise(_answer(truth, loss.options, meaning.sum(lot, seen) % loss.options))


@means(FiniteOutcomes)
def _finite(meaning: Meaning, loss: FiniteOutcomes, lot: Lot, seen: Seen) -> Law:
    """`present` where enough units say anything, which one more unit can only bring about; between replaced units, by parity."""
    total = sum(abs(unit.value) for unit in lot)
    is_present = total >= 1 + abs(meaning.ways.offset) // 2 if seen.moved == 1 else total % 2 == 1
    chances = loss.present if is_present else loss.absent
    return meaning.noise({i: exact(chance) for i, chance in enumerate(chances)})


def _line(meaning: Meaning, kind: str, multiplier: Fraction, lot: Lot, seen: Seen) -> Law:
    """Noise of so many times what neighbours move."""
    return {(Line(kind, multiplier * seen.moved, meaning.sum(lot, seen)),): meaning.number(Fraction(1))}


@means(GaussianNoise)
def _gaussian(meaning: Meaning, loss: GaussianNoise, lot: Lot, seen: Seen) -> Law:
    return _line(meaning, "gaussian", exact(loss.multiplier), lot, seen)


@means(LaplaceNoise)
def _laplace(meaning: Meaning, loss: LaplaceNoise, lot: Lot, seen: Seen) -> Law:
    return _line(meaning, "laplace", exact(loss.multiplier), lot, seen)


def _grid(meaning: Meaning, sensitivity: int, lot: Lot, seen: Seen) -> int:
    """An integer that neighbours move by at most `sensitivity`: a multiple of the sum, or of those above zero."""
    if sensitivity % seen.moved == 0:
        return sensitivity // seen.moved * meaning.sum(lot, seen)
    return sensitivity * sum(max(seen.sign * unit.value, 0) for unit in lot)


@means(DiscreteLaplaceNoise)
def _integer_laplace(meaning: Meaning, loss: DiscreteLaplaceNoise, lot: Lot, seen: Seen) -> Law:
    at = _grid(meaning, loss.sensitivity, lot, seen)
    return meaning.noise(_geometric(odds(1 / exact(loss.scale)), at, LARGEST * loss.sensitivity))


@cache
def _integer_gaussian(sigma: Fraction, parties: int) -> dict[int, Fraction]:
    """The sum of so many integer Gaussians; what lies beyond 16 deviations is left out, which only lowers a δ."""
    with mpmath.workdps(50):
        variance = mpmath.mpf(sigma.numerator) ** 2 / sigma.denominator**2
        wide = math.ceil(16 * sigma)
        law = {y: mpmath.exp(-(mpmath.mpf(y) ** 2) / (2 * variance)) for y in range(-wide, wide + 1)}
        total = sum(law.values())
        one = {y: mass / total for y, mass in law.items()}
        law = one
        for _ in range(parties - 1):
            step: dict[int, Any] = {}
            for (a, x), (b, y) in itertools.product(law.items(), one.items()):
                step[a + b] = step.get(a + b, 0) + x * y
            law = step
        return {y: rational(mass) for y, mass in law.items() if abs(y) <= wide * math.sqrt(parties)}


@means(DiscreteGaussianNoise)
def _integer_noise(meaning: Meaning, loss: DiscreteGaussianNoise, lot: Lot, seen: Seen) -> Law:
    at = _grid(meaning, int(loss.sensitivity), lot, seen)
    return meaning.noise({at + y: mass for y, mass in _integer_gaussian(exact(loss.sigma), 1).items()})


@means(IntegerGaussianSum)
def _integer_sum(meaning: Meaning, loss: IntegerGaussianSum, lot: Lot, seen: Seen) -> Law:
    """The noise of all parties is in the sum, whoever is silent."""
    at = _grid(meaning, int(loss.sensitivity), lot, replace(seen, moved=2 if loss.replace else 1))
    return meaning.noise(
        {at + y: mass for y, mass in _integer_gaussian(exact(loss.sigma), loss.parties).items()}
    )


@means(MixedGaussianNoise)
def _mixed(meaning: Meaning, loss: MixedGaussianNoise, lot: Lot, seen: Seen) -> Law:
    """Each unit moves the answer by a random shift of its own."""
    if seen.moved != 1:
        raise NotStated("A mixture says what a unit does that is there or not.")
    law: Law = {(Line("gaussian", exact(loss.sigma), 0),): meaning.number(Fraction(1))}
    for unit in lot:
        step: Law = {}
        for ((line,), chance), shift, weight in (
            (entry, shift, weight)
            for entry in law.items()
            for shift, weight in zip(loss.shifts, loss.weights, strict=True)
        ):
            moved = (line._replace(mean=line.mean + seen.sign * unit.value * int(shift)),)
            step[moved] = step.get(moved, 0) + chance * meaning.number(exact(weight))
        law = step
    return law
