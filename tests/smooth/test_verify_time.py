"""`deniable verify` returns soon on any small file that claims a radius: one radius is decided, none is searched for."""

from __future__ import annotations

import contextlib
import random
import resource
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deniable.accounting.radius import radii
from deniable.accounting.radius.certified_radius import holds
from deniable.accounting.radius.input_noise import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Releases,
    Uniform,
)
from deniable.accounting.radius.robustness import (
    Evaluation,
    Isolation,
    RadiusCertificate,
    Votes,
    verify_radius,
)
from deniable.accounting.radius.votes import Looks
from deniable.errors import DeniableError, InvalidCertificate
from tests.cli.runner import run, sentence

SECONDS, BYTES = 10.0, 2**30
VOTES = Votes(0, (20, 0), (990, 10), Looks((1000,), 0.001))


def claim(
    noise: InputNoise, radius: float, norm: float | None = None, dimension: int = 2
) -> RadiusCertificate:
    evaluation = Evaluation("model", 100, True, False, 1.0, Isolation.SEEN)
    metric = noise.norm if norm is None else norm
    return RadiusCertificate(noise, metric, radius, dimension, VOTES, evaluation, "input")


def test_large_integer_noise_is_verified_at_once(tmp_path: Path) -> None:
    path = tmp_path / "radius.json"
    path.write_text(claim(IntegerLaplace(3e5), 800_000).to_json(), encoding="utf-8")
    assert "the radius 800000 holds" in " ".join(run("verify", str(path)).stdout.split())
    path.write_text(claim(IntegerLaplace(3e5), 1_200_000).to_json(), encoding="utf-8")
    assert "do not certify it" in sentence("verify", str(path))
    path.write_text(claim(IntegerUniform(10**12), 5e11).to_json(), encoding="utf-8")
    assert "wider than the 1,048,576 steps that are ever drawn" in sentence("verify", str(path))
    path.write_text(claim(IntegerUniform(10**6), 5e5).to_json(), encoding="utf-8")
    assert "the radius 500000 holds" in " ".join(run("verify", str(path)).stdout.split())


def test_the_largest_radius_of_wide_integer_noise_is_found_by_halving() -> None:
    for noise in (IntegerLaplace(300_000), IntegerUniform(1_000_000), Ablation(2, 500_000)):
        reach = float(radii(noise, 0.9, 0.1))
        assert reach > 10_000
        assert holds(noise, reach, 0.9, 0.1)
        assert not holds(noise, 1.001 * reach + 1, 0.9, 0.1)
    few = radii(IntegerLaplace(20), [0.9, 0.6, 0.5], [0.1, 0.4, 0.5])
    assert [holds(IntegerLaplace(20), r, a, 1 - a) for r, a in zip(few, (0.9, 0.6), strict=False)] == [
        True,
        True,
    ]
    assert few[2] == 0


@pytest.mark.parametrize(
    "noise", [Gaussian(1), Laplace(1), Uniform(1), IntegerGaussian(20), Ablation(3, 40)], ids=str
)
def test_what_holds_is_what_the_search_finds(noise: InputNoise) -> None:
    for p in (0.6, 0.9, 0.999):
        reach = float(radii(noise, p, 1 - p))
        assert reach == 0 or holds(noise, reach, p, 1 - p)
        assert not holds(noise, reach * (1 + 1e-6) + noise.integer, p, 1 - p)


def test_ablation_of_many_pixels_is_exact_or_claims_nothing() -> None:
    from math import comb

    for pixels, keep, changes in ((9, 2, 3), (784, 45, 9), (784, 9, 45), (64, 64, 1)):
        loss = Ablation(keep, pixels).loss_at(changes)
        unseen = comb(pixels - changes, keep) / comb(pixels, keep)
        assert float(loss.delta) == pytest.approx(1 - unseen, rel=1e-12)  # type: ignore[attr-defined]
    assert Ablation(10**8, 10**12).loss_at(10**8).delta == 1  # type: ignore[attr-defined]


def any_size(draw: random.Random) -> float:
    kinds = (
        lambda: draw.choice([1, 2, 3, 3e5, 10**12, 2**20, 2**53]),
        lambda: 10 ** draw.randrange(1, 7),
        lambda: 10 ** draw.randrange(6, 120),
        lambda: 10.0 ** draw.uniform(-300, 300),
        lambda: 10.0 ** draw.uniform(-6, 8),
        lambda: draw.uniform(0.1, 100),
    )
    return draw.choice(kinds)()


def any_noise(draw: random.Random, *, many: bool = True) -> InputNoise:
    kinds = [Gaussian, Laplace, Uniform, IntegerGaussian, IntegerLaplace, IntegerUniform, Ablation]
    if many:
        kinds += [Releases] * 4
    kind = draw.choice(kinds)
    try:
        if kind is Releases:
            return Releases(tuple(any_noise(draw, many=False) for _ in range(draw.randrange(1, 7))))
        if kind is Ablation:
            pixels = int(any_size(draw)) + 1
            return Ablation(max(1, min(pixels, int(any_size(draw)))), pixels)
        if kind is IntegerUniform:
            return IntegerUniform(int(any_size(draw)) + 1)
        return kind(any_size(draw))
    except DeniableError:
        return any_noise(draw, many=many)


def peak() -> int:
    """The most memory that this process ever held, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def check_some(seed: int, count: int) -> None:
    draw, before = random.Random(seed), peak()
    for _ in range(count):
        noise = any_noise(draw)
        radius, dimension = float(any_size(draw)), max(1, int(any_size(draw)))
        total = draw.choice([100, 10**4, 10**6, 10**12, 10**17, 10**30])
        own = draw.choice([total // 2 + 1, 9 * total // 10, 99 * total // 100, total - 1, total])
        certificate = claim(noise, radius, draw.choice([0.0, 1.0, 2.0, np.inf]), dimension)
        votes = Votes(0, (1, 0, 0), (own, total - own, 0), Looks((total,), 0.001), draw.random() < 0.5)
        start = time.process_time()
        with contextlib.suppress(InvalidCertificate):
            verify_radius(RadiusCertificate.from_json(replace(certificate, votes=votes).to_json()))
        assert time.process_time() - start < SECONDS, certificate
        assert peak() - before < BYTES, certificate


def test_any_small_file_is_verified_within_seconds() -> None:
    check_some(1, 150)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_many_small_files_are_verified_within_seconds(seed: int) -> None:
    check_some(100 + seed, 1500)
