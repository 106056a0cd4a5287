"""One device of a federation: it trains on its own rows and says only what the run allows it to say."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from torch import Tensor

from deniable.errors import InvalidParameter, ProtocolError
from deniable.federated.devices.messages import DeviceTask, Message, read_task
from deniable.federated.devices.visits import Visits
from deniable.federated.fedavg import FedAvg
from deniable.federated.noise.encode import Floats, Integers
from deniable.federated.noise.placement import Central, OnClient, Shared, as_floats, bounded, on_grid
from deniable.federated.rounds import framed
from deniable.federated.secure_sum import Agreement, SumClient
from deniable.federated.train import Pupil, local_training
from deniable.learn.sgd.noise import GradientGrid
from deniable.mechanisms.integer_noise import gaussian
from deniable.process import Home, Original
from deniable.randomness import SecureRandom


class Device(Original):
    """Answers the server's messages: `handle` takes bytes and returns bytes, over any transport.

    It takes part in a round's number once, and no more often than the run declares; with `memory`, a file, it
    remembers that over a restart, and two processes with one file take part in a round once. It is not
    copied, and a forked child says nothing: both would answer a round again. Whether it answers does not
    depend on its rows: where training fails it sends zeros, noise included.
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
    ) -> None:
        if isinstance(run.noise, Shared) and (agreement is None or signer is None):
            raise InvalidParameter(
                "Expected an agreement and a signer with noise=Shared(…): its sums are secure sums."
            )
        if agreement is not None:
            _check_terms(run, agreement)
        self.run, self.client = run, client
        self._x, self._y = x, y
        self._agreement, self._signer = agreement, signer
        self._visits = Visits(memory)
        self._home = Home()
        self._rng = SecureRandom()
        self._training = local_training(run.model, run.criterion, alone=True)
        self._lock = threading.Lock()
        self._sum: SumClient | None = None
        self._vector: Integers | None = None

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
        part = self._sum
        if part is None or part.turn != message.turn:
            raise ProtocolError(f"Device {self.client} takes no part in round {message.turn}.")
        match message.step:
            case DeviceTask.SHARE:
                return part.share(message.content)
            case DeviceTask.MASK:
                return part.mask(message.content, self._vector)
            case DeviceTask.SIGN:
                return part.sign(message.content)
        return part.unmask(message.content)

    def _begin(self, message: Message) -> bytes:
        secure = isinstance(self.run.noise, Shared)
        if secure != (message.step is DeviceTask.ADVERTISE):
            raise ProtocolError(
                "The server asks for updates in a way that this run does not allow. Nothing was sent."
            )
        numbers = sum(p.numel() for p in self.run.model.parameters())
        weights, bound = read_task(message.content, numbers)
        self._take_part(message.turn)
        bound = self._bound(bound)
        update = self._coin() * framed(self.run, self._update(weights), bound, len(self._x))
        if not secure:
            return self._sent(update)
        assert self._agreement is not None
        assert self._signer is not None
        self._vector = self._encoded(update, message.turn)
        self._sum = SumClient(self._agreement, self.client, self._signer, message.turn)
        return self._sum.advertise()

    def _coin(self) -> float:
        """1, or 0 where its own coin keeps the device silent in this round: it trains and adds its noise all
        the same, so that nobody sees which."""
        return float(self.run.coins == 1 or self._rng.bernoulli(self.run.coins))

    def _take_part(self, turn: int) -> None:
        """Once for a round's number, and not beyond the declared participations; on disk
        before anything is computed."""
        if not 1 <= turn <= self.run.rounds or not self._visits.take(turn, self.run.participations):
            raise ProtocolError(f"Device {self.client} takes no part in round {turn}.")

    def _bound(self, asked: float) -> float:
        """A fixed clip is the device's own, whatever the server says; an adaptive one
        stays within its declared limits."""
        rule = self.run.adaptive
        return self.run.start_clip if rule is None else min(rule.high, max(rule.low, asked))

    def _update(self, weights: Tensor) -> Floats:
        """What training moved; zeros where it fails: that it failed must not show."""
        seed = int(self._rng.uniform_integers(2**56))
        dtype = next(self.run.model.parameters()).dtype
        start = weights.to(dtype)
        try:
            pupil = Pupil(self._x.to(dtype) if self._x.is_floating_point() else self._x, self._y, seed)
            update = next(iter(self._training.updates(start, [pupil], self.run.recipe)))
        except Exception:  # steered by the device's rows
            update = torch.zeros_like(start)
        return as_floats(update)

    def _sent(self, update: Floats) -> bytes:
        """To a trusted server the clipped update; to any other one with all its noise, in grid units."""
        if isinstance(self.run.noise, Central):
            return bounded(update, self.run.shape.clip).astype("<f4").tobytes()
        assert isinstance(self.run.noise, OnClient)
        grid = GradientGrid(self.run.shape.clip, self.run.shape.dimension)
        sigma = grid.loss(self.run.multiplier).sigma
        units = on_grid(update, grid) + gaussian(sigma).draw(self._rng, self.run.shape.dimension)
        return units.astype("<i8").tobytes()

    def _encoded(self, update: Floats, turn: int) -> Integers:
        noise = self.run.noise
        assert isinstance(noise, Shared)
        assert self._agreement is not None
        encoding = noise.encoding(self.run.multiplier, self.run.shape, rotation_seed(self._agreement, turn))
        coins = np.random.default_rng(int(self._rng.uniform_integers(2**62)))
        share = gaussian(noise.share(self.run.multiplier, encoding)).draw(self._rng, encoding.length)
        vector: Integers = encoding.encode(update, coins) + share
        return vector


def _check_terms(run: FedAvg, agreement: Agreement) -> None:
    """Shares of noise are made for `least` survivors: an agreement that opens sums of
    fewer would leave too little of it."""
    noise = run.noise
    if not isinstance(noise, Shared):
        raise InvalidParameter("Expected an agreement with noise=Shared(…) only: others send no secure sums.")
    length = noise.encoding(run.multiplier, run.shape).length
    terms = (noise.least, noise.colluders, noise.bits, length)
    if (agreement.least, agreement.colluders, agreement.bits, agreement.length) != terms:
        raise InvalidParameter(
            f"Expected an agreement with least={noise.least}, colluders={noise.colluders}, bits={noise.bits} "
            f"and length={length:,}, as the run has it. Nothing was sent."
        )


def rotation_seed(agreement: Agreement, turn: int) -> bytes:
    """Public, the same on all devices, new in every round."""
    return agreement.session + turn.to_bytes(8, "big")
