"""How many people have how many rows, from a small part of ε; and which bound on rows follows from that.

Every unit lies in one class: those with up to 1, 2, 4, … rows. The noisy sizes of the classes are released,
and all else here is computed from them: up to how many rows there is anybody to be seen, how many rows a
bound would leave out, and which bound makes the error of an answer least."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate

from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.sql.engines import Statement
from deniable.sql.plan.noise import IntegerSensitivity, Noise
from deniable.sql.write import contributions
from deniable.sql.write.contributions import TOTAL, Limit
from deniable.sql.write.statements import Writer

LEVEL = 0.95
"""Where only averages and ranks are asked for, units with more rows than this share of all units count less
than in full: their noise grows with the bound, and what it leaves out hardly moves them."""
CERTAIN = 12
"""A class of more people than this many times the scale of its noise is as large as it seems."""
SMALL = 50
"""A crowd of fewer than this many times the scale of the noise may have no class that stands out of it."""
STRETCH = 8
"""So many classes of a small crowd together may stand out of the noise where none does by itself."""
STEEPEST, FLATTEST = 0.05, 0.7
"""A class has at least and at most this share of the people of the one before, as far as noise hides it."""
WIDTH = 0.05
"""What an interval as wide as a group has rows weighs beside errors when a bound is chosen, as a share of
these rows; one that is narrower weighs less, by the square: of a tenth, a hundredth."""
HALF_WIDTH = 3.0
"""Of an interval of 95 %, by the mean size of its noise."""
DOUBT = 2
"""How much the noise in what is left out counts against adding it: what is believed of classes leans
upwards."""
UNEVEN = 0.06
"""How far groups and values of rows that are left out differ from those that count. Where a share s of all
rows is left out, a group's total is off by UNEVEN·√s of its rows, if it stands for all rows in proportion
(the fewer people a cut falls on, the less evenly), and a mean by UNEVEN·s of half its range. (Fitted on
visits by patient, a census by weight and generated rides by driver, s from .001 to .8.)"""
SMALL_GROUPS = 2
"""Groups are not of one size, and the noise of a mean goes by 1/n: over groups its mean is larger than that
of a group of the mean size. (9.0, 3.6 and 1.0 times on the three tables; with 3 for all, too much of their
counts is left out.)"""


@dataclass(frozen=True)
class Classes:
    """The noisy number of units by their number of rows.

    Guarantee: that of `noise`: a unit lies in one class, so coming or going moves one number by one (two
               numbers where it is replaced by another).
    Assumes:   what `noise` assumes.
    Error:     each number by itself is off by the noise.
    """

    edges: tuple[int, ...]
    noise: Noise

    @property
    def loss(self) -> Loss:
        return self.noise.loss

    def statement(self, writer: Writer) -> Statement:
        """The class of a unit's number of rows, and the number of units in it."""
        rows = writer.strictly(writer.rows([]))
        return Statement((), contributions.classes(rows, writer.quoted("_unit"), self.edges, writer.dialect))

    def __call__(self, units: Mapping[int, int], *, rng: Random) -> Crowd:
        noises = self.noise.draw(len(self.edges), rng)
        sizes = tuple(units.get(i, 0) + noise for i, noise in enumerate(noises))
        return Crowd(self.edges, sizes, self.noise)


def moved(*, replaced: bool) -> IntegerSensitivity:
    """One unit in one class; replaced, one less in one and one more in another."""
    return IntegerSensitivity(2, 2) if replaced else IntegerSensitivity(1, 1)


