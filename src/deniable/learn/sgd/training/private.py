"""Private training in your own training loop."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_pre_hooks, register_optimizer_step_pre_hook

from deniable.errors import InvalidParameter, InvalidQuery
from deniable.learn.clip.batch import Batch
from deniable.learn.clip.structure import conduct
from deniable.learn.nests import map_parts, take_apart, tensors
from deniable.learn.sgd.checking import copy_model, refuse_groups_of_rates, trial
from deniable.learn.sgd.data.rows import Lot
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.equivalents import of_a_run
from deniable.learn.sgd.training.steps import Ask, TrainingSteps
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Account, Session
from deniable.mechanism import Random, Release

SMALL = 2**16
"""Up to so many numbers one sum of all is quicker than one for each parameter."""
OpenSession = Callable[[TrainingSteps], Session[Any]]
"""Pays for the steps of a run, or takes up what was paid for, and begins them."""


def _as_it_is(trainer: Trainer) -> None:
    """A run that begins has nothing to take up."""


class Private:
    """A model in private training, in your own training loop. Made by `make_private`.

    `lots` yields the raw rows of each lot, which the caller holds anyway; what else is
    done with them than `step` is outside the guarantee. Closing settles: steps not taken
    are given back where the account's rule allows it.
    """

    def __init__(
        self,
        run: DPSGD,
        optimizer: Optimizer,
        data: Any,
        open_session: OpenSession,
        take_up: Callable[[Trainer], None] = _as_it_is,
    ) -> None:
        self.run = run
        self._optimizer, self._has_stepped, self._shows_lots = optimizer, True, True
        self._take_up = take_up
        self._seen_lot: Lot = []
        self._rows = run.rows(data)
        self._empty = self._rows.form(run.dtype).repeat(0)
        self._conduct = conduct(run.model)
        self._trainer: Trainer | None = None
        self._stepping = False
        self._marks: list[int] = []
        self._guard = weakref.finalize(self, register_optimizer_step_pre_hook(_Guard(self)).remove)
        try:
            self._session = open_session(TrainingSteps(run, self._start, self._show))
        except BaseException:  # raised again: it only takes the guard off the optimisers
            self._guard()
            raise

    def _start(self, run: DPSGD, rng: Random) -> Trainer:
        self._trainer = Trainer(run, rng, run.model, self._optimizer)
        self._take_up(self._trainer)
        return self._trainer

    def _show(self, lot: Lot) -> None:
        """Copies: what is done to them in place must not reach the rows that `step` trains on."""
        if self._shows_lots:
            self._seen_lot = [batch.with_rows(map_parts(Tensor.clone, batch.rows)) for batch in lot]

    def refuse_step(self, optimizer: Optimizer, closure: object) -> None:
        """Raise if an optimiser, this one or another, is about to move the model outside of `step`.

        Without a gradient, and without a closure that makes one, a step moves by nothing of the data.
        """
        own = {_memory(p) for p in self.run.model.parameters()}
        moved_by_it = [p for group in optimizer.param_groups for p in group["params"] if _memory(p) in own]
        has_gradient = closure is not None or any(p.grad is not None for p in moved_by_it)
        if moved_by_it and has_gradient and not self._stepping:
            raise InvalidQuery(
                "The model of a private loop moves by private.step() alone: optimizer.step() would train "
                "on gradients without noise. Nothing was moved. Take loss.backward() and optimizer.step() "
                "out of the loop, or close it first."
            )

    def _try_changes(self) -> None:
        """Where modules were put into another mode (model.train(), model.eval()) or got hooks, the model is
        tried anew, on made-up rows: what was found before says nothing of it."""
        refuse_step_hooks(self._optimizer)
        if self._trainer is None or conduct(self.run.model) == self._conduct:
            return
        self._trainer.learn_ways(self.run.check(self._rows, model=self.run.model))
        self._conduct = conduct(self.run.model)

    def _refuse_moved(self) -> None:
        """Raise if the weights are not those that the last step left: what moved them may be a gradient of
        the rows that were shown, without noise. It is the caller's code that did it, no row."""
        if not self._marks:
            return
        self.trainer.refuse_changes()  # other parameters than before have a sentence of their own
        if marks(self.run.model) != self._marks:
            raise InvalidQuery(
                "The model's weights were changed between two steps of a private loop, where only "
                "private.step() may move them: a change by hand (p.data.sub_(…), p.copy_(…)) could carry "
                "rows into the model without noise. Nothing was run. Put the weights back, or close the "
                "loop. What needs no rows, such as clamping weights, goes into the optimizer's "
                "register_step_post_hook."
            )

    @property
    def taken(self) -> int:
        """How many steps were taken."""
        return 0 if self._trainer is None else self._trainer.taken

    def lots(self) -> Iterator[Any]:
        """The lots of the run, each to be followed by `step`. An empty lot has no rows
        and is followed by `step` too."""
        while self.taken < self.run.plan.steps:
            if not self._has_stepped:
                raise InvalidQuery(
                    "Expected private.step() for every lot: if some are left out, the others are no Poisson "
                    "samples."
                )
            self._session.ask(Ask.LOT)
            self._has_stepped = False
            if not self._marks:  # whatever was done to the weights before the first lot, no row was shown
                self._marks = marks(self.run.model)
            yield _join(self._seen_lot) if self._seen_lot else self._empty

    def step(self) -> Release[dict[str, Tensor]]:
        """Put the noisy mean of the lot's clipped gradients into .grad, let the
        optimiser move, and release that mean."""
        self._try_changes()
        self._refuse_moved()
        self._stepping = True
        try:
            release: Release[dict[str, Tensor]] = self._session.ask(Ask.STEP)
        finally:
            self._stepping = False
        self._marks = marks(self.run.model)
        self._has_stepped, self._seen_lot = True, []
        return release

    def advance(self) -> Release[dict[str, Tensor]]:
        """Draw a lot that nobody is shown, and take a step on it."""
        if not self._has_stepped:
            raise InvalidQuery("Expected private.step() for the lot that was drawn. Nothing was run.")
        self._shows_lots = False
        try:
            self._session.ask(Ask.LOT)
        finally:
            self._shows_lots = True
        return self.step()

    @property
    def session(self) -> Session[Any]:
        return self._session

    @property
    def trainer(self) -> Trainer:
        assert self._trainer is not None, "a session that was opened has one"
        return self._trainer

    def leave(self) -> None:
        """Give the optimiser back and settle nothing: a run that was noted step by step may go on later."""
        self._guard()

    def close(self) -> None:
        """Settle, and give the optimiser back; a warning is logged if few rows were usable. Closing twice
        does nothing."""
        if self._guard.alive and self._trainer is not None:
            self._trainer.usable()
        self._guard()
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@of_a_run
def make_private(
    run: DPSGD, optimizer: Optimizer, data: Any, *, account: Account, rng: Random | None = None
) -> Private:
    """Your own training loop around the model of `run`, which is trained itself, by
    an optimiser of one's own.

        run = DPSGD(model, criterion, lots=Lots(n=60_000, lot=600, epochs=5),
                    privacy=Privacy(epsilon=3, delta=1e-5))
        private = make_private(run, optimizer, data, account=account)
        for x, y in private.lots():
            private.step()
        private.close()

    The whole run is charged before the first lot is drawn. What can be wrong with the parameters or with the
    container raises before that. A learning rate of the run is set in the optimiser at every step; without
    one the optimiser has its own.
    """
    if not isinstance(run, DPSGD):
        raise InvalidParameter(
            "Expected make_private(run, optimizer, data, account=…) with run=DPSGD(model, criterion, …). "
            "Nothing was charged."
        )
    check_optimizer(run, optimizer)
    _refuse_two_loops(run)
    run.check(data, model=run.model)

    def open_session(training: TrainingSteps) -> Session[Any]:
        session = account.open(training, data, rng=rng, delta=run.delta, description="make_private")
        account.begin(session.entry, 0, run.length)  # your own loop is not resumed: all its steps are begun
        return session

    return Private(run, optimizer, data, open_session)


