"""What makes a strategy of Lightning private, whichever of its two packages it is of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from torch import Tensor
from torch.optim import Optimizer

from deniable.errors import InvalidParameter
from deniable.learn.loops.paid_loop import EVERY, FOREIGN, PaidLoop
from deniable.learn.loops.private_rows import shares_rows
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.ledger import Account
from deniable.mechanism import Random

RECORD = "deniable"
"""The place of a run's record in a checkpoint."""
PRECISIONS = ("32-true", "64-true")


class StepNumbers:
    """One epoch in place of a loader's batches: the framework and its callbacks see no row."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.steps))


class PrivateSteps:
    """Train the run's model, a `LightningModule`, privately in Lightning's own loop, on the CPU.

        run = DPSGD(module, nn.CrossEntropyLoss(), lots=Lots(n=60_000, lot=600, epochs=5), privacy=Privacy(…))
        trainer = Trainer(max_epochs=5, strategy=PrivateStrategy(run, account=account))
        trainer.fit(module, loader)

    The whole run is charged when training starts; before that everything that can be wrong is refused. The
    loader says where the rows are, and the run how lots are drawn of them. The criterion of the run is what
    is minimised; `training_step` is not called, and the gradient's norm and the number of usable rows, both
    as released, are logged in its place. Optimiser and schedules are those of `configure_optimizers`. A
    checkpoint of Lightning (`ckpt_path=`) takes the run up under the charge that paid for it; `every` steps
    are noted in the ledger at once.

    The class of Lightning's own comes after this one. The module's `training_step` and `backward` are never
    called: its loss on private rows would be a release.
    """

    strategy_name = "deniable"
    lightning_module: Any
    optimizers: list[Optimizer]

    def __init__(
        self, run: DPSGD, *, account: Account, rng: Random | None = None, every: int = EVERY
    ) -> None:
        super().__init__(device="cpu")  # type: ignore[call-arg]
        self.loop = PaidLoop(run, account, rng=rng, every=every)
        self._loader: Any = None
        self._other_loaders: list[Any] = []
        self._is_finished = False

    # ----------------------------------------------------------------------------------- what Lightning calls

    def setup(self, trainer: Any) -> None:
        """The private rows are known before any other row is shown: Lightning's sanity check runs
        `validation_step` before it asks for the training loader."""
        super().setup(trainer)  # type: ignore[misc]
        if str(trainer.state.fn.value) == "fit":
            trainer.fit_loop.setup_data()

    def process_dataloader(self, dataloader: Any) -> Any:
        """Rows of training become numbers of steps; other loaders stay as they are, if they have other
        rows."""
        if str(self.lightning_module.trainer.state.stage.value) != "train":
            self._other_loaders.append(dataloader)
            self._refuse_private_rows()
            return dataloader
        if self._loader is not None and self._loader is not dataloader:
            raise InvalidParameter(
                "Expected one loader of private rows for the whole run: not several, and none that is made "
                "anew. Nothing was charged."
            )
        self._loader = dataloader
        self._refuse_private_rows()
        return StepNumbers(self.loop.run.plan.pass_length)

    def _refuse_private_rows(self) -> None:
        """Rows of training are no rows of validation: what is logged of them would be a release."""
        if self._loader is not None and any(
            shares_rows(_rows(other), _rows(self._loader)) for other in self._other_loaders
        ):
            raise InvalidParameter(
                "Expected other rows for validation than the private ones, and no part of them: what is "
                "logged of them would be a release that nobody paid for. Give rows that are public."
            )

    def on_train_start(self) -> None:
        """Everything is known and nothing was read: refuse, or charge."""
        refuse_settings(self.loop, self.lightning_module)
        _load_validation(self.lightning_module.trainer)
        with without_logs(self.lightning_module):
            self.loop.begin(self.optimizers[0], self._loader, "Lightning")

    def training_step(self, *step: Any) -> None:
        with without_logs(self.lightning_module):
            answers = self.loop.step()
        if answers:
            self.lightning_module.log_dict(dict(answers), batch_size=1)
        if self.loop.over:
            self.lightning_module.trainer.should_stop = True

    def optimizer_step(
        self, optimizer: Optimizer, closure: Callable[[], Any], model: Any = None, **options: Any
    ) -> Any:
        """The closure is `training_step` above, which moves the optimiser itself."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*returned `None`.*")
            return closure()

    def backward(self, closure_loss: Tensor, *values: Any, **options: Any) -> Tensor:
        raise InvalidParameter(
            "A private run has no backward pass of its own: gradients of private rows are clipped and noised "
            "in one. Nothing was moved."
        )

    def on_train_end(self) -> None:
        self._is_finished = True

    def on_exception(self, exception: BaseException) -> None:
        self._is_finished = False

    def teardown(self) -> None:
        """A loop that came to its end is settled; one that was broken off may be taken up from a
        checkpoint."""
        if self._is_finished:
            self.loop.close()
        else:
            self.loop.leave()
        super().teardown()  # type: ignore[misc]

    # -------------------------------------------------------------------------------------------- checkpoints

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: Any, *values: Any, **options: Any
    ) -> None:
        """Save with the record of the run, without which nobody can go on."""
        record = {RECORD: self.loop.saved().to_dict()} if self.loop.begun else {}
        super().save_checkpoint({**checkpoint, **record}, filepath, *values, **options)  # type: ignore[misc]

    def load_checkpoint(self, checkpoint_path: Any, *values: Any, **options: Any) -> dict[str, Any]:
        """In a fit the run is taken up; elsewhere (validate, test, predict) weights are weights."""
        load: Any = super().load_checkpoint  # type: ignore[misc]
        checkpoint: dict[str, Any] = load(checkpoint_path, *values, **options)
        if str(self.lightning_module.trainer.state.fn.value) == "fit":
            if not isinstance(checkpoint.get(RECORD), Mapping):
                raise InvalidParameter(FOREIGN)
            self.loop.take_up(checkpoint[RECORD])
        return checkpoint


