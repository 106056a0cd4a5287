"""A question is planned once, previewed as often as wished, answered when asked for, and
means the same by every door."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any, cast, get_type_hints

import pytest

from deniable.curator import Curator, desk, quote
from deniable.curator.desk import Desk
from deniable.curator.question import TERMS, AskTerms, Question, TermKind
from deniable.curator.quote import make_keys
from deniable.errors import InvalidParameter, InvalidQuery, Uncopyable
from deniable.guarantee import Budget, query_delta
from deniable.sql.after.split import SplitQuery
from deniable.sql.plan.request import Terms
from deniable.units import Unit
from tests.sql.hospital import PATIENT, SCHEMA, checked

Open = Callable[..., Curator]
COUNT = "SELECT COUNT(*) AS n FROM visits"


def test_asking_does_nothing_until_an_answer_is_wanted(hospital: Open) -> None:
    curator = hospital()
    head = curator.ledger.head()
    refused = curator.ask("SELECT * FROM nothing", epsilon=1)
    unpriced = curator.ask(COUNT)
    assert curator.ledger.head() == head
    for act in (refused.preview, refused.answer):
        with pytest.raises(InvalidQuery):
            act()
    for act in (unpriced.preview, unpriced.answer):
        with pytest.raises(InvalidParameter, match=r"either epsilon= .* or within="):
            act()
    assert curator.ledger.head() == head


def test_a_preview_and_an_answer_are_planned_once(hospital: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Any] = []
    plan = quote.plan
    monkeypatch.setattr(quote, "plan", lambda *args, **rest: plans.append(args) or plan(*args, **rest))
    asked = hospital().ask(COUNT, epsilon=0.5)
    first = asked.preview()
    answer = asked.answer()
    assert len(plans) == 1
    assert (first.epsilon, first.free) == (answer.epsilon, False)
    assert asked.preview().free
    assert asked.answer().again
    assert len(plans) == 1


def test_a_kept_answer_is_neither_read_nor_planned_again(
    hospital: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = hospital()
    first = curator.sql(COUNT, epsilon=0.5)
    for module, name in ((quote, "plan"), (desk, "split_query")):
        monkeypatch.setattr(module, name, lambda *_, **rest: pytest.fail("It was kept."))
    again = curator.sql(COUNT, epsilon=0.5)
    assert again.again
    assert again.value.equals(first.value)
    assert set(again.notes) - set(first.notes) == {note for note in again.notes if "given before" in note}
    assert set(first.notes) < set(again.notes)


def test_what_others_paid_for_is_refused_before_it_is_charged(
    hospital: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has not paid is charged for what is kept; so all that may be refused is refused before."""
    curator = hospital()
    curator.sql(COUNT, epsilon=0.5)
    ada = curator.share("ada", Budget(1))

    def refuse(*_: Any, **rest: Any) -> None:
        raise InvalidQuery("Another version refuses it.")

    monkeypatch.setattr(quote, "plan", refuse)
    before = ada.ledger.head()
    with pytest.raises(InvalidQuery, match="Another version"):
        ada.sql(COUNT, epsilon=0.5)
    assert ada.ledger.head() == before
    assert ada.account.spent().epsilon == 0
    monkeypatch.undo()
    assert ada.sql(COUNT, epsilon=0.5).epsilon == pytest.approx(0.5, rel=1e-6)
    assert ada.account.spent().epsilon == pytest.approx(0.5, rel=1e-6)


def test_what_the_planner_refuses_is_refused_before_anything_is_written(
    hospital: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **rest: Any) -> None:
        raise InvalidQuery("It is not planned.")

    curator = hospital()
    monkeypatch.setattr(quote, "plan", refuse)
    monkeypatch.setattr(curator._desk, "begin", lambda: pytest.fail("It was written."))
    with pytest.raises(InvalidQuery, match="not planned"):
        curator.sql(COUNT, epsilon=0.5)


def test_texts_are_remembered_up_to_a_number(hospital: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "MOST_TEXTS", 2)
    texts: list[str] = []
    split = desk.split_query
    monkeypatch.setattr(desk, "split_query", lambda text, *rest: texts.append(text) or split(text, *rest))
    curator = hospital()
    one, two, three = (f"SELECT COUNT(*) AS n FROM visits WHERE days > {days}" for days in (1, 2, 3))
    for text in (one, two, two, three, two, one):
        curator.preview(text, epsilon=0.5)
    assert texts == [one, two, three, one]


