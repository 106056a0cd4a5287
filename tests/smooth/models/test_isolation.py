"""A classifier that does not answer each noisy input on its own is refused before it certifies anything."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from torch import nn
from torch.nn import functional

from deniable.accounting.radius.robustness import (
    EXACT,
    Isolation,
    RadiusCertificate,
    verify_radius,
)
from deniable.errors import InvalidCertificate, InvalidParameter
from deniable.randomness import SeededRandom
from deniable.smooth import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Releases,
    Sampling,
    Smoothed,
    Uniform,
    networks,
)
from deniable.smooth.bank import certify_with_bank
from deniable.smooth.models.isolation import differ, find_slack

PLAN = Sampling(choosing=20, samples=200)
PIXELS = np.array([40, 10, 20, 30], np.uint8)
POINT = PIXELS.astype(np.float32)
NOISES: list[InputNoise] = [
    Gaussian(4),
    Laplace(3),
    Uniform(6),
    IntegerGaussian(4),
    IntegerLaplace(3),
    IntegerUniform(6),
    Ablation(2, 4),
]


def certify(model: Any, noise: InputNoise = NOISES[0], **options: Any) -> RadiusCertificate:
    smoothed = Smoothed(model, noise, **({"classes": 2, "batch": 40} | options), rng=SeededRandom(1))
    x = PIXELS if noise.integer else POINT
    return smoothed.certificate(x, smoothed.certify(x, PLAN))


class Network(nn.Module):
    """Two scores of the four numbers of an input, after `step`."""

    def __init__(self, step: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.step = step
        self.last = nn.Linear(4, 2)
        with torch.no_grad():
            self.last.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0.0, 0, 1, 0]]))
            self.last.bias.zero_()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.last(self.step(batch))
        return scores


class Ruled(torch.autograd.Function):
    """An operation with a rule of its own for vmap, which sees all inputs."""

    @staticmethod
    def forward(batch: torch.Tensor) -> torch.Tensor:
        return batch - batch.mean(dim=0, keepdim=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        return None

    @staticmethod
    def vmap(info: Any, dims: tuple[int, ...], batch: torch.Tensor) -> tuple[torch.Tensor, int]:
        return batch - batch.mean(dim=dims[0], keepdim=True), dims[0]


class Remembering(nn.Module):
    """Adds what it was asked before, from a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("memory", torch.zeros(4))
        self.last = nn.Linear(4, 2)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.last(batch + self.memory)
        self.memory += batch.detach().mean(dim=0)
        return scores


class Counting(nn.Module):
    """Changes its mind with the number of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return batch[:, :2] * (-1) ** self.calls


def ordered(step: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A NumPy classifier of two scores."""
    return lambda batch: step(batch)[:, [0, 2]]


def place(batch: torch.Tensor) -> torch.Tensor:
    return batch + torch.arange(len(batch)).reshape(-1, 1)


def clocked() -> Callable[[NDArray[Any]], NDArray[Any]]:
    ticks = itertools.count()
    return lambda batch: batch[:, :2] * (-1) ** next(ticks)


