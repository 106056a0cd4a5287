"""Certifying smoothed classifiers: a noise bank against a plain loop, samples to decide
one radius, radii from counts.

The plain loop does what locuslab's `core.py` (Cohen et al. 2019) does: for each picture, batches of repeated
inputs plus fresh `randn`, the network, counts by class. Networks are trained on MNIST here, in seconds. The
bank's own making is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta, norm

from _report import write_section
from deniable.accounting.radius.votes import bounds
from deniable.datasets.real import load
from deniable.randomness import SeededRandom
from deniable.smooth import (
    Ablation,
    Gaussian,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Sampling,
    Smoothed,
    Uniform,
    networks,
    radii,
)
from deniable.smooth.bank import certify_with_bank
from deniable.smooth.training import Schedule, train

SIGMA, ALPHA = 0.25, 0.001
CHOOSING, SAMPLES, BATCH = 100, 10_000, 1000
PICTURES, PLAIN = 200, 10
RADIUS = 0.5


@dataclass(frozen=True)
class Speed:
    """CPU seconds a picture."""

    name: str
    plain: float
    fresh: float
    bank: float

    @property
    def ratio(self) -> float:
        return self.plain / self.bank


def clock(work: Callable[[], Any], times: int) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return (time.process_time() - start) / times, result


@torch.no_grad()
def plain_counts(network: torch.nn.Module, x: torch.Tensor, number: int) -> NDArray[np.int64]:
    counts = np.zeros(10, int)
    while number > 0:
        size = min(BATCH, number)
        number -= size
        batch = x.repeat((size, 1, 1, 1))
        noise = torch.randn_like(batch) * SIGMA
        counts += np.bincount(network(batch + noise).argmax(1).numpy(), minlength=10)
    return counts


def plain(network: torch.nn.Module, images: NDArray[np.float32]) -> list[float]:
    found = []
    for image in torch.from_numpy(images):
        top = int(plain_counts(network, image, CHOOSING).argmax())
        count = int(plain_counts(network, image, SAMPLES)[top])
        p = float(beta.ppf(ALPHA, count, SAMPLES - count + 1)) if count else 0.0
        found.append(SIGMA * float(norm.ppf(p)) if p > 0.5 else 0.0)
    return found


def speeds(
    images: NDArray[np.float32], labels: Any, tested: NDArray[np.float32]
) -> tuple[list[Speed], Smoothed]:
    made, first = [], None
    for name, network in (
        ("linear first layer (784-256-64-10)", networks.perceptron()),
        ("first convolution over patches, then linear", networks.patches()),
        ("two convolutions (the second is most of the work)", networks.convolutional()),
    ):
        train(
            network, images, labels, Gaussian(SIGMA), Schedule(1 if "two" in name else 2), rng=SeededRandom(0)
        )
        smoothed = Smoothed(network, Gaussian(SIGMA), classes=10)
        first = first or smoothed
        many = tested[:PLAIN] if "two" in name else tested
        slow, _ = clock(lambda network=network: plain(network, tested[:PLAIN]), PLAIN)  # type: ignore[misc]
        fresh, _ = clock(lambda one=smoothed: one.certify_all(tested[:PLAIN]), PLAIN)  # type: ignore[misc]
        bank, _ = clock(lambda one=smoothed, many=many: certify_with_bank(one, many), len(many))  # type: ignore[misc]
        made.append(Speed(name, slow, fresh, bank))
        print(
            f"{name}: plain {slow:.4f}, fresh {fresh:.4f}, bank {bank:.4f} CPU s: {slow / bank:.1f}×",
            flush=True,
        )
    assert first is not None
    return made, first


def decisions(smoothed: Smoothed, tested: NDArray[np.float32]) -> str:
    """Samples to decide whether the radius .5 holds, and whether as many pictures get it as with n =
    10,000."""
    at_once = certify_with_bank(smoothed, tested)
    looked = certify_with_bank(smoothed, tested, Sampling(radius=RADIUS))
    samples = np.array([answer.samples for answer in looked])
    yes = sum(answer.radius >= RADIUS for answer in at_once), sum(answer.holds is True for answer in looked)
    undecided = sum(answer.holds is None for answer in looked)
    text = (
        f"mean {samples.mean():,.0f} and median {np.median(samples):,.0f} noisy copies instead of "
        f"{CHOOSING + SAMPLES:,} (**{(CHOOSING + SAMPLES) / samples.mean():.1f}× fewer**); certified "
        f"{yes[1]} of {len(looked)} pictures, with n = 10,000 at once {yes[0]}; undecided {undecided}"
    )
    print(text, flush=True)
    return text


def many_radii() -> list[tuple[str, float]]:
    rng = np.random.default_rng(0)
    own = rng.integers(4000, 10_001, 10_000)
    rival = ((10_000 - own) * rng.random(10_000)).astype(int)
    counts = np.stack([own, rival, 10_000 - own - rival], axis=1)
    found = []
    for noise in (
        Gaussian(0.25), Laplace(0.25), Uniform(0.5), IntegerGaussian(64), IntegerLaplace(45), IntegerUniform(110),
        Ablation(45, 784),
    ):  # fmt: skip
        seconds, _ = clock(lambda noise=noise: radii(noise, *bounds(counts, np.zeros(10_000, int), ALPHA)), 1)  # type: ignore[misc]
        found.append((str(noise), seconds))
        print(f"radii of 10,000 inputs under {noise}: {seconds:.3f} CPU s", flush=True)
    return found


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = load("mnist")
    images, tested = (
        (part / np.float32(255)).astype(np.float32).reshape(-1, 1, 28, 28)
        for part in (data.images, data.test_images)
    )
    chosen = np.ascontiguousarray(tested[:: len(tested) // PICTURES][:PICTURES])
    counted = many_radii()
    found, smoothed = speeds(images, data.labels, chosen)
    decided = decisions(smoothed, chosen)
    write_section("smooth", section(found, decided, counted))


def section(found: list[Speed], decided: str, counted: list[tuple[str, float]]) -> str:
    """The section of docs/benchmarks.md."""
    lines = [
        "## Certified robustness",
        "",
        f"MNIST, Gaussian σ = {SIGMA}, α = {ALPHA}, {CHOOSING} copies choose and {SAMPLES:,} bound; CPU "
        "seconds a picture, one thread. Plain: batches of repeated inputs with fresh noise, as locuslab's "
        f"code does, {PLAIN} pictures; fresh: `Smoothed.certify_all` on the same; bank: `certify_with_bank`, "
        f"up to {PICTURES} pictures, its own making included (`benchmarks/smooth.py`).",
        "",
        "| network | plain loop | fresh noise | noise bank | plain / bank |",
        "|---|---|---|---|---|",
        *(f"| {s.name} | {s.plain:.3f} | {s.fresh:.3f} | {s.bank:.4f} | **{s.ratio:.1f}×** |" for s in found),
        "",
        f"To decide one radius, r = {RADIUS} (first network): {decided}.",
        "",
        "| radii of 10,000 inputs from their counts | CPU s |",
        "|---|---|",
        *(f"| {name} | {seconds:.3f} |" for name, seconds in counted),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
