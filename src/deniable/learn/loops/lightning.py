"""A strategy for a Trainer of `lightning.pytorch` that trains privately."""

from __future__ import annotations

from lightning.pytorch.strategies import SingleDeviceStrategy

from deniable.learn.loops.lightning_steps import PrivateSteps
from deniable.learn.loops.paid_loop import EVERY
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.ledger import Account
from deniable.mechanism import Random


class PrivateStrategy(PrivateSteps, SingleDeviceStrategy):  # type: ignore[misc]
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
    """

    strategy_name = "deniable"

    def __init__(
        self, run: DPSGD, *, account: Account, rng: Random | None = None, every: int = EVERY
    ) -> None:
        super().__init__(device="cpu")
        self.start(run, account, rng, every)
