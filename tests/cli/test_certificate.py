"""`deniable certify` writes what `deniable verify` can compute again, and nothing that flatters passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deniable.guarantee import Certificate
from deniable.loss import Pure
from deniable.units import Unit
from tests.cli.runner import run, run_json, sentence


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.json"
    run("certify", "--rate", ".01", "--noise", "4", "--steps", "10000", "--delta", "1e-5", "--out", str(path))
    return path


def changed(path: Path, **changes: Any) -> str:
    value = json.loads(path.read_text(encoding="utf-8"))
    for key, change in changes.items():
        value[key] = value[key] | change if isinstance(change, dict) else change
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def test_a_certificate_verifies(certificate: Path) -> None:
    said = run("verify", str(certificate)).stdout
    assert said.startswith("Valid: ε ≤ 0.947")
    assert "own secret coin" in said
    assert run_json("verify", str(certificate))["valid"] is True


def test_a_flattering_certificate_does_not(certificate: Path) -> None:
    assert "Do not rely on it." in sentence(
        "verify", changed(certificate, epsilon={"lower": 0, "upper": 0.5})
    )


def test_a_hidden_assumption_is_found(certificate: Path) -> None:
    assert "hides an assumption" in sentence("verify", changed(certificate, assumptions=[]))


def test_any_loss_can_be_certified_for_any_unit() -> None:
    written = run(
        "certify", "--loss", Pure(0.1).to_json(), "--delta", "1e-9", "--unit", "column:patient_id:4"
    ).stdout
    read = Certificate.from_json(written)
    assert (read.loss, read.unit) == (Pure(0.1), Unit.column("patient_id", max_rows=4))
    assert read.bound.upper <= 0.1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "Expected one of --noise and --loss"),
        (("--noise", "1", "--loss", "{}"), "Expected one of --noise and --loss"),
        (("--loss", "{"), "the text is not JSON"),
        (("--loss", '{"node": "Free"}'), "Unknown loss node 'Free'."),
        (("--noise", "1", "--unit", "person"), "Expected unit='person' to be row, client, value"),
        (("--noise", "1", "--out", "no/such/folder.json"), "No such file or directory."),
    ],
)
def test_what_cannot_be_certified_is_said_in_one_sentence(options: tuple[str, ...], said: str) -> None:
    assert said in sentence("certify", "--delta", "1e-6", *options)


@pytest.mark.parametrize(
    ("text", "said"), [(b"{}", "no certificate"), (b"\xff\xfe\x00", "is no text"), (b"{", "cannot be read")]
)
def test_what_is_no_certificate_is_said_in_one_sentence(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(text)
    assert said in sentence("verify", str(path))


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    assert sentence("verify", str(tmp_path / "none.json")).endswith("none.json: No such file or directory.")
