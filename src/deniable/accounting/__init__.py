"""Turn any loss into an ε at a δ, certified from both sides. Pure functions over the loss tree.

>>> from deniable.loss import GaussianNoise
>>> step = GaussianNoise(4).sampled(0.01)
>>> bound = epsilon(step * 10_000, delta=1e-5)
>>> 0.946 < bound.lower <= 0.9470 and 0.9468 <= bound.upper < 0.948
True

`epsilon` and `delta` take the best valid method by themselves; `compare` shows all of them side by side, and
each is also callable alone (`pure`, `strong`, `zcdp`, `renyi`, `moments`, `amplify`, `shuffle`, `numerical`).

Rooms: `methods/`, `renyi/` and `numerical/` hold the theorems, `filters/` what an account may still spend,
`runs/` and `matrices/` the losses of well-known runs, `meaning/` what a guarantee means, `radius/`
certificates of smoothing.
"""

from deniable.accounting.calibration import calibrate, calibrate_noise, calibrate_rate, calibrate_steps
from deniable.accounting.certificate import certify, verify
from deniable.accounting.choose import METHODS, compare, delta, epsilon
from deniable.accounting.events import from_event, from_opendp, to_event
from deniable.accounting.meaning.fdp import Tradeoff, tradeoff
from deniable.accounting.methods import amplify, gaussian, moments, pure, shuffle, strong, zcdp
from deniable.accounting.runs.dpsgd import LotSampling, dpsgd

__all__ = [
    "METHODS",
    "LotSampling",
    "Tradeoff",
    "amplify",
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
    "gaussian",
    "moments",
    "pure",
    "shuffle",
    "strong",
    "to_event",
    "tradeoff",
    "verify",
    "zcdp",
]