def check_optimizer(run: DPSGD, optimizer: Optimizer) -> None:
    """Raise before the charge if this optimiser cannot move the run's model."""
    if run.learning.optimizer is not None or run.learning.average is not None:
        raise InvalidParameter(
            "Expected a run without optimizer and average: the loop has an optimizer of its own, and the "
            "weights are yours to average. Nothing was charged."
        )
    if run.how.device is not None and any(p.device != run.device for p in run.model.parameters()):
        raise InvalidParameter(
            "Expected a model that is on its device: the loop trains the model itself. Nothing was charged. "
            "Leave "
            f'out device= and call model.to("{run.how.device}").'
        )
    if not isinstance(optimizer, Optimizer):
        raise InvalidParameter("Expected a torch.optim.Optimizer. Nothing was charged.")
    if _parameter_ids(optimizer) != {id(p) for p in run.model.parameters() if p.requires_grad}:
        raise InvalidParameter(
            "Expected the optimizer to hold the trainable parameters of this model and no others. Nothing "
            "was charged."
        )
    refuse_step_hooks(optimizer)
    trial(*copy_model((run.model, optimizer)))
    refuse_groups_of_rates(run, optimizer)


def refuse_step_hooks(optimizer: Optimizer) -> None:
    """A hook of the optimiser, or of all optimisers, that runs before a step runs inside `step`, after the
    noisy mean is put in place: whatever it adds to a gradient would move the model without noise."""
    others = [hook for hook in _global_optimizer_pre_hooks.values() if not isinstance(hook, _Guard)]
    if optimizer._optimizer_step_pre_hooks or others:
        raise InvalidParameter(
            "The optimizer has a hook that runs before its step (register_step_pre_hook, or "
            "register_optimizer_step_pre_hook for all), where it could add gradients without noise. Nothing "
            "was run. Remove it (the handle's remove()); a hook after the step is allowed."
        )


