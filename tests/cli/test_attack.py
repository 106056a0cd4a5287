"""`deniable attack` tells what each release gave away, in words, JSON and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deniable.cli.attack import app

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
SMALL = {
    "reconstruct": ("--people", "64"),
    "difference": ("--people", "40", "--targets", "10", "--pairs", "20"),
    "link": ("--people", "500"),
    "anonymity": ("--people", "200"),
    "tables": ("--blocks", "2"),
    "attribute": ("--people", "300"),
}


def run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, arguments, env=WIDE, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize(
    ("method", "theorem"),
    [("least-squares", "O(α²)·n of n bits"), ("exhaustive", "at most 4·α·n of n people")],
)
def test_reconstruct_names_its_theorem_and_its_picture(tmp_path: Path, method: str, theorem: str) -> None:
    drawn = tmp_path / "r.svg"
    said = run("reconstruct", "--people", "10", "--method", method, "--plot", str(drawn)).stdout
    assert theorem in " ".join(said.split())
    assert f"Picture:{drawn}" in "".join(said.split())


def test_a_join_that_meets_nobody_is_not_told_as_a_success_of_anonymity() -> None:
    said = " ".join(run("link", "--people", "500").stdout.split())
    assert "5-anonymous, by its classes" in said
    assert "does not make it safe" in said


def test_age_bands_say_which_ages() -> None:
    assert "65–79" in run("attribute", "--people", "300").stdout


def test_liars_are_told_with_their_bound_and_drawn(tmp_path: Path) -> None:
    small = ("--users", "400", "--items", "20", "--liars", ".05")
    said = " ".join(run("poison", *small, "--plot", str(tmp_path / "p.png")).stdout.split())
    assert "No unbiased sum of reports that keep ε = 1 is moved by less than 10.8 %" in said
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads(run("poison", *small, "--json").stdout)["protocols"]
    assert [row["protocol"] for row in rows] == ["grr", "oue", "olh", "hr", "ss"]


def test_reconstruct_tells_accuracy_and_seconds() -> None:
    said = json.loads(
        run("reconstruct", "--people", "512", "--queries", "2048", "--noise", ".3", "--json").stdout
    )
    assert said["accuracy"] > 0.88
    assert said["seconds"] > 0
    assert said["expected"] == pytest.approx(0.9405, abs=1e-3)
    assert [one["release"] for one in said["releases"]] == [
        "noise of 0.3·√n, no account",
        "account of ε = 1, until refused",
        "account of ε = 1, all at once",
    ]
    assert said["releases"][1]["facts"]["answered"] < 2048


@pytest.mark.parametrize("command", SMALL)
def test_every_attack_says_what_was_learnt_and_what_chance_gives(command: str) -> None:
    said = run(command, *SMALL[command]).stdout
    assert "by chance" in said
    assert "ε = 1" in said
    assert "%" in said


@pytest.mark.parametrize("command", ["link", "anonymity", "attribute"])
def test_every_release_travels_as_json(command: str) -> None:
    said = json.loads(run(command, *SMALL[command], "--json").stdout)
    assert all({"release", "share", "chance", "reading"} <= one.keys() for one in said["releases"])
    assert "ε = 1" in said["releases"][-1]["release"]


@pytest.mark.parametrize("data", ["ratings", "steps"])
def test_ratings_and_steps_are_linked(data: str) -> None:
    said = json.loads(run("link", "--data", data, "--people", "150", "--json").stdout)
    assert said["releases"][0]["share"] > 0.9
    assert said["releases"][-1]["share"] < 0.3


def test_the_trick_query_meets_an_account_too() -> None:
    said = json.loads(run("difference", *SMALL["difference"], "--json").stdout)["releases"]
    assert [one["release"] for one in said[-2:]] == ["account of ε = 1", "account of ε = 1, arithmetic"]
    assert all(0.73 < one["ceiling"] < 0.74 for one in said[-2:])
    assert {"exact counts, arithmetic", "noise per condition, arithmetic"} <= {one["release"] for one in said}


def test_attributes_are_told_by_group() -> None:
    said = run("attribute", "--people", "300").stdout
    assert "By group: right for its own people / for strangers" in said
    assert said.count(" / ") == 1 + 6 * 3


def test_an_exhaustive_attack_is_exhaustive_on_accounts_too() -> None:
    said = json.loads(run("reconstruct", "--people", "8", "--method", "exhaustive", "--json").stdout)
    assert all("(exhaustive," in one["reading"] for one in said["releases"])


def test_the_hospital_is_shown_with_what_is_certain() -> None:
    said = " ".join(run("anonymity", "--people", "200").stdout.split())
    assert said.count("yes") == 3
    assert "heart disease (homogeneity)" in said
    assert "cancer (background knowledge)" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("reconstruct", "--people", "64"),
        ("reconstruct", "--people", "8", "--method", "exhaustive"),
        ("reconstruct", "--people", "64", "--noise", "0"),
        ("link", "--people", "500"),
    ],
)
def test_pictures_are_drawn(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    run(*arguments, "--plot", str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_shows_every_release(tmp_path: Path) -> None:
    run("link", "--people", "500", "--plot", str(tmp_path / "a.svg"))
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in drawn for name in ("raw table", "5-anonymous, by the join", "by chance"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("reconstruct", "--people", "0"), "people=0 to be at least 1"),
        (("reconstruct", "--noise", "-1"), "Expected noise=-1 in [0, ∞)"),
        (("reconstruct", "--people", "21", "--method", "exhaustive"), "at most 20 people"),
        (
            ("reconstruct", "--people", "10", "--queries", "5", "--plot", "a.png"),
            "more than 5 queries for a picture",
        ),
        (("reconstruct", "--epsilon", "0"), "Expected epsilon=0"),
        (("difference", "--people", "5", "--targets", "6"), "Expected targets=6 from 1 to the 5 people."),
        (("link", "--people", "-3"), "Expected size=-3"),
        (("link", "--people", "0", "--data", "steps"), "Expected walkers=0"),
        (("anonymity", "--k", "0"), "Expected k=0"),
        (("anonymity", "--people", "99"), "Expected people=99 to be at least 100."),
        (("tables", "--blocks", "1"), "Expected blocks=1 to be at least 2."),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    result = run(*arguments, code=2)
    assert sentence in result.stderr
    assert result.stdout == ""
