"""The noise bank: the same law of votes as without it, within its memory, and no life outside one call."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook
from torch.nn.utils import parametrize

from deniable.accounting.radius.robustness import ROUNDED
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom
from deniable.smooth import Ablation, Gaussian, IntegerGaussian, Laplace, Sampling, Smoothed, bank, networks
from deniable.smooth.bank import certify_with_bank, split
from deniable.smooth.draws import noise_of
from deniable.smooth.smoothed import decide_answer

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


@pytest.mark.sampled
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


def test_no_bank_outlives_a_call_and_every_call_draws_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is returned or kept holds noise: an input can only be made to fit what one has seen."""
    noises: list[np.ndarray] = []
    fresh = bank._Run._bank

    def watched(self: bank._Run, rows: int) -> torch.Tensor:
        made = fresh(self, rows)
        noises.append(made.numpy().copy())
        return made

    monkeypatch.setattr(bank._Run, "_bank", watched)
    smoothed = Smoothed(network("linear"), Gaussian(0.5), classes=4)
    for _ in range(2):
        certify_with_bank(smoothed, pictures("linear"), Sampling(choosing=5, samples=60))
    assert len(noises) == 2
    assert np.isin(noises[0], noises[1]).mean() < 0.01
    assert not any(isinstance(value, torch.Tensor) for value in vars(smoothed).values())
    assert set(inspect.signature(certify_with_bank).parameters) == {
        "classifier",
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
        about = smoothed.circumstances(made, smoothed.poll(made))
        known += (
            decide_answer(rule, smoothed.tally(voted[:100]), smoothed.tally(voted[100:]), about).radius > 0
        )
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
    with pytest.raises(
        InvalidParameter, match=r"Expected an nn\.Sequential \(no class derived from it\) that begins"
    ):
        certify_with_bank(
            Smoothed(nn.Sequential(nn.ReLU(), nn.Linear(64, 4)), Gaussian(1), classes=4), pictures("linear")
        )
    with pytest.raises(InvalidParameter, match="torch module"):
        certify_with_bank(Smoothed(lambda batch: batch, Gaussian(1), classes=4), pictures("linear"))
    with pytest.raises(InvalidParameter, match="Expected noise that can be drawn"):
        certify_with_bank(Smoothed(model, Ablation(3, 64), classes=4), pictures("linear"))
    assert certify_with_bank(whole, []) == []


# ------------------------------------------------------------------------------------------------ another function


class Reversed(nn.Sequential):
    """A class derived from nn.Sequential that computes something else."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return -super().forward(batch)


class Doubled(nn.Linear):
    """A layer that is not what its base class is."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return super().forward(batch).square()


class Negative(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return -weight


def turned(change: Callable[[nn.Sequential], nn.Module | None]) -> nn.Module:
    model = network("linear")
    return change(model) or model


def hide_forward(model: nn.Sequential) -> None:
    model.forward = lambda batch: -nn.Sequential.forward(model, batch)  # type: ignore[method-assign]


def hide_layer(model: nn.Sequential) -> None:
    model[1].forward = lambda batch: nn.Linear.forward(model[1], batch).square()


TURNED: dict[str, Callable[[nn.Sequential], Any]] = {
    "a class derived from it": lambda model: Reversed(*model),
    "a layer derived from another": lambda model: nn.Sequential(model[0], Doubled(64, 16), *model[2:]),
    "a hook": lambda model: model.register_forward_hook(lambda *said: -said[2]) and None,
    "an early hook": lambda model: (
        model.register_forward_pre_hook(lambda *said: (said[1][0].abs(),)) and None
    ),
    "a hook of a layer": lambda model: (
        model[1].register_forward_hook(lambda *said: said[2].square()) and None
    ),
    "an early hook with names": lambda model: (
        model[1].register_forward_pre_hook(lambda *said: ((said[1][0].abs(),), {}), with_kwargs=True) and None
    ),
    "a forward of its own": hide_forward,
    "a layer's forward of its own": hide_layer,
    "a parametrisation": lambda model: (
        parametrize.register_parametrization(model[1], "weight", Negative()) and None
    ),
    "a flattened batch": lambda model: nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (-1, 64)), *model[1:]),
}


@pytest.mark.parametrize("name", TURNED)
def test_a_bank_never_certifies_another_function_than_the_model(name: str) -> None:
    model = turned(TURNED[name])
    smoothed = Smoothed(model, Gaussian(0.05), classes=4, batch=50, rng=SeededRandom(1))
    with pytest.raises(InvalidParameter, match=r"Certify without a bank|Nothing was certified"):
        certify_with_bank(smoothed, pictures("linear"), PLAN)


