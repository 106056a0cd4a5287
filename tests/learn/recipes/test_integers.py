"""Integer products: equal to 64-bit integers on either path, and the fast path only
where its worst case is exact."""

from __future__ import annotations

import pytest
import torch

from deniable.learn.recipes import integers, linear


@pytest.fixture(params=["eight bits", "floats"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to a product; a machine without exact 8-bit products takes the second one twice."""
    if request.param == "floats":
        monkeypatch.setattr(integers, "exact_at", lambda *shape: False)
    return str(request.param)


@pytest.mark.parametrize(("n", "k", "d"), [(1, 1, 1), (700, 10, 33), (1000, 3, 200), (300, 10, 784)])
def test_products_are_those_of_long_integers(path: str, n: int, k: int, d: int) -> None:
    g = torch.Generator().manual_seed(n)
    left = torch.randint(-integers.LARGEST, integers.LARGEST + 1, (n, k), generator=g)
    right = torch.randint(-127, 128, (n, d), generator=g)
    found = integers.product(left.float(), right.to(torch.int8))
    assert torch.equal(found.long(), left.T @ right)


@pytest.mark.parametrize("entry", [512, -512, 511, -511])
def test_the_largest_entries_neither_saturate_nor_round(path: str, entry: int) -> None:
    """Odd sums beyond 2^24 are no 32-bit floats."""
    left = torch.full((5001, 2), float(entry))
    right = torch.full((5001, 5), 127, dtype=torch.int8)
    assert integers.product(left, right).unique().tolist() == [5001 * 127 * entry]


def test_partial_sums_of_floats_stay_where_every_integer_is_held() -> None:
    chunk = (integers.EXACT_FLOAT - 1) // (integers.MOST * integers.LARGEST)
    assert chunk * integers.MOST * integers.LARGEST < 2**24
    assert integers.TERMS * integers.MOST**2 < 2**31
    assert linear.RESIDUAL <= integers.LARGEST
    assert linear.MOST <= integers.MOST


def test_scores_are_those_of_weights_of_fifteen_bits(path: str) -> None:
    g = torch.Generator().manual_seed(0)
    features, weights = torch.randint(-127, 128, (300, 64), generator=g), torch.randn(10, 64, generator=g)
    found = integers.scores(features.to(torch.int8), weights)
    true = features.double() @ weights.double().T
    rounding = float(weights.abs().max()) / (integers.MOST * integers.FINE) / 2
    assert ((found - true).abs() <= rounding * features.abs().sum(1, keepdim=True) + 1e-3).all()
    assert not integers.scores(features.to(torch.int8), torch.zeros(10, 64)).any()


def test_scores_of_a_row_have_the_same_bits_in_any_company() -> None:
    g = torch.Generator().manual_seed(1)
    features = torch.randint(-127, 128, (777, 333), generator=g).to(torch.int8)
    weights = torch.randn(10, 333, generator=g)
    whole = integers.scores(features, weights)
    for rows in (slice(0, 1), slice(3, 400), slice(776, 777)):
        assert torch.equal(integers.scores(features[rows], weights), whole[rows])


@pytest.mark.parametrize("broken", ["saturates", "raises", "is missing"])
def test_a_product_that_is_not_exact_is_not_used(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What processors without such instructions may do: pairs of terms are cut at 16 bits."""

    def saturating(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if broken == "raises":
            raise RuntimeError("no kernel")
        terms = a[:, :, None].int() * b[None].int()
        even = torch.nn.functional.pad(terms, (0, 0, 0, terms.shape[1] % 2)).reshape(
            len(a), -1, 2, b.shape[1]
        )
        return (2 * even.sum(2)).clamp(-(2**15), 2**15 - 1).sum(1).int() // 2

    integers.exact_at.cache_clear()
    if broken == "is missing":
        monkeypatch.delattr(torch, "_int_mm")
    else:
        monkeypatch.setattr(torch, "_int_mm", saturating)
    try:
        assert not integers.exact_at(40, 30, 20)
        left, right = torch.full((40, 10), 512.0), torch.full((40, 30), 127, dtype=torch.int8)
        assert integers.product(left, right).unique().tolist() == [40 * 512 * 127]
    finally:
        integers.exact_at.cache_clear()


def test_more_terms_than_32_bits_hold_are_left_to_floats() -> None:
    assert not integers.exact_at(integers.TERMS + 1, 1, 1)


def test_a_processor_without_8_bit_products_takes_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """There 8-bit products are exact and some thirty times slower."""
    asked = getattr(torch.cpu, "_is_vnni_supported", None)
    if asked is None:
        pytest.skip("this torch does not tell")
    for answer in (False, True):
        integers._has_dot_products.cache_clear()
        integers.exact_at.cache_clear()
        monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda answer=answer: answer)
        assert integers._has_dot_products() is answer
        assert answer or not integers.exact_at(40, 30, 20)
    integers._has_dot_products.cache_clear()
    integers.exact_at.cache_clear()
