"""The noise bank: the same law of votes as without it, within its memory, and no life outside one call."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import torch
from torch import nn

from deniable.accounting.radius.robustness import ROUNDED
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom
from deniable.smooth import Ablation, Gaussian, IntegerGaussian, Laplace, Sampling, Smoothed, bank, networks
from deniable.smooth.bank import certify_with_bank, split
from deniable.smooth.draws import noise_of
from deniable.smooth.smoothed import certified_from

PLAN = Sampling(choosing=50, samples=4000)


def network(kind: str) -> nn.Sequential:
    torch.manual_seed(3)
    made = networks.perceptron(64, 4, (16,)) if kind == "linear" else networks.patches(1, 28, 4, 4)
    if kind == "normalised":
        made = nn.Sequential(
            nn.Conv2d(1, 4, 5, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 144, 4)
        )
        made[1].running_mean += torch.randn(4)
    with torch.no_grad():
        made[-1].weight *= 20
    return made.eval()


def pictures(kind: str) -> np.ndarray:
    shape = (6, 64) if kind == "linear" else (6, 1, 28, 28)
    return np.random.default_rng(0).random(shape).astype(np.float32)


@pytest.mark.parametrize("kind", ["linear", "patches", "normalised"])
@pytest.mark.parametrize("noise", [Gaussian(0.5), Laplace(0.3)], ids=str)
def test_a_bank_votes_by_the_same_law(kind: str, noise: Gaussian | Laplace) -> None:
    smoothed = Smoothed(network(kind), noise, classes=4, rng=SeededRandom(1))
    images = pictures(kind)
    plain = smoothed.certify_all(images, PLAN)
    banked = certify_with_bank(smoothed, images, PLAN)
    assert all(one.bank and one.samples == 4050 for one in banked)
    for one, other in zip(plain, banked, strict=True):
        counts = np.array([one.votes.counts, other.votes.counts], np.float64)
        spread = np.sqrt(np.maximum(counts.sum(axis=0) / 2, 9))
        assert (np.abs(counts[0] - counts[1]) < 7 * math.sqrt(2) * spread).all()


def test_the_affine_identity_is_what_the_bank_rests_on() -> None:
    front, _ = split(network("normalised"))
    assert [type(layer).__name__ for layer in front] == ["Conv2d", "BatchNorm2d"]
    x, eta = torch.rand(1, 1, 28, 28), torch.randn(5, 1, 28, 28)
    with torch.inference_mode():
        both = front(x) + front(eta) - front(torch.zeros_like(x))
        assert torch.allclose(both, front(x + eta), atol=1e-4)


def test_memory_is_kept_to_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    fresh = bank._Run._bank

    def watched(self: bank._Run, rows: int) -> torch.Tensor:
        made = fresh(self, rows)
        sizes.append(made.numel() * 4)
        return made

    monkeypatch.setattr(bank._Run, "_bank", watched)
    smoothed = Smoothed(network("patches"), Gaussian(0.5), classes=4, rng=SeededRandom(1))
    answers = certify_with_bank(smoothed, pictures("patches"), PLAN, memory=2**18)
    assert max(sizes) <= 2**18
    assert len(sizes) > 5
    assert all(sum(one.votes.counts) == 4000 and sum(one.votes.choosing) == 50 for one in answers)


def test_looks_stop_with_a_bank_too() -> None:
    smoothed = Smoothed(network("linear"), Gaussian(0.1), classes=4, rng=SeededRandom(1))
    answers = certify_with_bank(smoothed, pictures("linear"), Sampling(radius=0.02))
    assert min(one.samples for one in answers) < 1000
    assert all(one.holds is not None or one.samples == 10_100 for one in answers)


def test_no_bank_outlives_a_call_and_every_call_draws_its_own() -> None:
    """Nothing that is returned or kept holds noise: an input can only be made to fit what one has seen."""
    drawn: list[np.ndarray] = []
    model = network("linear")
    model.register_forward_hook(lambda *_: None)

    class Watched(nn.Linear):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            drawn.append(batch.numpy().copy())
            return super().forward(batch)

    watched = Watched(64, 16)
    watched.load_state_dict(model[1].state_dict())
    smoothed = Smoothed(nn.Sequential(model[0], watched, *model[2:]), Gaussian(0.5), classes=4)
    for _ in range(2):
        certify_with_bank(smoothed, pictures("linear"), Sampling(choosing=5, samples=60))
    noises = [batch for batch in drawn if len(batch) == 65]
    assert len(noises) == 2
    assert np.isin(noises[0], noises[1]).mean() < 0.01
    assert not any(isinstance(value, torch.Tensor) for value in vars(smoothed).values())
    assert set(inspect.signature(certify_with_bank).parameters) == {
        "smoothed",
        "inputs",
        "sampling",
        "memory",
        "watch",
    }


def test_inputs_are_fixed_before_the_bank_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def lazily() -> list[np.ndarray]:
        class Inputs(list):  # type: ignore[type-arg]
            def __iter__(self):  # type: ignore[no-untyped-def]
                for item in super().__iter__():
                    events.append("input")
                    yield item

        return Inputs(pictures("linear"))

    fresh = bank._Run._bank
    monkeypatch.setattr(bank._Run, "_bank", lambda self, rows: events.append("bank") or fresh(self, rows))
    smoothed = Smoothed(network("linear"), Gaussian(0.5), classes=4)
    certify_with_bank(smoothed, lazily(), Sampling(choosing=5, samples=60))
    assert events[:6] == ["input"] * 6
    assert set(events[6:]) == {"bank"}


class Waves(nn.Module):
    """Σ sin(30·zⱼ) against 0: under noise of σ = 1 a fair coin at every input, so
    nothing may ever be certified."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        height = torch.sin(30 * batch).sum(dim=1)
        return torch.stack([-height, height], dim=1)


