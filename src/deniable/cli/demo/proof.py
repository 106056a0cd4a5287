"""A claim that anybody can compute again."""

from dataclasses import replace

from deniable import numbers
from deniable.accounting import certify, verify
from deniable.cli import show
from deniable.errors import InvalidCertificate
from deniable.guarantee import Bound
from deniable.loss import GaussianNoise
from deniable.units import Unit

TITLE = "A claim anybody can check: a certificate, and one that was made to look better"


def play() -> None:
    honest = certify(GaussianNoise(4).sampled(0.01) * 10_000, Unit.row(), 1e-5)
    again = verify(honest)
    show.say(
        f"Honest:  ε ≤ {numbers.up(honest.bound.upper)}. "
        f"Computed again: [{numbers.down(again.lower)}, {numbers.up(again.upper)}]."
    )
    forgery = replace(honest, bound=Bound(0.0, 0.5, honest.bound.method))
    try:
        verify(forgery)
    except InvalidCertificate as refusal:
        show.say(f"Changed: {refusal}")
