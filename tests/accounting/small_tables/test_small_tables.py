"""No table of up to four units reveals more than accounting states, for any loss node under any relation: all tables, coins,
orders, draws and cuts are listed, by references that were written from the nodes' docstrings alone."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import deniable.loss
from deniable.errors import Unaccountable
from deniable.loss import (
    Allocated,
    CappedSample,
    DrawnSample,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Node,
    Pure,
    ResponseNoise,
    Sampled,
    Scheme,
    Silenced,
    UniformlyCappedSample,
)
from deniable.units import Relation
from tests.accounting.small_tables import references
from tests.accounting.small_tables.cases import SAMPLES, Plan, case_of, numbered, plan_of, plans
from tests.accounting.small_tables.compare import Comparison, compare
from tests.accounting.small_tables.laws import Line, delta
from tests.accounting.small_tables.references import LARGEST, REFERENCES, Meaning, Member, Seen, Ways
from tests.accounting.small_tables.tables import Case, every_way, neighbours

FIXED, PRICED = (
    json.loads(Path(__file__).with_name(f"{name}.json").read_text()) for name in ("fixed", "priced")
)
"""Numbers of the cases of the ordinary run, and the plans that have a price; `python -m tests.accounting.small_tables.choose`
chooses both anew. Slow plans are those of which accounting takes long, looked at in every third turn."""
BLOCKS, BLOCK, TURNS = 40, 250, 40


def fixed_cases() -> Iterator[tuple[int, Plan, Case]]:
    for number in FIXED:
        case = case_of(number)
        assert case is not None
        yield number, plan_of(number), case


def check(number: int, case: Case) -> Comparison | None:
    comparison = compare(case, number)
    assert comparison is None or not comparison.why, f"Case {number}. {comparison}"
    return comparison


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", range(10))
def test_no_small_table_passes_what_is_stated(block: int) -> None:
    """Five hundred cases in all, each of which has a price: a refusal would be news too."""
    assert len(set(FIXED)) == 500
    for number, _, case in itertools.islice(fixed_cases(), block, None, 10):
        assert check(number, case) is not None, f"Case {number} has no price any more: {case.loss}"


def priced_numbers(block: int) -> Iterator[int]:
    """Cases of every so many plans that have a price, turn after turn with other parameters."""
    for turn in range(TURNS):
        yield from (numbered(index, turn) for index in PRICED["quick"][block::BLOCKS])
        if turn % 3 == 0:
            yield from (numbered(index, turn) for index in PRICED["slow"][block::BLOCKS])


def compared(numbers: Iterable[int]) -> Iterator[tuple[int, Comparison]]:
    for number in numbers:
        case = case_of(number)
        comparison = None if case is None else check(number, case)
        if comparison is not None:
            yield number, comparison


@pytest.mark.soak
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_small_table_passes_what_is_stated_in_ten_thousand_cases(block: int) -> None:
    """Ten thousand cases in all that have a price: plans without one are not counted, and looked at below."""
    assert sum(1 for _ in itertools.islice(compared(priced_numbers(block)), BLOCK)) == BLOCK


@pytest.mark.soak
@pytest.mark.parametrize("block", range(4))
def test_what_had_no_price_has_none_or_a_true_one(block: int) -> None:
    others = sorted(set(range(len(plans()))) - {*PRICED["quick"], *PRICED["slow"]})
    for _ in compared(numbered(index, turn) for turn in (1, 2) for index in others[block::4]):
        pass


# ------------------------------------------------------------------------------------------------ nothing is left out


def stored_losses() -> set[type[Loss]]:
    """Every loss of the library that JSON can name."""
    return {
        kind
        for kind in Node.kinds.values()
        if issubclass(kind, Loss) and kind.__module__.startswith("deniable.")
    } - {Loss}


def test_a_loss_without_a_reference_cannot_be_exported() -> None:
    exported = {
        kind for name in deniable.loss.__all__ if inspect.isclass(kind := getattr(deniable.loss, name))
    }
    assert (
        {kind for kind in exported if issubclass(kind, Loss)} - {Loss} == stored_losses() == set(REFERENCES)
    )


def test_a_loss_that_json_cannot_name_is_exported_nowhere() -> None:
    """Words between accounting's own functions, like a capped lot of a silent unit, never leave it."""
    pending, losses = [Loss], set()
    while pending:
        kinds = [kind for kind in pending.pop().__subclasses__() if kind.__module__.startswith("deniable.")]
        losses |= set(kinds)
        pending += kinds
    for kind in losses - stored_losses():
        assert kind.__module__.startswith("deniable.accounting.")
        assert kind.__name__ not in {*deniable.__all__, *deniable.loss.__all__, *deniable.accounting.__all__}


