import json
import math
from fractions import Fraction

import pytest

from deniable.errors import InvalidBudget, InvalidCertificate
from deniable.guarantee import Bound, Budget, Certificate
from deniable.loss import GaussianNoise, Pure
from deniable.units import Unit

CERTIFICATE = Certificate(
    loss=GaussianNoise(4).sampled(0.01) * 100,
    unit=Unit.row(),
    delta=1e-5,
    bound=Bound(0.1, 0.2, "numerical", "numerical"),
    assumptions=("the sampler is Poisson",),
    version="0.1.0",
)


@pytest.mark.parametrize("epsilon", [-1, math.nan, math.inf, "1", True])
def test_a_limit_that_is_none_is_refused(epsilon) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidBudget, match="Expected epsilon="):
        Budget(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1, math.nan])
def test_a_delta_that_is_none_is_refused(delta: float) -> None:
    with pytest.raises(InvalidBudget, match="Expected delta="):
        Budget(1, delta)


def test_budgets_print_as_people_write_them() -> None:
    assert str(Budget(3, 1e-6)) == "ε = 3 at δ = 1e-06"
    assert str(Budget(Fraction(1, 3))) == "ε = 1/3"


def test_a_bracket_that_is_inside_out_cannot_be_made() -> None:
    for lower, upper in ((2.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (0.0, math.nan)):
        with pytest.raises(ArithmeticError):
            Bound(lower, upper, "numerical")
    assert 0.15 in Bound(0.1, 0.2, "numerical")
    assert Bound(0, math.inf, "none").gap == math.inf


def test_certificates_round_trip_byte_for_byte() -> None:
    text = CERTIFICATE.to_json()
    assert Certificate.from_json(text) == CERTIFICATE
    assert Certificate.from_json(text).to_json() == text


def test_an_unbounded_certificate_is_still_json() -> None:
    unbounded = Certificate(Pure(1), Unit.row(), 0, Bound(0, math.inf, "none"), (), "0.1.0")
    assert Certificate.from_json(unbounded.to_json()).bound.upper == math.inf


@pytest.mark.parametrize(
    "change",
    [
        {"certificate": 2},
        {"loss": {"node": "Nothing"}},
        {"unit": {"kind": "tribe"}},
        {"delta": -1},
        {"delta": "x"},
        {"epsilon": {"lower": 2, "upper": 1, "method": "m", "attained": "m"}},
        {"epsilon": 3},
        {"assumptions": 3},
    ],
)
def test_a_certificate_that_cannot_be_read_says_so(change: dict[str, object]) -> None:
    with pytest.raises(InvalidCertificate):
        Certificate.from_json(json.dumps(json.loads(CERTIFICATE.to_json()) | change))


def test_a_bracket_is_printed_rounded_outward() -> None:
    assert str(Bound(0.12345678, 0.98765432, "numerical")) == "[0.123456, 0.987655] (numerical)"
    assert str(Bound(0, math.inf, "basic")) == "[0, ∞] (basic)"
