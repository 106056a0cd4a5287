"""`CrossSilo`: a run over silos that protects a row or a patient, as one mechanism."""

from __future__ import annotations

import copy
import math
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from torch import nn
from torch.optim import SGD, Optimizer

from deniable import accounting, checks
from deniable.errors import InvalidParameter
from deniable.federated.fedavg import START, Criterion
from deniable.federated.noise.placement import Central, OnClient, Shared, UpdateShape, usual_least
from deniable.federated.rounds import Federated
from deniable.federated.secure_sum.agreement import Adversary
from deniable.federated.settings import RoundExecution
from deniable.federated.silos import rounds as engine
from deniable.federated.silos.settings import (
    LocalSteps,
    RowPrivacy,
    SiloPlacement,
    SiloRows,
    Silos,
    check_ids,
    check_silos,
)
from deniable.federated.silos.trust import list_assumptions
from deniable.federated.simulation import ServerOptimizer
from deniable.guarantee import Budget
from deniable.learn.sgd import DPSGD, Learning, Lots, Privacy
from deniable.learn.sgd.data.users import Users
from deniable.learn.sgd.dpsgd import trial
from deniable.learn.sgd.noise import GradientGrid
from deniable.learn.sgd.settings import check_kind
from deniable.loss import Approximate, Composed, DiscreteGaussianNoise, IntegerGaussianSum, Loss
from deniable.loss.noises import LEAST_SHARE
from deniable.mechanism import Random
from deniable.units import Unit, UnitKind

FAR = Fraction(1, 10**60)
"""The mass by which a sum of integer Gaussians may differ from one of its variance (T9 of
docs/theory/numerical.md)."""
DEVIATIONS = 6
"""So many deviations of its noise, beside a sum twice as large as expected, fit a secure sum's modulus."""


