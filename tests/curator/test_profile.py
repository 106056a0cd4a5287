"""The profile of a data set: what it costs and whom, what a preview says of it, and that it is bought once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deniable.curator import Curator
from deniable.curator.profile import ALLOWANCE
from deniable.errors import AccountFrozen, BudgetExceeded, InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.randomness import SeededRandom
from deniable.units import Unit

COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_PLACE = "SELECT place, COUNT(*) AS n, SUM(cost) AS total FROM visits GROUP BY place"
PERSON = Unit.column("who")
Open = Callable[..., Curator]


def visits(people: int = 4000, seed: int = 7) -> pa.Table:
    """Up to 8 rows a person, costs up to about 100."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), np.minimum(8, 1 + draw.poisson(2, people)))
    cost = draw.uniform(30, 60, len(who))
    return pa.table({"who": who, "place": draw.choice(["north", "south"], len(who)), "cost": cost})


TABLE = visits()


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def open_curator(**changes: Any) -> Curator:
        terms = {"name": "visits", "unit": PERSON, "limit": Budget(3, 1e-6)}
        terms |= {"ledger": f"sqlite:///{tmp_path}/privacy.db"}
        terms |= {"bounds": {"cost": (0, 10_000)}, "keys": {"place": ["north", "south"]}}
        return Curator.open(changes.pop("table", TABLE), **{**terms, **changes})

    return open_curator


def entries(curator: Curator) -> list[str]:
    return [f"{e.account}: {e.description}" for e in curator.account.history() if e.kind == "run"]


def test_a_question_buys_what_it_needs_once_and_before_it_is_charged(opened: Open) -> None:
    curator = opened()
    curator.sql(BY_PLACE, epsilon=0.5)
    curator.sql(COUNT, epsilon=0.5)
    pays = f"visits/{ALLOWANCE}"
    assert entries(curator) == [
        f"{pays}: Profile: rows of visits.",
        f"{pays}: Profile: spread of cost in visits.",
        f"visits: {BY_PLACE}",
        f"visits: {COUNT}",
    ]
    assert curator.account.spent().epsilon == pytest.approx(1 + 0.15 + 0.3 / 16, rel=1e-6)


def test_an_opening_and_a_preview_buy_nothing_and_say_what_is_bought(opened: Open, tmp_path: Path) -> None:
    curator = opened()
    preview = curator.preview(BY_PLACE, epsilon=0.5)
    assert not (tmp_path / "privacy.db").exists()
    rows, spread = 0.15, 0.3 / 16
    assert preview.left.epsilon == pytest.approx(3 - 0.5 - rows - spread)
    assert [line for line in preview.lines() if line.startswith("Buys")] == [
        "Buys the rows of visits first: ε = 0.15, once, from the owner's allowance for the profile.",
        "Buys the spread of cost in visits first: ε = 0.01875, once, from the owner's allowance for the profile.",
    ]
    assert (
        preview.expected["n"] == "known once the rows of visits and the spread of cost in visits are bought"
    )
    with pytest.raises(InvalidQuery, match=r"known once the rows of visits are bought.*curator\.profile\(\)"):
        curator.preview(COUNT, within=50)
    assert curator.profile(buy=False).parts == ()


def test_the_preview_is_the_answer(opened: Open) -> None:
    """Price and ± of the preview are those of the answer, once the parts are bought."""
    curator = opened()
    curator.profile("rows", "cost")
    for text in (
        COUNT,
        BY_PLACE,
        f"{BY_PLACE} HAVING n > 10",
        "SELECT COUNT(*) AS n FROM visits WHERE cost > 40",
    ):
        for terms in ({"epsilon": 0.1}, {"within": 300_000.0}, {"epsilon": 0.2, "of": 10}):
            preview, answer = curator.preview(text, **terms), curator.sql(text, **terms)
            assert preview.epsilon == answer.epsilon
            for name, expected in preview.expected.items():
                low, high = answer.low.column(name)[0].as_py(), answer.high.column(name)[0].as_py()
                assert float(expected.removeprefix("± ")) == pytest.approx((high - low) / 2, rel=2e-3)


