"""Black-box audit: learn to tell two neighbours apart, choose what to guess, then
certify it on samples nobody has seen.

As in DP-Sniper (Bichsel et al. 2021), with five differences. The rule is chosen, on samples of its own, to
maximise the bound that will be certified, instead of a fixed tail of .01. It guesses in both directions and
abstains in between. Which neighbour runs is decided by a fair coin, so that one exact binomial bound suffices
(`statistics.from_guesses`); or, for targets that take their random numbers from outside, both run on the same
ones, which leaves far less to chance (`statistics.from_pairs`). Several views and classifiers compete, in
rounds that keep the better pairs and give them more samples; the best few attacks meet once more on fresh
ones, and the one wins whose certified bound can be expected to be largest (`thresholds.expected`). Samples to
learn, to choose and to certify are disjoint, so what was tried before costs no correction.

    claims       what is claimed, as limits at several δ
    attack       a proposal, and what it guessed
    campaign     the samples of one audit, and how its error is shared out
    search       rounds of proposals: which attack to certify
    repetition   runs that are not independent, and answers that a new start does not give
    certificate  what guesses on fresh samples prove
    audits       `audit` and `replay`
"""

from deniable.audit.sniper.audits import audit, replay
from deniable.audit.sniper.certificate import COUPLED

__all__ = ["COUPLED", "audit", "replay"]