# ------------------------------------------------------------------------------------------ before the charge


def refuse_settings(loop: PaidLoop, module: Any) -> None:
    """Raise `InvalidParameter` for what a private run cannot follow."""
    trainer = module.trainer
    if module is not loop.run.model:
        raise InvalidParameter("Expected trainer.fit(model) with the model of the run. Nothing was charged.")
    _refuse_loop(trainer, module)
    _refuse_numbers(trainer)
    _refuse_length(loop, trainer)


def _refuse_loop(trainer: Any, module: Any) -> None:
    if not module.automatic_optimization or len(trainer.optimizers) != 1:
        raise InvalidParameter(
            "Expected automatic optimization with one optimizer: a loop of its own would need its own steps. "
            "Nothing was charged. Use make_private for it."
        )
    if trainer.num_devices != 1 or trainer.num_nodes != 1:
        raise InvalidParameter(
            "Expected one device. Nothing was charged. Use Distributed(run) for several processes."
        )
    if trainer.reload_dataloaders_every_n_epochs:
        raise InvalidParameter(
            "Expected reload_dataloaders_every_n_epochs=0: a run has one set of rows. Nothing was charged."
        )


def _refuse_numbers(trainer: Any) -> None:
    if trainer.accumulate_grad_batches != 1:
        raise InvalidParameter(
            f"Expected accumulate_grad_batches=1, got {trainer.accumulate_grad_batches}: a lot of any size "
            "is one step. Nothing was charged. Use Lots(lot=…) for its size and Execution(microbatch=…) for "
            "memory."
        )
    if trainer.gradient_clip_val:
        raise InvalidParameter(
            "Expected no gradient_clip_val: it would not act. Nothing was charged. Each row's gradient is "
            "clipped by Privacy(clip=…)."
        )
    if trainer.precision not in PRECISIONS:
        raise InvalidParameter(
            f"Expected precision 32-true or 64-true, got {trainer.precision}: sums in fewer bits would break "
            "the clip's bound. Nothing was charged."
        )


def _refuse_length(loop: PaidLoop, trainer: Any) -> None:
    if trainer.limit_train_batches != 1.0 or trainer.overfit_batches:
        raise InvalidParameter(
            "Expected no limit_train_batches, overfit_batches or fast_dev_run: steps would be paid for and "
            "not taken. Nothing was charged."
        )
    by_epochs = None if trainer.max_epochs in (None, -1) else trainer.max_epochs * loop.run.plan.pass_length
    by_steps = None if trainer.max_steps == -1 else trainer.max_steps
    counts = [count for count in (by_epochs, by_steps) if count is not None]
    loop.refuse_length(min(counts) if counts else None, "max_epochs or max_steps of the Trainer")


def _rows(loader: Any) -> Any:
    return getattr(loader, "dataset", loader)


def _load_validation(trainer: Any) -> None:
    """Lightning makes the loaders when they are first needed, which may be epochs after the charge."""
    if trainer.enable_validation and trainer.val_dataloaders is None:
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.setup_data()
        trainer.training = True


# --------------------------------------------------------------------------------------------- during a step


class _NoLogger:
    """In the place of the trainer's loggers: whatever is asked of it is refused."""

    def __getattr__(self, name: str) -> Any:
        _refuse_log()


@contextmanager
def without_logs(module: Any) -> Iterator[None]:
    """Inside, the model and the criterion see private rows. What they log, by the module or by its loggers,
    would be shown without noise; on made-up rows, before the charge, it is refused, later the row adds
    nothing."""
    trainer = module.trainer
    loggers = trainer.loggers
    trainer.loggers = [_NoLogger()]
    vars(module).update(dict.fromkeys(("log", "print"), _refuse_log))
    try:
        yield
    finally:
        trainer.loggers = loggers
        for name in ("log", "print"):
            vars(module).pop(name, None)


def _refuse_log(*values: Any, **options: Any) -> NoReturn:
    raise InvalidParameter(
        "The model or the criterion calls self.log, self.print or a logger: what it shows of private rows "
        "would be a release that nobody paid for. Nothing was charged. Log in validation_step, on public "
        "rows."
    )
