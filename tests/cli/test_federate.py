"""`deniable federate`: the rows of many clients become a model and a certificate; every
client is charged for as a whole."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from deniable.accounting import verify
from deniable.errors import DataError
from deniable.federated import FedAvg
from deniable.federated.data.clients import places_on
from deniable.federated.data.tables import read_roster
from deniable.guarantee import Budget, Certificate
from deniable.learn.sgd.tables import load
from deniable.ledger import Ledger
from deniable.units import Unit
from tests.cli.runner import run, sentence

CLIENTS = 300
DECLARED = ("--user", "phone", "--target", "app", "--classes", "maps,games", "--feature", "hour:0:24", "--feature",
            "age:0:100", "--clients", str(CLIENTS))  # fmt: skip
USUAL = (*DECLARED, "--epsilon", "8", "--delta", "1e-4", "--rate", "0.3", "--rounds", "12")
FIRST = ("--limit", "10:1e-3")


def phones(seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(CLIENTS), 10)
    hour, age = rng.uniform(0, 24, len(owner)), rng.uniform(0, 100, len(owner))
    app = np.where(hour / 24 + age / 100 > 1, "games", "maps")
    return pa.table({"phone": [f"phone {k}" for k in owner], "hour": hour, "age": age, "app": app})


@pytest.fixture
def table(tmp_path: Path) -> str:
    pyarrow.parquet.write_table(phones(), tmp_path / "phones.parquet")
    return str(tmp_path / "phones.parquet")


@pytest.fixture
def public(tmp_path: Path) -> str:
    pyarrow.csv.write_csv(phones(1), tmp_path / "public.csv")
    return str(tmp_path / "public.csv")


@pytest.fixture
def roster(tmp_path: Path) -> tuple[str, str]:
    """The option that names every phone."""
    names = tmp_path / "names.txt"
    names.write_text("".join(f"phone {k}\n" for k in range(CLIENTS)), encoding="utf-8")
    return "--roster", str(names)


def federate(table: str, *options: str) -> Any:
    out = str(Path(table).with_name("out"))
    return json.loads(run("federate", table, *USUAL, "--out", out, *options, "--json").stdout)


@pytest.mark.parametrize(
    ("place", "unit"),
    [
        ("server", Unit.client()),
        ("shared", Unit.client(zero_out=True)),
        ("client", Unit.client(zero_out=True)),
    ],
)
def test_clients_become_a_model_with_a_certificate_that_holds(
    table: str, public: str, roster: tuple[str, str], place: str, unit: Unit
) -> None:
    listed = () if place == "server" else roster
    facts = federate(table, *FIRST, "--noise", place, *listed, "--public", public)
    assert 7.5 < facts["epsilon"] <= 8
    out = Path(facts["out"])
    certificate = Certificate.from_json((out / "certificate.json").read_text(encoding="utf-8"))
    assert verify(certificate).upper <= 8
    assert certificate.unit == unit
    described, model = load(out)
    assert described.accuracy(model, Path(public)) == pytest.approx(facts["accuracy_on_public_rows"])
    if place == "server":
        assert facts["accuracy_on_public_rows"] > 0.6  # 0.956 ± 0.025 over 40 runs
        assert facts["epsilon_against"] == {"models": facts["epsilon"]}
    else:
        assert facts["epsilon_against"] == {"server": facts["epsilon"], "models": facts["epsilon"]}


def test_the_ledger_beside_the_data_pays_and_refuses_the_second_run(table: str) -> None:
    federate(table, *FIRST)
    with Ledger.open(f"sqlite:///{Path(table).with_name('privacy.db')}", create=False) as ledger:
        account = ledger.account("phones")
        assert account.unit == Unit.client()
        assert 7 < account.spent().epsilon <= 8 + 1e-9
    assert "over its limit" in sentence("federate", table, *USUAL)


def test_a_file_is_not_granted_twice_under_another_name(table: str) -> None:
    federate(table, *FIRST)
    said = sentence("federate", table, *USUAL, *FIRST, "--account", "another")
    assert 'the account "phones"' in said


def test_an_account_of_rows_does_not_pay_for_clients(table: str, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'privacy.db'}") as ledger:
        ledger.create("phones", Unit.row(), limit=Budget(10, 1e-3))
    assert "protects one row" in sentence("federate", table, *USUAL, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_noise_of_clients_does_not_go_on_an_account_of_noise_of_the_server(
    table: str, roster: tuple[str, str]
) -> None:
    """The way out that is named is one that this command has."""
    federate(table, *FIRST)
    said = sentence("federate", table, *USUAL, "--noise", "client", *roster)
    assert "silenced but still present" in said
    assert "--noise, --replace" in said
    assert "--unit" not in said


def test_words_say_what_it_cost_and_who_is_trusted(
    table: str, roster: tuple[str, str], tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path / "out"))
    printed = run("federate", table, *USUAL, *FIRST, "--noise", "shared", *roster, *out).stdout
    said = " ".join(printed.split())
    assert "at δ = 0.0001, one client, silenced but still present" in said
    assert "12 rounds of about 90 clients" in said
    assert "Nobody sees a single update" in said
    assert "Against the server, which knows who was drawn: ε ≤" in said
    assert "This was a simulation: one process held the rows of all clients" in said
    certificate = Certificate.from_json((tmp_path / "out" / "certificate.json").read_text(encoding="utf-8"))
    claims = " ".join(certificate.assumptions)
    assert "(adversary: lying), and at most 0 clients collude with it" in claims
    assert "at most 6 rounds" in claims  # half more than 12 rounds at a rate of .3
    assert "This was a simulation" in claims
    shown = " ".join(run("verify", str(tmp_path / "out" / "certificate.json")).stdout.split())
    assert "adversary: lying" in shown


@pytest.mark.parametrize("place", ["shared", "client"])
def test_noise_of_clients_needs_a_list_of_them(table: str, place: str) -> None:
    """A client that is silent has no rows, so that a table does not name it, and it adds noise all the same."""
    said = sentence("federate", table, *USUAL, *FIRST, "--noise", place)
    assert f"--noise {place} needs a list of all clients" in said
    assert "--roster FILE" in said
    assert not Path(table).with_name("privacy.db").exists()


@pytest.mark.parametrize("place", ["shared", "client"])
def test_a_client_without_rows_keeps_its_place_and_its_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The table with all rows of one client and the one without them are read as the same clients in the same
    places, one of them silent; whoever is not on the list is left out."""
    rows = {
        "phone": [7, 3, 3, None, 8],
        "hour": [1.0, 2.0, 3.0, 4.0, 5.0],
        "age": [1.0] * 5,
        "app": ["maps"] * 5,
    }
    names = tmp_path / "names.txt"
    names.write_text("3\n7\n\n 12 \n5\n", encoding="utf-8")
    sizes: list[list[int]] = []
    real = FedAvg.__call__

    def watched(self: FedAvg, data: Any, *, rng: Any) -> Any:
        sizes.append([data.size(k) for k in range(len(data))])
        return real(self, data, rng=rng)

    monkeypatch.setattr(FedAvg, "__call__", watched)
    few = (*(option for option in USUAL if option not in ("--clients", str(CLIENTS))), "--rate", "1")
    for name, kept in (("with", pa.table(rows)), ("without", pa.table(rows).slice(1))):
        pyarrow.parquet.write_table(kept, tmp_path / f"{name}.parquet")
        out = ("--out", str(tmp_path / name), "--noise", place, "--roster", str(names), "--json")
        facts = json.loads(run("federate", str(tmp_path / f"{name}.parquet"), *few, *FIRST, *out).stdout)
        assert facts["clients"] == 4
        assert facts["simulated"] is True
    assert sizes == [[2, 1, 0, 0], [2, 0, 0, 0]]


