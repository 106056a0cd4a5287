"""Numbers that are false, lost or never come: each hole that was found, as a claim that it is closed."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

import pytest

from deniable.accounting import certify, delta, epsilon, verify
from deniable.accounting.filters import Filter
from deniable.accounting.filters.charges import Charge, charge
from deniable.accounting.numerical import classes
from deniable.errors import DeniableError, InvalidCertificate, InvalidLoss, InvalidParameter
from deniable.guarantee import Budget, Certificate
from deniable.loss import (
    DEEPEST,
    Approximate,
    Composed,
    DiscreteLaplaceNoise,
    GaussianNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    NegativeBinomialRuns,
    Pure,
    Repeated,
    ResponseNoise,
    Selected,
    Shuffled,
    Zcdp,
    exact,
)
from deniable.units import Unit


def nested(levels: int) -> Loss:
    loss: Loss = Pure(1)
    for _ in range(levels - 1):
        loss = Composed((loss,))
    return loss


# ------------------------------------------------------------------------------------------------ trees


@pytest.mark.parametrize("levels", [45, DEEPEST])
def test_a_deep_loss_is_read_in_no_time(levels: int) -> None:
    """Forty-five nested compositions took for ever: each level asked its parts twice."""
    text = '{"node":"Composed","parts":[' * (levels - 1) + '{"node":"Pure","epsilon":1}' + "]}" * (levels - 1)
    start = time.process_time()
    loss = Loss.from_json(text)
    assert loss == nested(levels)
    assert loss.replaces is None
    assert loss.to_json() == text
    assert epsilon(loss, 0).upper == 1
    assert time.process_time() - start < 60  # it was 2⁴⁵ steps; this is no measurement


@pytest.mark.parametrize(
    "make", [lambda p: Composed((p,)), lambda p: Repeated(2, p), lambda p: Grouped(2, p)]
)
def test_a_tree_deeper_than_the_limit_is_refused_where_it_is_made(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidLoss, match=f"over the {DEEPEST} that are read"):
        reduce(lambda loss, _: make(loss), range(250), GaussianNoise(1))


def test_json_deeper_than_the_limit_is_refused() -> None:
    for levels in (DEEPEST + 1, 250, 100_000):
        text = '{"node":"Composed","parts":[' * levels + '{"node":"Pure","epsilon":1}' + "]}" * levels
        with pytest.raises(InvalidLoss, match=r"levels|too deeply"):
            Loss.from_json(text)


def test_a_part_used_again_and_again_counts_each_time() -> None:
    """Forty doublings are a tree of 2⁴⁰ nodes in forty objects."""
    with pytest.raises(InvalidLoss, match="nodes, over the"):
        reduce(lambda loss, _: Composed((loss, loss)), range(40), Pure(1))


def test_a_text_of_any_length_is_not_read() -> None:
    with pytest.raises(InvalidLoss, match="longer than"):
        Loss.from_json(" " * 16_000_001)


# ------------------------------------------------------------------------------------------------ JSON

ODD_NUMBERS = [
    '"--3/4"',
    '" 3/4"',
    '"3/4 "',
    '"3_0/7"',
    '"+3/4"',
    '"٣/4"',
    '"6/8"',
    '"3/-4"',
    '"1e5/3"',
    '"3"',
    '"³/4"',
]


@pytest.mark.parametrize(
    "number",
    [
        *ODD_NUMBERS,
        "9" * 5000,
        f'"{"9" * 5000}/7"',
        "1e999999999",
        "1e-400",
        "0.0001e-321",
        "NaN",
        "-Infinity",
    ],
)
def test_a_number_in_json_has_one_spelling(number: str) -> None:
    with pytest.raises(InvalidLoss):
        Loss.from_json(f'{{"node":"Pure","epsilon":{number}}}')


@pytest.mark.parametrize("text", [None, 5, 1.0, [], {}], ids=repr)
def test_what_is_no_text_is_refused_in_a_sentence(text: Any) -> None:
    for read, error in ((Loss.from_json, InvalidLoss), (Unit.from_json, InvalidParameter)):
        with pytest.raises(error, match="as text"):
            read(text)


def test_a_key_that_stands_twice_is_no_json() -> None:
    with pytest.raises(InvalidLoss, match="stands twice"):
        Loss.from_json('{"node":"Pure","epsilon":1,"epsilon":9}')
    with pytest.raises(InvalidParameter, match="stands twice"):
        Unit.from_json('{"kind":"row","replace":false,"replace":true}')


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"kind":' * 5000 + "1" + "}" * 5000,
        '{"kind":["row"]}',
        '{"kind":"row","replace":0}',
        '{"kind":"ball","replace":true,"p":"nan","radius":1}',
        '{"kind":"ball","replace":true,"p":" 2_0 ","radius":1}',
        '{"kind":"ball","replace":true,"p":2,"radius":1e999}',
        f'{{"kind":"ball","replace":true,"p":2,"radius":{"9" * 900}}}',
        '{"kind":"column","replace":false,"column_name":"a","max_rows":true}',
        "null",
    ],
)
def test_a_unit_has_one_spelling(text: str) -> None:
    with pytest.raises(InvalidParameter):
        Unit.from_json(text)


@pytest.mark.parametrize(
    "epsilon", ["1e999999999", " 3_0 ", "--3/4", "6/8", "0x10", "9" * 5000, 3, None, "nan"]
)
def test_a_limit_in_a_journal_has_one_spelling(epsilon: object) -> None:
    honest = Filter.of(Budget(3, 1e-6)).to_dict()
    assert Filter.from_dict(json.loads(json.dumps(honest))) == Filter.of(Budget(3, 1e-6))
    with pytest.raises(InvalidParameter):
        Filter.from_dict(honest | {"epsilon": epsilon})


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": [1, 0]},
        {"epsilon": [2, 4]},
        {"epsilon": "1/2"},
        {"delta": [0.5, 1]},
        {"impure": True},
        {"renyi": 3},
    ],
)
def test_a_charge_in_a_journal_has_one_spelling(change: dict[str, object]) -> None:
    honest = charge(Pure(0.5), (2.0,)).to_dict()
    assert Charge.from_dict(json.loads(json.dumps(honest))) == charge(Pure(0.5), (2.0,))
    with pytest.raises(InvalidParameter):
        Charge.from_dict(honest | change)


# ------------------------------------------------------------------------------------------------ certificates

HONEST = certify(Pure(1), Unit.row(), 0)


def changed(**change: object) -> str:
    return json.dumps(json.loads(HONEST.to_json()) | change)


@pytest.mark.parametrize(
    "text",
    [
        HONEST.to_json().replace('"delta": 0.0', '"delta": 0.5, "delta": 0.0'),
        changed(note="trust me"),
        changed(epsilon={"lower": 0, "upper": 1, "method": "basic", "attained": "x", "sure": True}),
        changed(epsilon={"lower": 0, "upper": " 3_0 ", "method": "basic", "attained": "x"}),
        changed(epsilon={"lower": 0, "upper": "30", "method": "basic", "attained": "x"}),
        changed(epsilon={"lower": True, "upper": 1, "method": "basic", "attained": "x"}),
        changed(epsilon={"lower": 0, "upper": 1, "method": 7, "attained": "x"}),
        changed(delta="0"),
        changed(delta=False),
        changed(version=1),
        changed(head=7),
        changed(certificate=True),
        changed(certificate=1.0),
        changed(assumptions=[1, 2]),
        changed(loss={"node": "Pure", "epsilon": "4/2"}),
    ],
)
def test_a_sloppy_certificate_is_refused(text: str) -> None:
    with pytest.raises(InvalidCertificate):
        Certificate.from_json(text)


@pytest.mark.parametrize(("lower", "upper"), [(2, 1), (-1, 1), (0.5, 0.25), (9.0, "inf"), (0, 0.5), (0, 0)])
def test_a_forged_bound_is_called_false(lower: float, upper: float | str) -> None:
    forged = changed(epsilon={"lower": lower, "upper": upper, "method": "basic", "attained": "basic"})
    with pytest.raises(InvalidCertificate, match="is false"):
        verify(Certificate.from_json(forged))


def test_the_honest_certificate_passes() -> None:
    assert verify(Certificate.from_json(HONEST.to_json())).upper == 1


# ------------------------------------------------------------------------------------------------ lower sides

EVERYDAY = [
    Pure(0.01),
    Pure(0.1),
    Pure(1),
    Pure(8),
    DiscreteLaplaceNoise(10),
    DiscreteLaplaceNoise(10, 3),
    DiscreteLaplaceNoise(Fraction(10, 3), 2),
    DiscreteLaplaceNoise(100, 50),
    ResponseNoise(0.75),
    ResponseNoise(0.5, 5),
    LaplaceNoise(10),
    LaplaceNoise(0.3),
]


@pytest.mark.parametrize("node", EVERYDAY, ids=str)
@pytest.mark.parametrize("times", [1, 2, 10, 30, 1000, 10**6])
def test_an_everyday_loss_never_loses_its_lower_side(node: Loss, times: int) -> None:
    """Ten counts at ε = .1 and δ = 1e-6 had the bracket [0, .99937]."""
    for at in (0.1, 1e-3, 1e-6, 5e-7, 1e-9, 1e-20):
        bound = epsilon(node * times, at)
        assert bound.gap <= max(1e-3 * bound.upper, 1e-5), at


def test_losses_of_very_different_sizes_are_composed() -> None:
    """A common lattice of both would have ten thousand million nodes."""
    for loss in (
        Pure(1e-9) * 10 + Pure(1) * 10,
        Pure(1) * 10 + Pure(1e-5) * 10,
        LaplaceNoise(1e6) * 99 + Pure(1),
    ):
        bound = epsilon(loss, 1e-6)
        assert bound.gap <= 1e-3 * bound.upper


# ------------------------------------------------------------------------------------------------ one error tree

EXTREMES = [
    Pure(10**400),
    Pure(10**400) * 3,
    Pure(5e-324) * 10,
    GaussianNoise(Fraction(1, 10**400)),
    GaussianNoise(5e-324).sampled(5e-324) * 10,
    GaussianNoise(1e308) * 10,
    Zcdp(1e308),
    Zcdp(1e308) * 10 + Pure(1),
    Repeated(10**30, GaussianNoise(4).sampled(0.01)),
    GaussianNoise(1).sampled(1e-300) * 10,
    LaplaceNoise(5e-324) * 10,
    DiscreteLaplaceNoise(1e-9, 10**12) * 5,
    Shuffled(10**40, Pure(1)),
    Selected(Pure(1e300), NegativeBinomialRuns(1e300, 0.5)),
    Grouped(64, GaussianNoise(1).sampled(Fraction(10**900, 10**901 + 1))),
    Approximate(1e308, 5e-324) * 10**20,
]


@pytest.mark.sampled
@pytest.mark.parametrize("loss", EXTREMES, ids=lambda loss: loss.to_json()[:60])
@pytest.mark.parametrize("at", [0.0, 5e-324, 1e-300, 1e-6, 0.5])
def test_extreme_numbers_give_a_bound_or_a_sentence(loss: Loss, at: float) -> None:
    for ask in (
        lambda: epsilon(loss, at),
        lambda: delta(loss, at),
        lambda: charge(loss, (2.0, 32.0)),
        lambda: certify(loss, Unit.value(), at),
        lambda: Filter.of(Budget(1, 1e-6)).charge(loss, delta=at),
    ):
        with contextlib.suppress(DeniableError):  # any other error fails
            ask()


def test_fractions_of_many_digits_are_refused_where_they_enter() -> None:
    for number in (Fraction(1, 10**5000), 10**5000, Fraction(10**5000 + 1, 10**5000)):
        with pytest.raises(InvalidLoss, match="digits"):
            Pure(number)
        with pytest.raises(DeniableError, match="digits"):
            Budget(number)


# ------------------------------------------------------------------------------------------------ the least of all methods


def test_several_shuffled_reports_are_composed_by_the_best_method() -> None:
    """The default said 9.99998 where `optimal` says .0529."""
    loss = Shuffled(10**6, Pure(1)) * 10
    assert epsilon(loss, 1e-6).upper <= epsilon(loss, 1e-6, method="optimal").upper < 0.06


# ------------------------------------------------------------------------------------------------ many unlike steps


def test_hundreds_of_unlike_steps_keep_both_sides() -> None:
    """Rounded to few classes: the upper side is that of less noise, the lower that of
    more, a hundredth of ε apart."""
    multipliers = [10 + i / 20 for i in range(400)]
    bound = epsilon(Composed(tuple(map(LaplaceNoise, multipliers))), 1e-6)
    assert bound.gap <= 1e-2 * bound.upper
    # Each tenth of them ten times: more noise for some and less for others, so the truth of both lies
    # together.
    least, most = (
        epsilon(Composed(tuple(LaplaceNoise(m) * 10 for m in multipliers[at::10])), 1e-6) for at in (0, 9)
    )
    assert bound.lower <= least.upper
    assert bound.upper >= most.lower


def test_steps_too_small_for_the_lattice_do_not_take_the_lower_side_along() -> None:
    """Rates from .0001 to .1 in one run had the bracket [0, 11.1], and took two minutes for a thousand steps."""
    rates = [Fraction(1 + 5 * i, 10000) for i in range(200)]
    steps = tuple(
        GaussianNoise(Fraction(60 + 3 * (i * 37 % 113), 100)).sampled(q) for i, q in enumerate(rates)
    )
    bound = epsilon(Composed(steps), 1e-6)
    assert bound.gap <= 5e-3 * bound.upper
    # The steps of rates above .01 alone reveal less, and all with the rate of the next reveal more.
    larger = [step for step in steps if exact(step.rate) > Fraction(1, 100)]
    assert epsilon(Composed(tuple(larger)), 1e-6).lower <= bound.upper


@pytest.mark.parametrize(
    "node",
    [LaplaceNoise, lambda m: LaplaceNoise(m) if m % 1 else Pure(1 / exact(m))],
    ids=["laplace", "mixed"],
)
def test_rounded_steps_are_ordered_one_by_one(node: Callable[[Fraction], Loss]) -> None:
    """Each step above reveals no less than one of the steps as they are, each below no more."""
    steps = {node(Fraction(20 + i * 7 % 400, 4)): 1 for i in range(300)}
    above, below = classes.coarse(steps) or ({}, {})

    def sizes(nodes: Mapping[Loss, int]) -> list[Fraction]:
        every = [node for node, times in nodes.items() for _ in range(times)]
        return sorted(exact(n.epsilon) if isinstance(n, Pure) else 1 / exact(n.multiplier) for n in every)

    assert len(sizes(above)) == len(sizes(steps)) >= len(sizes(below)) > 290
    assert all(a >= s for a, s in zip(sizes(above), sizes(steps), strict=True))
    assert all(b <= s for b, s in zip(reversed(sizes(below)), reversed(sizes(steps)), strict=False))


def test_hundreds_of_unlike_gaussians_are_one() -> None:
    steps = tuple(GaussianNoise(20 + i) for i in range(400))
    whole = GaussianNoise(sum(Fraction(1, (20 + i) ** 2) for i in range(400)) ** -0.5)
    assert epsilon(Composed(steps), 1e-6).upper == pytest.approx(epsilon(whole, 1e-6).upper, rel=1e-6)


def test_rounded_atoms_hold_what_is_composed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [LaplaceNoise(Fraction(50 + 3 * i, 10)) for i in range(160)] + [
        Pure(Fraction(i, 400)) for i in range(1, 9)
    ]
    rounded = epsilon(Composed(tuple(steps)), 1e-6)
    monkeypatch.setattr(classes, "MANY", 1000)
    as_it_is = epsilon(Composed(tuple(steps)), 1e-6)
    assert rounded.lower <= as_it_is.lower <= as_it_is.upper <= rounded.upper
    assert rounded.gap <= 8e-3 * rounded.upper
