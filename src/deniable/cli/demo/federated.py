"""Eighty phones, a sum of which nobody sees a part, and noise that no one of them adds alone."""

import math

import numpy as np

from deniable import numbers
from deniable.accounting import calibrate_noise, epsilon
from deniable.cli import show
from deniable.federated import secure_sum
from deniable.federated.secure_sum import Stage
from deniable.federated.secure_sum.masks import Vector
from deniable.loss import IntegerGaussianSum
from deniable.mechanisms.integer_noise import gaussian
from deniable.randomness import SecureRandom

TITLE = "Federated: 80 phones tell when they wake up, in a sum of which nobody sees a part"
PHONES, LEAST, HOURS, GRID, NOISE, DELTA = 80, 60, 24, 100, 2.0, 1e-6
SHARES = {6: 0.3, 7: 0.4, 9: 0.2}


def play() -> None:
    """A phone's vector has one grid's worth at its hour, so its norm is GRID; sixty shares of noise make the
    whole."""
    rng, hours = SecureRandom(), _hours()
    share = NOISE * GRID / math.sqrt(LEAST)
    vectors = {
        phone: GRID * (np.arange(HOURS) == hour) + gaussian(share).draw(rng, HOURS)
        for phone, hour in enumerate(hours)
    }
    agreement, signers = secure_sum.generated(clients=PHONES, length=HOURS, threshold=54, least=LEAST)
    uploads: dict[int, list[int]] = {}

    def note(phone: int, vector: Vector) -> None:
        uploads[phone] = vector.tolist()

    outcome = secure_sum.simulate(
        agreement,
        signers,
        vectors,
        dropouts={3: Stage.MASK, 8: Stage.SIGN},
        seen=note,
    )
    _tell(hours, uploads, outcome)
    loss = IntegerGaussianSum(LEAST, share, GRID, HOURS)
    show.say(
        "",
        "Phone 3 went silent before it sent, phone 8 after: the others gave the shares that take their masks "
        f"away. Phones open no sum of fewer than {LEAST}. For a phone that falls silent, "
        f"ε ≤ {numbers.up(epsilon(loss, DELTA).upper)} at δ = {DELTA:g}, against the server too.",
    )
    _places()


def _hours() -> list[int]:
    counts = {hour: int(part * PHONES) for hour, part in SHARES.items()}
    return [hour for hour, count in counts.items() for _ in range(count)] + [11] * (
        PHONES - sum(counts.values())
    )


def _tell(hours: list[int], messages: dict[int, list[int]], outcome: secure_sum.Outcome) -> None:
    show.say(
        "What the server received of phone 0, which wakes at 6: "
        + ", ".join(map(str, messages[0][:5]))
        + ", …",
        "",
    )
    sums = outcome.signed() / GRID
    truth = np.bincount(hours, minlength=HOURS)
    rows = [(f"{hour}:00", truth[hour], f"{sums[hour]:.1f}") for hour in sorted({*SHARES, 11, 20})]
    show.table(("hour", "phones", "opened sum"), rows, right=(0, 1, 2))


def _places() -> None:
    """The same trade-off for a model: 1,000 clients, a tenth of them in each of 50 rounds."""
    server, others = calibrate_noise(2, 1e-4, rate=0.1, steps=50), calibrate_noise(2, 1e-4, rate=1, steps=5)
    show.say(
        "",
        "Fifty rounds of training with a tenth of 1,000 clients each, for ε = 2 at δ = 1e-4: a trusted "
        f"server adds noise of {numbers.up(server, 3)} clips to a sum; shared noise that holds the server "
        f"off too, {numbers.up(others, 3)} clips to a sum (at most 5 rounds each: the server knows whom it "
        f"drew); noise of each client alone, {numbers.up(others, 3)} clips to every update. "
        "More: deniable federate --help",
    )
