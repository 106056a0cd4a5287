"""Principal directions from drawn pictures: a constant of the program, found without data."""

from __future__ import annotations

import torch

from deniable.learn.recipes import maps, patches, principal


def patch_roots(pictures: torch.Tensor) -> torch.Tensor:
    return maps.root(patches.features(pictures))


def test_directions_are_even_on_drawn_pictures() -> None:
    """Turned and scaled, channels are uncorrelated, and their variances are λ·(λ + ridge)^−2·POWER."""
    few = principal.drawn()[:40]
    found = principal.of_drawn(lambda pictures: pictures[:40].flatten(2), 3)
    rows = found(few.flatten(2)).transpose(1, 2).flatten(0, 1).double()
    covariance = torch.cov(rows.T, correction=0)
    raw = torch.cov(few.flatten(2).transpose(1, 2).flatten(0, 1).double().T, correction=0)
    values = torch.linalg.eigvalsh(raw).flip(0)
    expected = values * (values + principal.RIDGE * values.mean()) ** (-2 * principal.POWER)
    assert torch.allclose(covariance, torch.diag(expected), atol=1e-4 * float(expected[0]))
    assert rows.mean(0).abs().max() < 1e-4


def test_directions_have_one_sign() -> None:
    vectors = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0)))[0]
    flips = torch.tensor([1.0, -1, 1, -1, -1, 1])
    assert torch.equal(principal._signed(vectors), principal._signed(vectors * flips))


def test_few_directions_of_drawn_pictures_say_most_of_others() -> None:
    """Found on some drawn pictures, they hold almost all the variance of others."""
    drawn = principal.drawn()
    found = principal.of_drawn(lambda pictures: patch_roots(pictures[:85]), 512)
    others = patch_roots(drawn[-40:])
    scaled = found(others)
    lengths = found.basis.norm(dim=1)[:, None]
    variances = (scaled / lengths).square().sum((0, 2))
    assert float(variances[:128].sum() / variances.sum()) > 0.9


def test_a_picture_has_the_same_bits_in_any_company() -> None:
    found = principal.of_drawn(lambda pictures: pictures[:20].flatten(2), 2)
    rows = torch.rand(9, 3, 50, generator=torch.Generator().manual_seed(1))
    assert torch.equal(found(rows[4:5]), found(rows)[4:5])
    assert found(rows[:0]).shape == (0, 2, 50)
