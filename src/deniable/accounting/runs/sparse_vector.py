"""The sparse vector technique: which of many queries pass a threshold, for the price of those that do.

>>> above_threshold(threshold_scale=2, query_scale=4, sensitivity=1)
Pure(epsilon=1)
"""

from __future__ import annotations

from deniable import checks
from deniable.accounting.refusals import guard
from deniable.loss import Number, Pure, exact


@guard
def above_threshold(
    threshold_scale: Number,
    query_scale: Number,
    sensitivity: Number = 1,
    *,
    answers: int = 1,
    monotone: bool = False,
) -> Pure:
    """The loss of AboveThreshold with Laplace noise on the threshold and afresh on every
    query, up to `answers` positives.

    Guarantee: ε = Δ/b_T + 2cΔ/b_Q for c positive answers and any number of negative
               ones, cΔ/b_Q in place of 2cΔ/b_Q if all queries move the same way between
               neighbours (`monotone`, as counts do under add/remove).
    Assumes:   the noisy threshold is drawn once; no noisy query value is shown. Integer
               Laplace noise has the same ε where Δ is whole.
    Reference: Lyu, Su, Li 2017; the variants they list that skip query noise or the bound c are not private.
    """
    checks.number("threshold_scale", threshold_scale, above=0)
    checks.number("query_scale", query_scale, above=0)
    checks.number("sensitivity", sensitivity, above=0)
    checks.whole("answers", answers, at_least=1)
    movement = (1 if monotone else 2) * answers * exact(sensitivity)
    return Pure(exact(sensitivity) / exact(threshold_scale) + movement / exact(query_scale))