def test_a_table_of_all_kinds_of_names_is_matched_as_it_is_written(tmp_path: Path) -> None:
    words = pa.chunked_array(
        [pa.array(["b", "a", None, ""]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
    )
    assert places_on(words, ["a", "b"]).tolist() == [1, 0, -1, -1, -1]
    assert places_on(pa.chunked_array([pa.array([12, 3])]), ["3", "12"]).tolist() == [1, 0]
    assert places_on(pa.chunked_array([pa.array([" a", "b\t"])]), ["a", "b"]).tolist() == [0, 1]
    with pytest.raises(DataError, match="names clients"):
        places_on(pa.chunked_array([pa.array([[1], [2]])]), ["1"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"phone 1\nphone 1\n", "names 'phone 1' twice"),
        (b"\xff\xfe", "cannot be read as text"),
        (b"\n", "names nobody"),
    ],
)
def test_a_roster_that_is_none_is_refused_before_any_charge(
    table: str, tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "names.txt").write_bytes(content)
    said = sentence(
        "federate", table, *USUAL, *FIRST, "--noise", "client", "--roster", str(tmp_path / "names.txt")
    )
    assert words in said
    assert not Path(table).with_name("privacy.db").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfphone 1\nphone 2\n",
        b"phone 1\r\nphone 2\r\n",
        b"\xef\xbb\xbfphone 1\r\nphone 2",
        b"phone 1\rphone 2\r",
        b"\n  phone 1\t\n\n\nphone 2  ",
    ],
)
def test_a_roster_from_any_editor_names_the_same_clients(tmp_path: Path, content: bytes) -> None:
    """A mark of byte order in the first name, or an end of line in each, would silence whoever bears it."""
    (tmp_path / "names.txt").write_bytes(content)
    assert read_roster(tmp_path / "names.txt") == ("phone 1", "phone 2")


