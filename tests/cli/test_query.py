"""`deniable query` asks a file, remembers beside it, writes what is wanted, and says no in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from deniable import extras
from deniable.cli import outputs
from deniable.cli.query import query
from deniable.cli.schema import app as schema
from deniable.curator import Curator
from deniable.datasets.visits import visits

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_WARD = "SELECT ward, COUNT(*) AS n, AVG(days) AS d FROM visits GROUP BY ward"
FIRST = ("--unit", "patient_id", "--max-rows", "4", "--limit", "3:1e-6")
KEYS = ("--keys", "ward=emergency,medicine,surgery,children,eyes", "--bounds", "days=0:60")

app = typer.Typer()
app.command("query")(query)
app.add_typer(schema, name="schema")


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["query", *arguments], env=WIDE, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def sentence(*arguments: str) -> str:
    result = run(*arguments, code=2)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr.strip()


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "visits.parquet"
    pq.write_table(visits(2000), path)
    return str(path)


def test_the_first_use_without_a_limit_tells_how_to_set_one(file: str) -> None:
    said = sentence(file, COUNT, "--unit", "patient_id", "--epsilon", "0.5")
    assert 'The data set "visits" has no limit yet' in said
    assert "--limit 3:1e-6" in said


def test_a_query_prints_a_table_its_cost_and_what_is_left_out(file: str) -> None:
    said = run(file, BY_WARD, *FIRST, *KEYS, "--epsilon", "0.5").stdout
    assert "emergency" in said
    assert " ± " in said
    assert "Cost: ε = 0.5" in said
    assert "Spent: ε = 0.5" in said
    assert "of ε = 3 at δ = 1e-06." in said
    assert "leaves out what clamping" in said


def test_the_ledger_beside_the_file_remembers_unit_limit_and_answers(file: str) -> None:
    first = run_json(file, COUNT, *FIRST, "--epsilon", "0.5")
    again = run_json(file, COUNT, "--epsilon", "0.5")
    assert again["rows"] == first["rows"]
    assert (first["again"], again["again"]) == (False, True)
    assert again["spent"]["epsilon"] == pytest.approx(0.5)


def test_json_has_the_fields_that_a_service_sends(file: str) -> None:
    words = run_json(file, COUNT, *FIRST, "--epsilon", "0.5")
    forecast = run_json(file, COUNT, "--epsilon", "0.25", "--preview")
    with Curator.open(file) as curator:
        answer, preview = curator.sql(COUNT, epsilon=0.5), curator.preview(COUNT, epsilon=0.25)
    assert set(words) == {*answer.to_dict(), "schema", "spent"}
    assert words["low"] == answer.to_dict()["low"]
    assert forecast == preview.to_dict()


def test_a_preview_runs_nothing(file: str) -> None:
    said = run(file, BY_WARD, *FIRST, *KEYS, "--epsilon", "0.5", "--preview").stdout
    assert "Cost: ε = 0.5." in said
    assert "Left afterwards for one charge: ε ≤ 2.5" in said
    assert not Path("privacy.db").exists()
    facts = run_json(file, COUNT, *FIRST, "--epsilon", "0.5", "--preview")
    assert facts["fits"]
    assert facts["left"]["epsilon"] == pytest.approx(2.5)
    assert set(facts["expected"]) == {"n"}


def test_within_chooses_epsilon(file: str) -> None:
    row = run_json(file, COUNT, *FIRST, "--within", "100")["rows"][0]
    assert (row["n_high"] - row["n_low"]) / 2 <= 100


def test_over_the_limit_is_refused_in_one_sentence(file: str) -> None:
    said = sentence(file, COUNT, *FIRST, "--epsilon", "4")
    assert "over its limit ε = 3" in said
    assert "Nothing was run and nothing was charged" in said


def test_the_answer_is_written_as_csv_parquet_and_picture(file: str, tmp_path: Path) -> None:
    csv, parquet, picture = (tmp_path / name for name in ("a.csv", "a.parquet", "a.png"))
    run(
        file,
        BY_WARD,
        *FIRST,
        *KEYS,
        "--epsilon",
        "1",
        "--csv",
        str(csv),
        "--parquet",
        str(parquet),
        "--plot",
        str(picture),
    )
    columns = ["ward", "n", "n_low", "n_high", "n_left_out", "d", "d_low", "d_high"]
    assert pyarrow.csv.read_csv(csv).column_names == columns
    assert pq.read_table(parquet).column_names == columns
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--bounds", "days=0"), "Expected bounds='days=0' to look like days=0:60."),
        (("--keys", "ward"), "Expected keys='ward' to look like"),
        (("--limit", "much"), "Expected limit='much' to be an ε"),
        (("--unit", "row", "--max-rows", "3"), "Expected max_rows=3 only with a column"),
        (("--bounds", "dayz=0:1"), 'There is no column "dayz"'),
    ],
)
def test_a_misspelt_option_is_refused_before_anything_is_made(
    file: str, options: tuple[str, ...], told: str
) -> None:
    given = (*FIRST, "--epsilon", "1", *options) if "--limit" not in options else ("--unit", "row", *options)
    assert told in sentence(file, COUNT, *given)


def test_a_refused_query_says_why(file: str) -> None:
    assert "is not answered" in sentence(file, "SELECT * FROM visits", *FIRST, "--epsilon", "1")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "nowhere.parquet" in sentence(str(tmp_path / "nowhere.parquet"), COUNT, *FIRST, "--epsilon", "1")


def test_a_schema_file_takes_the_place_of_options(file: str, tmp_path: Path) -> None:
    out = tmp_path / "visits.yaml"
    CliRunner().invoke(app, ["schema", "init", file, "--out", str(out)], env=WIDE, catch_exceptions=False)
    assert run_json(file, COUNT, *FIRST, "--schema", str(out), "--epsilon", "0.5")["rows"]


def test_one_of_many_and_what_follows_a_release(file: str) -> None:
    first = ("--unit", "row", "--limit", "1:1e-6", "--purpose", "counts")
    assert run_json(file, COUNT, *first, "--of", "100", "--preview")["more"] == 100
    ranked = "SELECT diagnosis, COUNT(*) AS n, RANK() OVER (ORDER BY n DESC) AS place FROM visits GROUP BY 1 ORDER BY place"
    paid = run_json(file, ranked, *first, "--epsilon", ".5")
    counts = [row["n"] for row in paid["rows"]]
    assert [row["place"] for row in paid["rows"]] == [1 + sum(other > n for other in counts) for n in counts]
    shares = "SELECT diagnosis, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY 1"
    assert run_json(file, shares, "--epsilon", ".5")["again"]
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.125) COUNT(*) AS n FROM visits"
    assert run_json(file, text)["epsilon"] == 0.125


def test_a_bound_on_rows_goes_with_the_unit_of_the_schema(tmp_path: Path) -> None:
    """It was passed over in silence where --unit was left out."""
    data = tmp_path / "visits.csv"
    pyarrow.csv.write_csv(visits(300), data)
    bound = ("--max-rows", "4", "--limit", "3:1e-6", "--epsilon", ".5")
    assert "name it too, like --unit patient_id" in sentence(str(data), COUNT, *bound)
    made = CliRunner().invoke(app, ["schema", "init", str(data), "--unit", "patient_id", "--no-ask"])
    assert made.exit_code == 0
    assert "at most 4 rows" in run(str(data), COUNT, *bound).stdout
    assert "at most 4 count" in sentence(str(data), COUNT, "--max-rows", "5", "--epsilon", ".1")


def test_an_answer_without_a_group_says_why(tmp_path: Path) -> None:
    data = tmp_path / "visits.csv"
    pyarrow.csv.write_csv(visits(60), data)
    said = run(
        str(data), "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", *FIRST, "--epsilon", ".05"
    ).stdout
    assert "No group is shown" in said


def test_a_file_that_cannot_be_written_is_told_before_the_charge(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = (file, COUNT, *FIRST, "--epsilon", "0.5")
    assert "there is no folder" in sentence(*ask, "--csv", str(tmp_path / "none" / "a.csv"))
    assert "is a folder" in sentence(*ask, "--parquet", str(tmp_path))
    assert "to end in .png, .pdf, .svg" in sentence(*ask, "--plot", str(tmp_path / "a.doc"))
    monkeypatch.setattr(outputs.importlib.util, "find_spec", lambda _: None)
    assert extras.install("plot") in sentence(*ask, "--plot", str(tmp_path / "a.png"))
    monkeypatch.undo()
    first = run_json(file, COUNT, *FIRST, "--epsilon", "0.5")["entry"]
    assert first.startswith("2:")  # after the account's own
