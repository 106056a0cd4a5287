"""When a device answers does not depend on its rows, nor what it can be made to answer: a fixed moment, a cap
on steps, a memory. No test looks at a real clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from torch import Tensor, nn

from deniable.errors import InvalidParameter, ProtocolError
from deniable.federated import Central, Device, FedAvg, OnClient, Shared, agreed
from deniable.federated.devices import deadline
from deniable.federated.devices.deadline import Clock, Untimed, WallClock, Workbench
from deniable.federated.devices.messages import DeviceTask, Message, write_task
from deniable.federated.secure_sum import Adversary
from deniable.federated.train import LocalRecipe, Pupil, local_training, parameters_of
from deniable.federated.train.loop import Loop
from deniable.federated.train.recipe import TrainingStopped, flat
from deniable.randomness import SeededRandom
from tests.federated.ready import new_memory
from tests.federated.runs import run_of

HANG = 60.0
"""Seconds after which a test that hangs is ended; nothing is measured by it."""
CRITERION = nn.CrossEntropyLoss()


class Gate:
    """A loss that waits at its first step until it is let through, and counts the steps that begin."""

    def __init__(self) -> None:
        self.reached, self.opened, self.steps = threading.Event(), threading.Event(), 0

    def __call__(self, out: Tensor, wanted: Tensor) -> Tensor:
        self.steps += 1
        self.reached.set()
        assert self.opened.wait(HANG)
        return CRITERION(out, wanted)

    def __deepcopy__(self, memo: object) -> Gate:  # a client trains with a copy of the criterion
        return self


class Appointed:
    """Tells the moments for which it was asked to wait, and lets them come when the work has begun."""

    def __init__(self, begun: threading.Event | None = None) -> None:
        self.moments: list[float] = []
        self._begun = begun

    def read_time(self) -> float:
        return 100.0

    def wait(self, until: float, ready: threading.Event) -> None:
        self.moments.append(until)
        if self._begun is None:
            assert ready.wait(HANG)
        else:
            assert self._begun.wait(HANG)


def federated(
    noise: OnClient | Shared | Central, criterion: object = CRITERION, **settings: object
) -> FedAvg:
    torch.manual_seed(0)
    given = {"clients": 5, "rate": 1, "rounds": 5, "noise": noise, "progress": False, "local_steps": 30,
             "answer_after": 12.5}  # fmt: skip
    return run_of(nn.Linear(3, 2), criterion, **(given | settings))


def rows(count: int) -> tuple[Tensor, Tensor]:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32))
    return x, (x[:, 0] > 0).long()


def device(run: FedAvg, count: int, clock: Clock, **terms: object) -> Device:
    """With noise that is the same for all that are made like it."""
    own = Device(run, 0, *rows(count), memory=new_memory(), clock=clock, **terms)  # type: ignore[arg-type]
    own._rng = SeededRandom(7)  # type: ignore[assignment]
    return own


def asked(run: FedAvg, turn: int, step: DeviceTask = DeviceTask.UPDATE) -> bytes:
    return Message(step, turn, write_task(flat(parameters_of(run.model)), 1.0)).to_bytes()


ON_CLIENT = OnClient(1.0, participations=5)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()  # no thread is left behind


# ------------------------------------------------------------------------------------------- the moment


@pytest.mark.parametrize("count", [0, 10, 6000])
def test_an_answer_comes_at_the_appointed_moment_however_many_rows_there_are(count: int) -> None:
    clock, run = Appointed(), federated(ON_CLIENT)
    own = device(run, count, clock)
    own.handle(asked(run, 1))
    own.handle(asked(run, 2))
    assert clock.moments == [112.5, 112.5]


def test_a_failure_too_is_told_no_earlier() -> None:
    clock, run = Appointed(), federated(ON_CLIENT)
    x, y = rows(10)
    Device(run, 0, x, y + 9, memory=new_memory(), clock=clock).handle(asked(run, 1))
    assert clock.moments == [112.5]


def test_the_machines_clock_waits_whether_or_not_the_work_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps for what is left, and again if it wakes up early."""
    moments, slept = iter([3.0, 4.0, 9.5, 10.0]), []
    monkeypatch.setattr(deadline.time, "monotonic", lambda: next(moments))
    monkeypatch.setattr(deadline.time, "sleep", slept.append)
    ready = threading.Event()
    ready.set()
    assert WallClock().read_time() == 3.0
    WallClock().wait(10.0, ready)
    assert slept == [6.0, 0.5]


def test_a_device_that_is_not_ready_sends_what_one_without_rows_sends(gate: Gate) -> None:
    """Zeros and its noise, while its training still stands at the first step."""
    run = federated(ON_CLIENT, gate)
    late = device(run, 10, Appointed(gate.reached)).handle(asked(run, 1))
    assert not gate.opened.is_set()
    empty = device(run, 0, Appointed()).handle(asked(run, 1))
    assert late == empty
    gate.opened.set()
    assert device(run, 10, Appointed()).handle(asked(run, 1)) != empty