def test_a_name_may_have_any_sign_that_ends_no_line(tmp_path: Path) -> None:
    names = ("a\x0cb", "a\x1cb", "a\u2028b", "a\x85b", "größe", "a,b")
    (tmp_path / "names.txt").write_text("\n".join(names), encoding="utf-8")
    assert read_roster(tmp_path / "names.txt") == names


def test_the_table_itself_is_no_roster(tmp_path: Path) -> None:
    """Each of its lines would be a client, none of whom has a row."""
    pyarrow.csv.write_csv(phones(), tmp_path / "phones.csv")
    table = str(tmp_path / "phones.csv")
    few = tuple(option for option in USUAL if option not in ("--clients", str(CLIENTS)))
    said = sentence("federate", table, *few, *FIRST, "--noise", "client", "--roster", table)
    assert "--roster is the table itself" in said
    assert not (tmp_path / "privacy.db").exists()


def test_help_shows_a_command_with_a_roster() -> None:
    said = " ".join(run("federate", "--help").stdout.split())
    assert "--noise shared --roster phones.txt" in said
    assert "A simulation" in said


def test_a_roster_and_another_number_of_clients_are_refused(table: str, roster: tuple[str, str]) -> None:
    said = sentence("federate", table, *USUAL, *FIRST, "--noise", "client", *roster, "--clients", "200")
    assert "--clients is 200, and --roster names 300" in said
    assert "--noise shared or client only" in sentence("federate", table, *USUAL, *FIRST, *roster)


def test_a_number_too_large_for_its_type_is_told_by_no_warning(table: str, tmp_path: Path) -> None:
    rows = phones().set_column(1, "hour", pa.array([1e150] + [1.0] * (10 * CLIENTS - 1)))
    pyarrow.parquet.write_table(rows, tmp_path / "large.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = run(
            "federate", str(tmp_path / "large.parquet"), *USUAL, *FIRST, "--out", str(tmp_path / "out")
        )
    assert "Warning" not in said.stdout + said.stderr


def test_the_number_of_clients_is_declared_and_never_counted(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with half of the clients is charged the same, with the same noise, over the same denominator."""
    facts = federate(table, *FIRST)
    half = tmp_path / "half.parquet"
    pyarrow.parquet.write_table(phones().slice(0, 5 * CLIENTS), half)
    again = federate(str(half), *FIRST)
    same = ("epsilon", "noise_multiplier", "rate", "rounds", "clients", "unit")
    assert [facts[name] for name in same] == [again[name] for name in same]


def test_a_client_whose_rows_cannot_be_read_stays_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were it gone, replaced rows could make a client leave with the noise that it adds.
    A row that names nobody is nobody's."""
    rows = {"phone": ["a", "a", "b", None, "c"], "hour": ["1", "x", "nan", "2", "3"], "age": ["1"] * 5,
            "app": ["maps", "games", "maps", "maps", "chess"]}  # fmt: skip
    pyarrow.csv.write_csv(pa.table(rows), tmp_path / "few.csv")
    sizes: list[list[int]] = []
    real = FedAvg.__call__

    def watched(self: FedAvg, data: Any, *, rng: Any) -> Any:
        sizes.append([data.size(k) for k in range(len(data))])
        return real(self, data, rng=rng)

    monkeypatch.setattr(FedAvg, "__call__", watched)
    federate(str(tmp_path / "few.csv"), *FIRST)
    assert sorted(sizes[0]) == [0, 0, 0, 1]  # b, c, nobody, a


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--user", "nobody"), "has no column 'nobody'"),
        (("--user", "app"), "neither a feature nor the target"),
        (("--least", "5"), "--least with --noise shared only"),
        (("--coins", "0.5"), "--coins with --noise shared or client only"),
        (("--noise", "client", "--coins", "0"), "coins"),
        (("--participations", "5"), "--noise shared or client only"),
        (("--rate", "0"), "Expected --rate 0 in (0, 1]"),
        (("--noise", "shared", "--least", "1"), "least"),
        (("--noise", "shared", "--least", "40"), "Use least=60"),
        (("--plot", "rounds.png"), "Expected --public FILE with --plot"),
        (("--clients", "1"), "clients"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_charge(
    table: str, roster: tuple[str, str], options: tuple[str, ...], words: str
) -> None:
    listed = roster if "--noise" in options else ()
    said = sentence("federate", table, *USUAL, *FIRST, *options, *listed)
    assert words in said
    assert not Path(table).with_name("privacy.db").exists()


def test_a_broken_file_is_told_without_quoting_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("phone,hour,age,app\na,1,2,maps\nsecret,1\n", encoding="utf-8")
    said = sentence("federate", str(broken), *USUAL, *FIRST)
    assert "cannot be read as a table" in said
    assert "secret" not in said


def test_accuracy_by_round_is_drawn(table: str, public: str, tmp_path: Path) -> None:
    federate(table, *FIRST, "--public", public, "--plot", str(tmp_path / "rounds.svg"))
    assert "<svg" in (tmp_path / "rounds.svg").read_text(encoding="utf-8")
