"""`deniable cost` shows every method side by side and the bracket that holds the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable.accounting import compare, epsilon
from deniable.guarantee import Bound
from deniable.loss import WITHOUT_REPLACEMENT, GaussianNoise, LaplaceNoise, Loss
from tests.cli.runner import run, run_json, sentence

ABADI = ("--rate", ".01", "--noise", "4", "--steps", "10000", "--delta", "1e-5")


def test_abadi_at_epoch_100_is_told_as_the_literature_has_it() -> None:
    said = run("cost", *ABADI).stdout
    moments = next(line for line in said.splitlines() if line.startswith("moments"))
    assert 1.25 <= float(moments.split()[1]) <= 1.27
    assert "The true ε lies in [0.946" in said
    assert "one row, added or removed" in said


def test_json_holds_every_method_with_every_digit() -> None:
    found, loss = run_json("cost", *ABADI), GaussianNoise(4.0).sampled(0.01) * 10_000
    assert Loss.from_dict(found["loss"]) == loss
    for name, bound in compare(loss, 1e-5).items():
        assert found["methods"][name] == (
            {"upper": bound.upper} if isinstance(bound, Bound) else {"refused": bound}
        )
    tight = epsilon(loss, 1e-5)
    assert found["epsilon"] == {"lower": tight.lower, "upper": tight.upper, "method": tight.method}


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ((), GaussianNoise(2.0)),
        (("--rate", ".1"), GaussianNoise(2.0).sampled(0.1)),
        (("--replace",), GaussianNoise(2.0).sampled(1.0, replace=True)),
        (("--rate", ".1", "--replace"), GaussianNoise(2.0).sampled(0.1, replace=True)),
        (
            ("--rate", ".1", "--scheme", "without-replacement", "--replace"),
            GaussianNoise(2.0).sampled(0.1, WITHOUT_REPLACEMENT, replace=True),
        ),
        (("--mechanism", "laplace"), LaplaceNoise(2.0)),
    ],
)
def test_the_options_mean_the_loss_that_is_charged(options: tuple[str, ...], step: Loss) -> None:
    found = run_json("cost", "--noise", "2", "--steps", "7", "--delta", "1e-6", *options)
    assert Loss.from_dict(found["loss"]) == step * 7
    assert found["unit"]["replace"] is ("--replace" in options)
    assert found["epsilon"]["upper"] == epsilon(step * 7, 1e-6).upper


def test_replacing_a_record_costs_more_than_adding_one() -> None:
    add = run_json("cost", "--rate", ".01", "--noise", "1", "--steps", "1000", "--delta", "1e-5")
    swap = run_json(
        "cost", "--rate", ".01", "--noise", "1", "--steps", "1000", "--delta", "1e-5", "--replace"
    )
    assert round(add["epsilon"]["upper"], 2) == 1.83
    assert round(swap["epsilon"]["upper"], 2) == 2.84


def test_what_is_printed_never_claims_less_than_what_was_computed() -> None:
    said = run("cost", *ABADI).stdout
    computed = run_json("cost", *ABADI)["methods"]
    for line in said.splitlines():
        name, *rest = line.split() or [""]
        if rest and "upper" in computed.get(name, {}):
            assert float(rest[0].replace("∞", "inf")) >= computed[name]["upper"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_the_terminal(width: int) -> None:
    assert max(map(len, run("cost", *ABADI, width=width).stdout.splitlines())) <= width


def test_the_picture_is_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "cost.png"
    run("cost", "--noise", "4", "--steps", "5", "--delta", "1e-5", "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rate", "1.2", "--noise", "4", "--delta", "1e-5"), "Expected rate=1.2 of Sampled in (0, 1]."),
        (("--noise", "0", "--delta", "1e-5"), "Expected multiplier=0.0 of GaussianNoise in (0, ∞)."),
        (("--noise", "nan", "--delta", "1e-5"), "Expected multiplier=nan of GaussianNoise in (0, ∞)."),
        (
            ("--noise", "4", "--steps", "0", "--delta", "1e-5"),
            "Expected times=0 of Repeated to be at least 1.",
        ),
        (("--noise", "4", "--delta", "1"), "Expected delta=1.0 in [0, 1)."),
    ],
)
def test_bad_input_is_one_sentence(options: tuple[str, ...], said: str) -> None:
    assert sentence("cost", *options) == said
