"""What a guarantee means: beliefs of an observer, the power of the best test, the f-DP curve."""

from deniable.accounting.meaning.beliefs import (
    Posterior,
    advantage,
    attacker_power,
    group_delta,
    group_odds,
    posterior,
)

__all__ = ["Posterior", "advantage", "attacker_power", "group_delta", "group_odds", "posterior"]