def test_the_short_forms_are_the_long_ones(hospital: Open) -> None:
    curator = hospital()
    assert curator.preview(COUNT, epsilon=0.5) == curator.ask(COUNT, epsilon=0.5).preview()
    answer = curator.sql(COUNT, epsilon=0.5)
    again = curator.ask(COUNT, epsilon=0.5).answer()
    assert again.again
    assert again.value.equals(answer.value)


def test_a_question_and_its_keywords_have_the_same_terms_types_and_defaults() -> None:
    wishes = dict(inspect.signature(Curator.ask).parameters)
    hints = get_type_hints(AskTerms)
    assert list(wishes)[2:] == list(hints) == [each.name for each in fields(Question)][1:]
    for name, kind in hints.items():
        assert str(kind) == str(get_type_hints(Curator.ask)[name]) == str(get_type_hints(Question)[name])
        assert wishes[name].default == TERMS[name].default


def test_a_plan_is_made_for_every_term_but_those_that_are_no_concern_of_it() -> None:
    planned = {each.name for each in fields(Terms)}
    assert {each.name for each in fields(Question)} - planned == {"text", "of", "nonnegative"}


@pytest.mark.parametrize("name", [name for name, term in TERMS.items() if term.kind is TermKind.WHOLE])
def test_the_limits_that_doors_tell_are_those_that_are_kept(hospital: Open, name: str) -> None:
    curator, term = hospital(), TERMS[name]
    wishes: Any = {"epsilon": 0.5, name: term.least}
    curator.preview(COUNT, **wishes)
    with pytest.raises(InvalidParameter, match=name):
        curator.preview(COUNT, **(wishes | {name: term.least - 1}))
    for text in (str(term.least - 1), str(term.most + 1), "-1", "1.5", "ten"):
        with pytest.raises(InvalidParameter, match=f"Expected {name} as a whole number from"):
            term.read(text)
    assert term.read(str(term.most)) == term.most


def test_what_is_typed_is_read_as_the_term_it_stands_for() -> None:
    assert TERMS["epsilon"].read(" 0.10 ") == Fraction(1, 10)
    assert (TERMS["left_out"].read(""), TERMS["left_out"].read("no")) == (None, False)
    for name, text in (("confidence", "1"), ("noise", "loud"), ("bracket", "maybe"), ("epsilon", "1/3")):
        with pytest.raises(InvalidParameter, match=f"Expected {name} as .* Nothing was charged"):
            TERMS[name].read(text)


def test_a_request_of_an_earlier_version_has_the_digest_that_it_had() -> None:
    """It names requests that were paid once: another digest would refuse to repeat them."""
    question = Question.read("SELECT 1", epsilon="0.1", at_least=5, discover=True)
    assert question.digest == "4404273cc4c0c28aebaa94f8f4b35ee0dacf5ba1425061f2abf9c2ad89d5531c"
    assert replace(question, bracket=False).digest != question.digest


def test_a_query_takes_a_hundredth_of_the_limits_delta_also_after_it_was_raised(hospital: Open) -> None:
    curator = hospital()
    asked = curator.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=0.5)
    assert asked.preview().delta == pytest.approx(float(query_delta(1e-6)), rel=1e-6)
    asked.answer()
    curator.account.raise_limit(Budget(3, 1e-4))
    assert asked.preview().delta == pytest.approx(1e-6, rel=1e-6)
    assert not asked.preview().free


def test_an_inquiry_cannot_be_copied(hospital: Open) -> None:
    asked = hospital().ask(COUNT, epsilon=0.5)
    for double in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Uncopyable):
            double(asked)


class _Account:
    root, unit = "visits", PATIENT


class _Desk:
    """What of a desk tells two questions apart."""

    account, places, declared = _Account(), ("visits.parquet",), repr(SCHEMA)


def test_an_answer_that_is_kept_is_found_by_the_key_it_was_kept_under() -> None:
    """The key of one fixed question, as it was before inquiries: a change would charge
    again for what is paid."""
    query = checked("SELECT ward, COUNT(*) FROM visits WHERE days IN (2, 1) GROUP BY ward")
    keys = make_keys(cast(Desk, _Desk()), SplitQuery((query,)), Terms(epsilon=0.5, delta=1e-8))
    assert Unit.column("patient_id", max_rows=4) == PATIENT
    assert keys[-1] == "94956553897d899022eb3ffc31d797848c8f92fd4c2a99cba491cd6263e9c45c"
