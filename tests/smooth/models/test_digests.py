"""The digest of a classifier covers what its answers depend on, and a certificate is bound to it and to its input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from torch import nn
from torch.nn.utils import parametrize

from deniable.accounting.radius.robustness import verify_radius
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom
from deniable.smooth import Certified, Gaussian, IntegerGaussian, Laplace, Sampling, Smoothed
from deniable.smooth.bank import certify_with_bank
from deniable.smooth.models.digests import digest

PLAN = Sampling(choosing=20, samples=200)
POINT = np.array([5.0, 1.0], np.float32)
THRESHOLD = 1.0


class Scaled(nn.Module):
    """A network with every kind of state: a parameter, buffers, plain attributes, a function."""

    sign = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(2, 2)
        with torch.no_grad():
            self.last.weight.copy_(torch.eye(2))
            self.last.bias.zero_()
        self.register_buffer("shift", torch.zeros(2))
        self.register_buffer("hidden", torch.zeros(2), persistent=False)
        self.loose = torch.zeros(2)
        self.array = np.zeros(2, np.float32)
        self.temperature = 1.0
        self.steps: list[Callable[[torch.Tensor], torch.Tensor]] = [torch.nn.functional.relu]
        self.options = {"power": {"of": 1}}

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        scores = self.sign * self.last(batch) + self.shift + self.hidden + self.loose
        scores = (scores + torch.from_numpy(self.array)) * self.temperature
        for step in self.steps:
            scores = step(scores)
        return scores * self.options["power"]["of"]  # type: ignore[operator,no-any-return]


def write_weight(model: Scaled) -> None:
    model.last.weight.data.mul_(-1)


def write_buffer(model: Scaled) -> None:
    model.shift += 1


def write_unsaved_buffer(model: Scaled) -> None:
    model.hidden += 1


def write_loose_tensor(model: Scaled) -> None:
    model.loose[0] = 1


def write_array(model: Scaled) -> None:
    model.array[0] = 1


def write_number(model: Scaled) -> None:
    model.temperature = -1.0


def add_step(model: Scaled) -> None:
    model.steps.append(torch.neg)


def write_option(model: Scaled) -> None:
    model.options["power"]["of"] = -1


def swap_part(model: Scaled) -> None:
    model.last = nn.Linear(2, 2)


def add_hook(model: Scaled) -> None:
    model.last.register_forward_hook(lambda module, inputs, output: -output)


def add_early_hook(model: Scaled) -> None:
    model.register_forward_pre_hook(lambda module, inputs: (-inputs[0],))


def override_forward(model: Scaled) -> None:
    model.forward = MethodType(lambda self, batch: -batch, model)  # type: ignore[method-assign]


def parametrise(model: Scaled) -> None:
    class Negative(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return -weight

    parametrize.register_parametrization(model.last, "weight", Negative())


def override_part(model: Scaled) -> None:
    model.last.forward = lambda batch: -batch  # type: ignore[assignment,method-assign]


CHANGES = [
    write_weight,
    write_buffer,
    write_unsaved_buffer,
    write_loose_tensor,
    write_array,
    write_number,
    add_step,
    write_option,
    swap_part,
    add_hook,
    add_early_hook,
    override_forward,
    parametrise,
    override_part,
]


def certify(model: Any, noise: Any = None, **options: Any) -> tuple[Smoothed, Certified]:
    smoothed = Smoothed(
        model, noise or Gaussian(0.5), **({"classes": 2, "batch": 20} | options), rng=SeededRandom(1)
    )
    return smoothed, smoothed.certify(POINT, PLAN)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_model_that_has_changed_since_its_votes_gets_no_certificate(
    change: Callable[[Scaled], None],
) -> None:
    model = Scaled()
    smoothed, answer = certify(model)
    assert smoothed.certificate(POINT, answer) == smoothed.certificate(POINT, answer)
    change(model)
    for _ in range(2):
        with pytest.raises(InvalidParameter, match="has changed since its votes began"):
            smoothed.certificate(POINT, answer)


def test_a_method_of_its_class_that_has_changed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    smoothed, answer = certify(Scaled())
    monkeypatch.setattr(Scaled, "sign", -1.0)
    with pytest.raises(InvalidParameter, match="has changed since"):
        smoothed.certificate(POINT, answer)
    monkeypatch.setattr(Scaled, "sign", 1.0)
    assert smoothed.certificate(POINT, answer).radius > 0
    monkeypatch.setattr(Scaled, "forward", lambda self, batch: -batch)
    with pytest.raises(InvalidParameter, match="has changed since"):
        smoothed.certificate(POINT, answer)


def test_a_function_is_its_code_closure_defaults_and_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    def above(edge: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
        return lambda batch: (batch[:, 0] > edge).astype(int)

    def beyond(batch: NDArray[Any], edge: float = 1.0) -> NDArray[Any]:
        return (batch[:, 0] > edge).astype(int)

    def over(batch: NDArray[Any]) -> NDArray[Any]:
        return (batch[:, 0] > THRESHOLD).astype(int)

    assert digest(above(1.0)) == digest(above(1.0)) != digest(above(2.0))
    assert (
        digest(partial(beyond, edge=1.0))
        == digest(partial(beyond, edge=1.0))
        != digest(partial(beyond, edge=2.0))
    )
    smoothed, answer = certify(beyond)
    beyond.__defaults__ = (2.0,)
    with pytest.raises(InvalidParameter, match="has changed since"):
        smoothed.certificate(POINT, answer)
    smoothed, answer = certify(over)
    monkeypatch.setitem(globals(), "THRESHOLD", 2.0)
    with pytest.raises(InvalidParameter, match="has changed since"):
        smoothed.certificate(POINT, answer)


@pytest.mark.parametrize("kind", [LogisticRegression, DecisionTreeClassifier, KNeighborsClassifier])
def test_an_estimator_that_was_fitted_again_is_another(kind: Any) -> None:
    points = np.random.default_rng(0).normal(size=(50, 2))
    estimator = kind().fit(points, points[:, 0] > 0)
    smoothed, answer = certify(estimator, classes=None)
    assert smoothed.certificate(POINT, answer).radius > 0
    estimator.fit(points, points[:, 1] > 0)
    with pytest.raises(InvalidParameter, match="has changed since"):
        smoothed.certificate(POINT, answer)


def test_what_changes_while_it_votes_is_refused() -> None:
    """A counter that a trial cannot see at work: it turns the answer after a hundred calls."""

    class Late(nn.Module):
        calls = 0

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return batch[:, :2] * (-1 if self.calls > 100 else 1)

    class Cached(nn.Module):
        table: torch.Tensor | None = None

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            if self.table is None:
                self.table = torch.ones(2)
            return batch[:, :2] * self.table

    with pytest.raises(InvalidParameter, match="has changed since its votes began"):
        certify(Late())
    log: list[int] = []
    with pytest.raises(InvalidParameter, match="has changed since its votes began"):
        certify(lambda batch: (log.append(len(batch)), batch)[1])
    smoothed, answer = certify(Cached())  # what is filled once, in the trial, does not change afterwards
    assert smoothed.certificate(POINT, answer).radius > 0


def test_what_a_digest_does_not_reach_is_asked_again_after_the_votes(tmp_path: Path) -> None:
    """State in a file turns the answer in the middle of the votes."""
    path = tmp_path / "calls"
    path.write_text("0", encoding="utf-8")

    def filed(batch: NDArray[Any]) -> NDArray[Any]:
        calls = int(path.read_text(encoding="utf-8")) + 1
        path.write_text(str(calls), encoding="utf-8")
        return batch * (1 if calls < 60 else -1)

    def counted(batch: NDArray[Any]) -> NDArray[Any]:
        vars(counted)["calls"] = vars(counted).get("calls", 0) + 1
        return batch * (1 if vars(counted)["calls"] < 60 else -1)

    with pytest.raises(InvalidParameter, match="when it was asked about the same noisy inputs again"):
        Smoothed(filed, Gaussian(0.5), classes=2, batch=20).certify(POINT, Sampling(20, 1000))
    with pytest.raises(InvalidParameter, match="when it was asked about the same noisy inputs again"):
        certify(counted)


def test_a_model_that_changes_after_its_trial_is_tried_again() -> None:
    class Switched(nn.Module):
        mixing = False

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return batch - batch.mean(dim=0, keepdim=True) if self.mixing else batch

    model = Switched()
    smoothed, _ = certify(model)
    model.mixing = True
    with pytest.raises(InvalidParameter, match="Nothing was certified"):
        smoothed.certify(POINT, PLAN)
    model.mixing = False
    assert smoothed.certify(POINT, PLAN).radius > 0


@pytest.mark.parametrize("bank", [False, True])
def test_votes_are_of_one_input_noise_and_evaluation(bank: bool) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    smoothed = Smoothed(model, Gaussian(0.01), classes=2, batch=20, rng=SeededRandom(1))
    answer = certify_with_bank(smoothed, [POINT], PLAN)[0] if bank else smoothed.certify(POINT, PLAN)
    written = smoothed.certificate(POINT, answer)
    assert verify_radius(written) > 0
    assert written.evaluation.model == smoothed.model.digest
    for other in (POINT + 1e-3, POINT.astype(np.float64), POINT[None], POINT[::-1]):
        with pytest.raises(InvalidParameter, match="of another input"):
            smoothed.certificate(other, answer)
    for changes in (
        {"noise": Gaussian(10)},
        {"noise": Laplace(0.01)},
        {"norm": 1.0},
        {"batch": 21},
        {"scale": 2.0},
    ):
        other = replace(smoothed, **changes)
        with pytest.raises(InvalidParameter, match="not as this object takes them"):
            other.certificate(POINT, answer)
    with pytest.raises(InvalidParameter, match="has changed since"):
        replace(smoothed, classifier=nn.Linear(2, 2)).certificate(POINT, answer)
    model[0].weight.data *= 2
    with pytest.raises(InvalidParameter, match="has changed since"):
        smoothed.certificate(POINT, answer)


def test_an_input_that_its_owner_changes_during_the_votes_is_still_the_one_certified() -> None:
    point = POINT.copy()

    def spoil(batch: NDArray[Any]) -> NDArray[Any]:
        np.asarray(POINTS[0])[:] = 99
        return (batch[:, 0] > 1).astype(int)

    POINTS[0] = point
    smoothed = Smoothed(spoil, Gaussian(0.5), classes=2, batch=20, rng=SeededRandom(1))
    answer = smoothed.certify(point, PLAN)
    assert point[0] == 99
    assert smoothed.certificate(POINT, answer).radius > 0
    with pytest.raises(InvalidParameter, match="of another input"):
        smoothed.certificate(point, answer)


POINTS: list[NDArray[Any]] = [POINT]

DIGEST = """
import torch
from deniable.smooth import networks
from deniable.smooth.models.digests import digest
torch.manual_seed(0)
print(digest(networks.colour(width=4)))
"""


def test_a_network_of_plain_layers_has_the_same_digest_in_every_process() -> None:
    from deniable.smooth import networks

    torch.manual_seed(0)
    network = networks.colour(width=4)
    other = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest(network)
    network.eval()
    assert other.stdout.strip() == digest(network), "It is always evaluated in evaluation mode."
    torch.manual_seed(1)
    assert other.stdout.strip() != digest(networks.colour(width=4))


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", ">u2", ">i8"])
def test_whole_numbers_of_every_type_are_divided_by_the_scale(kind: str) -> None:
    def below(batch: NDArray[Any]) -> NDArray[Any]:
        assert batch.dtype == np.float32
        return (batch[:, 0] < 0.7).astype(int)

    smoothed = Smoothed(below, IntegerGaussian(4), classes=2, batch=20, scale=100, rng=SeededRandom(1))
    answer = smoothed.certify(np.array([50, 100], kind), PLAN)
    assert answer.label == 1
    assert answer.radius < 20