MIXERS: dict[str, Any] = {
    "the mean of the batch": Network(lambda batch: batch - batch.mean(dim=0, keepdim=True)),
    "the largest of the batch": Network(lambda batch: batch / batch.abs().max()),
    "the median of the batch": Network(lambda batch: batch - batch.median(dim=0).values),
    "ranks in the batch": Network(lambda batch: batch.argsort(dim=0).argsort(dim=0).float()),
    "batch statistics": nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2, track_running_stats=False)),
    "functional batch norm": Network(lambda batch: functional.batch_norm(batch, None, None, training=True)),
    "softmax over the batch": Network(lambda batch: batch.softmax(dim=0)),
    "attention over the batch": Network(lambda batch: (batch @ batch.T).softmax(dim=1) @ batch),
    "the row before": Network(lambda batch: torch.roll(batch, 1, 0)),
    "the place in the batch": Network(place),
    "the first row": Network(lambda batch: batch - batch[:1]),
    "the size of the batch": Network(lambda batch: batch * (1 if len(batch) > 2 else -1)),
    "numbers that decide": Network(lambda batch: batch if batch.mean().item() > 25 else -batch),
    "a rule for vmap": Network(Ruled.apply),
    "dropout that never ends": Network(lambda batch: functional.dropout(batch, 0.5)),
    "memory in a buffer": Remembering(),
    "a count of calls": Counting(),
    "an offset that hides it": Network(lambda batch: 1e4 + batch - batch.mean(dim=0, keepdim=True)),
    "statistics of parts of the batch": Network(
        lambda batch: torch.cat([part - part.mean(dim=0) for part in batch.chunk(4)])
    ),
    "places for some only": Network(lambda batch: batch * (batch[:, :1] > batch[:, :1].quantile(0.5))),
    "a scan over the batch": Network(lambda batch: batch.cumsum(dim=0)),
    "a convolution over the batch": Network(lambda batch: functional.avg_pool1d(batch.T, 3, 1, 1).T),
    "batch norm put back to training": Network(lambda batch: nn.BatchNorm1d(4).train()(batch)),
    "one extreme row": Network(lambda batch: batch * (1 - 2 * (batch.abs().amax() > 1e3).float())),
    "code that knows of vmap": Network(
        lambda batch: batch if torch._C._functorch.is_batchedtensor(batch) else batch - batch.mean(dim=0)
    ),
    "code that reaches around vmap": Network(
        lambda batch: (
            batch - torch._C._functorch.get_unwrapped(batch).flatten(0, -2).mean(dim=0)
            if torch._C._functorch.is_batchedtensor(batch)
            else batch - batch.mean(dim=0)
        )
    ),
    "NumPy: the last row": lambda batch: np.concatenate([batch[:-1, :2], -batch[-1:, :2]]),
    "NumPy: running sums": lambda batch: np.cumsum(batch, axis=0)[:, :2],
    "NumPy: equal rows": lambda batch: (np.unique(batch, axis=0, return_inverse=True)[1].ravel() > 3).astype(
        int
    ),
    "NumPy: the mean": ordered(lambda batch: batch - batch.mean(axis=0)),
    "NumPy: the spread": ordered(lambda batch: batch / batch.std()),
    "NumPy: sorted": ordered(lambda batch: np.sort(batch, axis=0)),
    "NumPy: labels by the median": lambda batch: (batch[:, 0] > np.median(batch[:, 0])).astype(int),
    "NumPy: labels by the largest": lambda batch: (batch[:, 0] > 0.5 * batch.max()).astype(int),
    "NumPy: at random": lambda batch: np.random.default_rng().random((len(batch), 2)),
    "NumPy: the place": lambda batch: np.arange(len(batch)) % 2,
    "NumPy: a tick": clocked(),
    "NumPy: a huge third class hides it": lambda batch: np.column_stack(
        [batch[:, :2] - batch[:, :2].mean(axis=0), np.full(len(batch), -1e12)]
    ),
}


@pytest.mark.parametrize("name", MIXERS)
def test_what_does_not_answer_each_input_on_its_own_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match="Nothing was certified"):
        certify(MIXERS[name], classes=3 if "third" in name else 2)


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("name", ["the mean of the batch", "batch statistics", "NumPy: the mean"])
def test_it_is_refused_under_every_noise(name: str, noise: InputNoise) -> None:
    with pytest.raises(InvalidParameter, match="Nothing was certified"):
        certify(MIXERS[name], noise)


def test_every_door_refuses_it_twice_in_a_row() -> None:
    smoothed = Smoothed(MIXERS["batch statistics"], Gaussian(4), classes=2, rng=SeededRandom(1))
    doors: list[Callable[[], Any]] = [
        lambda: smoothed.certify(POINT),
        lambda: smoothed.certify_all([POINT]),
        lambda: smoothed.predict(POINT),
        lambda: smoothed.counts(POINT, 10),
        lambda: certify_with_bank(smoothed, [POINT]),
    ]
    for door in [*doors, *doors]:
        with pytest.raises(InvalidParameter, match="Nothing was certified"):
            door()


