"""A client that is silent adds zeros, whatever makes it silent: every two contents of one client move what is
released by no more than the loss says, in simulations and in the bytes of real devices."""

from __future__ import annotations

import itertools
import math
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from torch import Tensor, nn

from deniable.federated import (
    Capped,
    Central,
    Clients,
    Correlated,
    Device,
    FedAvg,
    InProcess,
    OnClient,
    Shared,
    Uniform,
    agreed,
)
from deniable.federated.devices.coordinator import Federation
from deniable.federated.devices.messages import DeviceTask, Message, write_task
from deniable.federated.noise.placement import AnyPlacement
from deniable.federated.noise.weights import Weights
from deniable.federated.rounds import Rounds
from deniable.federated.train import parameters_of
from deniable.federated.train.recipe import flat
from deniable.learn.sgd.clipping import Adaptive
from deniable.learn.sgd.noise import GradientGrid
from deniable.loss import DiscreteGaussianNoise, GaussianNoise, IntegerGaussianSum, Sampled
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.federated.ready import LIMITS, ready_device
from tests.federated.runs import run_of

COUNT, ROWS, Z = 4, 6, 2.0
Vector = NDArray[np.float64]

PLACEMENTS = [
    Central(Z), OnClient(Z, participations=2), Shared(Z, bits=32, least=3, participations=2), Correlated(Z, apart=1)
]  # fmt: skip
WEIGHTS = [Uniform(), Capped(ROWS, float(COUNT))]
CLIPS = [0.5, Adaptive(start=0.5, count_noise=5.0), Adaptive(start=0.5, count_noise=1.05 * Z / 2)]
every_run = pytest.mark.parametrize(
    ("weights", "clip"), list(itertools.product(WEIGHTS, CLIPS)), ids=["uniform-fixed", "uniform-adaptive",
    "uniform-dear-count", "capped-fixed", "capped-adaptive", "capped-dear-count"],
)  # fmt: skip


def contents() -> dict[str, tuple[Tensor, Tensor]]:
    """All that the first client may hold: updates far beyond the clip and within it, none, and failures."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(ROWS, 3)))
    y = (x[:, 0] > 0).long()
    return {
        "rows": (x, y),
        "opposite rows": (x, 1 - y),
        "rows within the clip": (1e-4 * x, y),
        "no rows": (x[:0], y[:0]),
        "no such labels": (x, y + 9),
        "no numbers": (torch.full_like(x, math.nan), y),
        "numbers too large": (1e150 * x, y),
        "numbers far too large": (1e300 * x, y),
    }


SILENT = ("no rows", "no such labels", "no numbers")


def federated(noise: AnyPlacement, weights: Weights, clip: float | Adaptive, **settings: object) -> FedAvg:
    torch.manual_seed(0)
    model = nn.Linear(3, 2, bias=False).double()
    given = {"clients": COUNT, "rate": 1, "rounds": 1, "learning_rate": 50.0, "weights": weights, "clip": clip,
             "noise": noise, "progress": False} | LIMITS  # fmt: skip
    return run_of(model, nn.CrossEntropyLoss(), **(given | settings))


def stated(run: FedAvg) -> tuple[float, float]:
    """What the loss says that a client who falls silent moves, and one who is replaced; in clips."""
    replaced = run_of(run.model, run.criterion, clients=COUNT, rate=1, rounds=1, weights=run.privacy.weights,
                      clip=run.privacy.clip,
                      noise=run.noise, unit=Unit.client(replace=True), progress=False)  # fmt: skip
    grid = GradientGrid(run.shape.clip, run.shape.dimension).step
    if isinstance(run.noise, Shared):
        grid = run.noise.encoding(run.multiplier, run.shape).step
    return sensitivity(run) * float(grid), sensitivity(replaced) * float(grid)


def sensitivity(run: FedAvg) -> float:
    for node in run.loss.walk():
        if isinstance(node, DiscreteGaussianNoise | IntegerGaussianSum):
            return float(node.sensitivity)
        if isinstance(node, GaussianNoise):  # `Correlated`: its noise is Z clips, in double precision
            step = float(GradientGrid(run.shape.clip, run.shape.dimension).step)
            return Z / float(node.multiplier) * run.shape.clip / step
    raise AssertionError(run.loss)


def check_pairs(run: FedAvg, released: dict[str, Vector]) -> None:
    """Every two of them, against silence and against each other."""
    silenced, replaced = stated(run)
    none, rounding = released["no rows"], 1 + 1e-9
    for one, other in itertools.combinations(released, 2):
        assert np.linalg.norm(released[one] - released[other]) <= replaced * rounding, (one, other)
    for name, value in released.items():
        assert np.linalg.norm(value - none) <= silenced * rounding, name
        assert name not in SILENT or np.array_equal(value, none), name
    # It is met, up to rounding: no smaller number would hold.
    assert np.linalg.norm(released["rows"] - none) >= 0.98 * silenced


# ------------------------------------------------------------------------------------------- simulations


def simulated(run: FedAvg, content: tuple[Tensor, Tensor]) -> Vector:
    """The noisy sum of a round in which the first client holds `content`; its noise is the same each time."""
    x, y = contents()["rows"]
    owner = np.repeat([0, 1, 2, 3], [len(content[0]), ROWS, ROWS, ROWS])
    data = Clients.by_owner(
        torch.cat([content[0], x, 0.5 * x, -x]), torch.cat([content[1], y, y, y]), owner, owners=range(COUNT)
    )
    rounds = Rounds(run, data, SeededRandom(3))
    totals, real = [], rounds._sum

    def noted(updates: object, silent: int = 0) -> Vector | None:
        totals.append(real(updates, silent))  # type: ignore[arg-type]
        return totals[-1]

    rounds._sum = noted
    rounds.step()
    rounds.close()
    assert totals[0] is not None
    return totals[0]


@every_run
@pytest.mark.parametrize("noise", PLACEMENTS, ids=lambda noise: type(noise).__name__)
def test_every_two_contents_of_a_client_move_a_sum_by_no_more_than_is_stated(
    noise: AnyPlacement, weights: Weights, clip: float | Adaptive
) -> None:
    run = federated(noise, weights, clip)
    check_pairs(run, {name: simulated(run, content) for name, content in contents().items()})


# ------------------------------------------------------------------------------------------- real devices


def device(
    run: FedAvg, number: int, content: tuple[Tensor, Tensor], seed: int = 0, **terms: object
) -> Device:
    """Its noise is the same for every content."""
    own = ready_device(run, number, *content, **terms)  # type: ignore[arg-type]
    own._rng = SeededRandom(100 * seed + number)  # type: ignore[assignment]
    return own


def reply(run: FedAvg, content: tuple[Tensor, Tensor], seed: int = 0) -> bytes:
    task = write_task(flat(parameters_of(run.model)), 0.5)
    return device(run, 0, content, seed).handle(Message(DeviceTask.UPDATE, 1, task).to_bytes())


def sent(run: FedAvg, content: tuple[Tensor, Tensor]) -> Vector:
    """What the server makes of a device's bytes."""
    message = reply(run, content)
    if isinstance(run.noise, Central):
        return np.frombuffer(message, "<f4").astype(np.float64)
    return np.frombuffer(message, "<i8") * float(GradientGrid(run.shape.clip, run.shape.dimension).step)


