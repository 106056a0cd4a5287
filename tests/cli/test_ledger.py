"""`deniable ledger`: tables people read, JSON that programs read, one sentence for bad input."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from deniable.cli.ledger_words import bar
from deniable.errors import AccountFrozen
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.loss import GaussianNoise, Pure
from deniable.units import Unit
from tests.cli.runner import run, run_json, sentence
from tests.ledger.workers import Noisy


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    with Ledger.open("sqlite:///privacy.db", analyst="ada") as ledger:
        account = ledger.create(
            "visits", Unit.column("patient_id", max_rows=4), limit=Budget(3, 1e-6), owner="owner"
        )
        part = ledger.create("visits/ada", limit=Budget(1, 1e-7), parent="visits")
        for _ in range(3):
            part.run(Noisy(Pure(0.25), account.unit), 5, description="How many came?")
        account.run(Noisy(GaussianNoise(20), account.unit), 5)
    return "sqlite:///privacy.db"


def test_create_makes_the_ledger_the_key_and_the_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run(
        "ledger", "create", "visits", "--epsilon", "3", "--delta", "1e-6", "--unit", "column:patient_id:4"
    ).stdout
    assert "visits (open)" in said
    assert "0 % of ε = 3 at δ = 1e-06" in said
    assert (tmp_path / "privacy.db.key").exists()
    made = run_json(
        "ledger",
        "create",
        "visits/ada",
        "--epsilon",
        "0.5",
        "--parent",
        "visits",
        "--filter",
        "basic",
        "--owner",
        "ada",
    )
    assert (made["account"], made["parent"], made["limit"]) == (
        "visits/ada",
        "visits",
        {"epsilon": 0.5, "delta": 0.0},
    )
    assert made["unit"]["max_rows"] == 4


def test_list_draws_a_bar_for_every_account(url: str) -> None:
    said = run("ledger", "list").stdout
    assert "███████████████·····   75 %" in said
    assert "visits/ada" in said
    facts = {fact["account"]: fact for fact in run_json("ledger", "list")["accounts"]}
    assert facts["visits/ada"]["spent"] == {"epsilon": 0.75, "delta": 0.0, "method": "basic", "share": 0.75}
    assert facts["visits"]["spent"]["method"].startswith("Rényi")


def test_show_tells_limit_spent_left_and_odometer(url: str) -> None:
    said = run("ledger", "show", "visits/ada").stdout
    for part in (
        "visits/ada, part of visits (open)",
        "75 % of ε = 1 at δ = 1e-07",
        "Spent: ε = 0.75 (basic).",
        "ε ≤ 0.25",
        "A bound on the ε of all releases so far",
    ):
        assert part in said
    fact = run_json("ledger", "show", "visits/ada")
    assert fact["remaining"]["epsilon"] == 0.25
    assert fact["odometer"]["epsilon"] == 0.75


def test_versions_of_the_data_are_shown_and_what_may_hold_the_forgotten(url: str) -> None:
    assert "data:" not in run("ledger", "history", "visits").stdout
    with Ledger.open(url, analyst="owner") as ledger:
        account = ledger.account("visits")
        account.declare_version("2026-01")
        account.run(Noisy(Pure(0.25), account.unit), 5)
        assert account.forget(None, declared=3).versions == {None: (3, 4, 5, 6), "2026-01": (7,)}
        account.run(Noisy(Pure(0.25), account.unit), 5)
        account.declare_version("2026-02")
        account.run(Noisy(Pure(0.25), account.unit), 5)
    said = run("ledger", "versions", "visits", "--owner", "owner").stdout
    for part in ("(none declared)", "3, 4, 5, 6", "2026-01", "7, 9", "2026-02", "Entries 9 were made after"):
        assert part in said
    fact = run_json("ledger", "versions", "visits", "--owner", "owner")
    assert fact["still_held"] == [9]
    assert fact["versions"][1] == {"version": "2026-01", "entries": [7, 9]}
    assert "Only owner" in sentence("ledger", "versions", "visits", "--owner", "ada")
    assert "(data: 2026-02)" in " ".join(run("ledger", "history", "visits").stdout.split())


def test_history_shows_who_charged_what(url: str) -> None:
    said = run("ledger", "history", "visits/ada", "--last", "2").stdout
    assert said.count("0.2500") == said.count("How many") == 2
    assert "ε is that of the entry alone" in said
    assert "ada" in said
    assert len(run_json("ledger", "history", "--last", "0")["entries"]) == 6
    assert [e["seq"] for e in run_json("ledger", "history", "visits/ada")["entries"]] == [2, 3, 4, 5]


def test_a_narrow_history_has_all_words_of_a_description(url: str) -> None:
    said = run("ledger", "history", "visits/ada", "--last", "2", width=80).stdout
    assert max(map(len, said.splitlines())) <= 80
    assert said.count("   How many came?") == said.count("· visits/ada · ada · ε = 0.2500") == 2


def test_the_owner_freezes_and_unfreezes_and_nobody_else(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "visits (frozen)" in run("ledger", "freeze", "visits", "--note", "A file may be damaged.").stdout
    assert "Only owner" in sentence("ledger", "unfreeze", "visits")
    with Ledger.open(url, analyst="ada") as ledger, pytest.raises(AccountFrozen):
        ledger.account("visits/ada").run(Noisy(Pure(0.1), ledger.account("visits").unit), 5)
    monkeypatch.setattr("deniable.ledger.ledger._user", lambda: "owner")
    assert "visits (open)" in run("ledger", "unfreeze", "visits", "--note", "Restored it.").stdout
    assert "Restored it." in run("ledger", "history", "visits").stdout


def test_the_owner_raises_renames_and_closes_and_nobody_else(url: str) -> None:
    assert "Only owner" in sentence("ledger", "raise", "visits", "--epsilon", "4", "--owner", "eve")
    assert (
        run_json("ledger", "raise", "visits", "--epsilon", "4", "--owner", "owner", "--json")["limit"][
            "epsilon"
        ]
        == 4
    )
    assert "Only owner" in sentence("ledger", "rename", "visits", "stays", "--owner", "eve")
    renamed = run_json("ledger", "rename", "visits", "stays", "--owner", "owner", "--json")
    assert (
        renamed
        == run_json("ledger", "show", "stays", "--json")
        == run_json("ledger", "show", "visits", "--json")
    )
    assert "already" in sentence("ledger", "create", "stays", "--epsilon", "1", "--unit", "row")
    assert "Only owner" in sentence("ledger", "close", "stays", "--owner", "eve")
    assert "closed" in run("ledger", "close", "stays", "--owner", "owner").stdout
    assert run("ledger", "verify").exit_code == 0


def test_an_owner_accepts_a_clock_with_a_reason(url: str) -> None:
    assert "you are eve" in sentence("ledger", "clock", "--accept", "It was ahead.", "--owner", "eve")
    assert (
        "the journal goes on"
        in run("ledger", "clock", "--accept", "It was ahead.", "--owner", "owner").stdout
    )
    assert "clock" in run("ledger", "history", "--json").stdout


def test_a_head_kept_elsewhere_is_verified(url: str) -> None:
    head = run("ledger", "head").stdout.strip()
    assert head.startswith("6:")
    assert run_json("ledger", "head") == {"head": head, "count": 6, "mac": head[2:]}
    said = run("ledger", "verify", "--head", head).stdout
    assert "Good: 6 entries, every one as it was written." in said
    assert "Without a head" not in said
    assert "Without a head kept elsewhere" in run("ledger", "verify").stdout
    assert run_json("ledger", "verify")["ok"]


def test_tampering_is_one_sentence_and_exit_code_two(url: str) -> None:
    connection = sqlite3.connect("privacy.db")
    connection.execute("DROP TRIGGER journal_no_update")
    connection.execute("UPDATE journal SET analyst = 'eve' WHERE seq = 3")
    connection.commit()
    connection.close()
    assert sentence("ledger", "verify").startswith(
        "Entry 3 was edited, moved, or does not follow the entry before it."
    )
    told = json.loads(run("ledger", "verify", "--json", code=2).stdout)
    assert not told["ok"]
    assert len(told["problems"]) == 1


def test_export_writes_both_formats(url: str, tmp_path: Path) -> None:
    lines = run("ledger", "export").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert run("ledger", "export", "--json").stdout.splitlines() == lines
    assert (
        "journal.csv: 6 entries." in run("ledger", "export", "--format", "csv", "--out", "journal.csv").stdout
    )
    assert (
        (tmp_path / "journal.csv")
        .read_text()
        .startswith("seq,time,kind,account,analyst,description,loss,unit,details,mac\n1,")
    )
    assert run_json("ledger", "export", "--out", "journal.jsonl") == {"file": "journal.jsonl", "entries": 6}


def test_bad_input_is_one_sentence(url: str) -> None:
    assert sentence("ledger", "show", "nobody") == (
        'There is no account "nobody" in sqlite:///privacy.db. Those there are: ledger.accounts(), or `deniable '
        "ledger list`."
    )
    assert (
        sentence("ledger", "list", "--ledger", "sqlite:///none.db")
        == "There is no ledger in sqlite:///none.db. Nothing was created. A ledger lies beside the data that it was "
        "charged for: go to that folder, or name its address (--ledger sqlite:///folder/privacy.db)."
    )
    assert not Path("none.db").exists()
    assert sentence("ledger", "list", "--ledger", "none").startswith(
        "Expected a ledger URL like sqlite:///privacy.db"
    )
    assert "whom does the account protect" in sentence("ledger", "create", "new", "--epsilon", "1")
    assert "already" in sentence("ledger", "create", "visits", "--epsilon", "1", "--unit", "row")
    assert "Expected epsilon=-1 of a budget" in sentence(
        "ledger", "create", "new", "--epsilon", "-1", "--unit", "row"
    )
    assert "Expected a head like" in sentence("ledger", "verify", "--head", "12")
    assert "ε > 0 and δ > 0" in sentence(
        "ledger", "create", "new", "--epsilon", "1", "--unit", "row", "--filter", "renyi"
    )


def test_a_bar_never_shows_less_than_is_spent() -> None:
    assert bar(0) == "·" * 20
    assert bar(1e-9).count("█") == 1
    assert bar(0.999).count("█") == 20
    assert bar(float("inf")) == "█" * 20
    assert all(bar(k / 100).count("█") >= k / 5 for k in range(101))