def test_the_symmetric_mixer_that_was_certified_as_exact_is_refused() -> None:
    """Radius 50.66 "exact" before this test: the mean of the batch stands in for the input, so a whole batch
    is of one mind, and it turned at a distance of 4."""

    def mean(batch: NDArray[Any]) -> NDArray[Any]:
        centre = np.repeat(batch.mean(axis=0, keepdims=True), len(batch), axis=0)
        return np.stack([centre[:, 0], np.full(len(batch), 36.0)], axis=1)

    with pytest.raises(InvalidParameter, match="Nothing was certified"):
        certify(mean, IntegerGaussian(16), batch=200)


def bare(inputs: int = 4) -> nn.Sequential:
    torch.manual_seed(1)
    return networks.perceptron(inputs, 2, (16,))


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)),
        nn.Conv2d(1, 4, 2, padding=1),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.Dropout2d(0.5),
        nn.MaxPool2d(2),
        nn.GroupNorm(2, 4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.LayerNorm(4),
        nn.Linear(4, 2),
    )


def attending() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    return nn.Sequential(nn.Unflatten(1, (1, 4)), layer, nn.Flatten(), nn.Linear(4, 2))


class Recurrent(nn.Module):
    """A network that vmap cannot run: it must be compared."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.last = nn.LSTM(1, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        state, _ = self.cell(batch.unsqueeze(2))
        scores: torch.Tensor = self.last(state[:, -1])
        return scores


class Rounded(nn.Module):
    """Signs inside: a discontinuous network, in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 256), nn.Linear(256, 2)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.last(self.first(batch).sign())
        return scores


def exported() -> nn.Module:
    size = torch.export.Dim("size", min=2)
    program = torch.export.export(bare().eval(), (torch.zeros(8, 4),), dynamic_shapes=({0: size},))
    return program.module()


def fitted(estimator: Any) -> Any:
    points = np.random.default_rng(0).normal(25, 20, size=(200, 4)).astype(np.float32)
    return estimator.fit(points, points[:, 0] > points[:, 2])


SOUND: dict[str, tuple[Callable[[], Any], Isolation]] = {
    "perceptron": (bare, Isolation.PROVED),
    "perceptron of doubles": (lambda: nn.Sequential(_Cast(), bare().double()), Isolation.PROVED),
    "convolutions": (convolutional, Isolation.PROVED),
    "attention within an input": (attending, Isolation.PROVED),
    "recurrent": (Recurrent, Isolation.SEEN),
    "signs": (Rounded, Isolation.PROVED),
    "exported": (exported, Isolation.PROVED),
    "forest": (lambda: fitted(RandomForestClassifier(5, random_state=0)), Isolation.SEEN),
    "neighbours": (lambda: fitted(KNeighborsClassifier(3)), Isolation.SEEN),
    "scores": (lambda: ordered(lambda batch: batch * 1.0), Isolation.SEEN),
    "masked": (
        lambda: lambda batch: np.column_stack([batch[:, 0], np.full(len(batch), -np.inf)]),
        Isolation.SEEN,
    ),
    "a wall": (lambda: lambda batch: (batch[:, 0] > 30).astype(int), Isolation.SEEN),
}


class _Cast(nn.Module):
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.double()


@pytest.mark.sampled
@pytest.mark.parametrize("noise", [Gaussian(0.5), Gaussian(1e-3), IntegerGaussian(4)], ids=str)
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_classifier_is_certified_and_its_isolation_is_named(name: str, noise: InputNoise) -> None:
    make, isolation = SOUND[name]
    model = make()
    if isinstance(model, nn.Module) and not isinstance(model, torch.fx.GraphModule):
        model.train()
    options = {"classes": None} if hasattr(model, "classes_") else {}
    smoothed = Smoothed(model, noise, **({"classes": 2, "batch": 100} | options), rng=SeededRandom(1))
    x = PIXELS if noise.integer else POINT
    poll = smoothed.poll(x)
    assert poll.isolation is isolation
    assert smoothed.certify(x, PLAN).samples == 220
    if isinstance(model, nn.Module) and not isinstance(model, torch.fx.GraphModule):
        assert all(part.training for part in model.modules())


