"""Other people's accountants as oracles: opacus and OpenDP. (dp-accounting is the oracle
of the numerical tests.)"""

from __future__ import annotations

from typing import Any

import pytest

from deniable import accounting
from deniable.accounting import renyi
from deniable.accounting.methods import pure, zcdp
from deniable.loss import DiscreteGaussianNoise, DiscreteLaplaceNoise, GaussianNoise, ResponseNoise
from tests.running.lazy import Lazy

opendp, accountants, opacus_rdp = map(
    Lazy, ("opendp.prelude", "opacus.accountants", "opacus.accountants.analysis.rdp")
)


@pytest.fixture(scope="module")
def whole() -> tuple[Any, Any]:
    opendp.enable_features("contrib")
    return opendp.atom_domain(T=int), opendp.absolute_distance(T=int)


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (0.1, 2.0), (0.001, 0.7)])
def test_renyi_divergences_are_those_of_opacus(rate: float, sigma: float) -> None:
    orders = [2, 3, 8, 32]
    theirs = opacus_rdp.compute_rdp(q=rate, noise_multiplier=sigma, steps=1, orders=orders)
    ours = renyi.curve(GaussianNoise(sigma).sampled(rate), orders)
    assert ours == pytest.approx(theirs, rel=1e-9)
    assert (ours >= theirs * (1 - 1e-11)).all()


@pytest.mark.parametrize(
    ("rate", "sigma", "steps"), [(0.01, 1.0, 1000), (0.1, 2.0, 100), (0.01, 4.0, 10_000)]
)
def test_the_bracket_agrees_with_opacus_within_its_stated_error(
    rate: float, sigma: float, steps: int
) -> None:
    peer = accountants.PRVAccountant()
    peer.history = [(sigma, rate, steps)]
    theirs = peer.get_epsilon(
        1e-5, eps_error=0.01
    )  # an upper bound, at most twice this error above the truth
    ours = accounting.epsilon(GaussianNoise(sigma).sampled(rate) * steps, 1e-5)
    assert ours.lower <= theirs
    assert ours.upper >= theirs - 0.02


@pytest.mark.parametrize("scale", [4, 10, 50])
def test_integer_noise_costs_what_opendp_charges(scale: int, whole: tuple[Any, Any]) -> None:
    laplace = opendp.m.make_laplace(*whole, scale=float(scale))
    assert float(pure.exact_epsilon(DiscreteLaplaceNoise(scale, 3))) == pytest.approx(
        laplace.map(3), rel=1e-12
    )
    gaussian = opendp.m.make_gaussian(*whole, scale=float(scale))
    assert zcdp.rho(DiscreteGaussianNoise(scale, 3)) == pytest.approx(gaussian.map(3), rel=1e-12)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_the_conversion_of_zcdp_is_no_looser_than_opendps_and_the_profile_is_tighter(
    delta: float, whole: tuple[Any, Any]
) -> None:
    loss = DiscreteGaussianNoise(4, 1, 1)
    theirs = opendp.c.make_zCDP_to_approxDP(opendp.m.make_gaussian(*whole, scale=4.0)).map(1).epsilon(delta)
    assert zcdp.epsilon(loss, delta) <= theirs * (1 + 1e-5)
    assert accounting.epsilon(loss, delta).upper < theirs


@pytest.mark.usefixtures("whole")
def test_randomized_response_costs_what_opendp_charges() -> None:
    theirs = opendp.m.make_randomized_response_bool(0.75).map(1)
    assert float(pure.exact_epsilon(ResponseNoise(0.75))) == pytest.approx(theirs, rel=1e-12)
