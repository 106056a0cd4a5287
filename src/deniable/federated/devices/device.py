"""One device of a federation: it trains on its own rows and says only what the run allows it to say."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from torch import Tensor

from deniable.errors import InvalidParameter, ProtocolError
from deniable.federated.devices.deadline import Clock, WallClock, Work, Workbench
from deniable.federated.devices.frames import Sent, SentFrame
from deniable.federated.devices.messages import DeviceTask, Message, read_task
from deniable.federated.devices.visits import Visits
from deniable.federated.fedavg import FedAvg
from deniable.federated.noise.placement import OnClient, Shared
from deniable.federated.rounds import frame_update
from deniable.federated.secure_sum import Agreement, SumClient
from deniable.federated.silos.cross_silo import CrossSilo
from deniable.federated.train import Pupil, local_training
from deniable.process import Home, Original
from deniable.randomness import SecureRandom

WALL = WallClock()


class Device(Original):
    """Answers the server's messages: `handle` takes bytes and returns bytes, over any transport.

    It takes part in a round's number once, and no more often than the run declares; in `memory`, a file, it
    remembers that over a restart, and two processes with one file take part in a round once. It is not
    copied, and a forked child says nothing: both would answer a round again. Neither whether it answers nor
    when depends on its rows: it answers `run.how.answer_after` seconds after it was asked, with zeros and its
    noise where training failed or is not ready.

    Where clients add the noise the server is not trusted: then `memory`, `run.local.steps` and
    `run.how.answer_after` are required.
    """

    WAY_OUT = "Make one Device for each client, with a memory file."

    def __init__(
        self,
        run: FedAvg,
        client: int,
        x: Tensor,
        y: Tensor,
        *,
        agreement: Agreement | None = None,
        signer: Ed25519PrivateKey | None = None,
        memory: str | Path | None = None,
        clock: Clock = WALL,
    ) -> None:
        if isinstance(run.noise, Shared) and (agreement is None or signer is None):
            raise InvalidParameter(
                "Expected an agreement and a signer with noise=Shared(…): its sums are secure sums."
            )
        if agreement is not None:
            check_terms(run, agreement)
        _check_limits(run, memory)
        self.run, self.client = run, client
        self._x, self._y = x, y
        self._agreement, self._signer = agreement, signer
        self._visits = Visits(memory)
        self._home = Home()
        self._rng = SecureRandom()
        self._training = local_training(run.model, run.criterion, alone=True)
        self._lock = threading.Lock()
        self._clock, self._bench = clock, Workbench[Sent](clock)
        self._sum: SumClient | None = None
        self._vector: Sent | None = None

    def handle(self, text: bytes) -> bytes:
        """The reply to a message of the server. Raises `ProtocolError` where the device stays silent."""
        self._home.check("This device", self.WAY_OUT, ProtocolError)
        message = Message.from_bytes(text)
        # One message after another: between the vector of a new round and its keys the round before could
        # else be asked for the new vector, which would be summed twice.
        with self._lock:
            return self._answer(message)

    def _answer(self, message: Message) -> bytes:
        if message.step in (DeviceTask.UPDATE, DeviceTask.ADVERTISE):
            return self._begin(message)
        return continue_sum(self._sum, message, self._vector, f"Device {self.client}")

    def _begin(self, message: Message) -> bytes:
        asked_at = self._clock.read_time()
        secure = isinstance(self.run.noise, Shared)
        if secure != (message.step is DeviceTask.ADVERTISE):
            raise ProtocolError(
                "The server asks for updates in a way that this run does not allow. Nothing was sent."
            )
        numbers = sum(p.numel() for p in self.run.model.parameters())
        weights, bound = read_task(message.content, numbers)
        self._take_part(message.turn)
        frame = self._frame(message.turn)
        # All that is drawn is drawn before training begins: what comes after it takes the same time whatever
        # was trained on.
        seed, speaks = int(self._rng.uniform_integers(2**56)), self._coin()
        rounding, noise = int(self._rng.uniform_integers(2**62)), frame.noise(self._rng)
        bound = self._bound(bound)

        def compute(stop: threading.Event) -> Sent:
            update = frame_update(self.run, self._train(weights, seed, stop), bound, len(self._x))
            return frame.lay_out(update, np.random.default_rng(rounding))

        vector = self._ready(compute, asked_at)
        if vector is None or not speaks:
            vector = frame.silence()
        if not secure:
            return frame.to_bytes(vector + noise)
        assert self._agreement is not None
        assert self._signer is not None
        self._vector = vector + noise
        self._sum = SumClient(self._agreement, self.client, self._signer, message.turn)
        return self._sum.advertise()

    def _ready(self, compute: Work[Sent], question_time: float) -> Sent | None:
        """What the device would add: at the appointed time, or, to a trusted server, as soon as it is there.
        None if training failed, or is not ready."""
        if self.run.how.answer_after is not None:
            return self._bench.result_at(question_time + self.run.how.answer_after, compute)
        try:
            return compute(threading.Event())
        except Exception:  # steered by the device's rows: it must not show
            return None

    def _train(self, weights: Tensor, seed: int, stop: threading.Event) -> Tensor:
        dtype = next(self.run.model.parameters()).dtype
        x = self._x.to(dtype) if self._x.is_floating_point() else self._x
        pupil = Pupil(x, self._y, seed, stop)
        return next(iter(self._training.updates(weights.to(dtype), [pupil], self.run.local)))

    def _frame(self, turn: int) -> SentFrame:
        if not isinstance(self.run.noise, Shared):
            return SentFrame(self.run)
        assert self._agreement is not None
        return SentFrame(self.run, rotation_seed(self._agreement, turn))

    def _coin(self) -> bool:
        """False where its own coin keeps the device silent in this round: it trains and adds its noise all
        the same, so that nobody sees which."""
        return self.run.coins == 1 or self._rng.bernoulli(self.run.coins)

    def _take_part(self, turn: int) -> None:
        """Once for a round's number, and not beyond the declared participations; on disk
        before anything is computed."""
        if not 1 <= turn <= self.run.rounds or not self._visits.take(turn, self.run.participations):
            raise ProtocolError(f"Device {self.client} takes no part in round {turn}.")

    def _bound(self, proposal: float) -> float:
        """A fixed clip is the device's own, whatever the server says; an adaptive one
        stays within its declared limits."""
        rule = self.run.adaptive
        return self.run.start_clip if rule is None else min(rule.high, max(rule.low, proposal))


def _check_limits(run: FedAvg, memory: str | Path | None) -> None:
    """Where the server is not trusted it may ask again after a restart, and look at the clock."""
    if not isinstance(run.noise, OnClient | Shared):
        return
    needs = {
        "memory= with a file on the Device, in which it counts its rounds": memory,
        "LocalRecipe(steps=…) in the FedAvg, the most steps of a client in a round": run.local.steps,
        "RoundExecution(answer_after=…) in it, the seconds until a device answers": run.how.answer_after,
    }
    missing = [words for words, value in needs.items() if value is None]
    if missing:
        raise InvalidParameter(
            f"A device that adds its own noise needs {_join(missing)}: else a restart, or the time of its "
            "answer, tells what its noise hides. Nothing was sent."
        )


def _join(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def continue_sum(part: SumClient | None, message: Message, vector: Sent | None, name: str) -> bytes:
    """What comes after the first message of a secure sum's round, for a device or a silo."""
    if part is None or part.turn != message.turn:
        raise ProtocolError(f"{name} takes no part in round {message.turn}.")
    match message.step:
        case DeviceTask.SHARE:
            return part.share(message.content)
        case DeviceTask.MASK:
            return part.mask(message.content, vector)
        case DeviceTask.SIGN:
            return part.sign(message.content)
    return part.unmask(message.content)


