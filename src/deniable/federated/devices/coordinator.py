"""The server's side of rounds with real devices: asked for the number of a round, it plays that round."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from deniable.errors import InvalidParameter, InvalidQuery, ProtocolError
from deniable.federated.devices.device import rotation_seed
from deniable.federated.devices.messages import DeviceTask, Message, write_task
from deniable.federated.devices.received import AnyRun, received_of
from deniable.federated.devices.transport import Transport
from deniable.federated.noise.encode import Floats
from deniable.federated.noise.placement import Shared
from deniable.federated.noise.trust import adversary_of
from deniable.federated.rounds import unframe_sum
from deniable.federated.secure_sum import Adversary, Agreement, SumServer
from deniable.federated.secure_sum.server import read_signed
from deniable.federated.silos.cross_silo import CrossSilo
from deniable.federated.simulation import move
from deniable.federated.train import parameters_of
from deniable.federated.train.recipe import flat
from deniable.loss import Loss, Number
from deniable.mechanism import Random
from deniable.process import Conversing
from deniable.units import Unit


@dataclass(frozen=True)
class Round:
    """What a round released: the model after it. `answered` is False if too few devices
    answered and nothing was added."""

    number: int
    model: nn.Module
    answered: bool


@dataclass(frozen=True)
class Federation:
    """The rounds of a run over a transport: an `Interactive` whose loss is that of the whole run."""

    run: AnyRun
    agreement: Agreement | None = None
    opened: list[Coordinator] = field(default_factory=list, compare=False, repr=False)
    """The coordinator that was opened, for who drives it."""

    @property
    def loss(self) -> Loss:
        return self.run.loss

    @property
    def unit(self) -> Unit:
        return self.run.unit

    def open(self, data: Any, *, rng: Random) -> Coordinator:
        self.opened.append(Coordinator(self, data, rng))
        return self.opened[-1]


class Coordinator(Conversing):
    """An open `Federation`: asked for the number of a round, it plays that round."""

    def __init__(self, federation: Federation, transport: Transport, rng: Random) -> None:
        self._run, self._agreement = federation.run, federation.agreement
        self._transport, self._rng = transport, rng
        self.model = copy.deepcopy(federation.run.model)
        self._optimizer = federation.run.new_optimizer(self.model)
        self._received = received_of(federation.run)
        self._bound = 1.0 if isinstance(federation.run, CrossSilo) else federation.run.start_clip
        self._last_round = 0

    @property
    def used(self) -> Loss:
        """The loss of the rounds that were begun, as far as this server can speak for them.

        Devices do not know that a run was closed: they answer whoever asks, up to the participations of the
        whole run. Where the server may lie, rounds that it says it did not begin are no less revealed, and
        nothing is given back.
        """
        if adversary_of(self._run.noise) is Adversary.LYING:
            return self._run.loss
        return self._run.loss_of(max(self._last_round, 1))

    @property
    def assumptions(self) -> tuple[str, ...]:
        return self._run.assumptions

    def state(self) -> dict[str, Any]:
        """All that the next round needs, made of released values, and nothing of the generator."""
        return {
            "step": self._last_round,
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "bound": self._bound,
        }

    def restore(self, state: dict[str, Any] | None, last_round: int) -> None:
        """Go on after round `last_round` from the model as it was saved."""
        self._last_round = last_round
        if state is None:
            return
        try:
            self.model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError):
            raise InvalidParameter(
                "Expected the model and the server's optimiser of the run that was broken off. Nothing was "
                "run."
            ) from None
        self._bound = float(state["bound"])

    def spend(self, last_round: int) -> None:
        """Rounds up to `last_round` are spent, whoever played them."""
        self._last_round = max(self._last_round, last_round)

    def ask(self, question: int) -> Round:
        """Play round number `question`. Numbers rise; one that was left out is lost."""
        self.stay()
        if not isinstance(question, int) or not self._last_round < question <= self._run.rounds:
            raise InvalidQuery(
                f"Expected the number of a round from {self._last_round + 1} to {self._run.rounds}, got "
                f"{question!r}. Nothing was run."
            )
        self._last_round = question
        total = self._total(question)
        if total is not None:
            move(self._optimizer, self.model, torch.from_numpy(self._unframe(total) / self._run.denominator))
        return Round(question, copy.deepcopy(self.model), total is not None)

    def _unframe(self, total: Floats) -> Floats:
        """The sum of updates; with an adaptive clip its last coordinate moves the bound of the next round."""
        if isinstance(self._run, CrossSilo):
            return total
        update, self._bound = unframe_sum(self._run, total, self._bound)
        return update

    def _total(self, turn: int) -> Floats | None:
        content = write_task(flat(parameters_of(self.model)), self._bound)
        devices = sorted(self._transport.devices())
        draws = self._rng.poisson_sample(len(devices), _rate(self._run))
        cohort = [devices[int(place)] for place in draws]
        if isinstance(self._run.noise, Shared):
            return self._secure_total(turn, cohort, content)
        replies = self._exchange(DeviceTask.UPDATE, turn, dict.fromkeys(cohort, content))
        return self._received.add_up(replies, self._rng)

    def _exchange(self, step: DeviceTask, turn: int, contents: Mapping[int, bytes]) -> dict[int, bytes]:
        messages = {device: Message(step, turn, content).to_bytes() for device, content in contents.items()}
        replies = self._transport.exchange(messages)
        return {device: reply for device, reply in replies.items() if device in messages}

    def _secure_total(self, turn: int, cohort: list[int], content: bytes) -> Floats | None:
        """The sum over survivors; None where too few answered for the sum to be opened."""
        assert self._agreement is not None
        assert isinstance(self._run.noise, Shared)
        server = SumServer(self._agreement, turn)
        try:
            opening = server.open(self._exchange(DeviceTask.ADVERTISE, turn, dict.fromkeys(cohort, content)))
            boxes = server.forward(self._exchange(DeviceTask.SHARE, turn, opening))
            for device, vector in self._exchange(DeviceTask.MASK, turn, boxes).items():
                server.add(device, vector)
            signatures = server.confirm(self._exchange(DeviceTask.SIGN, turn, server.survivors()))
            total = read_signed(server.finish(self._exchange(DeviceTask.UNMASK, turn, signatures)))
        except ProtocolError:
            return None
        return self._received.open_sum(total.astype(np.int64), rotation_seed(self._agreement, turn))


def _rate(run: AnyRun) -> Number:
    """The share of clients that is drawn; of silos all take part, and draw rows."""
    return 1 if isinstance(run, CrossSilo) else run.cohorts.rate
