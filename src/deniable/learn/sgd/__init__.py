"""DP-SGD: sampling, clipping, noise, accounting and stopping in one call.

run = DPSGD(model, criterion, lots=Lots(n=60_000, lot=600, epochs=10),
privacy=Privacy(epsilon=3, delta=1e-5, clip=1.0),
            learning=Learning(learning_rate=0.5))
release = account.run(run, (x, y), delta=1e-5)
release.value.model

dpsgd        the run as one mechanism, from its `settings`, its rule of `clipping` and its `schedules`
cost         what a run costs
data/        private rows
sampling/    which rows a step sees
checking     what is found before the charge
noise        in double precision or on a grid, correlated over steps or not
training/    steps, loops, processes, saving; `outcome`: what a run releases
tables       classifiers for tables
"""

from deniable.learn.clip import BatchLoss
from deniable.learn.sgd.clipping import Adaptive, Flat, Group, PerLayer
from deniable.learn.sgd.data.arrivals import Arrivals
from deniable.learn.sgd.data.forms import Padded, Words
from deniable.learn.sgd.data.users import Users
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.outcome import History, Trained, Usable
from deniable.learn.sgd.sampling.fixed_lots import FixedLots
from deniable.learn.sgd.sampling.lots import LotPlan, Lots
from deniable.learn.sgd.schedules import constant, cosine, linear
from deniable.learn.sgd.settings import Execution, Learning, Privacy
from deniable.learn.sgd.training.distributed import Distributed
from deniable.learn.sgd.training.private import Private, make_private
from deniable.learn.sgd.training.saved import resume, train

__all__ = [
    "DPSGD",
    "Adaptive",
    "Arrivals",
    "BatchLoss",
    "Distributed",
    "Execution",
    "FixedLots",
    "Flat",
    "Group",
    "History",
    "Learning",
    "LotPlan",
    "Lots",
    "Padded",
    "PerLayer",
    "Privacy",
    "Private",
    "Trained",
    "Usable",
    "Users",
    "Words",
    "constant",
    "cosine",
    "linear",
    "make_private",
    "resume",
    "train",
]
