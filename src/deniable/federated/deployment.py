"""A federated run with real devices, one round at a time: charged whole at the start, every round noted before it begins."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from deniable.errors import InvalidParameter, InvalidQuery, ProtocolError
from deniable.federated.device import rotation_seed
from deniable.federated.encode import Floats
from deniable.federated.fedavg import FedAvg
from deniable.federated.messages import Message, Step, write_task
from deniable.federated.placement import Central, Correlated, Shared, on_grid
from deniable.federated.rounds import unframed
from deniable.federated.secure_sum import Adversary, Agreement, SumServer
from deniable.federated.secure_sum.agreement import SESSION_BYTES
from deniable.federated.secure_sum.server import centred
from deniable.federated.simulation import move
from deniable.federated.train import parameters_of
from deniable.federated.train.recipe import flat
from deniable.federated.transport import Transport
from deniable.learn.sgd.noise import Grid
from deniable.ledger import Account, Session
from deniable.loss import Loss
from deniable.mechanism import Random, Release
from deniable.units import Unit


def agreed(
    run: FedAvg,
    roster: Mapping[int, bytes],
    *,
    threshold: int,
    neighbours: int | None = None,
    adversary: Adversary = Adversary.CURIOUS,
) -> Agreement:
    """The terms of the secure sums of a run with noise=Shared(…), for devices with these public keys."""
    if not isinstance(run.noise, Shared):
        raise InvalidParameter("Expected a run with noise=Shared(…): others send no secure sums.")
    noise = run.noise
    length = noise.encoding(run.multiplier, run.shape).length
    session = secrets.token_bytes(SESSION_BYTES)
    return Agreement(
        session, roster, length, threshold, noise.least, noise.bits, neighbours, noise.colluders, adversary
    )


@dataclass(frozen=True)
class Round:
    """What a round released: the model after it. `answered` is False if too few devices answered and nothing was added."""

    number: int
    model: nn.Module
    answered: bool


@dataclass(frozen=True)
class Federation:
    """The rounds of a run over a transport: an `Interactive` whose loss is that of the whole run."""

    run: FedAvg
    agreement: Agreement | None = None

    @property
    def loss(self) -> Loss:
        return self.run.loss

    @property
    def unit(self) -> Unit:
        return self.run.unit

    def open(self, data: Any, *, rng: Random) -> Coordinator:
        return Coordinator(self, data, rng)


class Coordinator:
    """An open `Federation`: asked for the number of a round, it plays that round."""

    def __init__(self, federation: Federation, transport: Transport, rng: Random) -> None:
        self._run, self._agreement = federation.run, federation.agreement
        self._transport, self._rng = transport, rng
        self.model = copy.deepcopy(federation.run.model)
        self._optimizer = federation.run.new_optimizer(self.model)
        self._bound = federation.run.start_clip
        self._begun = 0

    @property
    def used(self) -> Loss:
        return self._run.loss_of(max(self._begun, 1))

    def ask(self, question: int) -> Round:
        """Play round number `question`. Numbers rise; one that was left out is lost."""
        if not isinstance(question, int) or not self._begun < question <= self._run.rounds:
            raise InvalidQuery(
                f"Expected the number of a round from {self._begun + 1} to {self._run.rounds}, got {question!r}. Nothing was run."
            )
        self._begun = question
        total = self._total(question)
        if total is not None:
            update, self._bound = unframed(self._run, total, self._bound)
            move(self._optimizer, self.model, torch.from_numpy(update / self._run.denominator))
        return Round(question, copy.deepcopy(self.model), total is not None)

    def _total(self, turn: int) -> Floats | None:
        content = write_task(flat(parameters_of(self.model)), self._bound)
        reached = sorted(self._transport.devices())
        drawn = self._rng.poisson_sample(len(reached), self._run.rate)
        cohort = [reached[int(place)] for place in drawn]
        if isinstance(self._run.noise, Shared):
            return self._secure_total(turn, cohort, content)
        replies = self._exchange(Step.UPDATE, turn, dict.fromkeys(cohort, content))
        return self._plain_total(replies)

    def _exchange(self, step: Step, turn: int, contents: Mapping[int, bytes]) -> dict[int, bytes]:
        messages = {device: Message(step, turn, content).to_bytes() for device, content in contents.items()}
        replies = self._transport.exchange(messages)
        return {device: reply for device, reply in replies.items() if device in messages}

    def _plain_total(self, replies: Mapping[int, bytes]) -> Floats:
        """Updates of another length are left out: a device that lies about shapes counts as silent."""
        shape, grid = self._run.shape, Grid(self._run.shape.clip, self._run.shape.dimension)
        units = np.zeros(shape.dimension, np.int64)
        central = isinstance(self._run.noise, Central)
        width = 4 if central else 8
        for reply in replies.values():
            if len(reply) != width * shape.dimension:
                continue
            if central:
                units += on_grid(np.frombuffer(reply, "<f4").astype(np.float64), grid)
            else:
                units += np.frombuffer(reply, "<i8").astype(np.int64)
        if central:
            return grid.noisy(torch.from_numpy(units), self._run.multiplier, self._rng).numpy()
        return units * float(grid.step)

    def _secure_total(self, turn: int, cohort: list[int], content: bytes) -> Floats | None:
        """The sum over survivors; None where too few answered for the sum to be opened."""
        assert self._agreement is not None
        assert isinstance(self._run.noise, Shared)
        server = SumServer(self._agreement, turn)
        try:
            opening = server.open(self._exchange(Step.ADVERTISE, turn, dict.fromkeys(cohort, content)))
            forwarded = server.forward(self._exchange(Step.SHARE, turn, opening))
            for device, masked in self._exchange(Step.MASK, turn, forwarded).items():
                server.add(device, masked)
            confirmed = server.confirm(self._exchange(Step.SIGN, turn, server.survivors()))
            total = centred(server.finish(self._exchange(Step.UNMASK, turn, confirmed)))
        except ProtocolError:
            return None
        seed = rotation_seed(self._agreement, turn)
        encoding = self._run.noise.encoding(self._run.multiplier, self._run.shape, seed)
        return encoding.decode(total.astype(np.int64))


class Deployment:
    """A run over a transport that an account pays for. Made by `deploy`.

    Before a round begins its number is in the ledger, so no round is played twice under one charge, whatever happens to this
    process: a round whose number was written and that was never finished is lost.
    """

    def __init__(self, run: FedAvg, transport: Transport, account: Account, agreement: Agreement | None) -> None:
        self.run = run
        self._account = account
        self._session: Session[Round] = account.open(
            Federation(run, agreement), transport, delta=run.delta, description="federated run"
        )

    @property
    def entry(self) -> str:
        """The ledger entry that paid for the run."""
        return self._session.entry

    @property
    def taken(self) -> int:
        """Rounds that were begun."""
        return self._account.begun(self.entry)

    def step(self) -> Release[Round]:
        """Play the next round."""
        begun = self.taken
        if begun >= self.run.rounds:
            raise InvalidQuery(f"All {self.run.rounds:,} rounds of this run are played. Open another one.")
        self._account.begin(self.entry, begun, begun + 1)
        return self._session.ask(begun + 1)

    def close(self) -> None:
        """Settle: rounds not begun are given back where the account's rule allows it."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def deploy(run: FedAvg, transport: Transport, account: Account, *, agreement: Agreement | None = None) -> Deployment:
    """Charge a run to an account and open it over a transport."""
    if isinstance(run.noise, Correlated):
        raise InvalidParameter(
            "Expected noise=Central(…), OnClient(…) or Shared(…) over a transport: devices that take turns by number are for "
            "simulations. Nothing was charged."
        )
    if isinstance(run.noise, Shared) and agreement is None:
        raise InvalidParameter("Expected agreement= with noise=Shared(…): see federated.agreed. Nothing was charged.")
    return Deployment(run, transport, account, agreement)
