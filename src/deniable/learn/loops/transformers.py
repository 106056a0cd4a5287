"""A `transformers.Trainer` that trains privately."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput, get_last_checkpoint

from deniable.errors import InvalidParameter
from deniable.learn.loops.paid_loop import EVERY, FOREIGN, PaidLoop
from deniable.learn.loops.private_rows import shares_rows
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.ledger import Account
from deniable.mechanism import Random

RECORD = "deniable.json"
"""The file of a run's record in a checkpoint's folder."""
PRIVATE_LOGS = ("loss", "train_loss", "grad_norm")
"""What a Trainer logs of training rows; here it has none of it, and a number would mislead."""
UNUSED = {
    "gradient_accumulation_steps": (1, "a lot of any size is one step: Lots(lot=…), Execution(microbatch=…)"),
    "fp16": (False, "sums in fewer bits would break the clip's bound"),
    "bf16": (False, "sums in fewer bits would break the clip's bound"),
    "max_grad_norm": (1.0, "it would not act: each row's gradient is clipped by Privacy(clip=…)"),
    "label_smoothing_factor": (0.0, "it would not act: put it into the criterion of the run"),
    "neftune_noise_alpha": (None, "it would not act as it says"),
    "torch_compile": (False, "gradients of rows are not those of a compiled model"),
    "auto_find_batch_size": (False, "a lot is not cut: Execution(microbatch=…) bounds the memory"),
    "gradient_checkpointing": (False, "gradients of rows need what it throws away"),
    "skip_memory_metrics": (True, "how much memory a lot took tells how many rows were drawn"),
    "include_num_input_tokens_seen": ("no", "how many tokens were drawn is private"),
}
"""Settings of a Trainer that a private run cannot follow: their one value, and why."""


class PrivateTrainer(Trainer):  # type: ignore[misc]
    """Train the run's model privately in the loop of `transformers.Trainer`, on the CPU.

        run = DPSGD(model, BatchLoss(next_token_losses), lots=Lots(n=7_000, lot=140, epochs=3),
                    privacy=Privacy(epsilon=8, delta=1e-5), example=Padded(row, fill={…}))
        trainer = PrivateTrainer(run, account=account, args=TrainingArguments(…, num_train_epochs=3),
                                 train_dataset=rows)
        trainer.train()

    The whole run is charged when the first step begins; before that everything that can be wrong is refused.
    Lots are drawn by the run: `per_device_train_batch_size` is not read, and a `data_collator` sees each
    private row by itself. The criterion of the run is what is minimised; `compute_loss` is not called on
    private rows, no training loss is logged, and the gradient's norm and the number of usable rows are, as
    they were released. Optimiser and schedule are the Trainer's. `train(resume_from_checkpoint=…)` takes the
    run up under the charge that paid for it.
    """

    def __init__(
        self,
        run: DPSGD,
        *,
        account: Account,
        args: TrainingArguments,
        train_dataset: Any,
        eval_dataset: Any = None,
        data_collator: Callable[[list[Any]], Any] | None = None,
        processing_class: Any = None,
        compute_metrics: Callable[[Any], dict[str, float]] | None = None,
        callbacks: list[Any] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        preprocess_logits_for_metrics: Callable[[Tensor, Tensor], Tensor] | None = None,
        rng: Random | None = None,
        every: int = EVERY,
    ) -> None:
        self.loop = PaidLoop(run, account, rng=rng, every=every)
        self._release: dict[str, float] = {}
        self._private_rows = train_dataset
        loader = None if data_collator is None else DataLoader(train_dataset, collate_fn=data_collator)
        self._rows = train_dataset if loader is None else loader
        super().__init__(
            model=run.model,
            args=args,
            data_collator=data_collator,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            compute_metrics=compute_metrics,
            callbacks=callbacks,
            optimizers=optimizers,
            preprocess_logits_for_metrics=preprocess_logits_for_metrics,
        )

    # -------------------------------------------------------------------------------------------- training

    def train(self, resume_from_checkpoint: str | bool | None = None) -> TrainOutput:
        """Train, and settle. Broken off, a run is taken up from a checkpoint."""
        refuse_arguments(self.args)
        refuse_precision(self.accelerator.mixed_precision)
        self.loop.refuse_again()
        epochs = math.ceil(self.args.num_train_epochs * self.loop.run.plan.pass_length)
        count = self.args.max_steps if self.args.max_steps >= 0 else epochs
        self.loop.refuse_length(count, "num_train_epochs or max_steps of the arguments")
        for rows in _by_name(self.eval_dataset).values():
            self._refuse_private(rows)
        folder = resume_from_checkpoint or None
        if folder is True:
            folder = get_last_checkpoint(self.args.output_dir)
        if folder is not None:
            self.loop.take_up(_record(Path(str(folder))))
        try:
            output = super().train(resume_from_checkpoint=folder)
        except BaseException:  # raised again: the optimiser is given back, nothing is settled
            self.loop.leave()
            raise
        self.loop.close()
        return TrainOutput(output.global_step, math.nan, _without_losses(output.metrics))

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Numbers of steps: the loop and its callbacks see no row."""
        numbers: Any = [{"step": k} for k in range(self.loop.run.plan.pass_length)]
        return DataLoader(numbers, batch_size=1)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """One private step in place of a loss and its backward pass. The optimiser, which has moved, then
        finds no gradient."""
        if not self.loop.begun:
            optimizer: Any = self.optimizer
            self.loop.begin(getattr(optimizer, "optimizer", optimizer), self._rows, "Trainer")
        self._release = dict(self.loop.step())
        for parameter in self.loop.run.model.parameters():
            parameter.grad = None
        if self.loop.over:
            self.control.should_training_stop = True
        return torch.zeros((), device=self.args.device)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """What was released in place of what was not."""
        training = "loss" in logs
        super().log({**_without_losses(logs), **(self._release if training else {})}, start_time)

    def floating_point_ops(self, inputs: Any) -> int:
        """How many there were depends on the lot."""
        return 0

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Save with the record of the run, without which nobody can go on."""
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        text = json.dumps(self.loop.saved().to_dict())
        (folder / RECORD).write_text(text, encoding="utf-8")

    # ---------------------------------------------------------------------------------------- looking at rows

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """A loader of these rows, or of the Trainer's own, of which one set may be told by its name."""
        for name, rows in _by_name(self.eval_dataset).items():
            if eval_dataset is None or (isinstance(eval_dataset, str) and eval_dataset == name):
                self._refuse_private(rows)
        self._refuse_private(eval_dataset)
        loader: DataLoader[Any] = super().get_eval_dataloader(eval_dataset)
        return loader

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader[Any]:
        self._refuse_private(test_dataset)
        loader: DataLoader[Any] = super().get_test_dataloader(test_dataset)
        return loader

    def _refuse_private(self, rows: Any) -> None:
        if rows is not None and shares_rows(rows, self._private_rows):
            raise InvalidParameter(
                "Expected other rows than the private ones, and no part of them: what is said of them would "
                "be a release that nobody paid for. Nothing was run. Evaluate on rows that are public."
            )


