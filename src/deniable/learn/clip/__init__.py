"""Exact per-example clipping: the sum of clipped gradients, at about the cost of the plain gradient.

rounding     norms rounded up, weights rounded down
terms        what per-example gradients are made of; their norms and weighted sums
tape, taps   layers that write terms during backward
cover        calls of torch functions that taps cover; `bare` parameters, `held` gradients, `sequences` with
             attention, `owners` of positions, `shared` tensors
chain        models that are chains of layers, run by hand
batch        rows that go through a model together; `objective`: the loss of each
passes       closed forms, vmap(grad), one example after the other
structure    what is refused at sight; `generated`, `probe`, `trial`: what is refused, or done more slowly, on
             made-up rows
per_example  `PerExample`
"""

from deniable.learn.clip.batch import Batch
from deniable.learn.clip.objective import BatchLoss
from deniable.learn.clip.per_example import Clipped, PerExample

__all__ = ["Batch", "BatchLoss", "Clipped", "PerExample"]