def test_a_global_hook_closes_the_bank() -> None:
    smoothed = Smoothed(network("linear"), Gaussian(0.5), classes=4, batch=50, rng=SeededRandom(1))
    handle = register_module_forward_hook(lambda *said: None)
    try:
        with pytest.raises(InvalidParameter, match="without hooks"):
            certify_with_bank(smoothed, pictures("linear"), PLAN)
    finally:
        handle.remove()
    assert len(certify_with_bank(smoothed, pictures("linear"), PLAN)) == 6


def test_the_flag_that_a_removed_backward_hook_leaves_does_not_close_the_bank() -> None:
    register_module_full_backward_hook(lambda *said: None).remove()
    smoothed = Smoothed(network("linear"), Gaussian(0.5), classes=4, batch=50, rng=SeededRandom(1))
    assert len(certify_with_bank(smoothed, pictures("linear"), PLAN)) == 6


@pytest.mark.parametrize("rows", [4000, 1000])
def test_a_network_of_linear_layers_alone_votes_as_without_a_bank(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to run behind the bank, so that its scores are the room that the next rows overwrite."""
    torch.manual_seed(3)
    smoothed = Smoothed(nn.Sequential(nn.Linear(64, 4)), Gaussian(0.5), classes=4, rng=SeededRandom(1))
    votes = []
    for rng in (SeededRandom(7), SeededRandom(7)):
        monkeypatch.setattr(bank, "ROWS", rows)
        votes.append(
            [
                one.votes.counts
                for one in certify_with_bank(replace(smoothed, rng=rng), pictures("linear"), PLAN)
            ]
        )
        rows = 4050
    assert votes[0] == votes[1]


def test_a_failed_recording_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    smoothed = Smoothed(network("linear"), Gaussian(0.5), classes=4, batch=50)
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        smoothed.certify(np.zeros(63, np.float32), PLAN)
    assert not caplog.records


@pytest.mark.parametrize("size", [1e6, 1e38])
def test_noise_that_is_rounded_away_beside_the_input_is_refused(size: float) -> None:
    """At 1e6 32-bit floats are .06 apart: noise of .25 has few values there, at 1e38 a single one."""
    smoothed = Smoothed(network("linear"), Gaussian(0.25), classes=4, batch=50)
    images = pictures("linear")
    images[2, 5] = size
    for door in (
        lambda: certify_with_bank(smoothed, images, PLAN),
        lambda: smoothed.certify(images[2], PLAN),
    ):
        with pytest.raises(InvalidParameter, match="Expected noise that float32 can hold beside numbers"):
            door()
    with pytest.raises(InvalidParameter, match="without masked numbers"):
        smoothed.certify(np.ma.masked_array(pictures("linear")[0], np.arange(64) < 3), PLAN)


def test_the_two_parts_are_compared_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no rule about types foresees is found by running both: here a front that is not affine."""
    monkeypatch.setattr(bank, "AFFINE", (*bank.AFFINE, nn.ReLU))
    smoothed = Smoothed(network("linear"), Gaussian(0.5), classes=4, batch=50, rng=SeededRandom(1))
    with pytest.raises(InvalidParameter, match="gives other scores than without"):
        certify_with_bank(smoothed, pictures("linear"), PLAN)


def test_later_layers_of_any_kind_vote_as_in_the_model() -> None:
    model = network("linear")
    model[3].register_forward_hook(lambda *said: -said[2])
    smoothed = Smoothed(model, Gaussian(0.05), classes=4, batch=50, rng=SeededRandom(1))
    answers = certify_with_bank(smoothed, pictures("linear"), PLAN)
    assert [answer.votes.label for answer in answers] == [
        answer.votes.label for answer in smoothed.certify_all(pictures("linear"), PLAN)
    ]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_both_doors_refuse_inputs_that_are_no_numbers(bad: float) -> None:
    smoothed = Smoothed(network("linear"), Gaussian(0.5), classes=4, batch=50, rng=SeededRandom(1))
    images = pictures("linear")
    images[4, 3] = bad
    doors: list[Callable[[], Any]] = [
        lambda: smoothed.certify(images[4]),
        lambda: certify_with_bank(smoothed, images, PLAN),
        lambda: smoothed.certify_all(images, PLAN),
    ]
    for door in doors:
        with pytest.raises(InvalidParameter, match="finite numbers in the input"):
            door()
    with pytest.raises(InvalidParameter, match="one shape and type"):
        certify_with_bank(smoothed, [images[0], images[1].astype(np.float64)], PLAN)
    with pytest.raises(InvalidParameter, match="float16"):
        certify_with_bank(smoothed, pictures("linear").astype(np.float16), PLAN)
