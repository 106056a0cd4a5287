"""`deniable explain` says what a guarantee means."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable.accounting import meaning
from tests.cli.runner import run, run_json, sentence


def test_a_prior_of_two_fifths_is_explained() -> None:
    said = run("explain", "--epsilon", "1", "--prior", ".4").stdout
    for figure in ("40 %", "19.69 %", "64.45 %", "27.19 %", "73.11 %", "factor of 20.09"):
        assert figure in said


def test_delta_comes_with_its_caveat() -> None:
    said = run("explain", "--epsilon", "1", "--delta", "1e-6").stdout
    assert "no limits hold for every answer" in said
    assert "except for δ" in said
    assert "no limits hold" not in run("explain", "--epsilon", "1").stdout


def test_a_group_that_is_too_large_is_told_so() -> None:
    said = run("explain", "--epsilon", "2", "--delta", "1e-6", "--group", "30").stdout
    assert "nothing is left of this guarantee" in said


def test_json_holds_what_the_accounting_says() -> None:
    found = run_json("explain", "--epsilon", "2", "--delta", "1e-6", "--prior", ".3", "--group", "4")
    belief = meaning.posterior(0.3, 2, 1e-6)
    assert found["posterior"] == [
        {"prior": 0.3, "low": belief.low, "high": belief.high, "failure": belief.failure}
    ]
    assert found["group"]["delta"] == meaning.group_delta(2, 1e-6, 4)
    assert {p["false_positive_rate"] for p in found["attacker"]} == {0.001, 0.01, 0.1}


def test_the_picture_is_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "attacker.png"
    assert str(picture) in run("explain", "--epsilon", "1", "--plot", str(picture)).stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--epsilon", "-1"), "Expected epsilon=-1.0 in [0, ∞)."),
        (("--epsilon", "nan"), "Expected epsilon=nan in [0, ∞)."),
        (("--epsilon", "1", "--prior", "1.2"), "Expected prior=1.2 in (0, 1)."),
        (("--epsilon", "1", "--group", "0"), "Expected size=0 to be at least 1."),
        (
            ("--epsilon", "1", "--plot", "a.doc"),
            "Expected a picture's name to end in .png, .pdf, .svg, got 'a.doc'.",
        ),
        (("--epsilon", "1", "--plot", "no/such/a.png"), "no/such/a.png: No such file or directory."),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    assert sentence("explain", *arguments) == said
