"""The object users hold: it charges, answers, previews for free, gives answers again,
and refuses with the way out."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.curator import Answer, Curator, stop
from deniable.datasets.visits import visits
from deniable.errors import (
    AccountFrozen,
    BudgetExceeded,
    DataError,
    InvalidParameter,
    InvalidQuery,
    LedgerError,
    UnitMismatch,
)
from deniable.guarantee import Budget
from deniable.ledger import Ledger, Status
from deniable.loss import Zcdp
from deniable.units import Unit

Open = Callable[..., Curator]

PATIENT = Unit.column("patient_id", max_rows=4)
LIMIT = Budget(epsilon=3, delta=1e-6)
COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_DIAGNOSIS = "SELECT diagnosis, COUNT(*) AS n, AVG(days) AS d FROM visits GROUP BY diagnosis"


def number(answer: Answer, column: str = "n") -> float:
    return float(answer.value.column(column)[0].as_py())


@pytest.fixture
def parquet(table: pa.Table, tmp_path: Path) -> Path:
    path = tmp_path / "data" / "visits.parquet"
    path.parent.mkdir()
    pq.write_table(table, path)
    return path


# ------------------------------------------------------------------------------------------------ answers


def test_a_count_is_near_the_truth_and_inside_its_interval(hospital: Open, table: pa.Table) -> None:
    answer = hospital(unit=Unit.row()).sql(COUNT, epsilon=0.5)
    low, high = answer.table.column("n_low")[0].as_py(), answer.table.column("n_high")[0].as_py()
    assert low <= table.num_rows <= high
    assert 0 < high - low < 30
    assert abs(number(answer) - table.num_rows) < 100


def test_groups_by_public_keys_come_complete_and_near_the_truth(hospital: Open, table: pa.Table) -> None:
    answer = hospital(unit=Unit.row()).sql(BY_DIAGNOSIS, epsilon=1)
    truth = table.group_by("diagnosis").aggregate([([], "count_all"), ("days", "mean")]).to_pylist()
    said = {row["diagnosis"]: row for row in answer.table.to_pylist()}
    assert said.keys() == {row["diagnosis"] for row in truth}
    for row in truth:
        assert abs(said[row["diagnosis"]]["n"] - row["count_all"]) < 100
        assert abs(said[row["diagnosis"]]["d"] - row["days_mean"]) < 40 * 60 / row["count_all"]


def test_a_query_costs_exactly_what_it_says(hospital: Open) -> None:
    curator = hospital()
    for i, text in enumerate(
        (COUNT, BY_DIAGNOSIS, "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"), 1
    ):
        answer = curator.sql(text, epsilon=0.5)
        assert answer.epsilon <= 0.5
        assert curator.account.spent().epsilon <= 0.5 * i
    assert curator.account.spent().epsilon > 1.4


def test_six_halves_fit_under_three_and_the_seventh_does_not(hospital: Open) -> None:
    curator = hospital()
    for i in range(6):
        curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE days > {i}", epsilon=0.5)
    with pytest.raises(BudgetExceeded, match="Nothing was run and nothing was charged"):
        curator.sql("SELECT COUNT(*) AS n FROM visits WHERE days > 6", epsilon=0.5)


def test_six_halves_of_gaussian_noise_fit_under_three_as_well(hospital: Open) -> None:
    curator = hospital()
    for i in range(6):
        answer = curator.sql(
            f"SELECT COUNT(*) AS n FROM visits WHERE days > {i}", epsilon=0.5, noise="gaussian"
        )
        assert 0.4 < answer.epsilon <= 0.5
        assert answer.delta == 1e-8


def test_gaussian_noise_asked_for_by_name_is_charged_by_its_curve(hospital: Open) -> None:
    """Thirty times ε = .5 come to much less than 15 by Rényi orders."""
    curator = hospital()
    for i in range(30):
        curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE days > {i}", epsilon=0.5, noise="gaussian")
    assert curator.account.spent().epsilon <= 3


def test_gaussian_noise_that_was_chosen_for_the_analyst_costs_the_epsilon_she_named(hospital: Open) -> None:
    """Twenty counts at once come out better with Gaussian noise; the sum of ε's still says what is spent."""
    curator = hospital(limit=Budget(3, 1e-4))
    counts = ", ".join(f"COUNT(*) FILTER (WHERE days > {i}) AS n{i}" for i in range(20))
    answer = curator.sql(f"SELECT {counts} FROM visits", epsilon=0.5)
    assert isinstance(answer.loss, Zcdp)
    assert (answer.delta, curator.account.spent().method) == (1e-6, "basic")
    assert 0.49 < answer.epsilon == curator.account.spent().epsilon <= 0.5
    assert curator.account.remaining().epsilon >= 2.5