@dataclass(frozen=True)
class Crowd:
    """Noisy numbers of units by classes of rows: those above the edge before, up to this one."""

    edges: tuple[int, ...]
    sizes: tuple[int, ...]
    noise: Noise

    @property
    def scale(self) -> float:
        return float(Fraction(self.noise.scale))

    @cached_property
    def believed(self) -> tuple[tuple[float, float], ...]:
        """How many units are in each class, about, and the deviation of that.

        What stands out of the noise is taken as it is. For the rest, each class is expected to be smaller
        than the one before by as much as that was than the one before it, give or take all of it; or, in a
        small crowd and next to a class where somebody is seen, as large as the median with the two that
        follow, if that stands out of the noise. This is weighed against the noisy size by its variance."""
        spread = math.sqrt(2.0) * self.scale
        beliefs: list[tuple[float, float]] = []
        for i, size in enumerate(self.sizes):
            before = [max(mean, 1e-9) for mean, _ in beliefs[-2:]]
            if size > CERTAIN * self.scale or not before:
                beliefs.append((max(0.0, float(size)), spread))
                continue
            slope = min(FLATTEST, max(STEEPEST, before[-1] / before[0])) if len(before) > 1 else FLATTEST
            near = math.fsum(mean for mean, _ in beliefs) < SMALL * self.scale and (
                i <= 2 or max(before) >= self.scale / 2
            )
            guess = max(before[-1] * slope, self._ahead(i) if near else 0.0)
            weight = guess**2 / (guess**2 + spread**2)
            beliefs.append((max(0.0, guess + weight * (size - guess)), spread * math.sqrt(weight)))
        return tuple(beliefs)

    def _ahead(self, i: int) -> float:
        """The median of a class and the two that follow, 0 where noise could have made it: one large noise
        does not."""
        middle = sorted((*self.sizes[i : i + 3], 0, 0)[:3])[1]
        return float(middle) if middle > 2 * self.scale else 0.0

    @cached_property
    def top(self) -> int:
        """The last class where there is anybody to be seen: in it, or, in a small crowd, in the few classes
        that end with it, together."""
        top = max((i for i, (mean, _) in enumerate(self.believed) if mean >= self.scale / 2), default=0)
        while self.small and (longer := self._stretch(top)):
            top += longer
        return top

    @cached_property
    def small(self) -> bool:
        """Whether noise may hide each class of its people."""
        return math.fsum(mean for mean, _ in self.believed) < SMALL * self.scale

    def _stretch(self, top: int) -> int:
        """How many classes after `top` stand out of the noise of their sum, 0 if none do."""
        after = self.sizes[top + 1 : top + 1 + STRETCH]
        deviation = math.sqrt(2.0) * self.scale
        sums = accumulate(after)
        return max((i for i, people in enumerate(sums, 1) if people > math.sqrt(i) * deviation), default=0)

    @property
    def most(self) -> int:
        """Nobody is seen to have more rows."""
        return self.edges[self.top]

    def over(self, rows: int) -> tuple[int, int]:
        """How many units have more rows, as far as they are seen, and of how many classes that is the sum."""
        above = [i for i, edge in enumerate(self.edges) if edge > rows and i <= self.top]
        return sum(self.sizes[i] for i in above), len(above)

    # -------------------------------------------------------------------------------------------- rows

    @property
    def rows(self) -> float:
        """Of all units together, about."""
        return math.fsum(mean * _mean(self.edges, i) for i, (mean, _) in enumerate(self.believed))

    def left_out(self, rows: int) -> tuple[float, float]:
        """How many rows a bound leaves out, about, and the deviation of that."""
        excess = [max(0.0, _mean(self.edges, i) - rows) for i in range(len(self.edges))]
        total = math.fsum(mean * each for (mean, _), each in zip(self.believed, excess, strict=True))
        parts = (each * deviation for (_, deviation), each in zip(self.believed, excess, strict=True))
        return total, math.hypot(*parts)

    def factor(self, rows: int) -> Fraction:
        """All rows by those that count: what a count of bounded rows is to be taken times. What noise may
        have made of it counts less: an amount t of deviation d is taken for t³/(t² + (2d)²)."""
        total, deviation = self.left_out(rows)
        likely = total**3 / (total**2 + (DOUBT * deviation) ** 2) if total else 0.0
        return Fraction(1 + likely / max(self.rows - likely, likely, 1.0)).limit_denominator(10**6)

    @property
    def hidden(self) -> Fraction:
        """The rows, as a share of all, that people may have beyond what anybody is seen to have: twice what
        is believed, and as many people in the next class as noise may hide."""
        total, _ = self.left_out(self.most)
        beyond = 2 * total + math.fsum(self._unseen())
        return Fraction(beyond / max(self.rows, beyond, 1.0)).limit_denominator(10**6)

    def _unseen(self) -> Iterator[float]:
        """The rows that noise may hide in the next class; in a small crowd in the one after it too, if
        people do not grow fewer at once."""
        people, visible = self.scale, max(self.scale, self.believed[self.top][0])
        for after in range(self.top + 1, min(self.top + 3, len(self.edges))):
            yield people * (_mean(self.edges, after) - self.most)
            people *= min(FLATTEST, (max(0, self.sizes[after]) + self.scale) / visible)
            if not self.small:
                return

    # -------------------------------------------------------------------------------------------- the bound

    def quantile(self) -> int:
        """Of rows per unit."""
        total, everybody = 0.0, math.fsum(mean for mean, _ in self.believed)
        for edge, (mean, _) in zip(self.edges, self.believed, strict=True):
            total += mean
            if total >= LEVEL * everybody:
                return edge
        return self.most

    def best(self, aims: Sequence[AggregateNoise], groups: int) -> int:
        """The bound that makes errors and half widths of these numbers least, in rows of one of so many
        `groups`."""
        return min(self.edges, key=lambda rows: math.fsum(self._cost(aim, rows, groups) for aim in aims))

    def _cost(self, aim: AggregateNoise, rows: int, groups: int) -> float:
        """What a number is off by: its noise, which grows with the bound, and what is cut. All of that
        where nothing stands for it, else what noise in the classes and uneven groups do to it; of a mean
        only how far it differs. And a part of the half width, which what is told widens."""
        total, deviation = self.left_out(rows)
        everybody, noise = max(self.rows / groups, 1.0), aim.noise * rows
        share = min(1.0, total / max(self.rows, 1.0))
        if aim.told is None:
            return noise + total / groups
        beyond = HALF_WIDTH * aim.told * max(0, self.most - rows)
        if aim.mean:
            cut, beyond = UNEVEN * share * everybody, math.hypot(beyond, total / groups)
            cut += (min(groups, SMALL_GROUPS) - 1) * noise
        else:
            cut = deviation / groups + (UNEVEN * math.sqrt(share) * everybody if groups > 1 else 0.0)
        width = HALF_WIDTH * noise + beyond
        return (noise + cut) * aim.weight + WIDTH * everybody * min(1.0, width / everybody) ** 2


@dataclass(frozen=True)
class AggregateNoise:
    """One aggregate, in rows of a group: the mean size of its noise for each row of a unit that counts, and
    of the noise of what is `told` for each row up to the cap (None where nothing is). Of a `mean` these are
    in halves of its range, so that it weighs twice: the mean itself may be half of that."""

    noise: float
    told: float | None
    mean: bool = False

    @property
    def weight(self) -> int:
        return 2 if self.mean else 1


@lru_cache(maxsize=256)
def _mean(edges: tuple[int, ...], index: int) -> float:
    """Of the rows of a unit in a class, where a share ∝ 1/n² of all units have n rows."""
    low, high = (edges[index - 1] + 1 if index else 1), edges[index]
    if high - low > 1000:
        return math.log(high / (low - 1)) / (1 / (low - 1) - 1 / high)
    many = range(low, high + 1)
    return math.fsum(1 / n for n in many) / math.fsum(1 / n**2 for n in many)


def bounded(before: Limit, rows: int) -> Limit:
    """What counts of a unit where `rows` was chosen: its rows weigh TOTAL together whatever that is, so the
    loss does not depend on the choice."""
    return replace(before, rows=rows, one=TOTAL // rows)
