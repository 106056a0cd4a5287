"""`FedAvg`: a whole federated run as one mechanism."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from deniable import accounting, checks
from deniable.errors import DataError, InvalidParameter
from deniable.federated import rounds as engine
from deniable.federated.data.clients import Clients
from deniable.federated.noise.placement import (
    AnyPlacement,
    Central,
    Correlated,
    OnClient,
    Shared,
    UpdateShape,
    View,
    usual_least,
)
from deniable.federated.noise.trust import list_assumptions
from deniable.federated.settings import ClientPrivacy, Cohorts, RoundExecution
from deniable.federated.simulation import ServerOptimizer
from deniable.federated.train import LocalRecipe
from deniable.federated.train.trainers import check_travels
from deniable.guarantee import Budget
from deniable.learn.sgd.clipping import Adaptive
from deniable.learn.sgd.dpsgd import trial
from deniable.learn.sgd.equivalents import with_equivalents
from deniable.learn.sgd.settings import check_kind
from deniable.loss import Loss, Number, Silenced
from deniable.mechanism import Random
from deniable.units import Relation, Unit

Criterion = Callable[[Tensor, Tensor], Tensor]

START = 1.0
ON_SERVER = Central()


VALUES = (Cohorts, ClientPrivacy, LocalRecipe, RoundExecution)
LOCAL = {"local_epochs": "LocalRecipe(epochs=…)", "local_steps": "LocalRecipe(steps=…)"}


@partial(with_equivalents, values=VALUES, others=LOCAL, page="Federated learning")
@dataclass(frozen=True)
class FedAvg:
    """Train a copy of `model` on the data of many clients by federated averaging with noise.

    A run is said in values: `cohorts` (what is drawn), `privacy` (where the noise is, how much of it, the
    clip and who is protected), `local` (how a client trains), `how` (what changes no number). In one line:
    `FedAvg.from_keywords`.

    In each round every client that is drawn trains the model it is sent on its own rows (batch=None and one
    epoch is FedSGD), and sends how its weights moved, clipped. The noisy sum over rate · clients moves the
    model through the `server` optimiser (default: the mean is added; momentum and Adam give FedAvgM and
    FedAdam).

    How long a client trains tells how many rows it has. So devices that add noise need two limits: a client
    takes at most `LocalRecipe(steps=…)` steps in a round, and a device answers
    `RoundExecution(answer_after=…)` seconds after it was asked, ready or not.

    Guarantee: for `unit`, the loss of the rounds' integer Gaussian noise, where `privacy.noise` places it.
               Everything released (all models on the way and the history) is a function of the noisy sums.
    Assumes:   the cohorts, and the cap and total of the weights, are declared, never
               read from the data; what a client computes depends on its own rows and on
               what was released, not on others (docs/theory/federated.md).
    Error:     none is known before data is seen.
    Reference: McMahan et al. 2017 (FedAvg); McMahan, Ramage, Talwar, Zhang 2018 (its private form);
               Reddi et al. 2021 (FedAdam).

    >>> run = FedAvg(nn.Linear(4, 3), nn.CrossEntropyLoss(),
    ...              cohorts=Cohorts(clients=1000, rate=0.1, rounds=50),
    ...              privacy=ClientPrivacy(Central(), clip=0.5, epsilon=2, delta=1e-4))
    >>> round(run.multiplier, 2), str(run.unit)
    (1.55, 'one client, added or removed')
    """

    model: nn.Module
    criterion: Criterion
    _: KW_ONLY
    cohorts: Cohorts
    privacy: ClientPrivacy
    local: LocalRecipe = LocalRecipe()
    server: ServerOptimizer | None = None
    how: RoundExecution = RoundExecution()

    def __post_init__(self) -> None:
        check_kind("cohorts", self.cohorts, Cohorts)
        check_kind("privacy", self.privacy, ClientPrivacy)
        check_kind("local", self.local, LocalRecipe)
        check_kind("how", self.how, RoundExecution)
        self._check_model()
        self._check_noise()

    @classmethod
    def from_keywords(
        cls,
        model: nn.Module,
        criterion: Criterion,
        *,
        clients: int = 1000,
        rate: Number = 0.1,
        rounds: int = 100,
        local_epochs: int = 1,
        batch: int | None = 10,
        learning_rate: float = 0.1,
        server: ServerOptimizer | None = None,
        clip: float | Adaptive = 1.0,
        noise: AnyPlacement = ON_SERVER,
        epsilon: Number | None = None,
        delta: Number | None = None,
        progress: bool = True,
    ) -> FedAvg:
        """A run in one line, of the fields that most runs name.

        >>> run = FedAvg.from_keywords(nn.Linear(4, 3), nn.CrossEntropyLoss(), rounds=50, noise=Central(1.5))
        >>> run.cohorts
        Cohorts(clients=1000, rate=0.1, rounds=50)
        """
        return cls(
            model,
            criterion,
            cohorts=Cohorts(clients, rate, rounds),
            privacy=ClientPrivacy(noise, clip, epsilon=epsilon, delta=delta),
            local=LocalRecipe(local_epochs, batch, learning_rate),
            server=server,
            how=RoundExecution(progress=progress),
        )

    # -------------------------------------------------------------------------------------------- the loss

    @property
    def rounds(self) -> int:
        return self.cohorts.rounds

    @property
    def noise(self) -> AnyPlacement:
        return self.privacy.noise

    @property
    def unit(self) -> Unit:
        return self.privacy.unit

    @property
    def loss(self) -> Loss:
        return self.loss_of(self.rounds)

    def loss_of(self, rounds: int) -> Loss:
        """The loss of the first `rounds` rounds, against whom the noise is placed."""
        return self._loss_at(self.multiplier, rounds)

    def loss_against(self, view: View | str) -> Loss:
        """What the run reveals to the server that drew the cohorts, or to those who see models only.

        A trusted server has no such loss: it sees what clients send. Where clients add the noise both are the
        same: how much noise a model carries tells how many took part, so that the server's draw hides nobody
        (docs/theory/federated.md, F4).
        """
        if View(view) is View.SERVER and isinstance(self.noise, Central | Correlated):
            raise InvalidParameter(
                "With noise added by the server, the server sees every update as it is: nothing bounds that."
            )
        return self.loss

    def _loss_at(self, multiplier: float, rounds: int) -> Loss:
        release = self.noise.release(multiplier, self.shape_at(multiplier), self.unit)
        is_replacement = self.unit.relation is Relation.REPLACED
        match self.noise:
            case Correlated():
                loss = release  # one release for all rounds: stopping early gives nothing back
            case Central() if self.cohorts.rate == 1:
                loss = release * rounds
            case Central():  # sampled nodes are stated for one clip, whatever the relation
                a_round = self.noise.release(multiplier, self.shape_at(multiplier), Unit.client())
                loss = a_round.sampled(self.cohorts.rate, replace=is_replacement) * rounds
            case OnClient() | Shared():
                loss = self._message(multiplier, release) * min(rounds, self.noise.participations)
        is_silencing = self.unit.relation is Relation.SILENCED and loss.relation is not Relation.SILENCED
        if is_silencing:
            return Silenced(loss)
        return loss

    def _message(self, multiplier: float, release: Loss) -> Loss:
        """What a client that takes part in a round reveals, its own coin included. For a replaced client
        under shared noise no gain is proved."""
        is_replacement = self.unit.relation is Relation.REPLACED
        if self.coins == 1 or (is_replacement and isinstance(self.noise, Shared)):
            return release
        message = self.noise.release(multiplier, self.shape_at(multiplier), Unit.client(zero_out=True))
        return message.sampled(self.coins, replace=is_replacement)

    @cached_property
    def multiplier(self) -> float:
        """The noise multiplier: as given, or the least for (epsilon, delta)."""
        if self.noise.multiplier is not None:
            return float(checks.number("multiplier", self.noise.multiplier, above=0))
        budget = Budget(
            checks.number("epsilon", self.privacy.epsilon, above=0),
            checks.number("delta", self.privacy.delta, above=0, below=1),
        )
        return accounting.calibrate(lambda z: self._loss_at(z, self.rounds), budget, start=START)

    # ------------------------------------------------------------------------------- what the parameters mean

    @cached_property
    def shape(self) -> UpdateShape:
        return self.shape_at(self.multiplier)

    def shape_at(self, multiplier: float) -> UpdateShape:
        """Updates are sent in units of the current clip; with an adaptive one a
        coordinate counts who was within it."""
        numbers = sum(p.numel() for p in self.model.parameters())
        cohort = self.drawing_rate * self.cohorts.clients
        if self.adaptive is None:
            return UpdateShape(numbers, 1.0, cohort, self.rounds)
        return UpdateShape(numbers + 1, math.hypot(1.0, self.count_scale(multiplier)), cohort, self.rounds)

    @property
    def sum_length(self) -> int:
        """Integers in a vector of a secure sum."""
        assert isinstance(self.noise, Shared)
        return self.noise.encoding(self.multiplier, self.shape).length

    def count_scale(self, multiplier: float) -> float:
        """What a client's ±1 for its norm's being within the clip weighs beside an update of norm 1.

        With it the count's noise is `count_noise` clients and the update's is z/√(1 −
        (z/2count_noise)²): that of Andrew et al. 2021, as one Gaussian release of one
        vector, so it is noised wherever the update is.
        """
        assert self.adaptive is not None
        ratio = multiplier / self.adaptive.count_multiplier
        if ratio >= 1 - 1e-9:
            raise InvalidParameter(
                f"Expected count_noise={self.adaptive.count_noise:g} above {multiplier / 2:g}, half the "
                "noise multiplier: else the count alone would cost more than a round may. Nothing was "
                "charged."
            )
        return ratio / math.sqrt((1 - ratio) * (1 + ratio))

    @property
    def adaptive(self) -> Adaptive | None:
        return self.privacy.clip if isinstance(self.privacy.clip, Adaptive) else None

    @property
    def start_clip(self) -> float:
        return (
            self.privacy.clip.start if isinstance(self.privacy.clip, Adaptive) else float(self.privacy.clip)
        )

    @property
    def drawing_rate(self) -> float:
        """The share of clients in a round: drawn by coins, or every `apart`-th in turn."""
        return 1 / self.noise.apart if isinstance(self.noise, Correlated) else float(self.cohorts.rate)

    @property
    def participations(self) -> int | None:
        """How often one client may take part; None is no limit."""
        return self.noise.participations if isinstance(self.noise, OnClient | Shared) else None

    @property
    def coins(self) -> Number:
        """The probability with which a client that takes part adds its update, by a coin of its own."""
        return self.noise.coins if isinstance(self.noise, OnClient | Shared) else 1

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a certificate of this run rests on beside its loss: who may do what, and how often."""
        return list_assumptions(self.noise)

    @property
    def denominator(self) -> float:
        """What the noisy sum is divided by: declared, so that it tells nothing of who was drawn."""
        return self.privacy.weights.denominator(self.drawing_rate * float(self.coins), self.cohorts.clients)

    def new_optimizer(self, model: nn.Module) -> Optimizer:
        if self.server is None:
            return SGD(model.parameters(), lr=1.0)
        return self.server(model.parameters())

    # -------------------------------------------------------------------------------------------- running

    def error(self, confidence: float = 0.95) -> None:
        return None

    def fits(self, data: Any) -> None:
        """Before the charge: whether data is of the kind that a run can read and its model can be trained on.
        Nothing of a row is looked at; None is data that is opened later."""
        if data is not None:
            _check_kind(data)
            engine.rehearse(self, data)

    def __call__(self, data: Any, *, rng: Random) -> engine.Federated:
        _check_kind(data)
        return engine.run(self, data, rng)

    # -------------------------------------------------------------------------------------------- checks

    def _check_model(self) -> None:
        if not isinstance(self.model, nn.Module) or not list(self.model.parameters()):
            raise InvalidParameter("Expected a torch.nn.Module with parameters. Nothing was charged.")
        if not all(p.requires_grad and p.is_floating_point() for p in self.model.parameters()):
            raise InvalidParameter("Expected a model whose parameters are all trained. Nothing was charged.")
        if any(True for _ in self.model.buffers()):
            raise InvalidParameter(
                "Expected a model without buffers (running means and the like): they would leave the clients "
                "unclipped and without noise. Use GroupNorm or LayerNorm in place of BatchNorm. Nothing was "
                "charged."
            )
        if self.how.workers > 1:
            check_travels(self.model, self.criterion)
        model = copy.deepcopy(self.model)
        trial(model, self.new_optimizer(model))

    def _check_noise(self) -> None:
        gaps = (self.noise.multiplier is None, self.privacy.epsilon is None, self.privacy.delta is None)
        if gaps not in ((False, True, True), (True, False, False), (False, True, False)):
            raise InvalidParameter(
                "Expected either a multiplier in noise=, or epsilon and delta from which it is solved. "
                "Nothing was charged."
            )
        if not math.isfinite(self.multiplier):
            raise InvalidParameter(f"Expected a finite noise multiplier, got {self.multiplier}.")
        self._check_least()
        self.noise.release(self.multiplier, self.shape, self.unit)

    def _check_least(self) -> None:
        """Both are declared, so nothing of the data is told by a refusal."""
        if isinstance(self.noise, Shared) and self.noise.least > self.cohorts.clients:
            raise InvalidParameter(
                f"Expected least={self.noise.least:,} to be at most clients={self.cohorts.clients:,}: a sum "
                "over fewer than `least` is never opened, so every round would release nothing. Nothing was "
                "charged."
            )
        if isinstance(self.noise, Shared) and self.noise.most < self.drawing_rate * self.cohorts.clients:
            cohort = math.ceil(self.drawing_rate * self.cohorts.clients)
            raise InvalidParameter(
                f"Expected least above half of a cohort and its colluders, got least={self.noise.least:,} "
                f"for cohorts of about {cohort:,} clients: a lying server could show them two lists of "
                "survivors, so they would refuse every such round. Use "
                f"least={usual_least(cohort, self.cohorts.rate, self.noise.colluders):,}, or name a server "
                "that keeps to the protocol: adversary=Adversary.CURIOUS. Nothing was charged."
            )


def _check_kind(data: Any) -> None:
    if not isinstance(data, Clients):
        raise DataError(
            f"Expected federated.Clients, got {type(data).__name__}. Nothing was charged. For example "
            "Clients.by_owner(x, y, owner)."
        )