def test_within_costs_the_least_epsilon_that_keeps_the_promise(hospital: Open) -> None:
    curator = hospital()
    answer = curator.sql(COUNT, within=100, confidence=0.95)
    row = answer.table.to_pylist()[0]
    assert 80 < (row["n_high"] - row["n_low"]) / 2 <= 100
    assert " ± 100" in str(answer)
    tighter = curator.preview(COUNT, within=50)
    assert tighter.epsilon == pytest.approx(2 * answer.epsilon, rel=0.1)


def test_an_average_within_needs_a_public_group_size(hospital: Open) -> None:
    curator = hospital()
    with pytest.raises(InvalidQuery, match="at_least"):
        curator.sql("SELECT AVG(days) AS d FROM visits", within=1)
    assert curator.preview("SELECT AVG(days) AS d FROM visits", within=2, at_least=2000).fits


@pytest.mark.parametrize(
    "wish", [{}, {"epsilon": 1, "within": 50}, {"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.inf}]
)
def test_a_query_needs_one_price(hospital: Open, wish: dict[str, float]) -> None:
    curator = hospital()
    with pytest.raises((InvalidParameter, InvalidQuery)):
        curator.sql(COUNT, **wish)
    assert curator.account.spent().epsilon == 0


# ------------------------------------------------------------------------------------------------ previews


def test_a_preview_tells_cost_and_error_and_changes_nothing(hospital: Open) -> None:
    curator = hospital()
    head = curator.ledger.head()
    seen = curator.preview(BY_DIAGNOSIS, epsilon=0.5)
    assert 0.49 < seen.epsilon <= 0.5
    assert seen.fits
    assert not seen.free
    assert seen.left.epsilon == pytest.approx(2.5, abs=0.01)
    assert set(seen.expected) == {"n", "d"}
    assert "Cost: ε = 0.5." in str(seen)
    assert "Left afterwards for one charge: ε ≤ 2.5" in str(seen)
    assert curator.ledger.head() == head


def test_a_preview_tells_the_refusal(hospital: Open) -> None:
    seen = hospital().preview(COUNT, epsilon=4)
    assert not seen.fits
    assert "over its limit ε = 3" in str(seen)


def test_a_preview_promises_the_error_that_the_answer_has(hospital: Open) -> None:
    curator = hospital()
    told = curator.preview(COUNT, epsilon=0.5, left_out=False).expected["n"]
    row = curator.sql(COUNT, epsilon=0.5, left_out=False).table.to_pylist()[0]
    half = (row["n_high"] - row["n_low"]) / 2
    assert float(told.removeprefix("± ")) == pytest.approx(half, rel=0.01)


# ------------------------------------------------------------------------------------------------ answers given again


def test_the_same_query_is_answered_once(hospital: Open) -> None:
    curator = hospital()
    first = curator.sql(BY_DIAGNOSIS, epsilon=0.5)
    head = curator.ledger.head()
    again = curator.sql(BY_DIAGNOSIS.replace("SELECT", "select   /* the same */"), epsilon=0.5)
    assert again.again
    assert not first.again
    assert again.value.equals(first.value)
    assert (again.low, again.high) == (first.low, first.high)
    assert (again.loss, again.entry, again.epsilon) == (first.loss, first.entry, first.epsilon)
    assert curator.ledger.head() == head
    assert curator.preview(BY_DIAGNOSIS, epsilon=0.5).free


@pytest.mark.parametrize(
    ("terms", "changes"),
    [
        ({"epsilon": 0.4}, {}),
        ({"delta": 1e-9}, {}),
        ({"confidence": 0.9}, {}),
        ({}, {"version": "2"}),
        ({}, {"bounds": {"days": (0, 30), "age": (0, 100), "cost": (0, 50_000)}}),
        ({}, {"keys": {"diagnosis": ["flu", "asthma"]}}),
        ({}, {"account": "other"}),
    ],
)
def test_another_question_is_another_answer(
    hospital: Open, tmp_path: Path, terms: dict[str, float], changes: dict[str, object]
) -> None:
    ledger = f"sqlite:///{tmp_path}/privacy.db"
    hospital(ledger=ledger, rng=None).sql(BY_DIAGNOSIS, epsilon=0.5)
    assert hospital(ledger=ledger, rng=None).sql(BY_DIAGNOSIS, epsilon=0.5).again
    assert (
        not hospital(ledger=ledger, rng=None, **changes).sql(BY_DIAGNOSIS, **({"epsilon": 0.5} | terms)).again
    )


def test_an_answer_is_never_found_by_the_data_itself(hospital: Open, table: pa.Table, tmp_path: Path) -> None:
    """Other data under the declared version gives the kept answer: whether data changed must not show."""
    ledger = f"sqlite:///{tmp_path}/privacy.db"
    first = hospital(ledger=ledger, rng=None).sql(COUNT, epsilon=0.5)
    assert (
        hospital(table.slice(0, 10), ledger=ledger, rng=None)
        .sql(COUNT, epsilon=0.5)
        .value.equals(first.value)
    )


def test_a_colleague_pays_from_her_own_limit_and_not_from_the_data_sets(hospital: Open) -> None:
    curator = hospital()
    ada, bob = curator.share("ada", Budget(1, 1e-7)), curator.share("bob", Budget(1, 1e-7))
    first = ada.sql(COUNT, epsilon=0.25)
    again = bob.sql(COUNT, epsilon=0.25)
    assert again.value.equals(first.value)
    assert curator.sql(COUNT, epsilon=0.25).again
    spent = [one.account.spent().epsilon for one in (curator, ada, bob)]
    assert spent == pytest.approx([0.25, 0.25, 0.25], rel=1e-6)
    assert max(spent) <= 0.25
    assert [one.account.name for one in (curator, ada, bob)] == ["visits", "visits/ada", "visits/bob"]


def test_an_analyst_with_a_part_of_her_own_gets_it_when_she_opens(hospital: Open, tmp_path: Path) -> None:
    ledger = f"sqlite:///{tmp_path}/privacy.db"
    hospital(ledger=ledger, rng=None).share("ada", Budget(1))
    assert hospital(ledger=ledger, rng=None, analyst="ada").account.name == "visits/ada"
    assert hospital(ledger=ledger, rng=None, analyst="bob").account.name == "visits"


# ------------------------------------------------------------------------------------------------ opening


def test_the_first_use_without_a_limit_is_refused_with_the_way_to_set_one(parquet: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"has no limit yet.*limit=Budget\(epsilon=3, delta=1e-6\)"):
        Curator.open(parquet, unit=PATIENT)
    assert sorted(p.name for p in parquet.parent.iterdir()) == ["visits.parquet"]


def test_the_first_use_without_a_unit_is_refused(parquet: Path) -> None:
    with pytest.raises(InvalidParameter, match="whom does it protect"):
        Curator.open(parquet, limit=LIMIT)


def test_the_ledger_lies_beside_the_data_and_remembers(parquet: Path) -> None:
    with Curator.open(parquet, unit=PATIENT, limit=LIMIT) as curator:
        first = curator.sql(COUNT, epsilon=0.5)
    assert (parquet.parent / "privacy.db").exists()
    with Curator.open(str(parquet)) as curator:
        assert curator.account.unit == PATIENT
        assert curator.account.spent().epsilon == pytest.approx(0.5)
        assert curator.sql(COUNT, epsilon=0.5).value.equals(first.value)
        assert curator.ledger.verify().ok


def test_a_ledger_named_once_is_found_again(parquet: Path, tmp_path: Path) -> None:
    with Curator.open(
        parquet, unit=PATIENT, limit=LIMIT, ledger=f"sqlite:///{tmp_path}/central.db"
    ) as curator:
        curator.sql(COUNT, epsilon=0.5)
    with Curator.open(parquet) as curator:
        assert curator.account.spent().epsilon == pytest.approx(0.5)
    assert not (parquet.parent / "privacy.db").exists()


def test_a_limit_or_unit_that_contradicts_the_ledger_is_refused(parquet: Path) -> None:
    with Curator.open(parquet, unit=PATIENT, limit=LIMIT) as curator:
        curator.sql(COUNT, epsilon=0.1)
    with pytest.raises(InvalidParameter, match="has the limit ε = 3 at δ = 1e-06 already"):
        Curator.open(parquet, limit=Budget(30, 1e-6))
    with pytest.raises(UnitMismatch, match="cannot be opened for one row"):
        Curator.open(parquet, unit=Unit.row())
    Curator.open(parquet, unit=PATIENT, limit=LIMIT).close()


def test_data_in_memory_needs_a_name_and_a_ledger(table: pa.Table) -> None:
    with pytest.raises(InvalidParameter, match="Expected a name for the table"):
        Curator.open(table, unit=PATIENT, limit=LIMIT, ledger="sqlite://")
    with pytest.raises(InvalidParameter, match="where what is spent could be remembered"):
        Curator.open(table, name="visits", unit=PATIENT, limit=LIMIT)


def test_a_ledger_that_is_open_already_can_be_given(table: pa.Table) -> None:
    with Ledger.open("sqlite://") as ledger:
        with Curator.open(table, name="visits", unit=PATIENT, limit=LIMIT, ledger=ledger) as curator:
            curator.sql(COUNT, epsilon=0.5)
        assert ledger.account("visits").spent().epsilon == pytest.approx(0.5)


def test_several_tables_with_a_public_one(hospital: Open, table: pa.Table) -> None:
    from deniable.sql.schema.declare import Schema, TableInfo
    from deniable.sql.schema.infer import describe

    wards = pa.table(
        {"ward": ["emergency", "medicine", "surgery", "children", "eyes"], "floor": [0, 1, 1, 2, 3]}
    )
    tables = describe("visits", table), describe("wards", wards)
    public = TableInfo("wards", tables[1].columns, public=True, unique=("ward",))
    curator = hospital(
        {"visits": table, "wards": wards},
        name=None,
        schema=Schema((tables[0], public)),
        keys={"diagnosis": ["flu"], "wards.floor": [0, 1, 2, 3]},
    )
    text = "SELECT floor, COUNT(*) AS n FROM visits JOIN wards USING (ward) GROUP BY floor"
    answer = curator.sql(text, epsilon=1)
    assert answer.value.column("floor").to_pylist() == [0, 1, 2, 3]
    assert curator.account.name == "visits"


def test_a_table_may_lie_a_path_away_from_the_person(hospital: Open) -> None:
    """prescriptions → visits → patient: one patient with very many prescriptions counts for four of them."""
    from deniable.sql.schema.declare import Schema, TableInfo
    from deniable.sql.schema.infer import describe

    many = 2000
    visits = pa.table({"visit": list(range(100)), "patient_id": [i // 2 for i in range(100)]})
    drugs = pa.table({"visit": list(range(100)) + [7] * many, "drug": ["aspirin"] * (100 + many)})
    described = [describe("visits", visits), describe("drugs", drugs)]
    away = TableInfo("drugs", described[1].columns, path=(("visit", "visits", "visit"),))
    curator = hospital(
        {"visits": visits, "drugs": drugs}, name=None, schema=Schema((described[0], away)), bounds={}, keys={}
    )
    answer = curator.sql("SELECT COUNT(*) AS n FROM drugs", epsilon=2)
    assert abs(number(answer) - 102) < 50
    assert curator.account.name == "drugs+visits"


def test_a_prepared_table_gives_the_same_answers(hospital: Open, table: pa.Table) -> None:
    plain, ready = hospital(), hospital()
    ready.prepare()
    head = ready.ledger.head()
    first, second = (curator.sql(BY_DIAGNOSIS, epsilon=0.5) for curator in (plain, ready))
    assert second.value.column("n").to_pylist() == first.value.column("n").to_pylist()
    assert head.count == 0  # preparing releases nothing, and is charged nothing


# ------------------------------------------------------------------------------------------------ safety


def test_a_refused_query_costs_nothing_and_touches_nothing(hospital: Open) -> None:
    curator = hospital()
    head = curator.ledger.head()
    for text in (
        "SELECT * FROM visits",
        "DROP TABLE visits",
        "SELECT AVG(nothing) FROM visits",
        "SELECT 1; SELECT 2",
    ):
        with pytest.raises(InvalidQuery):
            curator.sql(text, epsilon=0.5)
    assert curator.ledger.head() == head


def test_an_engine_that_fails_freezes_the_account_and_tells_only_the_owner(hospital: Open) -> None:
    told: list[Exception] = []
    curator = hospital(on_failure=told.append)
    curator._desk.engine.close()
    with pytest.raises(AccountFrozen, match="The reason may depend on data") as caught:
        curator.sql(COUNT, epsilon=0.5)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert len(told) == 1
    assert curator.account.status is Status.FROZEN
    assert curator.account.spent().epsilon == pytest.approx(0.5)
    with pytest.raises(AccountFrozen, match="frozen until its owner"):
        curator.sql("SELECT COUNT(*) AS m FROM visits WHERE days > 1", epsilon=0.5)


def damaged(path: Path, how: str) -> None:
    whole = path.read_bytes()
    path.write_bytes(
        {
            "in the middle": whole[:100] + bytes(len(whole) // 2) + whole[100 + len(whole) // 2 :],
            "cut off": whole[: len(whole) // 2],
            "empty": b"",
            "something else": b"patient_id,days\n1,2\n" * 50,
            "its end": whole[:-300] + bytes(292) + whole[-8:],
        }[how]
    )


def test_a_file_damaged_in_the_middle_freezes_until_the_owner_mends_it(tmp_path: Path) -> None:
    path, told = tmp_path / "visits.parquet", list[Exception]()
    pq.write_table(visits(2000), path)
    whole = path.read_bytes()
    damaged(path, "in the middle")
    with Curator.open(path, unit=Unit.row(), limit=Budget(1), on_failure=told.append) as curator:
        asked = "SELECT COUNT(*) AS n FROM visits WHERE ward = 'surgery'"
        with pytest.raises(AccountFrozen, match="The reason may depend on data"):
            curator.sql(asked, epsilon=0.25)
        assert told[0].__cause__ is not None
        with pytest.raises(AccountFrozen, match="frozen until its owner"):
            curator.sql(asked, epsilon=0.25)
        path.write_bytes(whole)
        curator.account.unfreeze("restored from the backup")
        assert curator.sql(asked, epsilon=0.25).value.num_rows == 1
        assert curator.account.spent().epsilon == pytest.approx(0.5)
        assert any(entry.description == "restored from the backup" for entry in curator.account.history())


@pytest.mark.parametrize("how", ["cut off", "empty", "something else", "its end"])
def test_a_file_that_cannot_be_what_it_says_is_refused_when_it_is_opened(tmp_path: Path, how: str) -> None:
    path = tmp_path / "visits.parquet"
    pq.write_table(visits(2000), path)
    damaged(path, how)
    with pytest.raises(DataError, match="cannot be read"):
        Curator.open(path, unit=Unit.row(), limit=Budget(1))
    assert not (tmp_path / "privacy.db").exists()


def test_answers_and_refusals_alike_wait_for_the_next_whole_step(
    hospital: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator, waited = hospital(floor=30), []
    monkeypatch.setattr(stop.time, "sleep", waited.append)
    curator.sql(COUNT, epsilon=0.5)
    with pytest.raises(InvalidQuery):
        curator.sql("SELECT * FROM visits", epsilon=0.5)
    assert len(waited) == 2
    assert all(0 < seconds < 30 for seconds in waited)


def test_a_floor_is_a_number_of_seconds(hospital: Open) -> None:
    with pytest.raises(InvalidParameter, match="Expected floor=-1 seconds"):
        hospital(floor=-1)


def test_a_seeded_generator_is_refused_by_a_ledger_that_lasts(hospital: Open, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="Expected a secure generator"):
        hospital(ledger=f"sqlite:///{tmp_path}/privacy.db").sql(COUNT, epsilon=0.5)


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    hospital: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = hospital()

    def full(*_: object, **__: object) -> None:
        raise LedgerError("The disk of the ledger is full.")

    monkeypatch.setattr(curator.account, "keep", full)
    assert not curator.sql(COUNT, epsilon=0.5).again
    assert not curator.sql(COUNT, epsilon=0.5).again
    assert curator.account.spent().epsilon == pytest.approx(1)


def test_the_journal_keeps_the_question_and_a_long_one_in_part(hospital: Open) -> None:
    curator = hospital()
    curator.sql(
        f"SELECT COUNT(*) AS n FROM visits WHERE days IN ({', '.join(map(str, range(1000)))})", epsilon=0.5
    )
    entry = curator.account.history()[-1]
    assert "COUNT" in entry.description.upper()
    assert len(entry.description) == 2000


def test_two_files_of_one_name_never_share_an_answer(parquet: Path, table: pa.Table, tmp_path: Path) -> None:
    """They share an account, which costs more and never less; but an answer about one is
    not one about the other."""
    other = tmp_path / "other" / "visits.parquet"
    other.parent.mkdir()
    pq.write_table(table.slice(0, 10), other)
    with Ledger.open(f"sqlite:///{tmp_path / 'both.db'}") as ledger:
        with Curator.open(parquet, unit=PATIENT, limit=LIMIT, ledger=ledger) as one:
            first = one.sql(COUNT, epsilon=0.5)
            assert one.sql(COUNT, epsilon=0.5).again
        with Curator.open(other, ledger=ledger) as two:
            second = two.sql(COUNT, epsilon=0.5)
            assert not second.again
            assert second.entry != first.entry
            assert two.account.spent().epsilon == pytest.approx(1.0)