def test_training_that_nobody_waits_for_is_stopped(gate: Gate) -> None:
    """The step that is under way ends, and no other is begun."""
    run = federated(ON_CLIENT, gate, batch=1)
    own = device(run, 10, Appointed(gate.reached))
    own.handle(asked(run, 1))
    gate.opened.set()
    thread = own._bench._thread
    assert thread is not None
    thread.join(HANG)
    assert not thread.is_alive()
    assert gate.steps == 1


def test_training_that_does_not_end_costs_updates_and_no_second_thread(gate: Gate) -> None:
    """A row on which a model runs for ever: the device goes on to answer in time, with zeros."""
    run = federated(ON_CLIENT, gate)
    own = device(run, 10, Appointed(gate.reached))
    own.handle(asked(run, 1))
    stuck = own._bench._thread
    assert len(own.handle(asked(run, 2))) == len(own.handle(asked(run, 3)))
    assert own._bench._thread is stuck
    assert gate.steps == 1
    gate.opened.set()
    assert stuck is not None
    stuck.join(HANG)
    own._bench._clock = own._clock = Appointed()
    own.handle(asked(run, 4))
    assert gate.steps > 1  # it trains again


def test_a_device_of_a_secure_sum_offers_its_keys_in_time_and_sums_zeros(gate: Gate) -> None:
    run = federated(Shared(3.0, bits=32, least=3, participations=5), gate)
    signers = {k: Ed25519PrivateKey.generate() for k in range(5)}
    agreement = agreed(run, {k: signer.public_key().public_bytes_raw() for k, signer in signers.items()})
    vectors = []
    for count, clock in ((10, Appointed(gate.reached)), (0, Appointed())):
        own = device(run, count, clock, agreement=agreement, signer=signers[0])
        own.handle(asked(run, 1, DeviceTask.ADVERTISE))
        vectors.append(own._vector)
        assert clock.moments == [112.5]
    np.testing.assert_array_equal(*vectors)


def test_a_late_round_is_used_up(gate: Gate) -> None:
    run = federated(OnClient(1.0, participations=1), gate)
    own = device(run, 10, Appointed(gate.reached))
    own.handle(asked(run, 1))
    gate.opened.set()
    with pytest.raises(ProtocolError, match="takes no part"):
        own.handle(asked(run, 2))


def test_what_is_made_after_the_moment_is_not_sent_in_the_next_round() -> None:
    bench = Workbench[str](Appointed(begun := threading.Event()))
    go_on = threading.Event()

    def slow(stop: threading.Event) -> str:
        begun.set()
        assert go_on.wait(HANG)
        return "late"

    assert bench.result_at(1.0, slow) is None
    go_on.set()
    assert bench._thread is not None
    bench._thread.join(HANG)
    bench._clock = Untimed()
    assert bench.result_at(2.0, lambda stop: "in time") == "in time"


def test_a_trusted_server_is_answered_at_once_unless_the_run_says_otherwise() -> None:
    for after, moments in ((None, []), (12.5, [112.5])):
        clock, run = Appointed(), federated(Central(1.0), answer_after=after)
        Device(run, 0, *rows(10), clock=clock).handle(asked(run, 1))
        assert clock.moments == moments


# ------------------------------------------------------------------------------------------- the steps

MODELS = {
    "stacked": (nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 2)), (16,)),
    "convolutional": (nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)), (1, 4, 4)),
    "loop": (nn.Sequential(nn.Linear(16, 4), nn.GELU(), nn.Linear(4, 2)), (16,)),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("steps", [1, 3, 7])
def test_a_client_takes_no_more_steps_than_the_run_allows(kind: str, steps: int) -> None:
    """Whichever way it is trained: the same as a loop over the first `steps` batches."""
    model, shape = MODELS[kind]
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(25, *shape)).astype(np.float32))
    pupil, start = Pupil(x, (x.flatten(1)[:, 0] > 0).long(), 5), flat(parameters_of(model))
    capped, free = LocalRecipe(2, 10, 0.1, steps=steps), LocalRecipe(2, 10, 0.1)
    batches = list(pupil.batches(free))
    assert len(batches) == 6
    first = list(pupil.batches(capped))
    assert len(first) == min(steps, 6)
    assert all(torch.equal(one, other) for one, other in zip(first, batches, strict=False))
    update = next(iter(local_training(model, CRITERION, alone=True).updates(start, [pupil], capped)))
    own = next(iter(Loop(model, CRITERION).updates(start, [pupil], capped)))
    torch.testing.assert_close(update, own, rtol=1e-4, atol=1e-6)
    all_steps = next(iter(Loop(model, CRITERION).updates(start, [pupil], free)))
    assert torch.equal(own, all_steps) is (steps >= 6)


