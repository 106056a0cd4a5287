"""Turn any loss into an ε at a δ, certified from both sides. Pure functions over the loss tree.

>>> from deniable.loss import GaussianNoise
>>> step = GaussianNoise(4).sampled(0.01)
>>> bound = epsilon(step * 10_000, delta=1e-5)
>>> 0.946 < bound.lower <= 0.9470 and 0.9468 <= bound.upper < 0.948
True

`epsilon` and `delta` take the best valid method by themselves; `compare` shows all of them side by side, and
each is also callable alone (`pure`, `strong`, `zcdp`, `renyi`, `moments`, `amplify`, `shuffle`, `numerical`).
"""

from deniable.accounting.calibration import calibrate, calibrate_noise, calibrate_rate, calibrate_steps
from deniable.accounting.certificate import certify, verify
from deniable.accounting.choose import METHODS, compare, delta, epsilon
from deniable.accounting.dpsgd import LotSampling, dpsgd
from deniable.accounting.events import from_event, from_opendp, to_event
from deniable.accounting.fdp import Tradeoff, tradeoff

__all__ = [
    "METHODS",
    "LotSampling",
    "Tradeoff",
    "calibrate",
    "calibrate_noise",
    "calibrate_rate",
    "calibrate_steps",
    "certify",
    "compare",
    "delta",
    "dpsgd",
    "epsilon",
    "from_event",
    "from_opendp",
    "to_event",
    "tradeoff",
    "verify",
]