def test_the_fixed_cases_hold_every_node_every_sample_and_every_relation() -> None:
    nodes = {type(node) for _, _, case in fixed_cases() for node in case.loss.walk()}
    assert nodes == set(REFERENCES)
    relations = {(type(node), case.relation) for _, _, case in fixed_cases() for node in case.loss.walk()}
    assert {relation for _, relation in relations} == set(Relation)
    compared = {(plan[1], plan[4]) for _, plan, _ in fixed_cases()}
    possible = {(plan[1], plan[4]) for number, plan in enumerate(plans()) if case_of(number) is not None}
    # Batches of a shuffled pass are refused, whatever is in them.
    assert {sample for sample, _ in possible - compared} == {"shuffled batches", "shuffled batches, replaced"}
    assert set(SAMPLES) == {sample for sample, _ in possible}


def test_every_scheme_for_every_relation_is_among_the_cases() -> None:
    losses = [case.loss for number in range(len(plans())) if (case := case_of(number)) is not None]
    samples = {
        (node.scheme, node.replace) for loss in losses for node in loss.walk() if isinstance(node, Sampled)
    }
    assert samples == set(itertools.product(Scheme, (False, True)))


def test_shuffled_batches_are_refused_by_every_door() -> None:
    batches = Sampled(Fraction(1, 2), ResponseNoise(0.75), Scheme.SHUFFLED, True)
    for loss in (batches, batches * 2, batches.grouped(2)):
        with pytest.raises(Unaccountable, match="never accounted as Poisson"):
            deniable.accounting.epsilon(loss, 1e-3)


# ------------------------------------------------------------------------------------------------ the references themselves

UNITS = tuple(Member(value) for value in (-1, 0, 1, 1))


@pytest.mark.parametrize(
    "weighted",
    [
        references.poisson(Fraction(1, 4), UNITS),
        references.fixed_size(2, UNITS),
        references.capped(Fraction(1, 4), 2, UNITS, "first"),
        references.capped(Fraction(1, 4), 2, UNITS, "random"),
        references.cut_uniformly(Fraction(1, 4), 2, UNITS),
        references.drawn_again(3, UNITS),
        references.allocated(3, UNITS),
        references.shuffled_pass(2, UNITS),
    ],
    ids=["coins", "fixed size", "first kept", "random cut", "uniform cut", "drawn", "allocated", "batches"],
)
def test_the_weights_of_the_lots_sum_to_one(weighted: references.Weighted) -> None:
    assert sum(weight for weight, _ in weighted) == 1


@pytest.mark.parametrize(
    "loss",
    [
        ResponseNoise(0.75),
        Pure(0.7),
        CappedSample(0.5, 1, 4, Pure(0.7)),
        UniformlyCappedSample(0.5, 2, 4, Pure(0.7)),
        DrawnSample(2, 4, ResponseNoise(0.75)),
        DrawnSample(6, 4, Pure(0.7)),
        Allocated(2, ResponseNoise(0.75)),
        Silenced(Sampled(0.5, GaussianNoise(1))),
    ],
    ids=str,
)
@pytest.mark.parametrize("ways", [Ways(), Ways("parity", "random", True)], ids=str)
def test_a_law_is_a_law(loss: Loss, ways: Ways) -> None:
    law = Meaning(ways, LARGEST, Fraction).law(loss, UNITS, Seen(1))
    assert sum(law.values()) == 1
    assert min(law.values()) > 0


def test_noise_on_a_line_has_the_deltas_of_the_textbooks() -> None:
    """Balle, Wang 2018, Theorem 8, at σ = 1 and ε = 1; Laplace noise of scale 1 at ε = ½: 1 − e^(−¼)."""
    (gaussian, moved_gaussian), (laplace, moved_laplace) = (
        [{(Line(kind, Fraction(1), mean),): Fraction(1)} for mean in (0, 1)]
        for kind in ("gaussian", "laplace")
    )
    assert float(delta(moved_gaussian, gaussian, Fraction(2.718281828459045))) == pytest.approx(
        0.126936737507, abs=1e-10
    )
    assert float(delta(moved_laplace, laplace, Fraction(1.6487212707001282))) == pytest.approx(
        0.2211992169, abs=1e-9
    )


def test_all_tables_are_listed() -> None:
    """Of ≤ 3 units with values −1, 0, 1: own value, place, and the others' values in their order."""
    case = Case(LaplaceNoise(1), Relation.ADDED, 3, every_way(LaplaceNoise(1)))
    assert sum(1 for _ in neighbours(case, ordered=True)) == 3 + 2 * 9 + 3 * 27
    assert sum(1 for _ in neighbours(case, ordered=False)) == 3 * (1 + 3 + 6)
    silent = Case(Silenced(LaplaceNoise(1)), Relation.SILENCED, 3, every_way(LaplaceNoise(1)))
    assert all(len(table) == len(other) for table, other in neighbours(silent, ordered=True))
