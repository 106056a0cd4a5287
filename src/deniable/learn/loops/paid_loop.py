"""The steps of a run that another loop asks for: paid for before the first, noted before each, taken up after
a kill.

A framework's own checkpoint holds weights, optimiser and its counters. Beside them stands a `SavedLoop`: the
name of the run, which is in the ledger entry that paid for it, its step, and values that were released. A run
that is taken up goes on after the ledger's number, whatever the checkpoint says: no step is paid twice, none
is taken unpaid, and what was begun and not saved is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch.optim import Optimizer

from deniable import checks
from deniable.errors import InvalidParameter, LedgerError
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.outcome import History
from deniable.learn.sgd.training.checkpoint import new_name
from deniable.learn.sgd.training.private import Private, check_optimizer
from deniable.learn.sgd.training.saved import check_state, find_charge
from deniable.learn.sgd.training.steps import TrainingSteps
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Account, Session
from deniable.mechanism import Random
from deniable.randomness import SecureRandom

EVERY = 10
"""Steps that one note in the ledger begins: at most so many are lost by a kill, beside those since the last
checkpoint."""
FOREIGN = (
    "Expected a checkpoint of a private run: this one does not say which charge paid for its steps. Nothing "
    "was charged. To begin from its weights, which then count as public, load them into the model and start "
    "a new run."
)


@dataclass(frozen=True)
class SavedLoop:
    """What a framework's checkpoint holds of a private run: public values and releases."""

    name: str
    loss: str
    step: int
    bounds: dict[str, float]
    history: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, record: Any) -> SavedLoop:
        """The loop that `to_dict` gave. Raises for anything else."""
        try:
            bounds = {str(group): float(bound) for group, bound in record["bounds"].items()}
            history = asdict(History(**record["history"]))
            return cls(str(record["name"]), str(record["loss"]), int(record["step"]), bounds, history)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise InvalidParameter(FOREIGN) from None


class PaidLoop:
    """A run whose steps a framework's loop takes, one at a time."""

    def __init__(
        self, run: DPSGD, account: Account, *, rng: Random | None = None, every: int = EVERY
    ) -> None:
        if not isinstance(run, DPSGD):
            raise InvalidParameter(
                f"Expected run=DPSGD(model, criterion, …), got {type(run).__name__}. Nothing was charged."
            )
        self.run, self._account, self._rng = run, account, rng
        self._interval = checks.whole("every", every, at_least=1)
        self._name, self._noted_steps = new_name(run.terms), 0
        self._record: SavedLoop | None = None
        self._private: Private | None = None

    def refuse_again(self) -> None:
        if self._private is not None:
            raise InvalidParameter(
                "A run is paid for once and trained once; this one has begun. Nothing was charged. Make "
                "another strategy or trainer for a new run, or to take up a checkpoint."
            )

    def refuse_length(self, count: int | None, setting: str) -> None:
        """Raise unless the loop would take as many steps as are paid for."""
        plan = self.run.plan
        if count != plan.steps:
            steps = "any number of" if count is None else f"{count:,}"
            way = f"Set {setting}" + ("." if count is None else f", or Lots(steps={count}, …).")
            raise InvalidParameter(
                f"The trainer would take {steps} steps and the run has {plan.steps:,}, {plan.pass_length:,} "
                f"in an epoch: they must agree, for all of them are paid for. Nothing was charged. {way}"
            )

    def take_up(self, record: Any) -> None:
        """Go on with the run of a checkpoint when the loop begins. Nothing is charged then."""
        self.refuse_again()
        self._record = SavedLoop.of(record)
        self._name = self._record.name

    def begin(self, optimizer: Optimizer, data: Any, words: str) -> None:
        """Check, then charge or find the charge. Raises before the charge what can be wrong."""
        self.refuse_again()
        check_optimizer(self.run, optimizer)
        self.run.check(data, model=self.run.model)
        if self._record is None:
            self._private = Private(self.run, optimizer, data, lambda steps: self._open(steps, data, words))
        else:
            record = self._record
            self._private = Private(
                self.run, optimizer, data, lambda steps: self._resume(steps, data, record), self._restore
            )

    def _open(self, training: TrainingSteps, data: Any, words: str) -> Session[Any]:
        text = f"{words}, run {self._name}"
        return self._account.open(training, data, rng=self._rng, delta=self.run.delta, description=text)

    def _resume(self, training: TrainingSteps, data: Any, record: SavedLoop) -> Session[Any]:
        charge, over = find_charge(self._account, self.run, record)
        if over:
            raise LedgerError(
                "This run was settled: what it did not use was given back. Nothing was run. Begin a new run."
            )
        self._noted_steps = self._account.begun(charge.entry_id)
        check_state({"step": record.step}, self._noted_steps, self.run.length)
        rng = SecureRandom() if self._rng is None else self._rng
        if charge.private and not rng.private:
            raise InvalidParameter(
                "Expected a secure generator, as the run that was broken off had: what a seeded one draws "
                "can be drawn again by others. Nothing was run."
            )
        steps = self._account.attempt(charge, lambda: training.open(data, rng=rng))
        return Session(self._account, charge, steps)

    def _restore(self, trainer: Trainer) -> None:
        assert self._record is not None
        trainer.taken = self._noted_steps
        trainer.take_bounds(self._record.bounds)
        trainer.history = History(**self._record.history)

    @property
    def begun(self) -> bool:
        return self._private is not None

    @property
    def taken(self) -> int:
        return 0 if self._private is None else self._private.taken

    @property
    def over(self) -> bool:
        """Whether all steps that were paid for are spent."""
        return self.taken >= self.run.length

    def step(self) -> Mapping[str, float]:
        """Take the next step, if one is left. What may be logged of it: all of it was released."""
        private = self._require_begun()
        if self.over:
            return {}
        if self.taken >= self._noted_steps:
            stop = min(self.run.length, self.taken + self._interval)
            self._account.begin(private.session.entry, self.taken, stop)
            self._noted_steps = stop
        private.advance()
        history = private.trainer.history
        return {"gradient_norm": history.gradient_norm[-1], "usable_rows": history.usable[-1]}

    def _require_begun(self) -> Private:
        if self._private is None:
            raise InvalidParameter("This run has not begun: nothing was charged, and nothing was run.")
        return self._private

    def saved(self) -> SavedLoop:
        """The loop for a checkpoint."""
        trainer = self._require_begun().trainer
        return SavedLoop(
            self._name, self.run.loss.to_json(), trainer.taken, dict(trainer.bounds), asdict(trainer.history)
        )

    def close(self) -> None:
        """Settle; the run cannot be taken up any more. Where another loop has taken it up from a checkpoint,
        nothing is given back: its steps are not known here."""
        private = self._private
        if private is None:
            return
        if self._noted_steps < self.run.length and not self._claim(private.session.entry):
            private.leave()
        else:
            private.close()

    def _claim(self, entry: str) -> bool:
        """Note all steps that are left, so that nobody else begins one of them; False if somebody has."""
        try:
            self._account.begin(entry, self._noted_steps, self.run.length)
        except LedgerError:
            return False
        self._noted_steps = self.run.length
        return True

    def leave(self) -> None:
        """Give the optimiser back. Nothing is settled: a checkpoint can be taken up."""
        if self._private is not None:
            self._private.leave()
