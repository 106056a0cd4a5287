"""A certificate of a radius says what its counts prove; nothing that flatters passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.accounting.radius.robustness import Isolation, RadiusCertificate, verify_radius
from deniable.errors import InvalidCertificate, InvalidParameter
from deniable.randomness import SeededRandom
from deniable.smooth import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    Laplace,
    Releases,
    Sampling,
    Smoothed,
)
from deniable.smooth.validity import wall
from tests.cli.runner import run, run_json, sentence

PIXELS = np.array([0, 9], np.uint8)


def certificate(noise: InputNoise, x: Any, edge: float, plan: Sampling | None = None) -> RadiusCertificate:
    smoothed = Smoothed(wall(edge), noise, classes=2, batch=1 if noise.integer else 200, rng=SeededRandom(5))
    return smoothed.certificate(x, smoothed.certify(x, plan or Sampling(choosing=20, samples=400)))


REAL = certificate(Gaussian(1), np.array([0.0, 9.0]), 1.5)
WHOLE = certificate(IntegerGaussian(20), PIXELS, 30.5)
LOOKS = certificate(Laplace(1), np.array([0.0, 9.0]), 1.5, Sampling(20, 4000, radius=0.5))
BLANK = certificate(Ablation(2, 9), np.zeros(9), 0.5)


@pytest.mark.parametrize("one", [REAL, WHOLE, LOOKS, BLANK], ids=lambda one: str(one.noise))
def test_a_certificate_is_read_and_verified(one: RadiusCertificate) -> None:
    again = RadiusCertificate.from_json(one.to_json())
    assert again == one
    assert verify_radius(again) == one.radius
    again = replace(again, radius=one.radius * (1 + 1e-5) + one.noise.integer)
    with pytest.raises(InvalidCertificate, match="do not certify it"):
        verify_radius(again)


OLD = sorted((Path(__file__).parent / "written_by_0_2_0").glob("*.json"))


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_certificates_that_0_2_0_wrote_are_still_verified(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    certificate = RadiusCertificate.from_json(text)
    assert certificate.to_json() == text
    assert verify_radius(certificate) >= certificate.radius
    assert certificate.evaluation.isolation is Isolation.UNCHECKED


def test_an_old_certificate_is_verified_with_a_word_about_what_was_not_checked() -> None:
    assert len(OLD) == 15
    said = " ".join(run("verify", str(OLD[0])).stdout.split())
    assert "does not say whether the classifier answers each input on its own" in said


def changed(one: RadiusCertificate, **changes: Any) -> str:
    return json.dumps(one.to_dict() | changes)


@pytest.mark.parametrize(
    ("one", "changes", "said"),
    [
        (REAL, {"radius": REAL.radius * 1.0001}, "do not follow"),
        (REAL, {"precision": "exact"}, "precision or its assumptions do not follow"),
        (REAL, {"fixed": True}, "do not certify"),
        (WHOLE, {"bank": True}, "precision or its assumptions do not follow"),
        (REAL, {"assumptions": []}, "precision or its assumptions do not follow"),
        (REAL, {"alpha": 0.01}, "do not follow"),
        (REAL, {"counts": [10_000, 0]}, "votes of one of the looks"),
        (REAL, {"counts": [400, -1]}, "whole number of at least 0"),
        (REAL, {"counts": [400.0, 0]}, "whole number"),
        (REAL, {"label": 1}, "most votes of the choosing sample"),
        (REAL, {"norm": "l3"}, "cannot be read"),
        (REAL, {"norm": "linf"}, "do not follow"),
        (REAL, {"noise": {"node": "Pure", "epsilon": 1}}, "noise of an input"),
        (REAL, {"noise": {"node": "Gaussian", "sigma": 2}}, ""),
        (REAL, {"looks": [400, 400]}, "growing sizes"),
        (LOOKS, {"looks": list(LOOKS.votes.looks.sizes[:1])}, "do not follow"),
        (REAL, {"extra": 1}, "do not follow"),
        (REAL, {"dimension": True}, "whole number"),
        (REAL, {"radius": "1"}, "positive number"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_flatters_or_means_nothing_is_refused(
    one: RadiusCertificate, changes: dict[str, Any], said: str
) -> None:
    text = changed(one, **changes)
    if changes.get("fixed") or changes.get("noise", {}).get("node") == "Gaussian":
        # A claim about another noise is another claim: its radius must follow from it, and this one does.
        verify_radius(RadiusCertificate.from_json(text))
        return
    with pytest.raises(InvalidCertificate, match=said):
        verify_radius(RadiusCertificate.from_json(text))


def test_a_longer_radius_told_in_all_its_fields_is_refused() -> None:
    longer = replace(REAL, radius=REAL.radius * 1.0001)
    with pytest.raises(InvalidCertificate, match="its counts do not certify it"):
        verify_radius(RadiusCertificate.from_json(longer.to_json()))


def test_votes_that_certify_nothing_have_no_certificate() -> None:
    smoothed = Smoothed(wall(0.0), Gaussian(1), classes=2, rng=SeededRandom(5))
    x = np.zeros(2)
    with pytest.raises(InvalidParameter, match="nothing to write"):
        smoothed.certificate(x, smoothed.certify(x, Sampling(20, 400)))


def test_the_model_and_the_input_are_named_by_their_digests() -> None:
    from torch import nn

    linear = nn.Sequential(nn.Linear(2, 2))
    first = Smoothed(linear, Gaussian(1), classes=2).model.digest
    assert first == Smoothed(linear, Gaussian(1), classes=2).model.digest
    linear[0].weight.data[0, 0] += 1e-3
    assert first != Smoothed(linear, Gaussian(1), classes=2).model.digest
    assert REAL.input == LOOKS.input != WHOLE.input


def test_several_releases_are_certified_by_their_tree() -> None:
    both = certificate(Releases((Gaussian(1), Gaussian(1))), np.array([0.0, 9.0]), 1.5)
    assert verify_radius(RadiusCertificate.from_json(both.to_json())) >= both.radius


def test_deniable_verify_computes_it_again(tmp_path: Path) -> None:
    path = tmp_path / "radius.json"
    path.write_text(WHOLE.to_json(), encoding="utf-8")
    said = run("verify", str(path)).stdout
    assert said.startswith("Valid: class 0 is certain for an input moved by at most")
    assert "(exact)" in said
    assert run_json("verify", str(path))["recomputed"]["radius"] >= WHOLE.radius
    path.write_text(changed(WHOLE, radius=99.0), encoding="utf-8")
    assert "Do not rely on it." in sentence("verify", str(path))
