"""An answer that cannot change: the privacy of one input."""

import numpy as np

from deniable import numbers
from deniable.accounting.radius import lecture
from deniable.accounting.radius.robustness import verify_radius
from deniable.accounting.radius.votes import bounds
from deniable.cli import show
from deniable.smooth import Laplace, Sampling, Smoothed

TITLE = "Noise that hides which of two near inputs was seen also fixes the answer: a certified radius"
CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])


def nearest(points: np.ndarray) -> np.ndarray:
    """The nearest of three centres."""
    return np.asarray(((points[:, None] - CENTRES) ** 2).sum(axis=2).argmin(axis=1))


def play() -> None:
    classifier, x = Smoothed(nearest, Laplace(0.5), classes=3), np.array([0.2, 0.3])
    answer = classifier.certify(x)
    counts, label = answer.votes.counts, answer.votes.label
    p_a, p_b = bounds([counts], [label], answer.votes.looks.share)
    basic_radius = 0.5 * lecture(float(p_a[0]), float(p_b[0]))
    show.say(
        f"Of {sum(counts):,} noisy copies of the point (0.2, 0.3), {counts[label]:,} lie nearest to centre "
        f"{label}. That is the likeliest answer for every point within {numbers.down(answer.radius)} in ℓ1, "
        "at 99.9 % confidence. (By the definition of ε alone, e^(2ε) times likelier: "
        f"{numbers.down(basic_radius)}. The nearest border is 1.2 away.)"
    )
    quick = classifier.certify(x, Sampling(radius=0.5))
    radius = verify_radius(classifier.certificate(x, answer))
    show.say(
        f"Whether 0.5 holds was decided with {quick.samples:,} copies. The certificate, checked from its "
        f"counts, holds within {numbers.down(radius)}."
    )
