"""Every loss node goes through this: JSON byte for byte, checked fields, words that say what it means."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.errors import DeniableError, InvalidLoss
from deniable.loss import (
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
    Node,
    Parallel,
    PoissonRuns,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Selected,
    Shuffled,
    Silenced,
    UniformlyCappedSample,
    Zcdp,
    mismatch,
)
from deniable.units import Relation, Unit

EXAMPLES: list[Node] = [
    Pure(0.1),
    Pure(Fraction(10, 3)),
    Approximate(1, 1e-6),
    Zcdp(0.5),
    BoundedRange(2),
    ResponseNoise(Fraction(3, 4)),
    ResponseNoise(0.5, 5),
    LaplaceNoise(10),
    GaussianNoise(4.0),
    DiscreteLaplaceNoise(Fraction(10, 3), 2),
    DiscreteGaussianNoise(7.5, 2.5),
    DiscreteGaussianNoise(7.5, 3, 1),
    Sampled(0.01, GaussianNoise(4)),
    Sampled(0.01, GaussianNoise(4), WITHOUT_REPLACEMENT, replace=True),
    Sampled(0.5, Pure(1), SHUFFLED),
    Repeated(10_000, Sampled(0.01, GaussianNoise(4))),
    Composed(()),
    Composed((Pure(1), GaussianNoise(2))),
    Parallel((Pure(1), Pure(2)), replace=True),
    Grouped(4, Pure(1)),
    Shuffled(1000, ResponseNoise(0.75)),
    PoissonRuns(10),
    NegativeBinomialRuns(0, 0.1),
    Selected(GaussianNoise(3), PoissonRuns(10.5)),
    Selected(Pure(1), NegativeBinomialRuns(1, Fraction(1, 10))),
    Silenced(Sampled(0.01, GaussianNoise(4))),
    Allocated(100, GaussianNoise(1)),
    CappedSample(0.01, 600, 50_000, GaussianNoise(1)),
    UniformlyCappedSample(0.01, 600, 50_000, GaussianNoise(1)),
    DrawnSample(500, 50_000, GaussianNoise(1)),
    IntegerGaussianSum(100, 3, 50, 1000),
    IntegerGaussianSum(100, 2.5, 50, 1000, replace=True),
    FiniteOutcomes((0.5, Fraction(1, 4), 0.25), (0.25, 0.25, 0.5)),
    MixedGaussianNoise(1.5, (0, 1, 2.5), (0.5, 0.25, Fraction(1, 4))),
]
EPSILON = st.one_of(st.floats(0, 1e6), st.integers(0, 100), st.fractions(0, 100))
POSITIVE = st.one_of(st.floats(1e-6, 1e6), st.integers(1, 100), st.fractions(Fraction(1, 1000), 100))
LEAF = st.one_of(
    EPSILON.map(Pure),
    st.builds(Approximate, EPSILON, st.floats(0, 1)),
    EPSILON.map(Zcdp),
    POSITIVE.map(GaussianNoise),
    POSITIVE.map(LaplaceNoise),
    st.builds(DiscreteLaplaceNoise, POSITIVE, st.integers(1, 10**12)),
    st.builds(DiscreteGaussianNoise, POSITIVE, POSITIVE, st.one_of(st.none(), st.integers(1, 99))),
)
TREE = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: Composed(tuple(parts))),
        st.builds(Repeated, st.integers(1, 10**6), inner),
        st.builds(Sampled, st.floats(1e-6, 1), inner),
        st.builds(Grouped, st.integers(1, 9), inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Parallel(tuple(parts))),
    ),
    max_leaves=6,
)


def test_every_node_has_an_example() -> None:
    """Nodes of other rooms, like the noises of smoothing, have their examples there."""
    here = {kind for kind in Node.kinds.values() if kind.__module__.startswith("deniable.loss")}
    assert {type(e) for e in EXAMPLES} == here - {Loss}


@pytest.mark.parametrize("node", EXAMPLES, ids=str)
def test_json_round_trips_byte_for_byte(node: Node) -> None:
    text = node.to_json()
    again = Node.from_json(text)
    assert again == node
    assert again.to_json() == text


@given(TREE)
def test_any_tree_round_trips_byte_for_byte(loss: Loss) -> None:
    assert Loss.from_json(loss.to_json()) == loss
    assert Loss.from_json(loss.to_json()).to_json() == loss.to_json()


@pytest.mark.parametrize("node", EXAMPLES, ids=str)
def test_nodes_are_hashable_and_frozen(node: Node) -> None:
    assert hash(node) == hash(Node.from_json(node.to_json()))
    name = next(iter(node.to_dict().keys() - {"node"}))
    with pytest.raises(AttributeError):
        setattr(node, name, 1)


def test_the_json_of_a_node_never_changes() -> None:
    step = Repeated(3, Sampled(0.01, GaussianNoise(4)))
    assert step.to_json() == (
        '{"node":"Repeated","times":3,"of":{"node":"Sampled","rate":0.01,"of":{"node":"GaussianNoise","multiplier":4},'
        '"scheme":"poisson","replace":false}}'
    )
    assert Pure(Fraction(10, 3)).to_json() == '{"node":"Pure","epsilon":"10/3"}'


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pure(-0.1), r"Expected epsilon=-0.1 of Pure in \[0, ∞\)"),
        (lambda: Pure(float("nan")), "Expected epsilon=nan"),
        (lambda: Pure(float("inf")), "Expected epsilon=inf"),
        (lambda: Pure("1"), "to be a number"),  # type: ignore[arg-type]
        (lambda: Pure(True), "to be a number"),
        (lambda: Approximate(1, 1.5), r"Expected delta=1.5 of Approximate in \[0, 1\]"),
        (lambda: Sampled(0, Pure(1)), r"Expected rate=0 of Sampled in \(0, 1\]"),
        (lambda: Sampled(1.2, Pure(1)), r"Expected rate=1.2 of Sampled in \(0, 1\]"),
        (lambda: Sampled(0.1, 3), "to be a Loss"),  # type: ignore[arg-type]
        (lambda: Sampled(0.1, Pure(1), "poison"), "to be one of poisson"),  # type: ignore[arg-type]
        (lambda: Sampled(0.1, Pure(1), replace=1), "to be True or False"),  # type: ignore[arg-type]
        (lambda: Repeated(0, Pure(1)), "Expected times=0 of Repeated to be at least 1"),
        (lambda: Repeated(1.5, Pure(1)), "to be a whole number"),  # type: ignore[arg-type]
        (lambda: Repeated(True, Pure(1)), "to be a whole number"),
        (lambda: Composed((Pure(1), 2)), "to be a tuple of losses"),  # type: ignore[arg-type]
        (lambda: Parallel(()), "at least one part"),
        (lambda: Grouped(0, Pure(1)), "at least 1"),
        (lambda: GaussianNoise(0), r"Expected multiplier=0 of GaussianNoise in \(0, ∞\)"),
        (lambda: LaplaceNoise(-1), "Expected multiplier=-1"),
        (lambda: DiscreteLaplaceNoise(1, 0), "at least 1"),
        (lambda: DiscreteLaplaceNoise(1, 1.5), "whole number"),  # type: ignore[arg-type]
        (lambda: DiscreteGaussianNoise(1, 0), "Expected sensitivity=0"),
        (lambda: DiscreteGaussianNoise(1, 1, 0), "at least 1"),
        (lambda: ResponseNoise(0.2, 2), "lies are likelier"),
        (lambda: FiniteOutcomes((0.5, 0.4), (0.5, 0.5)), "present of FiniteOutcomes to sum to 1"),
        (lambda: FiniteOutcomes((1,), (0.5, 0.5)), "as many probabilities"),
        (lambda: FiniteOutcomes((1.5, -0.5), (0.5, 0.5)), "at least 0"),
        (lambda: FiniteOutcomes((), ()), "list of numbers"),
        (lambda: FiniteOutcomes(("1",), (1,)), "to be numbers"),  # type: ignore[arg-type]
        (lambda: MixedGaussianNoise(1, (-1, 0), (0.5, 0.5)), "at least 0"),
        (lambda: MixedGaussianNoise(1, (1,), (0.5, 0.5)), "as many shifts"),
        (lambda: IntegerGaussianSum(10, 2.4, 5, 3), "at least 2.5 grid units a party"),
        (lambda: ResponseNoise(1.0), r"in \(0, 1\)"),
        (lambda: NegativeBinomialRuns(-1, 0.5), r"Expected eta=-1 of NegativeBinomialRuns in \(-1, ∞\)"),
        (lambda: Selected(Pure(1), 3), "to be PoissonRuns"),  # type: ignore[arg-type]
    ],
)
def test_bad_fields_are_refused_with_a_sentence(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidLoss, match=message):
        make()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        '{"node":"Loss"}',
        '{"node":"Node"}',
        '{"node":"__class__"}',
        '{"node":"Pure"}',
        '{"node":"Pure","epsilon":1,"extra":2}',
        '{"node":"Pure","epsilon":NaN}',
        '{"node":"Pure","epsilon":Infinity}',
        '{"node":"Pure","epsilon":"1/0"}',
        '{"node":"Pure","epsilon":"one"}',
        '{"node":"Pure","epsilon":null}',
        '{"node":"Pure","epsilon":true}',
        '{"node":"PoissonRuns","mean":3}',
        '{"node":"Composed","parts":{"node":"Pure","epsilon":1}}',
        '{"node":"Sampled","rate":0.1,"of":{"node":"Pure","epsilon":1},"scheme":"x","replace":false}',
        '{"node":"Repeated","times":2,"of":' * 50_000 + "1" + "}" * 50_000,
    ],
)
def test_json_that_is_no_loss_is_refused(text: str) -> None:
    with pytest.raises(InvalidLoss):
        Loss.from_json(text)


def test_numpy_scalars_become_plain_numbers() -> None:
    loss = Sampled(np.float64(0.01), GaussianNoise(np.int64(4)))
    assert loss.to_json() == Sampled(0.01, GaussianNoise(4)).to_json()
    assert type(loss.rate) is float


def test_operators_build_combinators() -> None:
    a, b, c = Pure(1), GaussianNoise(2), Zcdp(3)
    assert a + b + c == Composed((a, b, c))
    assert a + (b + c) == Composed((a, b, c))
    assert a * 3 == 3 * a == Repeated(3, a)
    assert a * 1 == a
    assert a.sampled(0.1) == Sampled(0.1, a)
    assert a.grouped(2) == Grouped(2, a)
    with pytest.raises(TypeError):
        a + 1  # type: ignore[operator]
    with pytest.raises(DeniableError):
        a * 1.5  # type: ignore[operator]


def test_nodes_print_as_what_they_mean() -> None:
    assert str(GaussianNoise(4).sampled(0.01) * 10_000) == (
        "10,000 × (Gaussian noise of 4 × the sensitivity, on a Poisson sample of rate 0.01)"
    )
    assert str(Composed(())) == "nothing"
    assert json.loads(Composed(()).to_json()) == {"node": "Composed", "parts": []}


def test_neighbour_relations_never_mix_in_one_tree() -> None:
    added, replaced = GaussianNoise(1).sampled(0.1), GaussianNoise(1).sampled(0.1, replace=True)
    silenced = Silenced(added)
    assert (added.replaces, replaced.replaces, GaussianNoise(1).replaces) == (False, True, None)
    assert silenced.sampled(0.5).relation is Relation.SILENCED
    assert ((silenced * 3 + Pure(1)).grouped(2).relation, silenced.replaces) == (Relation.SILENCED, False)
    assert (replaced * 3 + Pure(1)).grouped(2).replaces is True
    assert Shuffled(9, Pure(1)).replaces is True
    assert Parallel((added, Pure(1)), replace=True).replaces is True
    for mix in (
        lambda: added + replaced,
        lambda: replaced.sampled(0.5),
        lambda: added.sampled(0.5, WITHOUT_REPLACEMENT),
        lambda: Parallel((replaced,)),
        lambda: Shuffled(9, added),
        lambda: added + silenced,
        lambda: replaced + silenced,
        lambda: silenced.sampled(0.5, WITHOUT_REPLACEMENT),
        lambda: Parallel((silenced,)),
        lambda: Silenced(replaced),
        lambda: Silenced(silenced),
    ):
        with pytest.raises(InvalidLoss, match="needs losses stated for a unit"):
            mix()


def test_a_loss_for_one_relation_says_nothing_about_another() -> None:
    silenced = Silenced(GaussianNoise(1).sampled(0.1))
    assert mismatch(silenced, Unit.client(zero_out=True)) is None
    for unit in (Unit.client(), Unit.client(replace=True), Unit.row()):
        assert "silenced" in str(mismatch(silenced, unit))
    assert "silenced" in str(mismatch(GaussianNoise(1).sampled(0.1), Unit.row(zero_out=True)))
    assert "replaced" in str(mismatch(GaussianNoise(1).sampled(0.1, replace=True), Unit.row(zero_out=True)))


def test_a_sample_of_fixed_size_has_no_zero_out_form() -> None:
    with pytest.raises(InvalidLoss, match="A sample of fixed size has no zero-out form"):
        Silenced(GaussianNoise(1).sampled(0.1, WITHOUT_REPLACEMENT) * 3)
