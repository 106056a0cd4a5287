"""Private training in a loop of one's own."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from deniable.checks import ROW
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.learn.nests import mapped
from deniable.learn.sgd.clipping import Rule
from deniable.learn.sgd.dpsgd import DPSGD, Criterion, several_rates, trial
from deniable.learn.sgd.rows import Lot
from deniable.learn.sgd.schedules import Schedule
from deniable.learn.sgd.steps import Ask, Training
from deniable.learn.sgd.trainer import Trainer
from deniable.learn.sgd.views import Augment
from deniable.ledger import Account, Session
from deniable.loss import Number
from deniable.mechanism import Random, Release
from deniable.units import Unit


class Private:
    """A model in private training, in a loop of one's own. Made by `make_private`.

    `lots` yields the raw rows of each lot, which the caller holds anyway; what else is done with them than `step` is outside the
    guarantee. Closing settles: steps not taken are given back where the account's rule allows it.
    """

    def __init__(self, run: DPSGD, optimizer: Optimizer, data: Any, account: Account, rng: Random | None) -> None:
        self.run = run
        self._optimizer, self._seen, self._stepped = optimizer, list[tuple[Tensor, Tensor]](), True
        self._trainer: Trainer | None = None
        self._stepping = False
        self._hook = optimizer.register_step_pre_hook(self._refuse_step)
        training = Training(run, self._start, self._show)
        try:
            self._session: Session[Any] = account.open(
                training, data, rng=rng, delta=run.delta, description="make_private"
            )
        except BaseException:
            self._hook.remove()
            raise
        account.begin(self._session.entry, 0, run.length)  # a loop of one's own is not resumed: all its steps are begun

    def _start(self, run: DPSGD, rng: Random) -> Trainer:
        self._trainer = Trainer(run, rng, run.model, self._optimizer)
        return self._trainer

    def _show(self, lot: Lot) -> None:
        """Copies: what is done to them in place must not reach the rows that `step` trains on."""
        self._seen = [mapped(Tensor.clone, batch) for batch in lot]

    def _refuse_step(self, *given: Any) -> None:
        if not self._stepping:
            raise InvalidQuery(
                "The optimizer of a private loop moves by private.step() alone: optimizer.step() would train on gradients "
                "without noise. Nothing was moved. Take loss.backward() and optimizer.step() out of the loop, or close it first."
            )

    @property
    def taken(self) -> int:
        """How many steps were taken."""
        return 0 if self._trainer is None else self._trainer.taken

    def lots(self) -> Iterator[tuple[Any, Any]]:
        """The lots of the run, each to be followed by `step`. An empty lot has no rows and is followed by `step` too."""
        while self.taken < self.run.plan.steps:
            if not self._stepped:
                raise InvalidQuery(
                    "Expected private.step() for every lot: if some are left out, the others are no Poisson samples."
                )
            self._session.ask(Ask.LOT)
            self._stepped = False
            yield _joined(self._seen)

    def step(self) -> Release[dict[str, Tensor]]:
        """Put the noisy mean of the lot's clipped gradients into .grad, let the optimiser move, and release that mean."""
        self._stepping = True
        try:
            release: Release[dict[str, Tensor]] = self._session.ask(Ask.STEP)
        finally:
            self._stepping = False
        self._stepped, self._seen = True, []
        return release

    def close(self) -> None:
        """Settle, and give the optimiser back. Closing twice does nothing."""
        self._hook.remove()
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_private(
    model: nn.Module,
    optimizer: Optimizer,
    data: Any,
    criterion: Criterion,
    *,
    account: Account,
    n: int | None = None,
    lot: Number | None = None,
    rate: Number | None = None,
    epochs: Number | None = None,
    steps: int | None = None,
    clip: float | Rule = 1.0,
    learning_rate: float | Schedule | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    noise_multiplier: Number | None = None,
    multiplicity: int = 1,
    augment: Augment | None = None,
    grid: bool = False,
    unit: Unit = ROW,
    microbatch: int | None = None,
    example: Any = None,
    rng: Random | None = None,
) -> Private:
    """A private loop around a model and an optimiser of one's own. The parameters are those of `DPSGD`.

        private = make_private(model, optimizer, data, criterion, account=account, n=60_000, lot=600, epochs=5,
                               epsilon=3, delta=1e-5)
        for x, y in private.lots():
            private.step()
        private.close()

    The whole run is charged before the first lot is drawn. What can be wrong with the parameters or with the container raises
    before that. `learning_rate` is set in the optimiser at every step; None leaves the optimiser's own.
    """
    _check_optimizer(model, optimizer)
    run = DPSGD(
        model, criterion, n=n, lot=lot, rate=rate, epochs=epochs, steps=steps, clip=clip, learning_rate=learning_rate,
        optimizer=_stand_in, epsilon=epsilon, delta=delta, noise_multiplier=noise_multiplier, multiplicity=multiplicity,
        augment=augment, grid=grid, unit=unit, microbatch=microbatch, example=example,
    )  # fmt: skip
    _check_rates(optimizer, learning_rate)
    run.check(data, model=model)
    return Private(run, optimizer, data, account, rng)


def _stand_in(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The run's parameters are checked with this one; the caller's own optimiser is the one that moves."""
    return SGD(parameters, lr=1.0)


def _check_optimizer(model: nn.Module, optimizer: Optimizer) -> None:
    if not isinstance(model, nn.Module) or not isinstance(optimizer, Optimizer):
        raise InvalidParameter("Expected a torch.nn.Module and a torch.optim.Optimizer. Nothing was charged.")
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if held != {id(p) for p in model.parameters() if p.requires_grad}:
        raise InvalidParameter(
            "Expected the optimizer to hold the trainable parameters of this model and no others. Nothing was charged."
        )
    trial(*copy.deepcopy((model, optimizer)))


def _check_rates(optimizer: Optimizer, learning_rate: float | Schedule | None) -> None:
    if learning_rate is not None and len(optimizer.param_groups) > 1:
        raise InvalidParameter(several_rates(optimizer))


def _joined(lot: Lot) -> tuple[Any, Any]:
    """One pair of tensors; of several shapes, two lists of tensors."""
    if len(lot) == 1:
        x, y = lot[0]
        return x, y
    if not lot:
        return torch.empty(0), torch.empty(0)
    return [x for x, _ in lot], [y for _, y in lot]
