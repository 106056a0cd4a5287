"""What a training run costs."""

from deniable import numbers
from deniable.accounting import METHODS, calibrate_noise, compare, epsilon
from deniable.cli import show
from deniable.guarantee import Bound
from deniable.loss import GaussianNoise

TITLE = "What training costs: 100 epochs of DP-SGD, batches of 1 %, noise multiplier 4, δ = 1e-5"


def play() -> None:
    run = GaussianNoise(4).sampled(0.01) * 10_000
    bounds = {name: bound.upper for name, bound in compare(run, 1e-5).items() if isinstance(bound, Bound)}
    rows = [(name, numbers.up(bounds[name])) for name in METHODS if name in bounds]
    show.table(
        ("method", "ε ≤"), rows, right=(1,), best=min(range(len(rows)), key=lambda i: bounds[rows[i][0]])
    )
    tight = epsilon(run, 1e-5)
    noise = numbers.ceiling(calibrate_noise(3, 1e-5, rate=0.01, steps=10_000), 4)
    show.say(
        "",
        f"Both sides are certified: the true ε lies in [{numbers.down(tight.lower, 5)}, "
        f"{numbers.up(tight.upper, 5)}].",
        f"With a budget of ε = 3, a noise multiplier of {noise} is enough (deniable calibrate).",
    )