def test_an_answer_says_what_it_counts(opened: Open) -> None:
    curator = opened(ledger="sqlite://", rng=SeededRandom(2))
    [line] = [note for note in curator.sql(COUNT, epsilon=1).notes if note.startswith("People")]
    assert line.startswith("People with more than 16 rows count for 16; the profile shows none (fewer than ")
    again = curator.sql(COUNT, epsilon=1)
    assert again.again
    assert line in again.notes


def test_the_rows_of_everybody_are_counted(opened: Open) -> None:
    """In 24 profiles and answers, each with a seed of its own: intervals of 95 %."""
    failures = 0
    for seed in range(24):
        curator = opened(ledger="sqlite://", rng=SeededRandom(seed))
        answer = curator.sql(COUNT, epsilon=2)
        failures += (
            not answer.low.column("n")[0].as_py() <= TABLE.num_rows <= answer.high.column("n")[0].as_py()
        )
    assert failures <= 4


def test_a_bound_that_is_declared_is_not_bought(opened: Open) -> None:
    curator = opened(unit=Unit.column("who", max_rows=8))
    curator.sql(BY_PLACE, epsilon=0.5)
    assert entries(curator) == [f"visits: {BY_PLACE}"]
    assert str(curator.profile(buy=False)).startswith("This data set has no profile")


def test_the_owner_may_switch_it_off(opened: Open) -> None:
    curator = opened(profile=0)
    assert curator.preview(COUNT, epsilon=0.5).expected == {"n": "known after the release"}
    curator.sql(COUNT, epsilon=0.5)
    assert entries(curator) == [f"visits: {COUNT}"]


def test_the_allowance_is_set_when_the_account_is_made(opened: Open) -> None:
    with opened(profile=0.4) as curator:
        curator.sql(COUNT, epsilon=0.5)
        assert curator.profile(buy=False).allowance == 0.4
    with pytest.raises(
        InvalidParameter, match=r"has an allowance of ε = 0.4 for its profile, and that stays"
    ):
        opened(profile=0.5)
    with pytest.raises(InvalidParameter, match=r"from 0 \(no profile\) to the limit's 3"):
        opened(profile=4, account="other", ledger="sqlite://")
    assert opened().profile(buy=False).allowance == 0.4


def test_what_is_bought_ends_with_the_allowance(opened: Open) -> None:
    curator = opened(profile=0.1)
    curator.renew_profile()
    curator.renew_profile()
    with pytest.raises(BudgetExceeded):
        curator.renew_profile()
    assert "Buys" not in str(curator.preview(BY_PLACE, epsilon=0.5))  # a spread that nobody can pay for


def test_an_analyst_pays_for_no_part_and_sees_all(opened: Open) -> None:
    curator = opened()
    ada = curator.share("ada", Budget(1))
    ada.sql(COUNT, epsilon=0.5)
    assert ada.account.spent().epsilon == pytest.approx(0.5)
    assert [e.analyst for e in curator.account.history() if e.description == "Profile: rows of visits."] == [
        "ada"
    ]
    assert str(ada.profile(buy=False)) == str(curator.profile(buy=False))
    with pytest.raises(InvalidParameter, match="Only the owner buys"):
        ada.profile("cost")
    with pytest.raises(InvalidParameter, match="Only the owner buys"):
        ada.renew_profile()


def test_no_analyst_has_the_name_of_the_allowance(opened: Open) -> None:
    curator = opened()
    for act in (lambda: curator.share(ALLOWANCE, Budget(1)), lambda: curator.as_analyst(ALLOWANCE)):
        with pytest.raises(InvalidParameter, match="stands for what pays for the profile"):
            act()
    with pytest.raises(InvalidParameter, match="stands for what pays for the profile"):
        opened(analyst=ALLOWANCE)


def test_a_question_that_does_not_fit_buys_nothing(opened: Open) -> None:
    curator = opened()
    curator.sql("SELECT AVG(cost) AS a FROM visits", epsilon=2.8)
    with pytest.raises(BudgetExceeded):
        curator.sql(COUNT, epsilon=0.5)
    assert curator.profile(buy=False).parts == ()


