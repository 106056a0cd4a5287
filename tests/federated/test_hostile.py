"""What devices and servers may try against a federated run, and what happens by chance: lies, replays, empty
cohorts, numbers at the edge."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from torch import nn

from deniable import Budget, Ledger
from deniable.errors import InvalidParameter, ProtocolError, Uncopyable
from deniable.federated import (
    Capped,
    Central,
    Clients,
    FedAvg,
    InProcess,
    OnClient,
    Shared,
    agreed,
    deploy,
    iid,
)
from deniable.federated.devices import device as device_module
from deniable.federated.devices.coordinator import Federation
from deniable.federated.devices.messages import DeviceTask, Message, write_task
from deniable.federated.devices.transport import Handler
from deniable.federated.noise.encode import Encoding
from deniable.federated.noise.placement import UpdateShape, _is_within, longest_message, on_grid
from deniable.federated.rounds import Rounds, frame_update
from deniable.federated.secure_sum import SumClient, SumServer
from deniable.federated.train import LocalRecipe, Pupil, local_training, parameters_of
from deniable.federated.train.recipe import flat
from deniable.learn.sgd.clipping import Adaptive
from deniable.learn.sgd.noise import GradientGrid
from deniable.randomness import SecureRandom, SeededRandom
from tests.federated.ready import LIMITS, ready_device
from tests.federated.runs import run_of

COUNT, NUMBERS = 6, 10


def clients(count: int = COUNT) -> Clients:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count * 20, 4)).astype(np.float32)
    return iid(x, (x[:, 0] > 0).astype(np.int64), clients=count)


def run(noise: Central | OnClient | Shared, **settings: object) -> FedAvg:
    torch.manual_seed(0)
    given = {"clients": COUNT, "rate": 1, "rounds": 3, "noise": noise, "progress": False} | LIMITS
    return run_of(nn.Linear(4, 2), nn.CrossEntropyLoss(), **(given | settings))


def asked(federated: FedAvg, turn: int, bound: float = 1.0) -> bytes:
    return Message(
        DeviceTask.UPDATE, turn, write_task(flat(parameters_of(federated.model)), bound)
    ).to_bytes()


def played(federated: FedAvg, liars: Mapping[int, Handler], rounds: int = 1) -> nn.Module:
    """The model after some rounds in which `liars` answer in their own way."""
    honest = {k: ready_device(federated, k, *clients().rows(k)).handle for k in range(COUNT)}
    coordinator = Federation(federated).open(InProcess(honest | dict(liars)), rng=SecureRandom())
    for number in range(1, rounds + 1):
        coordinator.ask(number)
    return coordinator.model


def distance(model: nn.Module, other: nn.Module) -> float:
    return float((flat(parameters_of(model)) - flat(parameters_of(other))).norm())


# ------------------------------------------------------------------------------------------------ devices that lie


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 3e38])
def test_an_update_that_is_no_number_does_not_reach_the_model(odd: float) -> None:
    federated = run(Central(1e-6))
    liar = {0: lambda _: np.full(NUMBERS, odd, "<f4").tobytes()}
    moved = played(federated, liar)
    assert torch.isfinite(flat(parameters_of(moved))).all()
    assert distance(moved, federated.model) <= federated.start_clip + 1e-3


@pytest.mark.parametrize("lie", [2**62, -(2**63), 2**40])
def test_integers_that_no_noise_explains_count_as_silence(lie: int) -> None:
    federated = run(OnClient(1.0, participations=3))
    moved = played(federated, {0: lambda _: np.full(NUMBERS, lie, "<i8").tobytes()})
    assert distance(moved, federated.model) < 10 * federated.start_clip


def test_an_honest_message_is_never_too_long() -> None:
    federated = run(OnClient(1.0, participations=3), rounds=1000)
    grid = GradientGrid(federated.shape.clip, federated.shape.dimension)
    lengths = []
    for turn in range(200):
        device = ready_device(federated, 0, *clients().rows(0))
        message = np.frombuffer(device.handle(asked(federated, turn + 1)), "<i8")
        lengths.append(float(np.linalg.norm(message.astype(np.float64))))
    limit = longest_message(grid, 1.0)
    assert max(lengths) < limit < 6 * max(lengths)


def test_a_device_that_answers_for_another_or_twice_is_heard_once() -> None:
    """Replies are by device: a transport cannot hand in two of one, and whoever was not asked is not heard."""

    class Doubling(InProcess):
        def exchange(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
            replies = super().exchange(messages)
            return replies | {99 + k: reply for k, reply in replies.items()}

    federated = run(Central(1e-6))
    honest = {k: ready_device(federated, k, *clients().rows(k)).handle for k in range(COUNT)}
    heard = Federation(federated).open(Doubling(honest), rng=SecureRandom())
    heard.ask(1)
    assert distance(heard.model, played(federated, {})) < 1.0 / COUNT


# ------------------------------------------------------------------------------------------------ servers that lie


def test_a_server_that_goes_back_in_its_rounds_gets_nothing() -> None:
    federated = run(Central(1.0))
    device = ready_device(federated, 0, *clients().rows(0))
    device.handle(asked(federated, 2))
    for turn in (1, 2):
        with pytest.raises(ProtocolError, match="takes no part"):
            device.handle(asked(federated, turn))


def test_a_server_cannot_widen_the_clip() -> None:
    """A fixed clip is the device's own; an adaptive one stays within its limits."""
    for clip, most in ((0.5, 0.5), (Adaptive(start=0.5, high=2.0, count_noise=5.0), 2.0)):
        federated = run(Central(1.0), clip=clip, learning_rate=1e4)
        reply = ready_device(federated, 0, *clients().rows(0)).handle(asked(federated, 1, bound=1e30))
        vector = np.frombuffer(reply, "<f4")[:NUMBERS].astype(np.float64)
        assert ready_device(federated, 0, *clients().rows(0))._bound(1e30) == most
        assert np.linalg.norm(vector) <= 1 + 1e-6


