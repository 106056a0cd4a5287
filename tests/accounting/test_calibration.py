"""The answer of `calibrate` is safe, and a little less of it is not."""

import pytest

from deniable.accounting import calibrate, calibrate_noise, calibrate_rate, calibrate_steps, epsilon
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.loss import DiscreteGaussianNoise, GaussianNoise, LaplaceNoise, Pure, Zcdp


@pytest.mark.parametrize(
    ("target", "delta", "rate", "steps"),
    [
        (3, 1e-5, 0.01, 10_000),
        (1, 1e-5, 0.01, 10_000),
        (1, 1e-5, 0.001, 100_000),
        (0.5, 1e-9, 1, 1),
        (8, 1e-5, 0.1, 500),
    ],
)
def test_the_noise_found_fits_and_less_does_not(target: float, delta: float, rate: float, steps: int) -> None:
    sigma = calibrate_noise(target, delta, rate=rate, steps=steps)
    assert epsilon(GaussianNoise(sigma).sampled(rate) * steps, delta).upper <= target
    assert epsilon(GaussianNoise(sigma * 0.998).sampled(rate) * steps, delta).upper > target


def test_the_steps_found_fit_and_one_more_does_not() -> None:
    steps = calibrate_steps(2, 1e-5, noise_multiplier=2, rate=0.01)
    step = GaussianNoise(2).sampled(0.01)
    assert epsilon(step * steps, 1e-5).upper <= 2
    assert epsilon(step * (steps + 1), 1e-5).upper > 2


def test_the_rate_found_fits_and_more_does_not() -> None:
    rate = calibrate_rate(1, 1e-5, noise_multiplier=2, steps=1000)
    assert epsilon(GaussianNoise(2).sampled(rate) * 1000, 1e-5).upper <= 1
    assert epsilon(GaussianNoise(2).sampled(rate * 1.003) * 1000, 1e-5).upper > 1
    assert calibrate_rate(100, 1e-5, noise_multiplier=2) == 1


def test_pure_laplace_noise_is_one_over_epsilon() -> None:
    assert calibrate(LaplaceNoise, Budget(0.5)) == pytest.approx(2, rel=2e-4)


def test_any_number_may_be_solved_for() -> None:
    each = calibrate(lambda e: Pure(e) * 100, Budget(3, 1e-6), increasing=True, start=0.1)
    assert epsilon(Pure(each) * 100, 1e-6).upper <= 3 < epsilon(Pure(each * 1.003) * 100, 1e-6).upper


def test_discrete_noise_is_calibrated_by_its_own_profile() -> None:
    sigma = calibrate(lambda s: DiscreteGaussianNoise(s, 1, 1), Budget(1, 1e-6))
    assert epsilon(DiscreteGaussianNoise(sigma, 1, 1), 1e-6).upper <= 1


def test_what_cannot_be_solved_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="no finite noise"):
        calibrate_noise(0, 1e-5)
    with pytest.raises(InvalidParameter, match="Not even one step"):
        calibrate_steps(0.01, 1e-5, noise_multiplier=0.5)
    with pytest.raises(InvalidParameter, match="just fits"):
        calibrate(GaussianNoise, Budget(1))


def test_one_method_alone_is_safe_and_of_zcdp_the_best() -> None:
    rho = calibrate(Zcdp, Budget(1, 1e-6), increasing=True, method="zcdp")
    assert epsilon(Zcdp(rho), 1e-6).upper <= 1
    assert rho == calibrate(Zcdp, Budget(1, 1e-6), increasing=True)
    sigma = calibrate(GaussianNoise, Budget(1, 1e-6), method="zcdp")
    assert sigma > 1.01 * calibrate(GaussianNoise, Budget(1, 1e-6))
