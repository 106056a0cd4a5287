"""`deniable schema` drafts from metadata and answers alone, remembers, and checks what the owner made of it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from deniable.cli.schema import app
from deniable.cli.schema_questions import interview
from deniable.curator import Curator
from deniable.datasets.visits import visits
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.sql.schema import file as schema_file
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.schema.infer import describe
from deniable.sql.tree import Kind
from deniable.sql.types import NUMBERS
from deniable.units import Unit
from tests.cli.runner import run as deniable
from tests.cli.runner import run_json

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, arguments, env=WIDE, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "visits.parquet"
    pq.write_table(visits(200), path)
    return path


def test_the_draft_names_columns_and_types_and_nothing_of_the_data(file: Path, tmp_path: Path) -> None:
    said = run("init", str(file), "--out", "-").stdout
    for name in visits(1).column_names:
        assert name in said
    other = tmp_path / "elsewhere" / "visits.parquet"
    other.parent.mkdir()
    pq.write_table(visits(7, seed=5), other)
    assert run("init", str(other), "--out", "-").stdout == said


@pytest.mark.parametrize(("header", "unit"), [("Member No,Fee", "'Member No'"), ("place,fee", "row")])
def test_the_next_command_protects_people_where_a_column_looks_like_them(
    header: str, unit: str, tmp_path: Path
) -> None:
    path = tmp_path / "list.csv"
    path.write_text(f"{header}\n1,2\n")
    assert f" --unit {unit} " in run("init", str(path), "--no-ask").stdout


def test_a_draft_is_written_once_and_never_over_another_file(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "visits.yaml"
    assert "review it" in run("init", str(file), "--out", str(out)).stdout
    text = out.read_text(encoding="utf-8")
    assert "exists already" in run("init", str(file), "--out", str(out), code=2).stderr
    assert out.read_text(encoding="utf-8") == text


def test_a_draft_checks_against_the_file_it_was_made_of(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "visits.yaml"
    run("init", str(file), "--out", str(out))
    said = run("check", str(out), str(file)).stdout
    assert "visits: private" in said
    assert "Good." in said
    facts = json.loads(run("check", str(out), "--json").stdout)
    assert [c["name"] for c in facts["tables"][0]["columns"]] == visits(1).column_names


def test_a_schema_for_other_data_is_refused(file: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "visits.yaml", tmp_path / "other.parquet"
    run("init", str(file), "--out", str(out))
    pq.write_table(pa.table({"something": [1]}), other)
    assert run("check", str(out), str(other), code=2).stderr
    out.write_text("no: schema\n", encoding="utf-8")
    assert run("check", str(out), code=2).stderr


# ------------------------------------------------------------------------------------------------ a CSV file

SECRET = "Secret-4711"
CSV_TEXT = f"patient_id,age,ward,day,note\n{SECRET},37.5,A,2024-01-01,{SECRET}\n2,x,B,2024-01-02,\n3,40,A,,\n"


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text(CSV_TEXT, encoding="utf-8")
    return path


def columns(schema: Schema) -> dict[str, ColumnInfo]:
    return {column.name: column for column in schema.tables[0].columns}


def test_options_declare_a_csv_file_and_bounds_imply_a_number(csv: Path) -> None:
    flags = ("--unit", "patient_id", "--type", "day=date", "--bounds", "age=0:100", "--keys", "ward=A,B,no")
    run("init", str(csv), *flags)
    text = csv.with_name("visits.csv.schema.yaml").read_text(encoding="utf-8")
    assert "4711" not in text
    known = columns(schema_file.parse(text))
    assert schema_file.parse(text).tables[0].unit == "patient_id"
    assert (known["age"].type.kind, known["age"].lower, known["age"].upper) == (Kind.FLOAT, 0, 100)
    assert known["ward"].keys == ("A", "B", "no")
    assert known["day"].type.kind is Kind.DATE


def test_rows_change_nothing_of_what_is_asked_or_written(csv: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "visits.csv"
    other.parent.mkdir()
    other.write_bytes(CSV_TEXT.split("\n")[0].encode() + b"\n" + b"\xff,1,2\n" * 3)
    assert run("init", str(csv), "--out", "-").stdout == run("init", str(other), "--out", "-").stdout


def test_a_schema_that_is_there_is_not_written_over(csv: Path) -> None:
    run("init", str(csv), "--unit", "patient_id")
    assert "exists already" in run("init", str(csv), code=2).stderr


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--unit", "nobody"), 'the column "nobody" is not declared'),
        (("--type", "age=number"), "Expected type='number' to be one of boolean"),
        (("--type", "age=decimal:99"), "Expected type='decimal:99'"),
        (("--type", "agee=integer"), 'There is no column "agee"'),
        (("--bounds", "age=9:1"), "lower ≤ upper"),
    ],
)
def test_what_options_say_wrongly_is_refused(csv: Path, flags: Sequence[str], sentence: str) -> None:
    assert sentence in run("init", str(csv), *flags, code=2).stderr
    assert not csv.with_name("visits.csv.schema.yaml").exists()


def asked(table: TableInfo, *answers: str, typed: bool = False) -> tuple[TableInfo, list[str], list[str]]:
    """The table after an interview, the questions and what was said between them. An empty answer is Enter."""
    rest, questions, sayings = list(answers), [], []

    def ask(question: str, suggestion: str) -> str:
        questions.append(question)
        return rest.pop(0) or suggestion

    found = interview(table, typed, ask, sayings.append)
    assert not rest
    return found, questions, sayings


def test_the_owner_is_asked_for_what_names_cannot_tell(csv: Path) -> None:
    table, questions, sayings = asked(
        describe("visits", csv), "", "", "", "0:100", "text", "A,B", "dat", "date", "-"
    )
    known = columns(Schema((table,)))
    assert table.unit == "patient_id"
    assert list(known) == ["patient_id", "age", "ward", "day"]
    assert (known["age"].type.kind, known["age"].upper) == (Kind.INTEGER, 100)
    assert known["ward"].keys == ("A", "B")
    assert known["day"].type.kind is Kind.DATE
    assert "Expected type='dat'" in sayings[1]
    assert SECRET not in "".join([*questions, *sayings])


def test_where_types_are_known_they_are_not_asked(file: Path) -> None:
    table = describe("visits", file)
    others = [c for c in table.columns if c.name != "patient_id"]
    bounded = [c for c in others if c.type.kind in (*NUMBERS, Kind.TEXT)]
    found, questions, _ = asked(table, "patient_id", *[""] * len(bounded), typed=True)
    assert not [question for question in questions if question.endswith(": type")]
    assert found.columns == table.columns


def test_a_terminal_is_asked_and_a_pipe_is_not(csv: Path) -> None:
    command = [sys.executable, "-m", "deniable", "schema", "init", str(csv)]
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, close_fds=True)
    os.close(slave)
    os.write(master, b"\n\n\n0:100\n\nA,B\n\n-\n")
    screen = b""
    try:
        while block := os.read(master, 4096):
            screen += block
    except OSError:
        pass  # Linux tells so that the other end was closed
    assert process.wait(600) == 0
    os.close(master)
    said = screen.decode()
    assert "Who is protected" in said
    assert SECRET not in said
    known = columns(schema_file.load(csv.with_name("visits.csv.schema.yaml")))
    assert known["ward"].keys == ("A", "B")
    assert "note" not in known


# ------------------------------------------------------------------------------------------------ remembered


def opened(csv: Path, **how: object) -> Curator:
    return Curator.open(csv, limit=Budget(epsilon=3, delta=1e-6), ledger="sqlite://", **how)  # type: ignore[arg-type]


def test_a_schema_beside_the_data_is_found_told_and_names_the_unit(csv: Path) -> None:
    place = csv.with_name("visits.csv.schema.yaml")
    with pytest.raises(InvalidParameter, match="Expected a unit"):
        opened(csv)
    run("init", str(csv), "--unit", "patient_id", "--bounds", "age=0:100")
    with opened(csv) as curator:
        assert curator.schema_files == (place,)
        assert curator.account.unit == Unit.column("patient_id")
        curator.sql("SELECT AVG(age) AS a FROM visits", epsilon=1)
    with opened(csv, name="other") as curator:
        assert curator.schema_files == (place,)
        assert [table.name for table in curator.schema.tables] == ["other"]
    named = Schema((TableInfo("visits", (ColumnInfo("patient_id", columns(curator.schema)["ward"].type),)),))
    with opened(csv, schema=named, unit=Unit.column("patient_id")) as curator:
        assert curator.schema_files == ()
        assert list(columns(curator.schema)) == ["patient_id"]


def test_a_schema_that_cannot_be_trusted_is_refused_and_not_passed_over(csv: Path) -> None:
    place = csv.with_name("visits.csv.schema.yaml")
    run("init", str(csv), "--unit", "patient_id")
    place.chmod(0o666)
    with pytest.raises(InvalidParameter, match="may be written by everybody"):
        opened(csv)
    place.chmod(0o644)
    place.write_text(place.read_text().replace("unit: patient_id", "public: true"), encoding="utf-8")
    with pytest.raises(InvalidParameter, match="cannot end anybody's protection"):
        opened(csv, unit=Unit.column("patient_id"))
    place.write_text("tables: nonsense", encoding="utf-8")
    with pytest.raises(InvalidParameter):
        opened(csv, unit=Unit.column("patient_id"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give a file away")
def test_a_schema_of_another_user_is_refused(csv: Path) -> None:
    place = csv.with_name("visits.csv.schema.yaml")
    run("init", str(csv), "--unit", "patient_id")
    os.chown(place, 12_345, -1)
    with pytest.raises(InvalidParameter, match="belongs to another user"):
        opened(csv)
    os.chown(csv, 12_345, -1)
    opened(csv).close()


def test_a_unit_and_a_schema_that_contradict_one_another_are_refused(csv: Path) -> None:
    run("init", str(csv), "--unit", "note")
    with pytest.raises(InvalidParameter, match='"note" tells the people of "visits" apart'):
        opened(csv, unit=Unit.column("patient_id"))


def test_a_query_tells_which_schema_it_was_answered_by(csv: Path) -> None:
    run("init", str(csv), "--unit", "patient_id", "--bounds", "age=0:100")
    asked_for = ("query", str(csv), "SELECT AVG(age) AS a FROM visits", "--epsilon", "1")
    assert (
        "visits.csv.schema.yaml, which lies beside the data"
        in deniable(*asked_for, "--limit", "3:1e-6").stdout
    )
    assert run_json(*asked_for)["schema"] == [str(csv.with_name("visits.csv.schema.yaml"))]


def test_bounds_alone_make_a_number_of_a_csv_column(csv: Path) -> None:
    flags = ("--unit", "patient_id", "--limit", "3:1e-6", "--epsilon", "1")
    question = ("query", str(csv), "SELECT AVG(age) AS a FROM visits", *flags)
    refusal = deniable(*question, code=2).stderr
    assert "The column age is TEXT" in refusal
    assert "--bounds age=LOW:HIGH makes it a number" in refusal
    deniable(*question, "--bounds", "age=0:100")


def test_the_owner_counts_cells_that_do_not_fit_and_nobody_else_does(tmp_path: Path) -> None:
    data = tmp_path / "visits.csv"
    data.write_text("who,day\na,2026-01-31\nb,31.01.2026\n", encoding="utf-8")
    run("init", str(data), "--unit", "who", "--type", "day=date", "--no-ask")
    place = str(data) + ".schema.yaml"
    said = run("check", place, str(data), "--cells").stdout
    assert "visits.day       2       0            1   99.99.9999" in said
    assert "for the owner alone" in said
    assert "31.01" not in said
    counts = json.loads(run("check", place, str(data), "--cells", "--json").stdout)["cells"]
    assert [count["unread"] for count in counts] == [0, 1]
    assert "do not fit" not in run("check", place, str(data)).stdout
    assert deniable("schema", "check", place, "--cells", code=2).stderr.startswith("Expected the data too")


@pytest.mark.parametrize("more", [[], ["--cells"]])
def test_a_check_says_that_rows_of_nobody_do_not_count(tmp_path: Path, more: list[str]) -> None:
    data, place = tmp_path / "visits.csv", tmp_path / "visits.yaml"
    data.write_text("Person ID,days\n1,2\n,3\n", encoding="utf-8")
    place.write_text(
        'tables: {visits: {unit: "Person ID", columns: {"Person ID": integer, days: integer}}}',
        encoding="utf-8",
    )
    answer = run("check", str(place), str(data), *more)
    assert "Rows with an empty Person ID are not counted." in answer.stdout