@pytest.mark.parametrize("kind", MODELS)
def test_training_is_stopped_whichever_way_it_is_done(kind: str) -> None:
    model, shape = MODELS[kind]
    stop = threading.Event()
    stop.set()
    pupil = Pupil(torch.ones(20, *shape), torch.zeros(20, dtype=torch.int64), 5, stop)
    with pytest.raises(TrainingStopped):
        list(local_training(model, CRITERION).updates(flat(parameters_of(model)), [pupil], LocalRecipe()))


# ------------------------------------------------------------------------------------- what is required


@pytest.mark.parametrize("missing", ["memory", "local_steps", "answer_after"])
@pytest.mark.parametrize(
    "noise", [ON_CLIENT, Shared(3.0, bits=32, least=3)], ids=lambda noise: type(noise).__name__
)
def test_a_device_that_adds_noise_needs_a_memory_and_limits(noise: OnClient | Shared, missing: str) -> None:
    limits = {"local_steps": 30, "answer_after": 12.5} | ({} if missing == "memory" else {missing: None})
    run = federated(noise, **limits)
    terms: dict[str, object] = {}
    if isinstance(noise, Shared):
        signer = Ed25519PrivateKey.generate()
        roster = {k: Ed25519PrivateKey.generate().public_key().public_bytes_raw() for k in range(1, 5)}
        terms = {
            "signer": signer,
            "agreement": agreed(run, {0: signer.public_key().public_bytes_raw()} | roster),
        }
    memory = None if missing == "memory" else new_memory()
    with pytest.raises(InvalidParameter, match=rf"\b{missing.removeprefix('local_')}=") as refusal:
        Device(run, 0, *rows(10), memory=memory, **terms)  # type: ignore[arg-type]
    assert str(refusal.value).count("=") == 1  # and nothing that is there


def test_a_device_of_a_trusted_server_needs_none_of_them() -> None:
    Device(federated(Central(1.0), local_steps=None, answer_after=None), 0, *rows(10))


@pytest.mark.parametrize(
    "settings", [{"local_steps": 0}, {"answer_after": 0.0}, {"answer_after": float("nan")}]
)
def test_limits_at_the_edge_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        federated(ON_CLIENT, **settings)


# -------------------------------------------------------------------------- who is trusted, by name


def test_a_run_with_shared_noise_is_made_for_a_lying_server(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="Use least=5, or name a server"):
        federated(Shared(3.0, bits=32, least=4), clients=9)
    run = federated(Shared(3.0, bits=32, least=5), clients=9)
    signers = {k: Ed25519PrivateKey.generate() for k in range(9)}
    roster = {k: signer.public_key().public_bytes_raw() for k, signer in signers.items()}
    agreement = agreed(run, roster)
    assert (agreement.adversary, agreement.least, agreement.threshold) == (Adversary.LYING, 5, 6)
    with pytest.raises(InvalidParameter, match="use least=5 and threshold=6, or more"):
        agreed(run, roster, threshold=4)
    with pytest.raises(InvalidParameter, match="neighbours=None"):
        agreed(run, roster, neighbours=6)
    with pytest.raises(InvalidParameter, match="at least least=5 devices"):
        agreed(run, {k: roster[k] for k in range(4)})


def test_a_device_does_not_take_an_agreement_that_trusts_the_server_more_than_its_run() -> None:
    run = federated(Shared(3.0, bits=32, least=5), clients=9)
    trusting = federated(Shared(3.0, bits=32, least=5, adversary=Adversary.CURIOUS), clients=9)
    signers = {k: Ed25519PrivateKey.generate() for k in range(9)}
    roster = {k: signer.public_key().public_bytes_raw() for k, signer in signers.items()}
    agreement = agreed(trusting, roster, threshold=4, neighbours=6)
    with pytest.raises(InvalidParameter, match="for a curious server, and the run for a lying one"):
        Device(run, 0, *rows(4), agreement=agreement, signer=signers[0], memory=new_memory())
    Device(trusting, 0, *rows(4), agreement=agreement, signer=signers[0], memory=new_memory())


def test_the_adversary_is_no_part_of_the_loss() -> None:
    """So a run that 0.2.0 charged is taken up by the same run with its adversary named."""
    lying = federated(Shared(3.0, bits=32, least=5), clients=9)
    curious = federated(Shared(3.0, bits=32, least=5, adversary=Adversary.CURIOUS), clients=9)
    assert lying.loss.to_json() == curious.loss.to_json()
    assert lying.assumptions != curious.assumptions
    with pytest.raises(InvalidParameter, match=r"Adversary\.LYING or Adversary\.CURIOUS"):
        Shared(3.0, least=5, adversary="kind")  # type: ignore[arg-type]
