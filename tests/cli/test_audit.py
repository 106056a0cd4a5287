"""`deniable audit` attacks, prints, saves, replays, and leaves with the exit code that
continuous integration wants."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from deniable.audit.bench import CASES
from deniable.cli import audit as command

APP = typer.Typer(pretty_exceptions_enable=False)
APP.command()(command.audit)


def run(*arguments: str, code: int = 0) -> Result:
    """What the command says; its draws are the same in every test."""
    if "--samples" in arguments and "--seed" not in arguments:
        arguments = (*arguments, "--seed", "0")
    wide = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    result = CliRunner().invoke(APP, arguments, env=wide, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def run_code(*arguments: str) -> int:
    return CliRunner().invoke(APP, arguments, catch_exceptions=False).exit_code


def sentence(*arguments: str) -> str:
    result = run(*arguments, code=2)
    assert result.stdout == ""
    return result.stderr.strip()


def leaky(data: float, n: int, rng: np.random.Generator) -> Any:
    """Adds a digit of noise to what the pairs file holds."""
    return np.sum(data) + rng.integers(0, 3, n)


def test_our_laplace_is_consistent() -> None:
    said = run("laplace", "--epsilon", "1", "--samples", "5000").stdout
    assert said.startswith("CONSISTENT: laplace, claimed ε = 1.")
    assert "Cannot see" in said


def test_our_gaussian_is_consistent() -> None:
    assert "CONSISTENT" in run("gaussian", "--epsilon", "1", "--delta", "1e-3", "--samples", "4000").stdout


def test_a_violation_is_saved_and_replays(tmp_path: Path) -> None:
    saved, picture = tmp_path / "finding.json", tmp_path / "roc.png"
    said = run(
        "HalvedNoise", "--samples", "200000", "--save", str(saved), "--plot", str(picture), code=1
    ).stdout
    assert "VIOLATION" in said
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = json.loads(run("--replay", str(saved), "--json", code=1).stdout)
    first = json.loads(saved.read_text(encoding="utf-8"))
    assert again["witness"]["right"] == first["witness"]["right"]
    assert again["exit_code"] == 1
    fresh = json.loads(run("--replay", str(saved), "--seed", "7", "--json", code=1).stdout)
    assert fresh["witness"]["right"] != first["witness"]["right"]


def test_our_own_mechanism_replays_too(tmp_path: Path) -> None:
    saved = tmp_path / "finding.json"
    run("laplace", "--epsilon", "1", "--samples", "3000", "--save", str(saved))
    again = json.loads(run("--replay", str(saved), "--json").stdout)
    assert again["witness"]["right"] == json.loads(saved.read_text(encoding="utf-8"))["witness"]["right"]


def test_a_target_of_ones_own_is_audited_with_its_pairs(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.json"
    pairs.write_text("[[[0], [1]], [[1, 1], [1]]]", encoding="utf-8")
    said = run(
        f"{__name__}:leaky", "--pairs", str(pairs), "--epsilon", ".1", "--samples", "20000", code=1
    ).stdout
    assert "The support differs" in said


def test_a_module_of_the_working_directory_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `deniable audit my_module:my_mechanism --pairs …` is typed: the folder is nowhere on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "mine_alone.py").write_text(
        "def fixed(data, seed):\n    return sum(data)\n\n\ndef broken(data):\n    raise ValueError('no such "
        "patient')\n",
        encoding="utf-8",
    )
    (tmp_path / "pairs.json").write_text("[[[0], [1]]]", encoding="utf-8")
    how = ("--pairs", "pairs.json", "--epsilon", ".1", "--samples", "500")
    assert (
        "VIOLATION: mine_alone:fixed" in run("mine_alone:fixed", *how, "--save", "found.json", code=1).stdout
    )
    assert "VIOLATION: mine_alone:fixed" in run("--replay", "found.json", code=1).stdout
    said = sentence("mine_alone:broken", *how)
    assert said == (
        'The target "mine_alone:broken" failed at mine_alone.py:6: ValueError: no such patient. Nothing was certified.'
    )


def test_too_little_time_is_underpowered() -> None:
    assert "UNDERPOWERED" in run("Laplace", "--epsilon", "9", "--samples", "1000", code=3).stdout


def test_a_file_of_scores_is_audited(tmp_path: Path) -> None:
    rng, table = np.random.default_rng(0), tmp_path / "scores.csv"
    rows = [f"{rng.normal(3 * member, 1)},{member}" for member in (0, 1) for _ in range(500)]
    table.write_text("\n".join(["score,member", *rows]), encoding="utf-8")
    assert "VIOLATION: scores.csv" in run(str(table), "--epsilon", "1", code=1).stdout
    assert "add --epsilon" in sentence(str(table))
    table.write_text("a,b\n1,2\n", encoding="utf-8")
    assert "expected the columns score and member" in sentence(str(table), "--epsilon", "1")


def test_a_parquet_of_scores_replays(tmp_path: Path) -> None:
    rng, table, saved = np.random.default_rng(0), tmp_path / "scores.parquet", tmp_path / "finding.json"
    worlds = np.repeat(["a", "b"], 400)
    pq.write_table(pa.table({"world": worlds, "score": rng.normal(3.0 * (worlds == "b"), 1)}), table)
    picture = tmp_path / "roc.svg"
    said = run(str(table), "--epsilon", "1", "--save", str(saved), "--plot", str(picture), code=1).stdout
    assert "VIOLATION: scores.parquet" in said
    assert picture.exists()
    again = json.loads(run("--replay", str(saved), "--json", code=1).stdout)
    first = json.loads(saved.read_text(encoding="utf-8"))
    assert again["witness"] == first["witness"]
    assert sentence("--replay", str(saved), "--seed", "3").startswith("Another --seed on the same scores")


def test_canaries_of_one_run_are_audited(tmp_path: Path) -> None:
    rng, table, saved = np.random.default_rng(0), tmp_path / "canaries.csv", tmp_path / "finding.json"
    inside = rng.random(800) < 0.5
    rows = [f"{score},{int(b)}" for score, b in zip(rng.normal(2.0 * inside, 1), inside, strict=True)]
    table.write_text("\n".join(["score,member", *rows]), encoding="utf-8")
    claim = ("--delta", "1e-5", "--epsilon")
    found = [
        json.loads(run(str(table), "--one-run", family, *claim, "1", "--json", code=1).stdout)["epsilon"]
        for family in ("distribution-free", "gaussian", "independent")
    ]
    assert 1 < found[0] < found[1] < found[2]
    said = run(str(table), "--one-run", "gaussian", *claim, "1", "--save", str(saved), code=1).stdout
    assert "f-DP family" in said
    assert json.loads(run("--replay", str(saved), "--json", code=1).stdout)["epsilon"] == found[1]
    assert (
        "Too little was run" in run(str(table), "--one-run", "distribution-free", *claim, "20", code=3).stdout
    )
    picture = tmp_path / "canaries.svg"
    run(str(table), "--one-run", "independent", *claim, "1", "--plot", str(picture), code=1)
    assert "guessed in from here on" in picture.read_text(encoding="utf-8")


def test_one_run_replays_with_its_seed(tmp_path: Path) -> None:
    """Equal scores are ordered by the seed, so the seed is kept."""
    rng, table, saved = np.random.default_rng(1), tmp_path / "canaries.csv", tmp_path / "finding.json"
    rows = [f"{rng.integers(0, 3) + b},{b}" for b in rng.integers(0, 2, 400)]
    table.write_text("\n".join(["score,member", *rows]), encoding="utf-8")
    how = ("--one-run", "distribution-free", "--epsilon", "1", "--json")
    code = run_code(str(table), *how, "--seed", "5", "--save", str(saved))
    again = json.loads(run("--replay", str(saved), "--json", code=code).stdout)
    assert again["witness"] == json.loads(saved.read_text(encoding="utf-8"))["witness"]
    assert again["witness"]["seed"] == 5


def visits(path: Path, *, guest: bool) -> str:
    rows = [(i, "a" if i % 2 else "b") for i in range(20)] + [(99, "a")] * (9 if guest else 0)
    path.write_text("\n".join(["person,ward", *(f"{p},{w}" for p, w in rows)]), encoding="utf-8")
    return str(path)


def test_a_query_is_audited_on_two_tables(tmp_path: Path) -> None:
    tables = visits(tmp_path / "with.csv", guest=True), visits(tmp_path / "without.csv", guest=False)
    saved = tmp_path / "finding.json"
    query = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    where = ("--tables", *tables, "--name", "visits", "--epsilon", "1")
    two = ("--unit", "column:person:2")
    keys = ("--keys", "ward=a,b", "--samples", "4000", "--save", str(saved))
    said = run(query, *where, *two, *keys).stdout
    assert f"CONSISTENT: {query}, claimed ε = 1." in said
    again = json.loads(run("--replay", str(saved), "--json").stdout)
    assert again["witness"] == json.loads(saved.read_text(encoding="utf-8"))["witness"]
    private = run(query, *where, *two, "--delta", ".01", "--samples", "2000").stdout
    assert "claimed ε = 1 at δ = 0.01." in private
    assert "has no bounds" in sentence("SELECT SUM(person) AS s FROM visits", *where, *two)
    unbounded = run(
        "SELECT COUNT(*) AS n FROM visits", *where, "--unit", "column:person", "--samples", "1000", code=0
    )
    assert "CONSISTENT" in unbounded.stdout


def test_tables_that_are_no_neighbours_are_refused(tmp_path: Path) -> None:
    two = visits(tmp_path / "two.csv", guest=True)
    (tmp_path / "none.csv").write_text("person,ward\n1,a\n", encoding="utf-8")
    how = ("--tables", two, str(tmp_path / "none.csv"), "--unit", "column:person:2", "--epsilon", "1")
    assert "is not a pair of neighbours" in sentence("SELECT COUNT(*) AS n FROM two", *how)
    assert "add --tables FIRST SECOND and --epsilon" in sentence("SELECT COUNT(*) AS n FROM two")


def test_the_bench_runs_and_says_what_went_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three cases of the real bench, so that it takes seconds; all of them run in
    tests/audit/test_bench.py."""
    few = [c for c in CASES if c.name in ("Laplace", "HalvedNoise", "ReusedSeed")]
    monkeypatch.setattr(command, "CASES", few)
    picture = tmp_path / "ladder.png"
    said = run("bench", "--samples", "300000", "--plot", str(picture)).stdout
    assert "Every verdict is right." in said
    assert "support differs" in said
    assert picture.exists()
    assert "All bounds hold together with confidence 0.95." in said
    assert said.count("Null") == 3
    weak = json.loads(run("bench", "--samples", "1000", "--json", code=1).stdout)
    assert weak["wrong"] == ["HalvedNoise"]
    assert {case["confidence"] for case in weak["cases"]} == {1 - 0.05 / 6}
    assert (
        "Not found: HalvedNoise. More --time finds more." in run("bench", "--samples", "1000", code=1).stdout
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Expected a target to audit, or --replay with the file of a finding."),
        (("laplace",), 'The target "laplace" is made for a budget: add --epsilon (and --delta).'),
        (("SVT9",), 'Expected name="SVT9" to be a case of the bench'),
        (("no_such:thing", "--epsilon", "1"), 'The target "no_such:thing" could not be loaded'),
        (("Laplace", "--confidence", "1"), "Expected confidence=1.0 in (0, 1)."),
        (("Laplace", "--samples", "10"), "Expected samples=10 to be at least 100."),
        (
            ("Laplace", "--plot", "a.gif"),
            "Expected --plot a.gif to end in .png, .pdf, .svg. Nothing was run.",
        ),
        (("Laplace", "--plot", "no/a.png"), "no/a.png: there is no folder no. Nothing was run."),
        (("Laplace", "--save", "no/a.json"), "no/a.json: there is no folder no. Nothing was run."),
        (("bench", "--confidence", "1.5"), "Expected confidence=1.5 in (0, 1)."),
        (("Laplace", "--samples", "0"), "Expected --time 60 above 0, and --samples of at least 1."),
        (("Laplace", "--time", "-1"), "Expected --time -1 above 0"),
        (("gaussian", "--epsilon", "1"), 'The target "gaussian" needs a δ above 0: add --delta.'),
        (
            ("Laplace", "--one-run", "gaussian"),
            "--one-run is about a file of scores (.csv, .parquet). Nothing was run.",
        ),
        (
            ("Laplace", "--keys", "ward=a"),
            '--keys is about a query, like "SELECT COUNT(*) FROM t". Nothing was run.',
        ),
        (("bench", "--pairs", "p.json"), "--pairs is about a mechanism or a callable"),
        (("no/such.csv", "--epsilon", "1"), "no/such.csv: No such file."),
        (
            ("SELECT 1 FROM t", "--epsilon", "1", "--tables", "no/a.csv", "no/b.csv"),
            "no/a.csv: No such file.",
        ),
        (("--replay", "no/such.json"), "no/such.json: No such file or directory."),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    assert sentence(*arguments).startswith(said)