def refuse_arguments(args: TrainingArguments) -> None:
    """Raise `InvalidParameter` for what a private run cannot follow."""
    for name, (value, why) in UNUSED.items():
        argument = getattr(args, name, value)
        if argument != value and not (name == "max_grad_norm" and not argument):
            raise InvalidParameter(f"Expected {name}={value}, got {argument}: {why}. Nothing was charged.")
    if args.device.type != "cpu" or args.world_size != 1:
        raise InvalidParameter(
            f"Expected one process on the CPU (use_cpu=True), got {args.world_size} on {args.device}. "
            "Nothing was charged. Use Distributed(run) for several processes."
        )


def refuse_precision(precision: str) -> None:
    """Accelerate reads it from the environment too, whatever the arguments say."""
    if precision != "no":
        raise InvalidParameter(
            f"Expected no mixed precision, got {precision} (ACCELERATE_MIXED_PRECISION): sums in fewer bits "
            "would break the clip's bound. Nothing was charged."
        )


def _record(folder: Path) -> Any:
    try:
        return json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InvalidParameter(FOREIGN) from None


def _without_losses(logs: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in logs.items() if name not in PRIVATE_LOGS}


def _by_name(rows: Any) -> dict[str, Any]:
    """Sets of rows by their names; a single one has none."""
    return rows if isinstance(rows, dict) else {"": rows}
