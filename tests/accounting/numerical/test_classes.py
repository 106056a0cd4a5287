"""Many unlike steps as few: what is rounded up reveals no less, what is rounded down no more, and few remain."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.accounting import numerical
from deniable.accounting.numerical import choices, classes, terms
from deniable.accounting.numerical.lattice.search import TermCase, epsilon_bounds
from deniable.accounting.numerical.leaves import SHARES
from deniable.accounting.numerical.pairs import bounded_range, finite
from deniable.loss import BoundedRange, Composed, GaussianNoise, Loss, MixedGaussianNoise, exact

RATIO = 1.5
"""A grid so rough that a step in the wrong direction shows."""
SHIFTS = st.sampled_from([0, 0.1, 0.5, Fraction(1, 3), 1, 1.001, 2, 7])
MIXTURES = st.builds(
    lambda sigma, atoms: MixedGaussianNoise(
        sigma,
        tuple(shift for shift, _ in atoms),
        tuple(Fraction(weight, sum(weight for _, weight in atoms)) for _, weight in atoms),
    ),
    st.sampled_from([0.5, 1, Fraction(10, 3), 4.0]),
    st.lists(st.tuples(SHIFTS, st.integers(1, 1000)), min_size=1, max_size=5),
)


def chance(node: MixedGaussianNoise, least: Fraction) -> Fraction:
    """P(shift ≥ least), in multiples of σ."""
    return sum(
        (
            exact(weight)
            for shift, weight in zip(node.shifts, node.weights, strict=True)
            if exact(shift) / exact(node.sigma) >= least
        ),
        Fraction(0),
    )


@given(MIXTURES)
def test_a_rounded_mixture_is_shifted_by_no_less_and_by_no_more(node: MixedGaussianNoise) -> None:
    above, below = (classes.move_mixture(node, up, RATIO) for up in (0, 1))
    ends = {exact(s) / exact(x.sigma) for x in (node, above, below) for s in x.shifts}
    for end in ends:
        assert chance(below, end) <= chance(node, end) <= chance(above, end)
    for side in (above, below):
        assert sum(map(exact, side.weights)) == 1
        # Rounding goes no further than one step of the grid.
        assert max(map(exact, side.shifts)) <= exact(RATIO) * exact(max(node.shifts)) / exact(node.sigma)


@pytest.mark.parametrize(
    "node",
    [
        MixedGaussianNoise(2, (0, 1), (0.9, 0.1)),
        MixedGaussianNoise(1, (0, 0.4, 1), (0.01, 0.49, 0.5)),
    ],
    ids=str,
)
def test_a_rounded_step_reveals_no_less_above_and_no_more_below(node: Loss) -> None:
    grid = classes.NoiseGrid(RATIO, RATIO, RATIO)
    above, below = (classes._moved(node, up, grid) for up in (0, 1))
    assert above is not None
    assert below is not None
    for epsilon in (0.0, 0.1, 0.4):
        exact_delta = numerical.delta(node, epsilon)
        assert numerical.delta(above, epsilon).lower > exact_delta.upper
        assert numerical.delta(below, epsilon).upper < exact_delta.lower


def mixtures(i: float) -> Loss:
    return MixedGaussianNoise(2 + i / 500, (0, 1), (0.9, 0.1))


def shifts(i: float) -> Loss:
    return MixedGaussianNoise(2, (0, 1 + i / 1000), (0.9, 0.1))


FAMILIES = (mixtures, shifts)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_thousand_unlike_steps_become_few(family: Callable[[float], Loss]) -> None:
    steps = {family(i): 1 for i in range(1000)}
    assert len(steps) == 1000
    rounded = classes.coarse(steps)
    assert rounded is not None
    for side in rounded:
        assert sum(side.values()) == 1000
        assert len(side) <= 80


@pytest.mark.parametrize("family", FAMILIES)
def test_rounded_steps_bracket_the_steps_as_they_are(
    family: Callable[[float], Loss], monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = Composed(tuple(family(200 * (i // 5) + i % 5 / 50) for i in range(20)))
    bound = numerical.epsilon(loss, 1e-5)
    monkeypatch.setattr(classes, "MANY", 8)
    rounded = numerical.epsilon(loss, 1e-5)
    assert rounded != bound
    assert rounded.lower <= bound.upper
    assert bound.lower <= rounded.upper <= bound.upper * 1.03
    assert bound.lower * 0.97 <= rounded.lower
    assert numerical.lower(loss, 1e-5) <= bound.upper


def test_few_steps_and_numbers_beyond_doubles_stay_as_they_are() -> None:
    for count in (classes.MANY, 2 * classes.MANY):
        assert classes.coarse({mixtures(i * 3): 1 for i in range(count)}) is None
    far = MixedGaussianNoise(1, (0, Fraction(1, 10**400)), (0.5, 0.5))
    assert classes.move_mixture(far, 0, RATIO) is far
    assert classes._moved(GaussianNoise(1.2345), 0, classes.FINE) == GaussianNoise(1.2345)


def test_many_unlike_choices_are_composed_few_times() -> None:
    """Each composition of a thousand takes a second; there were eight, and each upper pair had hundreds of atoms."""
    loss = Composed(tuple(BoundedRange(0.01 + i / 10_000) * 2 for i in range(200)))
    cases = terms.cases(loss)
    assert sum(case.upper for case in cases) == 1
    assert sum(case.lower for case in cases) <= choices.FEW + 1
    pairs = [pair for case in cases if case.upper for pair, _ in case.terms]
    assert max(len(pair.atoms[0]) for pair in pairs) <= 4 * bounded_range.PARTS + 1
    few = Composed(loss.parts[:5])
    assert sum(case.lower for case in terms.cases(few)) > len(SHARES) - 1


def test_a_rough_recursion_reveals_no_less_and_next_to_no_more() -> None:
    for epsilon, times in ((0.05, 2), (0.05, 30), (1.0, 4)):
        fine, rough = (
            epsilon_bounds([TermCase(((bounded_range.above(epsilon, times, parts), 40),))], 1e-6)[1]
            for parts in (0, bounded_range.PARTS)
        )
        assert fine * (1 - 1e-4) <= rough <= fine * 1.01


def test_the_shares_that_are_kept_are_those_that_reveal_most() -> None:
    """All seven compose to no more than the two that the many are looked at by."""
    nodes = {BoundedRange(0.5 + i / 100): 1 for i in range(classes.MANY + 1)}
    kept = choices.plan_choices(nodes).shares
    lowers = {
        share: epsilon_bounds(
            [TermCase(tuple((finite.choice(float(n.epsilon), share), 1) for n in nodes), upper=False)], 1e-6
        )[0]
        for share in SHARES
    }
    assert max(lowers, key=lowers.__getitem__) in kept