def check_terms(run: FedAvg | CrossSilo, agreement: Agreement) -> None:
    """Shares of noise are made for `least` survivors: an agreement that opens sums of
    fewer would leave too little of it. A run that says that the server may lie is not kept by one that
    trusts it."""
    noise = run.noise
    if not isinstance(noise, Shared):
        raise InvalidParameter("Expected an agreement with noise=Shared(…) only: others send no secure sums.")
    length = run.sum_length
    terms = (noise.least, noise.colluders, noise.bits, length)
    if (agreement.least, agreement.colluders, agreement.bits, agreement.length) != terms:
        raise InvalidParameter(
            f"Expected an agreement with least={noise.least}, colluders={noise.colluders}, bits={noise.bits} "
            f"and length={length:,}, as the run has it. Nothing was sent."
        )
    if agreement.adversary is not noise.adversary:
        raise InvalidParameter(
            f"This agreement is for a {agreement.adversary} server, and the run for a {noise.adversary} one. "
            "Make a new agreement with federated.agreed, or name the server in the run: "
            f"Shared(…, adversary=Adversary.{agreement.adversary.name}). Nothing was sent."
        )


def rotation_seed(agreement: Agreement, turn: int) -> bytes:
    """Public, the same on all devices, new in every round."""
    return agreement.session + turn.to_bytes(8, "big")