def summed(run: FedAvg, content: tuple[Tensor, Tensor]) -> Vector:
    """What a secure sum over real devices opens."""
    signers = {k: Ed25519PrivateKey.generate() for k in range(COUNT)}
    roster = {k: signer.public_key().public_bytes_raw() for k, signer in signers.items()}
    agreement = agreed(run, roster, threshold=3)
    object.__setattr__(agreement, "session", bytes(16))  # the rotation is the same each time
    everybody = dict(enumerate([content] + [contents()["rows"]] * (COUNT - 1)))
    handlers = {
        k: device(run, k, rows, agreement=agreement, signer=signers[k]).handle
        for k, rows in everybody.items()
    }
    total = Federation(run, agreement).open(InProcess(handlers), rng=SeededRandom(1))._total(1)
    assert total is not None
    return total


@every_run
@pytest.mark.parametrize("noise", PLACEMENTS[:3], ids=lambda noise: type(noise).__name__)
def test_every_two_contents_of_a_device_move_its_bytes_by_no_more_than_is_stated(
    noise: AnyPlacement, weights: Weights, clip: float | Adaptive
) -> None:
    run = federated(noise, weights, clip)
    look = summed if isinstance(noise, Shared) else sent
    check_pairs(run, {name: look(run, content) for name, content in contents().items()})


@pytest.mark.parametrize("clip", CLIPS)
def test_a_coin_that_falls_against_a_device_makes_the_same_bytes_as_silence(clip: float | Adaptive) -> None:
    """So the laws are (1 − p)B₀ + pB₁ and B₀, of which the loss, a sample of rate p, speaks."""
    run = federated(OnClient(Z, participations=2, coins=0.5), Uniform(), clip)
    assert any(isinstance(node, Sampled) for node in run.loss.walk())
    speaks = []
    for seed in range(12):
        replies = {name: reply(run, content, seed) for name, content in contents().items()}
        assert len({replies[name] for name in SILENT}) == 1
        speaks.append(replies["rows"] != replies["no rows"])
        if not speaks[-1]:
            assert len(set(replies.values())) == 1
    assert set(speaks) == {False, True}  # by the seeds


@pytest.mark.parametrize("noise", PLACEMENTS, ids=lambda noise: type(noise).__name__)
def test_numbers_that_overflow_are_not_told_by_a_warning(noise: AnyPlacement) -> None:
    """Where warnings are errors one would end the round of whoever holds such a row."""
    run = federated(noise, Uniform(), CLIPS[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("numbers too large", "numbers far too large", "no numbers"):
            simulated(run, contents()[name])
            if not isinstance(noise, Correlated):
                (summed if isinstance(noise, Shared) else sent)(run, contents()[name])


def test_a_file_with_a_number_too_large_is_read_without_a_warning(tmp_path: Path) -> None:
    table = pa.table({"phone": ["a", "b"], "hour": [1e150, 1.0], "app": [0, 1]})
    pyarrow.parquet.write_table(table, tmp_path / "phones.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = Clients.from_parquet(tmp_path / "phones.parquet", user="phone", label="app", features=["hour"])
    assert not torch.isfinite(data.rows(0)[0]).any()


def test_an_adaptive_clip_stays_where_it_is_when_nobody_has_rows() -> None:
    """A silent client counts neither as within the clip nor as beyond it."""
    bounds = []
    for held in (contents()["no rows"], contents()["rows within the clip"]):
        run = federated(Central(0.01), Uniform(), Adaptive(start=0.5, quantile=0.5, count_noise=0.05))
        data = Clients.by_owner(
            held[0].repeat(COUNT, 1),
            held[1].repeat(COUNT),
            np.repeat(range(COUNT), len(held[0])),
            owners=range(COUNT),
        )
        rounds = Rounds(run, data, SeededRandom(3))
        rounds.step()
        bounds.append(rounds.bound)
    assert bounds[0] == pytest.approx(0.5, rel=0.05)
    assert bounds[1] < 0.95 * bounds[0]
