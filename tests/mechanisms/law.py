"""Whether draws follow a law that was computed in another way."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from scipy import stats

P = 1e-9


def follows(draws: Iterable[Hashable], law: Mapping[Hashable, float]) -> bool:
    """Pearson's chi-square at p = 1e-9; rare outcomes are put together, and what the law
    excludes must not come."""
    counted = Counter(draws)
    n = sum(counted.values())
    assert abs(sum(law.values()) - 1) < 1e-9
    if set(counted) - {outcome for outcome, p in law.items() if p > 0}:
        return False
    common = [outcome for outcome, p in law.items() if p * n >= 8]
    observed, expected = [counted[o] for o in common], [law[o] * n for o in common]
    rest = n - sum(expected)
    if rest > 1e-6 * n:
        observed, expected = [*observed, n - sum(observed)], [*expected, rest]
    return float(stats.chisquare(observed, expected, sum_check=False).pvalue) >= P


def worst_ratio(law: Mapping[Hashable, float], other: Mapping[Hashable, float]) -> float:
    """The largest likelihood ratio of two laws on the same outcomes, either way round."""
    return max(max(law[o] / other[o], other[o] / law[o]) for o in law)
