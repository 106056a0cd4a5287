"""What an account is for: which charges fit, on every journal, and the same state after reopening."""

from __future__ import annotations

import pytest

from deniable.accounting import calibrate_noise
from deniable.accounting.filters import Filter, Purpose
from deniable.errors import BudgetExceeded, InvalidParameter, Unaccountable
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.loss import Approximate, DiscreteGaussianNoise, GaussianNoise, Zcdp
from deniable.units import Unit
from tests.ledger.workers import Noisy

ROW = Unit.row()
COUNT = DiscreteGaussianNoise(14, 1, 1)


def test_counts_are_priced_as_gaussian_noise_and_the_journal_agrees(url: str) -> None:
    with Ledger.open(url, analyst="ada") as ledger:
        account = ledger.create("counts", ROW, limit=Budget(1, 1e-6), purpose="counts")
        for _ in range(10):
            account.run(Noisy(COUNT), 5)
        left = account.remaining()
        assert account.preview(GaussianNoise(1 / left.mu)).fits
        assert not account.preview(GaussianNoise(0.999 / left.mu)).fits
        with pytest.raises(BudgetExceeded, match="Gaussian noise of μ ≤"):
            account.run(Noisy(DiscreteGaussianNoise(10, 1, 1)), 5)
        with pytest.raises(Unaccountable, match="prices Gaussian noise"):
            account.run(Noisy(Zcdp(0.001)), 5)
        spent = account.spent()
        assert spent.method == "Gaussian"
        assert ledger.verify().ok
    with Ledger.open(url, analyst="ada") as again:
        account = again.account("counts")
        assert account.spent() == spent
        assert account.standing().filter == Filter.of(Budget(1, 1e-6), Purpose.COUNTS)
        assert account.remaining() == left


def test_ten_counts_that_fit_here_do_not_fit_a_mixed_account(ledger: Ledger) -> None:
    mixed = ledger.create("mixed", ROW, limit=Budget(1, 1e-6))
    counts = ledger.create("counts", ROW, limit=Budget(1, 1e-6), purpose=Purpose.COUNTS)
    assert counts.preview(COUNT * 10).fits
    assert not mixed.preview(COUNT * 10).fits


def test_one_run_of_exactly_the_limit(ledger: Ledger) -> None:
    account = ledger.create("model", ROW, limit=Budget(3, 1e-5), purpose="run")
    assert account.preview(Approximate(3, 1e-5)).fits
    part = ledger.create("model/ada", limit=Budget(1, 1e-6), parent="model", purpose="counts")
    with pytest.raises(Unaccountable, match="Name a δ"):  # the outer account has no rule for it without one
        part.preview(COUNT)
    assert part.preview(COUNT, delta=1e-9).fits


def test_a_run_that_fits_alone_is_told_which_account_would_take_it(ledger: Ledger) -> None:
    mixed = ledger.create("mixed", ROW, limit=Budget(3, 1e-5))
    training = GaussianNoise(calibrate_noise(3, 1e-5, rate=0.05, steps=40)).sampled(0.05) * 40
    told = mixed.preview(training).refusal
    assert told is not None
    assert told.startswith(
        'This run by itself is within the limit of the account "mixed", ε = 3 at δ = 1e-05,'
    )
    assert 'purpose="run"' in told
    assert "--purpose run" in told
    assert "by itself" not in str(mixed.preview(training * 2).refusal)
    run = ledger.create("run", ROW, limit=Budget(3, 1e-5), purpose="run")
    assert run.preview(training, delta=1e-5).fits


def test_a_purpose_or_a_filter_but_not_both(ledger: Ledger) -> None:
    with pytest.raises(InvalidParameter, match="a purpose or a filter"):
        ledger.create("model", ROW, limit=Budget(3, 1e-5), purpose="run", filter=Filter.basic)
    with pytest.raises(InvalidParameter, match="one of mixed, counts, run"):
        ledger.create("model", ROW, limit=Budget(3, 1e-5), purpose="fun")