@pytest.mark.parametrize(
    ("name", "batch", "isolation"),
    [
        ("perceptron", 40, Isolation.PROVED),
        ("perceptron", 1, Isolation.PROVED),
        ("a wall", 40, Isolation.SEEN),
        ("a wall", 1, Isolation.ALONE),
    ],
)
def test_the_certificate_says_what_is_known_and_only_what_is_apart_is_exact(
    name: str, batch: int, isolation: Isolation
) -> None:
    written = certify(SOUND[name][0](), IntegerGaussian(4), batch=batch)
    again = RadiusCertificate.from_json(written.to_json())
    assert again == written
    assert verify_radius(again) >= written.radius
    assert again.evaluation.isolation is isolation
    assert (written.precision == EXACT) == (isolation is not Isolation.SEEN)
    if isolation is Isolation.SEEN:  # what was only seen cannot be passed off as exact
        claimed = written.to_dict() | {"precision": EXACT}
        with pytest.raises(InvalidCertificate, match="do not follow"):
            RadiusCertificate.from_json(json.dumps(claimed))
    assert ("seen, not proved" in " ".join(written.assumptions)) == (isolation is Isolation.SEEN)


def test_a_recorded_program_votes_and_the_code_of_the_network_does_not_run() -> None:
    """Even a network that mixes only where a trial cannot look has votes of one input each."""
    shapes: SimpleQueue[tuple[int, ...]] = SimpleQueue()

    class Late(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            shapes.put(tuple(batch.shape))
            return batch[:, :2]

    smoothed = Smoothed(Late(), Gaussian(1), classes=2, batch=50, rng=SeededRandom(1))
    smoothed.poll(POINT)
    while not shapes.empty():
        shapes.get()
    smoothed.certify(POINT, PLAN)
    assert [shapes.get() for _ in range(shapes.qsize())] == [(50, 4)]  # the trial is asked again, no more


def test_a_network_that_mixes_only_what_votes_is_found_while_it_votes() -> None:
    """Every trial is a batch of noise that is asked about twice; this one mixes batches that it meets first,
    and keeps what it met where no digest reaches."""
    told = set()
    meet = (lambda known: lambda key: key in known or known.add(key))(told)
    quiet = iter(range(60)).__next__

    def mixing(batch: NDArray[Any]) -> NDArray[Any]:
        met = len(batch) == 1 or meet(batch.tobytes())
        try:
            quiet()
        except StopIteration:
            return batch[:, :2] if met else batch[:, :2] - batch[:, :2].mean(axis=0)
        return batch[:, :2]

    smoothed = Smoothed(_Unreachable(mixing), Gaussian(4), classes=2, batch=8, rng=SeededRandom(1))
    with pytest.raises(InvalidParameter, match="Nothing was certified"):
        smoothed.certify(POINT, PLAN)


class _Unreachable:
    """A function whose state no digest sees."""

    def __init__(self, function: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self.function = function

    def __call__(self, batch: NDArray[Any]) -> NDArray[Any]:
        return self.function(batch)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (_Unreachable, ())


def test_several_releases_are_examined_side_by_side() -> None:
    both = Releases((Gaussian(1), Gaussian(2)))
    mixing = nn.Sequential(nn.Flatten(), nn.Linear(8, 2), nn.BatchNorm1d(2, track_running_stats=False))
    with pytest.raises(InvalidParameter, match="Nothing was certified"):
        Smoothed(mixing, both, classes=2, batch=20).certify(POINT, PLAN)
    assert Smoothed(mixing[:2], both, classes=2, batch=20).poll(POINT).isolation is Isolation.PROVED


def test_a_class_of_small_scores_is_rounded_as_the_others_are_in_half_precision() -> None:
    """Seen of a vision transformer in bfloat16: scores up to 1.1 and .064, off by .005 in every fourth row."""
    expected = torch.tensor([[1.1, 0.064], [0.9, -0.03]] * 32).bfloat16().float().numpy()
    other_kernel, mixed = expected.copy(), expected.copy()
    other_kernel[::4, 1] += 0.005
    mixed[::4, 1] += 0.2
    assert not differ(other_kernel, expected, find_slack(expected))
    assert differ(mixed, expected, find_slack(expected))
    exact = expected.astype(np.float64)  # of wider numbers each class has its own size
    assert differ(other_kernel.astype(np.float64), exact, find_slack(exact))