def test_weights_sent_to_make_training_overflow_give_an_answer_all_the_same() -> None:
    federated = run(OnClient(1.0, participations=3), learning_rate=1e30)
    huge = write_task(torch.full((NUMBERS,), 3e38), 1.0)
    reply = ready_device(federated, 0, *clients().rows(0)).handle(
        Message(DeviceTask.UPDATE, 1, huge).to_bytes()
    )
    assert len(reply) == 8 * NUMBERS


def test_a_device_is_not_copied_and_a_forked_one_says_nothing() -> None:
    """Either would answer a round a second time, with noise of its own: together they hide less."""
    federated = run(OnClient(1.0, participations=3))
    device = ready_device(federated, 0, *clients().rows(0))
    for double in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Uncopyable):
            double(device)
    child = os.fork()
    if not child:
        try:
            device.handle(asked(federated, 1))
        except ProtocolError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert device.handle(asked(federated, 1))


def test_a_server_that_asks_two_rounds_at_once_gets_no_vector_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the moment between the vector of round 2 and its keys, round 1 is asked for its vector. Were it sent
    that of round 2, the same noise would lie in two sums of different companions."""
    federated = run(Shared(20.0, least=4, participations=3, bits=32))
    signers = {k: Ed25519PrivateKey.generate() for k in range(COUNT)}
    roster = {k: signer.public_key().public_bytes_raw() for k, signer in signers.items()}
    agreement = agreed(federated, roster, threshold=4)
    devices = [
        ready_device(federated, k, *clients().rows(k), agreement=agreement, signer=signers[k])
        for k in range(COUNT)
    ]

    def tell(device: Any, step: DeviceTask, turn: int, content: bytes) -> bytes:
        return device.handle(Message(step, turn, content).to_bytes())

    task, server = write_task(flat(parameters_of(federated.model)), 1.0), SumServer(agreement, 1)
    opening = server.open({k: tell(d, DeviceTask.ADVERTISE, 1, task) for k, d in enumerate(devices)})
    boxes = server.forward({k: tell(d, DeviceTask.SHARE, 1, opening[k]) for k, d in enumerate(devices)})
    asking: list[Future[bytes]] = []
    with ThreadPoolExecutor(1) as elsewhere:

        def awaited_keys(*given: Any) -> SumClient:
            asking.append(elsewhere.submit(tell, devices[0], DeviceTask.MASK, 1, boxes[0]))
            wait(asking, timeout=0.3)
            return SumClient(*given)

        monkeypatch.setattr(device_module, "SumClient", awaited_keys)
        tell(devices[0], DeviceTask.ADVERTISE, 2, task)
        with pytest.raises(ProtocolError, match="no part in round 1"):
            asking[0].result(10)


def test_two_processes_with_one_memory_take_part_in_a_round_once(tmp_path: Path) -> None:
    federated = run(OnClient(1.0, participations=2))
    first, second = (
        ready_device(federated, 0, *clients().rows(0), memory=tmp_path / "memory") for _ in range(2)
    )
    first.handle(asked(federated, 1))
    with pytest.raises(ProtocolError, match="takes no part"):
        second.handle(asked(federated, 1))
    second.handle(asked(federated, 2))
    with pytest.raises(ProtocolError, match="takes no part"):  # both participations are used up
        first.handle(asked(federated, 3))


def test_a_memory_that_was_taken_away_gives_no_round_back(tmp_path: Path) -> None:
    federated = run(OnClient(1.0, participations=3))
    device = ready_device(federated, 0, *clients().rows(0), memory=tmp_path / "memory")
    device.handle(asked(federated, 2))
    (tmp_path / "memory").write_text("0 0\n", encoding="ascii")
    for _ in range(2):
        with pytest.raises(ProtocolError, match="takes no part"):
            device.handle(asked(federated, 2))
        (tmp_path / "memory").unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------ chance and edges


def test_an_empty_cohort_still_releases_noise() -> None:
    """That nobody was drawn must not show."""
    federated = run(Central(1.0), rate=1e-9, clients=10**6, rounds=2)
    result = federated(clients(), rng=SeededRandom(1))
    assert all(norm > 0 for norm in result.history.update_norm)
    coordinator = Federation(federated).open(InProcess({}), rng=SecureRandom())
    assert coordinator.ask(1).answered
    assert distance(coordinator.model, federated.model) > 0


def test_a_silenced_client_leaves_an_empty_cohort_of_shared_noise_closed() -> None:
    federated = run(Shared(1.0, bits=32, least=3, participations=3), rate=1e-9)
    result = federated(clients(), rng=SeededRandom(1))
    assert result.history.update_norm == [0.0] * 3


def test_one_client_where_many_were_declared_is_not_told() -> None:
    federated = run(Central(1.0), clients=1000)
    assert federated(clients(1), rng=SeededRandom(1)).rounds == 3


@pytest.mark.parametrize(
    "settings",
    [{"clip": math.inf}, {"clip": math.nan}, {"clip": 0}, {"learning_rate": math.inf}, {"clients": 1},
     {"rate": math.nan}, {"rounds": 0}, {"batch": 0}, {"local_epochs": 0}, {"proximal": -1.0},
     {"noise": Central(math.inf)}, {"noise": Central(0)}],
    ids=str,
)  # fmt: skip
def test_numbers_at_the_edge_are_refused_before_any_charge(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        run(**({"noise": Central(1.0)} | settings))  # type: ignore[arg-type]


def test_a_count_above_the_cap_weighs_one() -> None:
    weights = Capped(cap=10, total=50)
    assert [weights.weight(size) for size in (0, 5, 10, 11, 10**9)] == [0.0, 0.5, 1.0, 1.0, 1.0]
    federated = run(Central(1e-6), weights=weights)
    for rows in (0, 5, 20, 10**9):
        sent = frame_update(federated, torch.full((NUMBERS,), 9.0), 1.0, rows)
        assert np.linalg.norm(sent) == pytest.approx(weights.weight(rows))


def test_an_adaptive_clip_counts_clients_by_their_weights() -> None:
    """All are within the clip: it falls as far as with equal weights."""
    rule = Adaptive(start=5.0, quantile=0.5, count_noise=1.0)
    bounds = []
    for weights in ({}, {"weights": Capped(cap=200, total=0.1 * 400)}):  # 20 rows a client
        federated = run(Central(0.3), clients=400, clip=rule, rounds=1, learning_rate=1e-3, **weights)
        rounds = Rounds(federated, clients(400), SeededRandom(1))
        rounds.step()
        bounds.append(rounds.bound)
    assert bounds[1] == pytest.approx(bounds[0], rel=0.05)
    assert bounds[0] < 5.0


def test_rows_of_another_width_or_no_numbers_do_not_reach_who_comes_next() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    training = local_training(model, nn.CrossEntropyLoss())
    start, recipe = flat(parameters_of(model)), LocalRecipe(1, 5, 0.1)
    # Seven rows in batches of five: three places of the second batch held rows of whoever was there before.
    pupils = [Pupil(*(part[:7] for part in clients().rows(k)), seed=k) for k in range(3)]
    alone = [update.clone() for update in training.updates(start, pupils, recipe)]
    labels = torch.zeros(20, dtype=torch.int64)
    wide = Pupil(torch.full((20, 8), 7.0), labels, 9)
    with pytest.raises(RuntimeError):
        list(training.updates(start, [wide, *pupils], recipe))
    nan = Pupil(torch.full((20, 4), torch.nan), labels, 9)
    assert not torch.isfinite(next(iter(training.updates(start, [nan], recipe)))).all()
    for update, before in zip(training.updates(start, pupils, recipe), alone, strict=True):
        assert torch.equal(update, before)


def test_a_run_over_no_devices_ends_and_is_charged_once() -> None:
    federated = run(Central(1.0), delta=1e-5)
    account = Ledger.open("sqlite://").create("phones", federated.unit, limit=Budget(100, 1e-4))
    with deploy(federated, InProcess({}), account) as deployment:
        numbers = [deployment.step().value.number for _ in range(3)]
    assert numbers == [1, 2, 3]
    assert account.spent().epsilon > 0


def test_a_device_keeps_its_coin_to_itself_and_adds_its_noise() -> None:
    """With coins that never fall for it a device sends the same number of bytes, and of its update nothing."""
    replies = {}
    for coins in (1, 1e-12):
        federated = run(OnClient(1e-4, participations=3, coins=coins), learning_rate=10.0)
        reply = ready_device(federated, 0, *clients().rows(0)).handle(asked(federated, 1))
        replies[coins] = np.frombuffer(reply, "<i8").astype(np.float64)
    sensitivity = GradientGrid(1.0, NUMBERS).sensitivity
    assert np.linalg.norm(replies[1]) > 0.9 * sensitivity
    assert np.linalg.norm(replies[1e-12]) < 0.1 * sensitivity


def test_a_norm_that_is_checked_in_integers_does_not_overflow() -> None:
    """Little noise on a fine grid: squares of norms would pass 2⁶³, turn negative and be let through."""
    shape = UpdateShape(1 << 20, 1.0, 2)
    encoding = Shared(0.05, bits=32, least=2).encoding(0.05, shape)
    assert (encoding.sensitivity + math.sqrt(encoding.length)) ** 2 < 2**63
    with pytest.raises(InvalidParameter, match="integers of 64 bits"):
        Encoding(4, 1.0, 2.0**-31)


@pytest.mark.parametrize("largest", [5, 1025, 262_367, (1 << 26) - 1, 1 << 26, 1 << 30])
def test_a_norm_of_whole_numbers_is_compared_without_rounding(largest: int) -> None:
    """Just at the limit and one beyond it, where double precision alone would not tell them apart."""
    edge = np.array([largest, 0.0, 0.0, 0.0])
    assert _is_within(edge, largest)
    assert not _is_within(np.array([largest, 0.0, 0.0, 1.0]), largest)
    assert not _is_within(np.array([largest, largest, largest, 1.0]), largest)


def test_updates_of_any_size_are_laid_on_the_grid_as_integers_would_have_it() -> None:
    rng, grid = np.random.default_rng(0), GradientGrid(1.0, 1000)
    for size in (0.0, 1e-300, 0.3, 1.0, 1.0000001, 7.0, 1e150):
        update = rng.normal(size=1000)
        update *= size / np.linalg.norm(update)
        clipped = update * min(1.0, 1.0 / max(size, 1e-300))
        expected = np.rint(clipped / float(grid.step)).astype(np.int64)
        units = on_grid(update, grid)
        assert units.dtype == np.int64
        assert np.abs(units - expected).max() <= 1  # the last bit of a factor may turn a half
        assert int(units @ units) <= grid.sensitivity**2
