"""Exact per-example clipping: the sum of clipped gradients, at about the cost of the plain gradient.

rounding       norms rounded up, weights rounded down
batch          rows that go through a model together; `objective`: the loss of each
attributes     what a pass puts back
closed_forms/  per-example gradients as products that are never written out
guard          what ends a pass that many rows share: backward passes and hooks of a model's own
known          layers and losses that treat rows one by one
mapped         taps under vmap, where a model's code sees one example
passes         closed forms, vmap(grad), one example after the other
structure      what is refused at sight
trials/        what is refused, or done more slowly, on made-up rows
per_example    `PerExample`
"""

from deniable.learn.clip.batch import Batch
from deniable.learn.clip.objective import BatchLoss
from deniable.learn.clip.per_example import Clipped, PerExample

__all__ = ["Batch", "BatchLoss", "Clipped", "PerExample"]