def _refuse_two_loops(run: DPSGD) -> None:
    """A model in two open loops could be moved by neither: each holds the other's steps for raw ones."""
    guards = [hook for hook in _global_optimizer_pre_hooks.values() if isinstance(hook, _Guard)]
    if any(guard.loop is not None and guard.loop.run.model is run.model for guard in guards):
        raise InvalidParameter(
            "Another private loop of this model is open, in which no other may move it. Nothing was charged. "
            "Close that one first (private.close())."
        )


def marks(model: nn.Module) -> list[int]:
    """Numbers that change with any number of a trained parameter: sums of bits, eight bytes at a time.
    `p.data` changes a parameter without its count of changes, so the numbers are read; this is one pass over
    the weights, where a step makes dozens."""
    flat = [p.detach().reshape(-1) for p in model.parameters() if p.requires_grad]
    if sum(map(len, flat)) <= SMALL:
        flat = [torch.cat(flat)]
    return [int(number) for number in torch.stack([bits for each in flat for bits in _bits(each)]).tolist()]


def _bits(flat: Tensor) -> list[Tensor]:
    each = 8 // flat.element_size()
    even = len(flat) // each * each
    if flat.data_ptr() % 8 or flat.storage_offset() % each:
        flat = flat.clone()
    pairs = [flat[:even].view(torch.int64).sum()] if even else []
    rest = [flat[even:].clone().view(torch.uint8).sum()] if even < len(flat) else []
    return [*pairs, *rest]


def _memory(parameter: Tensor) -> int:
    """Where its numbers lie: another object with the same memory moves the same model."""
    return parameter.data_ptr() or id(parameter)


def _parameter_ids(optimizer: Optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


class _Guard:
    """What every optimiser calls before a step. It does not keep the loop alive."""

    def __init__(self, private: Private) -> None:
        self._alive = weakref.ref(private)

    @property
    def loop(self) -> Private | None:
        return self._alive()

    def __call__(self, optimizer: Optimizer, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        loop = self.loop
        if loop is not None:
            # A step has one argument, the closure; `arguments` begins with the optimiser itself in some
            # versions.
            values = [value for value in (*arguments, *keywords.values()) if value is not optimizer]
            loop.refuse_step(optimizer, next((value for value in values if value is not None), None))


def _join(lot: Lot) -> Any:
    """Rows as they are put together; where they have several shapes, each part is a list of tensors."""
    contents = [batch.rows if batch.weights is None else _own_rows(batch) for batch in lot]
    if len(contents) == 1:
        return contents[0]
    structure, _ = take_apart(contents[0])
    return structure.build([list(parts) for parts in zip(*map(tensors, contents), strict=True)])


def _own_rows(batch: Batch) -> Any:
    """The rows without those that fill up a person's."""
    assert batch.weights is not None
    own = batch.weights > 0
    return map_parts(lambda part: part[own], batch.rows)
