"""Generic amplification by sampling: any (ε₀, δ₀) of the mechanism, amplified, then
composed (Balle, Barthe, Gaboardi 2018).

>>> from deniable.loss import Pure
>>> round(epsilon(Pure(1).sampled(0.01), 0), 5)  # ln(1 + q(e^ε − 1))
0.01704

It knows nothing of the mechanism but that pair, so it serves every node that has one;
for noise of known shape the Rényi and numerical methods are far tighter. Which schemes
and relations are covered is listed in `sampling`.
"""

from __future__ import annotations

from deniable.accounting.methods.sampling import amplify_pair, has_sample
from deniable.accounting.methods.strong import optimal
from deniable.accounting.refusals import guard
from deniable.errors import Unaccountable
from deniable.loss import Loss, Number

__all__ = ["amplify_pair", "epsilon"]


@guard
def epsilon(loss: Loss, delta: Number) -> float:
    """ε of a loss with samples in it: each step's best pair amplified, the steps composed optimally."""
    if not has_sample(loss):
        raise Unaccountable(f"There is no sample in this loss that could amplify anything: {loss}.")
    return optimal(loss, delta)