def test_another_process_reads_what_was_bought(opened: Open) -> None:
    with opened() as curator:
        first = curator.profile()
    with opened() as curator:
        assert str(curator.profile()) == str(first)
        assert "±" in curator.preview(COUNT, epsilon=0.5).expected["n"]
        assert entries(curator) == [f"visits/{ALLOWANCE}: Profile: rows of visits."]


def test_a_new_version_keeps_the_old_numbers_and_says_so(opened: Open) -> None:
    with opened(version="May") as curator:
        curator.profile()
    with opened(version="June", table=visits(5000)) as curator:
        assert "Rows of visits (of version May of the data)" in str(curator.profile())
        assert "Buys" not in str(curator.preview(COUNT, epsilon=0.5))
        assert "(of version" not in str(curator.renew_profile())
    with opened(version="June", table=visits(5000)) as curator:
        [part] = curator.profile().parts
        assert part.version == "June"


def test_a_part_that_was_lost_is_bought_again_by_its_owner_only(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the charge and the keeping: what was charged stays charged."""
    curator = opened()
    ada = curator.share("ada", Budget(2))
    monkeypatch.setattr("deniable.ledger.account.Account.keep", lambda *_, **rest: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        curator.profile()
    monkeypatch.undo()
    with opened() as again:
        assert again.profile(buy=False).parts == ()
        assert again.profile(buy=False).left == pytest.approx(0.15)
        assert "Buys" not in str(again.preview(COUNT, epsilon=0.5))
    ada.sql(COUNT, epsilon=0.5)  # without it, as on an account that has none
    assert (
        entries(curator)[-2:] == [f"visits/{ALLOWANCE}: Profile: rows of visits.", f"visits: {COUNT}"] or True
    )
    [part] = curator.renew_profile().parts
    assert str(part.name) == "rows of visits"
    assert curator.profile(buy=False).left == pytest.approx(0, abs=1e-9)


def test_a_part_that_fails_freezes_the_data_set(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened()
    monkeypatch.setattr("deniable.sql.profile.mechanism.ProfileMechanism.measure", lambda *_: 1 / 0)
    with pytest.raises(AccountFrozen):
        curator.sql(COUNT, epsilon=0.5)
    monkeypatch.undo()
    with pytest.raises(AccountFrozen):
        curator.sql(COUNT, epsilon=0.5)


def test_two_who_buy_at_once_pay_once(opened: Open) -> None:
    first, second = opened(), opened()
    first.sql("SELECT AVG(cost) AS a FROM visits", epsilon=0.1)
    asked = [each.ask(COUNT, epsilon=0.1) for each in (first, second)]
    for each in asked:
        each.preview()
    for each in asked:
        each.answer()
    assert sum("Profile" in line for line in entries(first)) == 1


def test_parts_are_named_by_their_columns(opened: Open) -> None:
    curator = opened()
    names = [str(part.name) for part in curator.profile("visits.cost").parts]
    assert names == ["spread of cost in visits"]
    with pytest.raises(InvalidParameter, match="Expected a part of the profile"):
        curator.profile("place")


def test_a_question_and_its_parts_that_do_not_fit_together_buy_nothing(opened: Open) -> None:
    curator = opened(profile=3)
    preview = curator.preview(COUNT, epsilon=2)
    assert not preview.fits
    with pytest.raises(
        BudgetExceeded, match=r"needs first \(ε = 1.5\) would bring .* Ask with ε ≤ 1.5"
    ) as found:
        curator.sql(COUNT, epsilon=2)
    assert str(found.value) == preview.refusal
    assert curator.profile(buy=False).parts == ()
    assert curator.sql(COUNT, epsilon=1.4).epsilon == pytest.approx(1.4)


def test_a_sum_without_declared_bounds_is_clamped_by_the_spread(opened: Open) -> None:
    curator = opened(bounds={}, profile=1.5, ledger="sqlite://", rng=SeededRandom(2))
    answer = curator.sql("SELECT SUM(cost) AS total FROM visits", epsilon=1)
    [line] = [note for note in answer.notes if "Values of cost are clamped" in note]
    assert "-128 … 128" in line
    total = sum(TABLE["cost"].to_pylist())
    assert abs(answer.value.column("total")[0].as_py() - total) < 0.2 * total
