from bisect import bisect_right
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from deniable.randomness.table import GUIDED_FROM, Law, Table, table, unfold

WORD, CELL = 8, 4


def laplace(scale: Fraction | int, folded: bool) -> Law:
    return Law(1 / Fraction(scale), Fraction(0), folded)


def gaussian(sigma: Fraction | int, folded: bool) -> Law:
    return Law(1 / (2 * Fraction(sigma) ** 2), 1 / Fraction(sigma) ** 2, folded)


LAWS = [
    laplace(1, True),
    laplace(Fraction(1, 3), True),
    laplace(8, True),
    laplace(7, False),
    laplace(Fraction(1, 1000), True),
    gaussian(1, True),
    gaussian(Fraction(7, 3), True),
    gaussian(8, False),
    gaussian(Fraction(1, 10), False),
]


def inverted(edges: list[mpmath.mpf], u: int, bits: int) -> int | None:
    """The index of every uniform that begins with u, by mpmath; None if they do not all have the same."""
    with mpmath.workdps(500):
        low, high = mpmath.mpf(u) / mpmath.mpf(2) ** bits, mpmath.mpf(u + 1) / mpmath.mpf(2) ** bits
        first = bisect_right(edges, low)
        return first if first < len(edges) and edges[first] >= high else None


@pytest.mark.sampled
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("bits", [8, 64, 200])
def test_brackets_hold_the_true_cumulative_probabilities(law: Law, bits: int, exact_cdf) -> None:
    low, slack = law.cumulative(bits)
    assert slack <= 4
    with mpmath.workdps(500):
        for bound, edge in zip(low, exact_cdf(law.first, law.second, law.folded, len(low)), strict=True):
            assert bound <= edge * mpmath.mpf(2) ** bits <= bound + slack
    assert low[-1] >= 2**bits - 4  # what lies beyond the list is bounded too


@pytest.mark.parametrize("law", LAWS)
def test_each_word_gets_the_index_of_the_exact_law_or_asks_for_more(law: Law, scripted, exact_cdf) -> None:
    """All 2^8 words: settled ones lie wholly inside one probability interval, all others
    continue the same uniform."""
    small, edges = Table(law, WORD, CELL), exact_cdf(law.first, law.second, law.folded, 400)
    asked = 0
    for u in range(1 << WORD):
        expected = inverted(edges, u, WORD)
        if expected is not None and u not in small.thresholds:
            assert small.search(scripted(), np.array([u], np.uint64))[0] == expected
            continue
        asked += 1
        for word in (0, 1, 2**62 + 12345, 2**63, 2**64 - 2):
            later = inverted(edges, u << 64 | word, WORD + 64)
            if later is not None:
                assert small.search(scripted([word, 0, 0]), np.array([u], np.uint64))[0] == later
    assert asked >= 1  # the tail, at least


@pytest.mark.parametrize("law", LAWS)
def test_the_guide_agrees_with_the_search(law: Law, scripted) -> None:
    """All 2^4 cells with all 2^4 continuations: the guide only skips bits that cannot matter."""
    small = Table(law, WORD, CELL)
    for u in range(1 << WORD):
        cell, later = np.array([u >> CELL], np.uint16), (u & 15) << 60
        by_search = small.search(scripted([77] * 30), np.array([u], np.uint64))
        assert small.look_up(scripted([later, *[77] * 30]), cell) == by_search


@pytest.mark.parametrize("law", LAWS)
def test_certified_floors_are_the_true_floors(law: Law, exact_cdf) -> None:
    floors = table(law).thresholds.tolist()
    with mpmath.workdps(500):
        truth = [
            int(mpmath.floor(e * 2**64)) for e in exact_cdf(law.first, law.second, law.folded, len(floors))
        ]
    assert floors == truth
    assert floors[-1] == 2**64 - 1


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ones", [1, 2, 4])
def test_the_tail_goes_on_beyond_the_table(law: Law, ones: int, scripted, exact_cdf) -> None:
    """A uniform of 64, 128 or 256 ones and then zeros: no folded tail, the very index of the exact law."""
    words = [2**64 - 1] * (ones - 1) + [0] * 40
    drawn = table(law).search(scripted(words), np.array([2**64 - 1], np.uint64))[0]
    u = (1 << (64 * ones)) - 1
    count = len(law.cumulative(64 * ones + 64)[0])
    with mpmath.workdps(500):
        uniform = mpmath.mpf(u) / mpmath.mpf(2) ** (64 * ones)
        edges = exact_cdf(law.first, law.second, law.folded, count)
        assert drawn == bisect_right(edges, uniform)


def test_a_forced_tie_at_sixty_four_bits_is_settled_by_the_next(scripted, exact_cdf) -> None:
    law = laplace(5, True)
    edge = exact_cdf(law.first, law.second, law.folded, 11)[10]
    with mpmath.workdps(500):
        digits = int(mpmath.floor(edge * mpmath.mpf(2) ** 128))
    u, next_word = digits >> 64, digits & (2**64 - 1)
    for word, expected in ((next_word - 8, 10), (next_word + 8, 11)):
        source = scripted([word])
        assert table(law).search(source, np.array([u], np.uint64))[0] == expected
        assert source.left["bits"] == []


def test_unfold_goes_outward_from_zero() -> None:
    assert unfold(np.arange(7)).tolist() == [0, -1, 1, -2, 2, -3, 3]


def test_few_draws_build_no_guide(scripted) -> None:
    fresh = Table(laplace(2, True))
    fresh.draw(scripted(bits=[5] * (GUIDED_FROM - 1)), GUIDED_FROM - 1)
    assert "guide" not in fresh.__dict__
    fresh.draw(scripted(cells=[5] * GUIDED_FROM, bits=[5] * GUIDED_FROM), GUIDED_FROM)
    assert len(fresh.guide) == 1 << 16
