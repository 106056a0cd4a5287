"""DP-SGD: sampling, clipping, noise, accounting and stopping in one call.

run = DPSGD(model, criterion, n=60_000, lot=600, epochs=10, clip=1.0, learning_rate=0.5, epsilon=3, delta=1e-5)
release = account.run(run, (x, y), delta=1e-5)
release.value.model
"""

from deniable.learn.sgd.clipping import Adaptive, Flat, Group, PerLayer
from deniable.learn.sgd.distributed import Distributed
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.lots import Plan
from deniable.learn.sgd.private import Private, make_private
from deniable.learn.sgd.saved import resume, train
from deniable.learn.sgd.schedules import constant, cosine, linear
from deniable.learn.sgd.trainer import History, Trained

__all__ = [
    "DPSGD",
    "Adaptive",
    "Distributed",
    "Flat",
    "Group",
    "History",
    "PerLayer",
    "Plan",
    "Private",
    "Trained",
    "constant",
    "cosine",
    "linear",
    "make_private",
    "resume",
    "train",
]