def test_an_input_made_with_the_bank_would_be_certified_wrongly_and_is_not() -> None:
    """Why the rules are what they are: whoever knows the noise sums its waves and moves
    each coordinate to meet them."""
    waves, plan = Waves(), Sampling(choosing=100, samples=1000)
    smoothed = Smoothed(waves, Gaussian(1), classes=2, rng=SeededRandom(3))
    rule = smoothed.rule(plan, 200)
    known = fresh = 0
    for seed in range(8):
        noise = noise_of(Gaussian(1), (200,), np.float32, SeededRandom(seed))(1100)
        made = (
            np.arctan2(np.cos(30 * noise).sum(axis=0), np.sin(30 * noise).sum(axis=0)).astype(np.float32) / 30
        )
        with torch.inference_mode():
            voted = waves(torch.from_numpy(made + noise)).argmax(1).numpy()
        known += certified_from(rule, smoothed.tally(voted[:100]), smoothed.tally(voted[100:])).radius > 0
        fresh += smoothed.certify(made, plan).radius > 0
    assert (known, fresh) == (8, 0)


def test_a_bank_is_never_exact_and_refuses_what_it_cannot_do() -> None:
    model = network("linear")
    whole = Smoothed(model, IntegerGaussian(20), classes=4, scale=255, rng=SeededRandom(1))
    pixels = (pictures("linear") * 255).astype(np.uint8)
    answers = certify_with_bank(whole, pixels, PLAN)
    sure = next(i for i, one in enumerate(answers) if one.radius > 0)
    assert whole.certificate(pixels[sure], answers[sure]).precision == ROUNDED
    assert "noise bank" in " ".join(whole.certificate(pixels[sure], answers[sure]).assumptions)
    with pytest.raises(InvalidParameter, match=r"Expected an nn\.Sequential that begins"):
        certify_with_bank(
            Smoothed(nn.Sequential(nn.ReLU(), nn.Linear(64, 4)), Gaussian(1), classes=4), pictures("linear")
        )
    with pytest.raises(InvalidParameter, match="torch module"):
        certify_with_bank(Smoothed(lambda batch: batch, Gaussian(1), classes=4), pictures("linear"))
    with pytest.raises(InvalidParameter, match="Expected noise that can be drawn"):
        certify_with_bank(Smoothed(model, Ablation(3, 64), classes=4), pictures("linear"))
    assert certify_with_bank(whole, []) == []
