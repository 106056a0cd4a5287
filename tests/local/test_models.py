"""Over time, through a shuffler, in an account, and as a distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable import accounting
from deniable.errors import BudgetExceeded, DataError, InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.local import (
    Collection,
    GeneralisedResponse,
    LocalHashing,
    Rappor,
    ReportingDevice,
    Shuffler,
    norm_mul,
    norm_sub,
    simplex,
)
from deniable.local.estimate import quantile
from deniable.local.protocol import HEADER
from deniable.loss import Pure, Repeated, Shuffled
from deniable.randomness import SecureRandom, SeededRandom
from deniable.units import Unit
from tests import chance


def test_a_device_stops_at_its_limit_whatever_its_values_are() -> None:
    rng = SecureRandom()
    for values in (["red"] * 3, ["red", "green", "blue"]):
        device = ReportingDevice(Rappor(), Budget(9))
        for period, value in enumerate(values[:2], 1):
            device = device.begin(value, rng=rng)
            assert device.periods == period
            assert len(device.report(rng=rng)) == device.client.size
        with pytest.raises(BudgetExceeded, match=r"over its limit ε = 9 .*Nothing was drawn") as refused:
            device.begin(values[2], rng=rng)
        assert refused.value.total > refused.value.limit == 9
        assert device.report(rng=rng)
        assert float(device.spent.epsilon) == pytest.approx(8.78889830934488)


def test_a_device_without_a_memo_says_nothing() -> None:
    with pytest.raises(InvalidParameter, match="no memo yet"):
        ReportingDevice(Rappor(), Budget(9)).report(rng=SecureRandom())


def test_a_new_period_draws_anew_even_if_the_value_stayed() -> None:
    rng = SecureRandom()
    device = ReportingDevice(Rappor(), Budget(100)).begin("red", rng=rng)
    memos = {device.begin("red", rng=rng).memo for _ in range(20)}
    assert len(memos) == 20


def test_an_oracles_memo_is_its_report() -> None:
    client, rng = LocalHashing(64, 1), SecureRandom()
    memo = client.memoise(3, rng=rng)
    assert {client.replay(memo, rng=rng) for _ in range(5)} == {memo}
    assert client.memo_loss == client.loss
    with pytest.raises(InvalidParameter, match="memo of this protocol"):
        LocalHashing(65, 1).replay(memo, rng=rng)


def test_an_account_is_charged_once_for_all_devices_and_periods() -> None:
    client, rng = LocalHashing(64, 1), SecureRandom()
    collection = Collection(client, periods=2)
    assert collection.loss == Repeated(2, Pure(1))
    assert Collection(client).loss == client.loss
    reports = client.reports(np.full(5_000, 3), rng=rng)
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("phones", Unit.value(), limit=Budget(3))
        release = account.run(collection, reports)
        assert account.spent().epsilon == pytest.approx(2)
        assert release.value.significant(alpha=chance.state()).tolist() == [3]
        with pytest.raises(BudgetExceeded):
            account.run(collection, reports)
    with pytest.raises(InvalidParameter, match="periods=0"):
        Collection(client, periods=0)


def test_a_shuffler_passes_on_the_same_reports_in_another_order() -> None:
    client = GeneralisedResponse(1000, 1)
    reports = client.reports(np.arange(500), rng=SecureRandom())
    mixed = Shuffler(client, 500)(reports, rng=SeededRandom(1))
    assert sorted(map(bytes, mixed)) == sorted(map(bytes, reports))
    assert not np.array_equal(mixed, reports)


def test_too_few_valid_reports_are_not_passed_on() -> None:
    client = GeneralisedResponse(1000, 1)
    reports = client.reports(np.arange(500), rng=SecureRandom())
    reports[0, HEADER:] = 255
    with pytest.raises(DataError, match=r"Only 499 valid reports.*Nothing was passed on"):
        Shuffler(client, 500)(reports, rng=SecureRandom())


def test_the_central_epsilon_is_that_of_accounting_and_smaller() -> None:
    client = LocalHashing(64, 1)
    mixed = Shuffler(client, 100_000)
    assert mixed.loss == Shuffled(100_000, Pure(1))
    bound = mixed.central(1e-6)
    assert bound == accounting.epsilon(mixed.loss, 1e-6)
    assert bound.upper < 0.1
    assert mixed.unit == Unit.value()


shares = st.lists(st.floats(-2, 2), min_size=1, max_size=30).map(np.array)


@given(shares)
def test_norm_sub_is_the_projection_on_the_simplex(raw: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    for projected in (norm_sub(raw), simplex(raw), norm_mul(raw)):
        assert projected.sum() == pytest.approx(1)
        assert np.all(projected >= 0)
    assert np.allclose(norm_sub(raw), simplex(raw), atol=1e-9)
    # No distribution is nearer: moving towards any vertex does not help.
    near = simplex(raw)
    for i in range(len(raw)):
        towards = 0.99 * near + 0.01 * np.eye(len(raw))[i]
        assert ((raw - near) ** 2).sum() <= ((raw - towards) ** 2).sum() + 1e-9


def test_intervals_are_two_sided() -> None:
    assert quantile(0.95) == pytest.approx(1.959963984540054)


def test_raw_estimates_stay_unbiased_and_cannot_be_written() -> None:
    client = LocalHashing(64, 1)
    server = client.server()
    server.add(client.reports(np.zeros(5_000, np.int64), rng=SecureRandom()))
    estimate = server.estimate()
    assert estimate.counts.min() < 0
    norm_sub(estimate.frequencies)
    assert estimate.counts.min() < 0
    with pytest.raises(ValueError, match="read-only"):
        estimate.counts[0] = 0
    with pytest.raises(InvalidParameter, match="confidence"):
        estimate.interval(1)


@pytest.mark.parametrize("bad", [[], [float("nan")], [[0.5, 0.5]]])
def test_what_is_no_vector_of_shares_is_refused(bad: list[float]) -> None:
    with pytest.raises(InvalidParameter, match="finite frequency"):
        simplex(np.array(bad))
