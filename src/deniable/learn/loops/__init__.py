"""Private training in the loops that people have.

    lightning.PrivateStrategy           a strategy for a Trainer of `lightning.pytorch`
    pytorch_lightning.PrivateStrategy   the same for `pytorch_lightning`
    transformers.PrivateTrainer         a `transformers.Trainer`

The framework keeps its epochs, callbacks, schedules, loggers and checkpoints. It sees the numbers of steps in
place of batches: lots are drawn, clipped and noised here, and only noisy gradients move the optimiser. Each
of the modules needs its framework, which is imported there and nowhere else.
"""

from deniable.learn.loops.losses import next_token_losses
from deniable.learn.loops.paid_loop import PaidLoop, SavedLoop

__all__ = ["PaidLoop", "SavedLoop", "next_token_losses"]
