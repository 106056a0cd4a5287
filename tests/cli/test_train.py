"""`deniable train`: a table becomes a model and a certificate; bounds and sizes are declared, never read."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
import typer
from typer.testing import CliRunner

from deniable.accounting import verify
from deniable.cli.train import train
from deniable.guarantee import Budget, Certificate
from deniable.learn.sgd.tables import Feature, Table, load
from deniable.ledger import Filter, Ledger
from deniable.ledger.data_sets.beside import ledger_of
from deniable.units import Unit

APP = typer.Typer()
APP.command()(train)
WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
N = 2000


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(APP, [str(a) for a in arguments], env=WIDE, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def visits(n: int = N, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    age, stay = rng.uniform(0, 100, n), rng.uniform(0, 60, n)
    ward = np.where(age + stay > 80, "surgery", "maternity")
    return pa.table({"age": age, "stay": stay, "ward": ward, "name": ["x"] * n})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pyarrow.parquet.write_table(visits(), tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


DECLARED = (
    "--target",
    "ward",
    "--classes",
    "surgery,maternity",
    "--feature",
    "age:0:100",
    "--feature",
    "stay:0:60",
)
USUAL = (*DECLARED, "--n", N, "--epsilon", 2)
FIRST = ("--limit", "3:4e-5")


@pytest.mark.parametrize("model", ["linear", "mlp", "logistic"])
def test_a_table_becomes_a_model_with_a_certificate(table: Path, tmp_path: Path, model: str) -> None:
    pyarrow.parquet.write_table(visits(seed=1), tmp_path / "public.parquet")
    out = tmp_path / "out"
    said = run(
        table,
        *USUAL,
        *FIRST,
        "--model",
        model,
        "--out",
        out,
        "--public",
        tmp_path / "public.parquet",
        "--json",
    ).stdout
    facts = json.loads(said)
    assert facts["accuracy_on_public_rows"] > 0.85
    assert 1.9 < facts["epsilon"] <= 2
    certificate = Certificate.from_json((out / "certificate.json").read_text(encoding="utf-8"))
    assert verify(certificate).upper <= 2
    assert certificate.unit == Unit.row()
    described, trained = load(out)
    assert described.classes == ("surgery", "maternity")
    assert described.accuracy(trained, tmp_path / "public.parquet") == facts["accuracy_on_public_rows"]


def test_words_say_what_it_cost_and_where_it_is(table: Path, tmp_path: Path) -> None:
    said = run(table, *USUAL, *FIRST, "--model", "linear", "--out", tmp_path / "out", "--epochs", 2).stdout
    assert "at δ = 1e-05, one row, added or removed" in said
    assert "40 steps on lots of 100 rows" in said
    assert "certificate.json" in said


@pytest.mark.parametrize("model", ["linear", "logistic"])
@pytest.mark.parametrize(
    "wrong",
    [("--classes", "Surgery,Maternity"), ("--feature", "name:0:1")],
    ids=["misspelled classes", "words for a feature"],
)
def test_a_table_whose_rows_cannot_be_used_is_told(
    table: Path, tmp_path: Path, model: str, wrong: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """From a count that is released with noise: a refusal would be steered by private rows."""
    path = tmp_path / "visits.csv"
    pyarrow.csv.write_csv(pyarrow.parquet.read_table(table), path)
    few = ("--model", model, "--out", tmp_path / "out", "--epochs", 2, "--lot", 500)
    much = ("--epsilon", 8, "--limit", "9:1e-4")  # the count is then 20 deviations below half of a lot
    said = run(path, *USUAL, *wrong, *much, *few).stdout
    assert "rows of a lot were usable, of 500 expected: are rows put together" in caplog.text
    assert "rows of a lot were usable, of 500 expected, as released with noise" in said


@pytest.mark.parametrize("model", ["linear", "logistic"])
def test_a_table_whose_rows_can_be_used_is_not_doubted(
    table: Path, tmp_path: Path, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(table, *USUAL, *FIRST, "--model", model, "--out", tmp_path / "out", "--epochs", 2, "--lot", 500)
    assert "usable" not in caplog.text


def test_logistic_takes_its_own_defaults_and_what_is_said(table: Path, tmp_path: Path) -> None:
    out = ("--model", "logistic", "--out", tmp_path / "out", "--json")
    facts = json.loads(run(table, *USUAL, "--limit", "9:1e-3", *out).stdout)
    assert (facts["steps"], facts["rate"]) == (200, 1)
    facts = json.loads(run(table, *USUAL, *out, "--lot", 100, "--epochs", 2, "--clip", 0.4).stdout)
    assert (facts["steps"], facts["rate"]) == (40, 0.05)
    assert facts["epsilon"] <= 2
    said = run(table, *USUAL, *out, "--lot", 5000, code=2).stderr
    assert "Expected lot=5000 of at most n=2000" in said


@pytest.mark.parametrize(
    ("draw", "loss"),
    [
        (("--draw", "fixed"), "GaussianNoise"),
        (("--draw", "allocated"), "Repeated"),
        (("--cap", 170, "--at-most", 2500), "Repeated"),
    ],
    ids=["fixed", "allocated", "capped"],
)
def test_lots_are_drawn_as_asked_and_charged_as_drawn(
    table: Path, tmp_path: Path, draw: tuple[object, ...], loss: str
) -> None:
    out = tmp_path / "out"
    said = run(
        table, *USUAL, *FIRST, "--model", "linear", "--epochs", 2, "--out", out, *draw, "--json"
    ).stdout
    facts = json.loads(said)
    certificate = Certificate.from_json((out / "certificate.json").read_text(encoding="utf-8"))
    assert type(certificate.loss).__name__ == loss
    inner = {"allocated": "Allocated", "fixed": "GaussianNoise"}.get(str(draw[1]), "CappedSample")
    assert type(getattr(certificate.loss, "of", certificate.loss)).__name__ == inner
    assert 1.9 < verify(certificate).upper <= 2
    assert facts["steps"] == 40
    refused = run(table, *USUAL, *draw, "--out", tmp_path / "other", code=2).stderr
    assert "linear or mlp" in refused


def test_a_ledger_pays_and_refuses(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "key"))
    url = f"sqlite:///{tmp_path / 'privacy.db'}"
    with Ledger.open(url) as ledger:
        ledger.create("visits", Unit.row(), limit=Budget(3, 2e-5), filter=Filter.basic)
    paid = ("--ledger", url, "--account", "visits", "--epochs", 1, "--out", tmp_path / "out")
    run(table, *USUAL, *paid)
    with Ledger.open(url) as ledger:
        account = ledger.account("visits")
        assert 1.9 < account.spent().epsilon <= 2
        told = json.loads((tmp_path / "out" / "certificate.json").read_text(encoding="utf-8"))
        assert told["head"] == str(ledger.head())
    assert "over its limit" in run(table, *USUAL, *paid, code=2).stderr


def test_the_ledger_beside_the_data_remembers_every_run(table: Path, tmp_path: Path) -> None:
    """A run that pays from a limit which is forgotten would be free the next time."""
    paid = (*USUAL, "--epochs", 1, "--out", tmp_path / "out")
    run(table, *paid, *FIRST)
    with Ledger.open(f"sqlite:///{tmp_path / 'privacy.db'}", create=False) as ledger:
        assert 1.9 < ledger.account("visits").spent().epsilon <= 2 + 1e-9
    assert "over its limit" in run(table, *paid, code=2).stderr


def test_a_file_is_not_granted_twice_under_another_name(table: Path, tmp_path: Path) -> None:
    paid = (*USUAL, *FIRST, "--epochs", 1, "--out", tmp_path / "out")
    run(table, *paid)
    assert 'the account "visits"' in run(table, *paid, "--account", "another", code=2).stderr
    run(table, *paid, "--account", "visits", "--epsilon", 0.1)


def test_a_table_whose_people_have_many_rows_is_refused(table: Path, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'privacy.db'}") as ledger:
        ledger.create("visits", Unit.column("name", max_rows=2), limit=Budget(3, 4e-5))
    assert "protects all rows of one name" in run(table, *USUAL, "--out", tmp_path / "out", code=2).stderr
    assert not (tmp_path / "out").exists()


def test_a_schema_file_stands_for_options(table: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    schema.write_text("n: 2000\nclasses: [surgery, maternity]\nfeatures:\n  age: [0, 100]\n  stay: [0, 60]\n")
    out = tmp_path / "out"
    run(
        table,
        "--target",
        "ward",
        "--epsilon",
        2,
        "--schema",
        schema,
        "--model",
        "linear",
        "--epochs",
        1,
        "--out",
        out,
        *FIRST,
    )
    assert load(out)[0].features == (Feature("age", 0, 100), Feature("stay", 0, 60))
    schema.write_text("features: [1, 2]")
    said = run(table, "--target", "ward", "--epsilon", 2, "--schema", schema, code=2).stderr
    assert "to hold n, classes and features" in said


@pytest.mark.parametrize(
    ("left_out", "sentence"),
    [("--n", "Expected --n"), ("--classes", "Expected --classes"), ("--feature", "Expected --feature")],
)
def test_what_private_data_cannot_tell_must_be_said(table: Path, left_out: str, sentence: str) -> None:
    pairs = [(USUAL[i], USUAL[i + 1]) for i in range(0, len(USUAL), 2)]
    given = [word for pair in pairs if pair[0] != left_out for word in pair]
    said = run(table, *given, code=2).stderr
    assert sentence in said
    assert "Nothing was charged" in said


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--epsilon", 1e-6, "--model", "linear"), "is too small for"),
        (("--feature", "age"), "Expected a feature like age:0:100"),
        (("--feature", "age:5:5"), "Expected the bounds 5 < 5"),
        (("--feature", "weight:0:9"), "has no column 'weight'"),
        (("--classes", "one"), "Expected at least 2 in classes"),
        ((), 'The data set "visits" has no limit yet'),
        (("--lot", 1e9, "--model", "linear"), r"Expected rate=500000 in (0, 1]"),
        (("--lot", 1e9), "Expected lot=1e+09 of at most n=2000"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_sentence(
    table: Path, tmp_path: Path, more: tuple[object, ...], sentence: str
) -> None:
    assert sentence in run(table, *USUAL, "--out", tmp_path / "out", *more, code=2).stderr
    assert not (tmp_path / "out").exists()


BROKEN: dict[str, bytes] = {
    "ragged.csv": b"age,stay,ward\n30,40,surgery\n31,41,42,Ann\n",
    "bytes.csv": b"age,stay,ward\n30,\xff\xfeAnn,surgery\n",
    "empty.csv": b"",
    "broken.parquet": b"Ann",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_table_is_refused_and_not_quoted(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BROKEN[name])
    said = run(tmp_path / name, *USUAL, *FIRST, "--out", tmp_path / "out", code=2).stderr
    assert f"The file {name} cannot be read as a table" in said
    assert "not in UTF-8" in said
    assert "Nothing was charged" in said
    assert "Ann" not in said


def test_a_file_with_semicolons_is_told_what_a_csv_file_is_and_not_quoted(tmp_path: Path) -> None:
    """Without a line of names its first row would stand for them."""
    path = tmp_path / "visits.csv"
    path.write_text("Ann;40;surgery\nBob;41;surgery\n", encoding="utf-8")
    said = run(path, *USUAL, *FIRST, "--out", tmp_path / "out", code=2).stderr
    assert "begins with a line of names, with commas between" in " ".join(said.split())
    assert "Ann" not in said


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = run(tmp_path / "none.parquet", *USUAL, *FIRST, "--out", tmp_path / "out", code=2).stderr
    assert "none.parquet: No such file" in said


def test_public_rows_that_cannot_be_used_are_told_before_the_charge(table: Path, tmp_path: Path) -> None:
    other = visits(5).set_column(2, "ward", pa.array(["garden"] * 5))
    pyarrow.parquet.write_table(other, tmp_path / "other.parquet")
    usual = (table, *USUAL, *FIRST, "--out", tmp_path / "out", "--public")
    assert "none.csv: No such file" in run(*usual, tmp_path / "none.csv", code=2).stderr
    assert (
        "No row of other.parquet, given as public" in run(*usual, tmp_path / "other.parquet", code=2).stderr
    )
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "visits.parquet.ledger").exists()


def test_accuracy_on_the_private_rows_is_no_public_accuracy(table: Path, tmp_path: Path) -> None:
    """By its own name, and by another one."""
    (tmp_path / "link.parquet").symlink_to(table)
    for public in (table, tmp_path / "link.parquet"):
        said = run(table, *USUAL, *FIRST, "--out", tmp_path / "out", "--public", public, code=2).stderr
        assert "accuracy on these would be a release without noise. Nothing was charged." in said


def test_a_model_without_a_place_is_not_paid_for(table: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = run(table, *USUAL, *FIRST, "--out", tmp_path / "file" / "out", code=2).stderr
    assert "Not a directory" in said
    run(table, *USUAL, "--out", tmp_path / "out")  # its whole price is still there


def test_a_schema_without_a_whole_number_of_rows_is_refused(table: Path, tmp_path: Path) -> None:
    schema = tmp_path / "visits.yaml"
    schema.write_text("n: many\nclasses: [surgery, maternity]\nfeatures: {age: [0, 100]}\n")
    said = run(table, "--target", "ward", "--epsilon", 2, "--schema", schema, code=2).stderr
    assert "Expected n='many' to be a whole number" in said


TABLE = Table((Feature("age", 0, 100), Feature("stay", 0, 60)), "ward", ("a", "3"))


def test_rows_are_clamped_or_left_out_by_rule(tmp_path: Path) -> None:
    rows = {
        "age": [50, 0, 200, -5, None, "x", 10, 10],
        "stay": ["30", "60", "inf", "-inf", "1", "1", "", "1"],
        "ward": ["a", "3", "a", "a", "a", "a", "a", "b"],
    }
    text = pa.table({name: [None if v is None else str(v) for v in values] for name, values in rows.items()})
    pyarrow.csv.write_csv(text, tmp_path / "t.csv")
    x, y = TABLE.read(tmp_path / "t.csv")
    assert torch.allclose(x[:4], torch.tensor([[0.0, 0], [-1, 1], [1, 1], [-1, -1]]))
    assert torch.isnan(x[4:]).any(dim=1).all()
    assert y.tolist()[:4] == [0, 1, 0, 0]
    assert int(y.min()) >= 0


def test_whole_numbers_are_classes_whatever_their_type(tmp_path: Path) -> None:
    for kind in (pa.int64(), pa.float64(), pa.string()):
        ward = pa.array([3, 3], pa.int64()).cast(kind)
        pyarrow.parquet.write_table(
            pa.table({"age": [1, 2], "stay": [1, 2], "ward": ward}), tmp_path / "t.parquet"
        )
        assert TABLE.read(tmp_path / "t.parquet")[1].tolist() == [1, 1]


def test_an_empty_table_is_data_too(tmp_path: Path) -> None:
    empty = pa.table(
        {
            "age": pa.array([], pa.float64()),
            "stay": pa.array([], pa.float64()),
            "ward": pa.array([], pa.string()),
        }
    )
    pyarrow.parquet.write_table(empty, tmp_path / "t.parquet")
    x, y = TABLE.read(tmp_path / "t.parquet")
    assert x.shape == (0, 2)
    assert math.isnan(TABLE.accuracy(TABLE.model(), tmp_path / "t.parquet"))
    assert len(y) == 0


# ------------------------------------------------------------------------------------------------ runs that survive a kill


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", ["linear", "logistic"])
def test_a_killed_run_goes_on_under_its_charge(table: Path, tmp_path: Path, model: str) -> None:
    folder, out = tmp_path / "run", tmp_path / "out"
    asked = (
        table,
        *USUAL,
        "--model",
        model,
        "--epochs",
        8,
        "--lot",
        20,
        "--out",
        out,
        "--checkpoint",
        folder,
    )
    command = [sys.executable, "-m", "deniable", "train", *map(str, (*asked, *FIRST))]
    victim = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    patience = time.monotonic() + 1800
    while not (folder / "state.pt").exists() and victim.poll() is None and time.monotonic() < patience:
        time.sleep(0.005)
    victim.kill()
    assert victim.wait(600) < 0, "the run was over before it was killed"
    assert not (out / "model.pt").exists()

    url = ledger_of(table)
    with Ledger.open(url) as ledger:
        spent, begun = (
            ledger.account("visits").spent(),
            [e for e in ledger.account("visits").history() if e.kind == "begin"],
        )
    assert 0 < begun[-1].details["stop"] < 800
    assert "holds a run" in run(*asked, code=2).stderr
    facts = json.loads(run(*asked, "--resume", "--json").stdout)
    with Ledger.open(url) as ledger:
        assert ledger.account("visits").spent() == spent
    assert 1.9 < facts["epsilon"] <= 2
    assert (out / "model.pt").exists()
    certificate = Certificate.from_json((out / "certificate.json").read_text(encoding="utf-8"))
    assert verify(certificate).upper <= 2
    (out / "model.pt").unlink()
    run(*asked, "--resume")  # killed after the end, before the model was written
    assert (out / "model.pt").exists()


def test_what_is_to_be_resumed_must_be_there(table: Path, tmp_path: Path) -> None:
    assert "--checkpoint FOLDER with --resume" in run(table, *USUAL, *FIRST, "--resume", code=2).stderr
    said = run(table, *USUAL, *FIRST, "--resume", "--checkpoint", tmp_path / "none", code=2).stderr
    assert "Expected the folder of a run" in said


def test_a_column_of_words_is_no_feature(table: Path, tmp_path: Path) -> None:
    asked = (
        "--target",
        "ward",
        "--classes",
        "surgery,maternity",
        "--feature",
        "name:0:1",
        "--n",
        N,
        "--epsilon",
        2,
    )
    said = run(table, *asked, *FIRST, "--out", tmp_path / "out", code=2).stderr
    assert "no column of numbers by its type" in said
    assert "Nothing was charged" in said
    assert not Path(str(ledger_of(table)).removeprefix("sqlite:///")).exists()


def test_words_and_numbers_by_default(tmp_path: Path) -> None:
    """The word alone tells the class; the number is one in a thousand of its bounds, and is scaled."""
    rng = np.random.default_rng(0)
    n = 4000
    sex, pay = rng.choice(["f", " m", "x"], n), rng.normal(100, 10, n)
    ward = np.where((sex == "f") ^ (pay > 112), "surgery", "maternity")
    for name, part in (("visits", slice(0, 3000)), ("public", slice(3000, n))):
        columns = {"sex": sex[part], "pay": pay[part], "ward": ward[part]}
        pyarrow.csv.write_csv(pa.table(columns), tmp_path / f"{name}.csv")
    words = (
        "--target",
        "ward",
        "--classes",
        "surgery,maternity",
        "--feature",
        "sex:f,m",
        "--feature",
        "pay:0:100000",
    )
    public, out = ("--public", tmp_path / "public.csv"), tmp_path / "out"
    asked = (*words, *public, "--n", 3000, "--epsilon", 1, "--limit", "3:1e-4", "--out", out, "--json")
    facts = json.loads(run(tmp_path / "visits.csv", *asked).stdout)
    assert facts["accuracy_on_public_rows"] > 0.85
    assert facts["epsilon"] <= 1
    found, model = load(out)
    number, word = found.features[1], found.features[0]
    assert isinstance(number, Feature)
    assert number.high - number.low < 70_000  # noise of means and deviations is worth some of the bounds
    assert word.words == ("f", "m")  # type: ignore[union-attr]
    assert found.accuracy(model, tmp_path / "public.csv") == pytest.approx(facts["accuracy_on_public_rows"])


def test_a_schema_has_words_too(table: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    schema.write_text(
        "n: 2000\nclasses: [surgery, maternity]\nfeatures: {age: [0, 100], name: [x, 7, '?']}\n"
    )
    asked = ("--target", "ward", "--epsilon", 1, "--schema", schema, "--out", tmp_path / "out", *FIRST)
    run(table, *asked, "--epochs", 2)
    told = json.loads((tmp_path / "out" / "model.json").read_text())
    assert told["features"][1] == {"name": "name", "words": ["x", "7", "?"]}


def test_words_for_bounds_are_refused_with_the_way_out(table: Path, tmp_path: Path) -> None:
    asked = ("--target", "ward", "--classes", "surgery,maternity", "--n", N, "--epsilon", 1, *FIRST)
    said = run(table, *asked, "--feature", "name:0:1", "--out", tmp_path / "out", code=2).stderr
    assert "is no column of numbers by its type" in said
    assert "--feature name:WORD,WORD" in said
    said = run(table, *asked, "--feature", "age:0", "--out", tmp_path / "out", code=2).stderr
    assert "ward:surgery,maternity for words" in said