@dataclass(frozen=True)
class CrossSilo:
    """Train a copy of `model` on the data of several silos (hospitals, banks), and protect one row, or one
    patient, in whichever of them it lies.

    In each round every silo draws a lot of its own rows (or patients) by coins, clips the gradient of each,
    rounds it to a grid of integers and adds it to the others. With `LocalSteps(steps=1)` (FedSGD) these sums
    are added up over the silos, with noise where `privacy.noise` places it, and divided by the declared size
    of a lot. With more steps (FedAvg) a silo takes them by itself, with noise in each, and sends how its
    weights moved.

    Guarantee: for `unit`, the loss of all lots' integer Gaussian noise on Poisson samples. A patient with
               rows in `most_silos` silos is charged for all of them: their losses compose where each silo
               adds its own noise, and she moves the sum by that many clips where the noise is
               shared or central.
    Assumes:   sizes, rate and clip are declared, never read from the data; each silo draws its lots in
               secret; nobody has rows in more silos than declared (docs/theory/federated.md, F11).
    Error:     none is known before data is seen.
    Reference: Abadi et al. 2016 (DP-SGD); McMahan et al. 2017 (FedSGD, FedAvg); Ganesh 2024 (groups in
               Poisson samples); docs/theory/federated.md.

    >>> run = CrossSilo(nn.Linear(4, 2), nn.CrossEntropyLoss(),
    ...                 silos=Silos((800, 150, 50), rate=0.05, rounds=60),
    ...                 privacy=RowPrivacy(Central(), unit=Unit.row(), epsilon=2, delta=1e-5))
    >>> round(run.multiplier, 2), str(run.unit)
    (1.19, 'one row, added or removed')
    """

    model: nn.Module
    criterion: Criterion
    _: KW_ONLY
    silos: Silos
    privacy: RowPrivacy
    local: LocalSteps = LocalSteps()
    server: ServerOptimizer | None = None
    how: RoundExecution = RoundExecution()
    example: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_kind("silos", self.silos, Silos)
        check_kind("privacy", self.privacy, RowPrivacy)
        check_kind("local", self.local, LocalSteps)
        check_kind("how", self.how, RoundExecution)
        self._check_steps()
        self._check_budget()
        self.of_silo(0)  # raises if the model cannot be clipped row by row
        model = copy.deepcopy(self.model)
        trial(model, self.new_optimizer(model))
        if isinstance(self.noise, Shared):
            self._check_shares(self.noise)

    # -------------------------------------------------------------------------------------------- the loss

    @property
    def rounds(self) -> int:
        return self.silos.rounds

    @property
    def noise(self) -> SiloPlacement:
        return self.privacy.noise

    @property
    def unit(self) -> Unit:
        return self.privacy.unit

    @property
    def loss(self) -> Loss:
        """What all rounds reveal about a unit with rows in `most_silos` silos."""
        return self.loss_of(self.rounds)

    def loss_of(self, rounds: int) -> Loss:
        return self._loss_at(self.multiplier, rounds, self.privacy.most_silos)

    def silo_loss_of(self, rounds: int) -> Loss:
        """What the first rounds reveal about a unit by its rows in one silo: that silo's own charge."""
        return self._loss_at(self.multiplier, rounds, 1)

    def _loss_at(self, multiplier: float, rounds: int, silos: int) -> Loss:
        steps = rounds * self.local.steps
        noise = self._noise_at(multiplier)
        step: Loss = noise if self.silos.rate == 1 else noise.sampled(self.silos.rate)
        match self.noise:
            case OnClient():
                return step * (steps * silos)
            case Shared():
                # A sum of integer Gaussians is one of them, but for a mass that is charged as revealed.
                return Composed((_group(silos, step) * steps, Approximate(0, steps * FAR)))
        return _group(silos, step) * steps

    def _noise_at(self, multiplier: float) -> DiscreteGaussianNoise:
        """The noise on a sum that a unit's rows in one silo move by one clip."""
        if not isinstance(self.noise, Shared):
            return self.grid.loss(multiplier)
        sigma = self.share_at(multiplier) * math.sqrt(self.noise.parties) * (1 - 2.0**-50)
        return DiscreteGaussianNoise(sigma, self.grid.sensitivity, self.dimension)

    @cached_property
    def multiplier(self) -> float:
        """The noise multiplier: as given, or the least for (epsilon, delta)."""
        if self.noise.multiplier is not None:
            return float(checks.number("multiplier", self.noise.multiplier, above=0))
        budget = Budget(
            checks.number("epsilon", self.privacy.epsilon, above=0),
            checks.number("delta", self.privacy.delta, above=0, below=1),
        )
        return accounting.calibrate(
            lambda z: self._loss_at(z, self.rounds, self.privacy.most_silos), budget, start=START
        )

    @property
    def terms(self) -> str:
        """What the loss does not say of a run: by it a run that is resumed is the one that was paid for."""
        return f"{self.rounds} rounds of {self.local}, {self.silos.sizes}, at most {self.privacy.most_silos}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a certificate of this run rests on beside its loss."""
        return list_assumptions(self.noise, self.unit, self.privacy.most_silos)

    # ------------------------------------------------------------------------------- what the parameters mean

    @cached_property
    def grid(self) -> GradientGrid:
        """The grid on which clipped gradients are rounded, each alone, and added exactly."""
        return GradientGrid(float(self.privacy.clip), self.dimension)

    @property
    def dimension(self) -> int:
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    def share_at(self, multiplier: float) -> float:
        """The deviation of a silo's share of the noise, in grid units: `parties` of them carry all of it."""
        assert isinstance(self.noise, Shared)
        return math.nextafter(multiplier * self.grid.sensitivity / math.sqrt(self.noise.parties), math.inf)

    @property
    def silo_deviation(self) -> float:
        """The deviation of the noise that a silo adds to a sum of its own, in grid units."""
        match self.noise:
            case Central():
                return 0.0
            case Shared():
                return self.share_at(self.multiplier)
        return float(self.grid.loss(self.multiplier).sigma)

    @property
    def shape(self) -> UpdateShape:
        return UpdateShape(
            self.dimension, float(self.privacy.clip), float(len(self.silos.sizes)), self.rounds
        )

    @property
    def sum_length(self) -> int:
        """Integers in a vector of a secure sum."""
        return self.dimension

    @property
    def drawing_rate(self) -> float:
        """The share of silos in a round: all of them."""
        return 1.0

    @property
    def sends_sums(self) -> bool:
        """Whether a silo sends a sum of clipped gradients, and not how its weights moved."""
        return self.local.steps == 1

    def lot_of(self, silo: int) -> float:
        """The expected, declared number of rows (or patients) in a lot of a silo."""
        return float(self.silos.rate) * self.silos.sizes[silo]

    @property
    def denominator(self) -> float:
        """What sums over silos are divided by: declared, so that it tells nothing."""
        return (float(self.silos.rate) if self.sends_sums else 1.0) * self.silos.total

    def of_silo(self, silo: int) -> DPSGD:
        """How one silo reads, draws and clips its rows."""
        return DPSGD(
            self.model,
            self.criterion,
            lots=Lots(n=self.silos.sizes[silo], rate=self.silos.rate, steps=self.rounds * self.local.steps),
            privacy=Privacy(
                noise_multiplier=self.multiplier, clip=float(self.privacy.clip), grid=True, unit=self.unit
            ),
            learning=Learning(learning_rate=self.local.learning_rate),
            example=self.example,
        )

    def container(self, rows: SiloRows) -> Any:
        """Rows as a silo's `DPSGD` reads them."""
        check_ids(rows, self.unit)
        inside = (rows.x, rows.y)
        return Users(inside, rows.ids) if self.unit.kind is UnitKind.COLUMN else inside

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
            for number, rows in enumerate(check_silos(data, len(self.silos.sizes), self.unit)):
                self.of_silo(number).check(self.container(rows))

    def __call__(self, data: Any, *, rng: Random) -> Federated:
        return engine.run(self, check_silos(data, len(self.silos.sizes), self.unit), rng)

    # -------------------------------------------------------------------------------------------- checks

    def _check_steps(self) -> None:
        if self.local.steps > 1 and not isinstance(self.noise, OnClient):
            raise InvalidParameter(
                f"Expected noise=OnClient(…) with {self.local.steps} local steps, got {self.noise!r}: noise "
                "must be in every local step. Clipping alone bounds what a row adds to one step, and later "
                "steps follow it: one of 51 rows can move what a silo sends after five steps by 205 clips. "
                "Use LocalSteps(steps=1), or let each silo add its noise. Nothing was charged."
            )

    def _check_budget(self) -> None:
        gaps = (self.noise.multiplier is None, self.privacy.epsilon is None, self.privacy.delta is None)
        if gaps not in ((False, True, True), (True, False, False), (False, True, False)):
            raise InvalidParameter(
                "Expected either a multiplier in noise=, or epsilon and delta from which it is solved. "
                "Nothing was charged."
            )
        if self.how.workers > 1:
            raise InvalidParameter(
                f"Expected RoundExecution(workers=1), got {self.how.workers}: silos are computed one "
                "after the other here. Nothing was charged."
            )
        if not all(p.requires_grad for p in self.model.parameters()):
            raise InvalidParameter("Expected a model whose parameters are all trained. Nothing was charged.")
        if any(True for _ in self.model.buffers()):
            raise InvalidParameter(
                "Expected a model without buffers (running means and the like): they would leave the silos "
                "unclipped and without noise. Use GroupNorm or LayerNorm in place of BatchNorm. Nothing was "
                "charged."
            )
        if not math.isfinite(self.multiplier):
            raise InvalidParameter(f"Expected a finite noise multiplier, got {self.multiplier}.")

    def _check_shares(self, noise: Shared) -> None:
        """All of it is declared, so nothing of the data is told by a refusal."""
        count, largest = len(self.silos.sizes), 1 << (noise.bits - 1)
        if noise.least > count:
            raise InvalidParameter(
                f"Expected least={noise.least:,} to be at most the number of silos, {count:,}: a sum over "
                "fewer than `least` is never opened. Nothing was charged."
            )
        if noise.most < count and noise.adversary is not Adversary.CURIOUS:
            raise InvalidParameter(
                f"Expected least above half of the silos and of those who collude, got least={noise.least:,} "
                f"for {count:,} silos: a lying server could show them two lists of survivors. Use "
                f"least={usual_least(count, 1, noise.colluders):,}, or name a server that keeps to the "
                "protocol: adversary=Adversary.CURIOUS. Nothing was charged."
            )
        share, grid = self.share_at(self.multiplier), self.grid
        most = grid.sensitivity * self.privacy.most_silos
        if (
            share < LEAST_SHARE
            or IntegerGaussianSum(noise.parties, share, most, grid.dimension).distance > FAR
        ):
            raise InvalidParameter(
                f"Expected shares of noise of several grid units, got {share:.3g} with least="
                f"{noise.least:,}: so little noise in so many shares is not surely Gaussian. Use a larger "
                "multiplier or a smaller least. Nothing was charged."
            )
        reach = 2 * self.denominator * self.grid.sensitivity
        reach += DEVIATIONS * share * math.sqrt(count)
        if reach >= largest:
            raise InvalidParameter(
                f"A sum over lots of about {self.denominator:,.0f} rows may not fit {noise.bits} bits: it "
                f"needs {math.ceil(math.log2(reach)) + 1}. Use bits=32 or a smaller rate. Nothing was "
                "charged."
            )


def _group(size: int, loss: Loss) -> Loss:
    """For a unit that moves the sum by up to `size` clips, each by a coin of its own."""
    return loss if size == 1 else loss.grouped(size)
