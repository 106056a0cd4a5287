"""The recipes: exact contributions, a loss that is the budget, and models that learn, by an account."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from deniable import Budget, Ledger, Unit
from deniable.accounting import epsilon
from deniable.errors import InvalidParameter
from deniable.learn.recipes import integers, linear, maps, whitening
from deniable.learn.recipes.cifar10 import cifar10
from deniable.learn.recipes.classifier import Recipe, map_images, one_hot, whiten
from deniable.learn.recipes.linear import LinearDescent, LinearScores
from deniable.learn.recipes.mnist import SETTINGS, mnist
from deniable.learn.recipes.whitening import Flattening
from deniable.ledger import Filter
from deniable.randomness import SeededRandom


def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return data.images, data.target


def whole_pixels(images: torch.Tensor) -> torch.Tensor:
    return images.float().reshape(len(images), 8, 8) - 5


def recipe(**changes: object) -> Recipe:
    made = Recipe.for_budget(
        8,
        1e-5,
        n=1797,
        maps=whole_pixels,
        descent=LinearDescent(steps=30, learning_rate=8, clip=0.5),
        share=0.2,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", [0.5, 1.0, 2.0, 3.0, 1.4, 20.0])
def test_the_loss_of_a_recipe_is_the_budget(target: float) -> None:
    for made in (mnist(target), cifar10(target)):
        spent = epsilon(made.loss, 1e-5)
        assert target * (1 - 1e-6) < spent.upper <= target


def test_the_loss_counts_every_release() -> None:
    made = mnist(1.0)
    mu = 3 / made.statistics_noise**2 + made.descent.steps / made.step_noise**2
    # Balle, Wang 2018, Theorem 8, written out.
    root = math.sqrt(mu)

    def phi(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    delta = phi(-1 / root + root / 2) - math.e * phi(-1 / root - root / 2)
    assert delta == pytest.approx(1e-5, rel=1e-5)
    assert delta <= 1e-5


def test_noise_is_asked_of_the_generator_for_every_release() -> None:
    """Three statistics and every step: as many draws, each of the deviation that its node states."""
    asked: list[tuple[float, int]] = []

    class Watched(SeededRandom):
        def discrete_gaussian(self, sigma, size=None):  # type: ignore[no-untyped-def, override]
            asked.append((float(sigma), size))
            return super().discrete_gaussian(sigma, size)

    made = recipe()
    made(digits(), rng=Watched(1))
    statistics, steps = asked[:5], asked[5:]
    assert [size for _, size in statistics] == [64, 8, 28, 8, 28]
    for (sigma, _), unit in zip(statistics, (1, 1, 2**-0.5, 1, 2**-0.5), strict=True):
        scale = whitening.NORM if sigma < whitening.NORM**1.5 else whitening.NORM**2
        assert sigma >= made.statistics_noise * scale * unit
    assert len(steps) == made.descent.steps
    assert all(sigma >= made.step_noise * made.descent.sensitivity and size == 650 for sigma, size in steps)


def random_model(classes: int, features: int) -> LinearScores:
    generator = torch.Generator().manual_seed(1)
    return LinearScores(
        torch.randn(classes, features, generator=generator), torch.randn(classes, generator=generator)
    )


def test_gradient_sums_are_exact_and_one_example_moves_them_within_the_sensitivity() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randint(-127, 128, (700, 40), generator=generator).to(torch.int8)
    targets = one_hot(np.arange(700) % 10, 10)
    descent, model = LinearDescent(1, 1.0, 0.3), random_model(10, 40)
    whole = descent.sums(model, features, targets)
    slow = torch.zeros(10, 41, dtype=torch.int64)
    for z, y in zip(features, targets, strict=True):
        scores = integers.scores(z[None], model.weights / linear.NORM) + model.bias
        residual = descent.residuals(scores, y[None].float())[0].to(torch.int64)
        slow += residual[:, None] * torch.cat([z.to(torch.int64), torch.tensor([linear.NORM])])
        assert int(residual.square().sum()) <= linear.RESIDUAL**2
    assert torch.equal(whole.long(), slow)
    assert torch.equal(whole, whole.round())
    worst = linear.exact.units(torch.ones(1, 40), linear.NORM, linear.MOST).to(torch.int8)
    assert 0 < float(descent.sums(model, worst, targets[:1]).norm()) <= descent.sensitivity


@pytest.mark.parametrize("intercept", [True, False])
def test_the_sensitivity_is_reached_with_and_without_an_intercept(intercept: bool) -> None:
    """Were √2 left out with an intercept, the sum of one example would be longer than what is paid for."""
    descent = LinearDescent(1, 1.0, 1e-3, intercept=intercept)
    features = linear.exact.units(torch.ones(1, 6400), linear.NORM, linear.MOST).to(torch.int8)
    model = LinearScores(torch.zeros(2, 6400), torch.zeros(2))
    sums = descent.sums(model, features, one_hot(np.array([0]), 2))
    assert sums.shape == (2, 6400 + intercept)
    length = math.sqrt(float(features.double().square().sum()) + intercept * linear.NORM**2)
    assert float(sums.norm()) <= descent.sensitivity
    assert float(sums.norm()) == pytest.approx(length * linear.RESIDUAL, rel=3e-3)
    assert descent.sensitivity == pytest.approx(math.sqrt(1 + intercept) * linear.NORM * linear.RESIDUAL)


def test_without_an_intercept_classes_are_told_apart_by_features_alone() -> None:
    images, labels = digits()
    descent = LinearDescent(steps=30, learning_rate=8, clip=0.5, intercept=False)
    made = recipe(descent=descent)
    assert made.loss == recipe().loss
    found = made((images[:1500], labels[:1500]), rng=SeededRandom(1))
    assert not found.linear.bias.any()
    assert found.accuracy(images[1500:], labels[1500:]) > 0.75


@pytest.mark.parametrize("clip", [1e-6, 0.1, 100.0])
def test_residuals_are_clipped_whatever_the_scores(clip: float) -> None:
    scores = torch.tensor([[0.0, 0.0], [1e30, -1e30], [math.nan, 0.0], [math.inf, math.inf], [-5.0, 5.0]])
    residuals = LinearDescent(1, 1.0, clip).residuals(scores, torch.eye(2)[[0, 1, 0, 1, 0]])
    assert torch.isfinite(residuals).all()
    assert float(residuals.square().sum(1).max()) <= linear.RESIDUAL**2
    assert torch.equal(residuals, residuals.trunc())
    free = LinearDescent(1, 1.0, 100.0).residuals(torch.zeros(1, 2), torch.eye(2)[:1])
    assert free[0].tolist() == [
        -3,
        3,
    ]  # 512·½/(100/√2) = 3.6: unclipped residuals are scaled by the clip alone


def test_what_is_no_example_adds_nothing() -> None:
    images, labels = digits()
    clean = map_images(images[:100], whole_pixels)
    spoilt = np.vstack([images[:100], np.full((2, 8, 8), math.nan)])
    wrong = np.concatenate([labels[:100], [3, 4]])
    maps_ = map_images(spoilt, whole_pixels)
    assert not maps_[100:].any()
    assert torch.equal(whitening._sum(maps_), whitening._sum(clean))
    spoilt_moments, moments = (
        whitening._second_moments(x, ((8, 8),), torch.full((64,), 0.01)) for x in (maps_, clean)
    )
    assert all(torch.equal(one, other) for one, other in zip(spoilt_moments[0], moments[0], strict=True))
    assert not one_hot(np.array([-1, 10, 7]), 10)[:2].any()
    first = recipe()((images[:100], labels[:100]), rng=SeededRandom(3)).linear
    second = recipe()((spoilt, wrong), rng=SeededRandom(3)).linear
    assert torch.allclose(first.weights, second.weights, atol=1e-5)


@pytest.mark.parametrize("bad", ["Ann", None, [1, 2], math.nan, 2**70, b"x"])
def test_a_label_that_is_none_leaves_the_other_labels_as_they_are(bad: object) -> None:
    labels = digits()[1][:50].tolist()
    found = one_hot([*labels, bad], 10)
    assert torch.equal(found[:50], one_hot(labels, 10))
    assert found.any(1).tolist() == [True] * 50 + [False]
    recipe()((digits()[0][:51], [*labels, bad]), rng=SeededRandom(3))


@pytest.mark.parametrize("shapes", [((8, 8),), ((4, 8), (16, 2)), ((1, 16), (4, 8), (2, 8))])
def test_second_moments_move_within_their_sensitivity(shapes: whitening.Shapes) -> None:
    """All of one kind together, as they are released: with k maps in a row, by no more
    than √k·NORM², and almost by that."""
    images, _ = digits()
    maps_, mean = map_images(images[:50], whole_pixels), torch.full((64,), 0.05)
    whole, less = (whitening._second_moments(part, shapes, mean) for part in (maps_, maps_[:-1]))
    for kind in (0, 1):
        moved = [one[kind] - other[kind] for one, other in zip(whole, less, strict=True)]
        assert all(torch.equal(each, each.round()) for each in moved)
        total = math.sqrt(sum(float(each.square().sum()) for each in moved))
        assert 0.2 * whitening.NORM**2 < total <= math.sqrt(len(shapes)) * whitening.NORM**2


def test_a_row_of_rank_one_maps_reaches_the_sensitivity() -> None:
    """Were the noise scaled for one map, two would move the release by √2 more than was paid."""
    row = torch.zeros(1, 12, dtype=torch.int16)
    row[0, 0] = row[0, 4] = 11_000
    moments = whitening._second_moments(row, ((2, 2), (4, 2)), torch.zeros(12))
    total = math.sqrt(sum(float(channels.square().sum()) for channels, _ in moments))
    assert total == pytest.approx(math.sqrt(2) * whitening.NORM**2, rel=1e-3)


def test_noise_of_second_moments_grows_with_the_number_of_maps() -> None:
    asked: list[float] = []

    class Watched(SeededRandom):
        def discrete_gaussian(self, sigma, size=None):  # type: ignore[no-untyped-def, override]
            asked.append(float(sigma))
            return super().discrete_gaussian(sigma, size)

    whitening.fit(
        torch.zeros(3, 12, dtype=torch.int16), ((2, 2), (4, 2)), 3, 2.0, Flattening(ridge=1e-3), Watched(1)
    )
    unit = 2.0 * math.sqrt(2) * whitening.NORM**2
    assert asked[0] >= 2.0 * whitening.NORM
    assert all(each >= unit * share for each, share in zip(asked[1:], (1, 2**-0.5) * 4, strict=True))


def test_maps_of_a_row_are_whitened_apart_and_have_one_length() -> None:
    g = torch.Generator().manual_seed(0)
    rows = torch.randint(-900, 900, (40, 12), generator=g, dtype=torch.int16)
    fitted = whitening.fit(rows, ((2, 2), (4, 2)), 40, 0.05, Flattening(ridge=1e-3), SeededRandom(1))
    found = fitted(rows)
    for part in (found[:, :4], found[:, 4:]):
        assert part.norm(dim=1).numpy() == pytest.approx(1, rel=1e-5)
    changed = rows.clone()
    changed[:, 4:] = 7
    assert torch.equal(fitted(changed)[:, :4], found[:, :4])


def test_noise_in_moments_between_channels_is_shrunk_away() -> None:
    """Left are the diagonal, and of what lies beside it the share that noise does not explain."""
    g = torch.Generator().manual_seed(0)
    noise = torch.randn(60, 60, generator=g, dtype=torch.float64)
    noise, diagonal = (noise + noise.T) * 50**0.5, torch.diag(torch.arange(1000.0, 7000, 100))
    signal = torch.full((60, 60), 30.0, dtype=torch.float64).fill_diagonal_(0)
    nothing, much = (whitening._shrunk(diagonal + s + noise, 10.0) for s in (0 * signal, signal))
    assert torch.allclose(nothing.diagonal(), (diagonal + noise).diagonal())
    off = ~torch.eye(60, dtype=torch.bool)
    assert float(nothing[off].square().mean()) < 0.1 * float(noise[off].square().mean())
    assert float(much[off].mean()) == pytest.approx(0.9 * 30, rel=0.1)
    assert torch.equal(whitening._shrunk(diagonal + signal, 0.0), diagonal + signal)
    assert not whitening._shrunk(torch.zeros(2, 2), 0.0).any()


def test_the_strongest_directions_of_channels_are_kept() -> None:
    g = torch.Generator().manual_seed(0)
    strengths = torch.tensor([3.0, 900.0, 2.0, 500.0])[:, None]
    rows = (torch.randn(4000, 4, 5, generator=g) * strengths).flatten(1).to(torch.int16)
    flattening = Flattening(0.25, places=0, kept=(2,))
    fitted = whitening.fit(rows, ((4, 5),), len(rows), 0.05, flattening, SeededRandom(1))
    features = fitted(rows)
    assert features.shape == (4000, fitted.size) == (4000, 10)
    assert whiten(rows, fitted).shape == (4000, 10)
    assert fitted.roots[0][0].abs().argmax(1).tolist() == [3, 1]
    spread = features.reshape(-1, 2, 5).square().mean((0, 2)).sqrt()
    assert float(spread[1] / spread[0]) == pytest.approx((900 / 500) ** 0.5, rel=0.05)


@pytest.mark.parametrize("wrong", [{"power": -1}, {"places": -1}, {"ridge": 0}, {"kept": (0,)}])
def test_a_scaling_without_meaning_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        Flattening(**wrong)  # type: ignore[arg-type]


def test_half_whitening_flattens_the_spectrum() -> None:
    images, _ = digits()
    maps_ = map_images(images, whole_pixels)
    fitted = whitening.fit(maps_, ((8, 8),), len(maps_), 0.1, Flattening(ridge=1e-4), SeededRandom(1))

    def condition(z: torch.Tensor) -> float:
        values = torch.linalg.eigvalsh(torch.cov(z.flatten(1).T)).clamp_min(0)
        return float(values[-1] / values.median())

    assert condition(fitted(maps_)) < 0.5 * condition(maps_.float())


def test_features_are_kept_in_eight_bits_and_bounded() -> None:
    images, _ = digits()
    maps_ = map_images(images[:200], whole_pixels)
    features = whiten(
        maps_, whitening.fit(maps_, ((8, 8),), 200, 1.0, Flattening(ridge=1e-3), SeededRandom(1))
    )
    assert features.dtype == torch.int8
    assert int(features.long().square().sum(1).max()) <= linear.NORM**2


def test_an_account_runs_it_and_the_model_has_learnt() -> None:
    images, labels = digits()
    made = recipe()
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("digits", Unit.row(), limit=Budget(8.01, 1e-5), filter=Filter.basic)
        release = account.run(made, (images[:1500], labels[:1500]), delta=1e-5)
    assert release.private
    assert release.loss == made.loss
    assert release.value.accuracy(images[1500:], labels[1500:]) > 0.75


def test_rows_of_several_maps_are_learnt_from_too() -> None:
    images, labels = digits()
    made = recipe(maps=lambda x: whole_pixels(x).flatten(1), shapes=((4, 8), (4, 8)))
    assert made.loss == recipe().loss
    found = made((images[:1500], labels[:1500]), rng=SeededRandom(1))
    assert [tuple(map(len, roots)) for roots in found.whitening.roots] == [(4, 8), (4, 8)]
    assert found.accuracy(images[1500:], labels[1500:]) > 0.75


@pytest.mark.parametrize("size", [0, 1])
def test_no_data_at_all_is_no_failure(size: int) -> None:
    """Else whether it failed would tell whether the only row is there."""
    images, labels = digits()
    made = recipe()((images[:size], labels[:size]), rng=SeededRandom(1))
    assert made.predict(images[:20]).shape == (20,)
    assert made.predict(images[:0]).shape == (0,)


@pytest.mark.parametrize(
    "mixing",
    [
        lambda x: whole_pixels(x) - whole_pixels(x).mean(0),
        lambda x: whole_pixels(x) / x.float().max().clamp(min=16),
        lambda x: whole_pixels(torch.nn.functional.batch_norm(x.float(), None, None, training=True)),
    ],
    ids=["mean", "largest", "batch norm"],
)
def test_maps_that_look_at_other_images_are_refused(mixing: maps.Map) -> None:
    """Centring by the mean of the images at hand lets each of them move all the others."""
    images, labels = digits()
    made = recipe(maps=mixing)
    with pytest.raises(InvalidParameter, match="change with the other images"):
        made.fits((images, labels))
    with pytest.raises(InvalidParameter, match="change with the other images"):
        made((images, labels), rng=SeededRandom(1))
    recipe().fits((images[:0], labels[:0]))


@pytest.mark.parametrize(
    ("fixed", "images"),
    [
        (maps.digits, torch.zeros(0, 28, 28, dtype=torch.uint8)),
        (maps.pictures, torch.zeros(0, 3, 32, 32, dtype=torch.uint8)),
        (maps.ready, torch.zeros(0, 81, 49, dtype=torch.int16)),
        (
            maps.frozen(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(16))),
            torch.zeros(0, 4, 4),
        ),
        (lambda x: x.float().log(), torch.zeros(0, 2, 2)),
    ],
    ids=["digits", "pictures", "ready", "frozen", "not always finite"],
)
def test_maps_of_each_image_by_itself_are_not_refused(fixed: maps.Map, images: torch.Tensor) -> None:
    maps.refuse_mixing(fixed, images)


def test_more_noise_than_signal_learns_nothing() -> None:
    images, labels = digits()
    made = recipe(statistics_noise=1e5, step_noise=1e5)
    assert (
        made((images[:1500], labels[:1500]), rng=SeededRandom(1)).accuracy(images[1500:], labels[1500:]) < 0.4
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n=0"),
        ({"flattening": Flattening(kept=(2, 2))}, "each of 1 maps"),
        ({"shapes": ((2, 32), (2, 32)), "flattening": Flattening(kept=(2,))}, "each of 2 maps"),
        ({"step_noise": 0.01}, "1/30"),
        ({"classes": 1}, "classes=1"),
    ],
)
def test_parameters_without_meaning_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        recipe(**changes)


def test_a_share_that_leaves_nothing_for_the_steps_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"share=0.6 in \(0, 0.577\)"):
        Recipe.for_budget(1, 1e-5, n=10, maps=whole_pixels, descent=LinearDescent(1, 1, 1), share=0.6)


def test_settings_are_those_of_the_nearest_epsilon() -> None:
    assert mnist(0.1).descent is SETTINGS[0.5]
    assert mnist(1.3).descent is SETTINGS[1.0]
    assert mnist(1000.0).descent is SETTINGS[3.0]


def test_deskewing_undoes_a_shear_and_a_shift() -> None:
    image = torch.zeros(1, 28, 28)
    image[0, 6:22, 13:15] = 1
    sheared = torch.zeros(1, 28, 28)
    for row in range(6, 22):
        shift = round((row - 13.5) / 4) + 3
        sheared[0, row + 2, 13 + shift : 15 + shift] = 1
    upright, straight = (maps.deskew(x)[0] for x in (sheared, image))
    assert float((upright - straight).abs().mean()) < 0.2 * float((sheared - image).abs().mean())
    assert torch.isfinite(maps.deskew(torch.zeros(1, 28, 28))).all()


def test_mirrored_pictures_have_the_same_features() -> None:
    images = torch.randint(0, 256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    features = maps.pictures(images)
    assert torch.allclose(features, maps.pictures(images.flip(3)), atol=1e-5)
    assert features.shape == (2, sum(channels * places for channels, places in maps.PICTURES))
    for part in whitening.split(features, maps.PICTURES):
        assert part.flatten(1).norm(dim=1).numpy() == pytest.approx(1, rel=1e-5)


def test_features_of_a_picture_have_the_same_bits_in_any_company() -> None:
    images = torch.randint(0, 256, (7, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    together = maps.pictures(images)
    assert torch.equal(maps.pictures(images[3:4]), together[3:4])
    assert torch.equal(maps.pictures(images[5:]), together[5:])


def test_colours_are_turned_and_grey_has_none() -> None:
    images = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    turned = maps.opponent(images)
    assert torch.allclose(turned.norm(dim=1), (images - maps.GREY).norm(dim=1), atol=1e-5)
    assert torch.allclose(maps.opponent(images[:, :1].expand(2, 3, 4, 4))[:, 1:], torch.zeros(()), atol=1e-6)
    assert torch.equal(maps.opponent(images[1:]), turned[1:])


def test_half_of_what_is_symmetric_says_everything() -> None:
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    balanced = maps.Scattering(32)(maps.opponent(images)) * maps._balance()
    whole = balanced + maps.mirrored(balanced)
    left = maps.scatter(images).reshape(2, 243, 8, 4)
    right = maps.mirrored(torch.cat([left, torch.zeros_like(left)], 3))[..., 4:]
    assert torch.allclose(torch.cat([left, right], 3), whole, atol=1e-4)


def test_frozen_features_do_not_learn_and_treat_images_alone() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Dropout(0.5))
    images = torch.rand(4, 1, 8, 8)
    found = maps.frozen(module)
    assert torch.allclose(found(images)[:1], found(images[:1]), atol=1e-6)
    assert found(images).shape == (4, 2, 36)
    assert not found(images).requires_grad
    assert module.training


@pytest.mark.parametrize("features", [64, 784])
def test_a_row_that_goes_takes_exactly_its_own_contribution(features: int) -> None:
    """Rows move to other places of their batches; were a bit of their arithmetic to
    change, the sum would move by more."""
    g = torch.Generator().manual_seed(features)
    rows = linear.exact.units(torch.randn(601, features, generator=g), linear.NORM, linear.MOST).to(
        torch.int8
    )
    targets = one_hot(np.arange(601) % 10, 10)
    model = LinearScores(torch.randn(10, features, generator=g) * 3, torch.randn(10, generator=g))
    descent = LinearDescent(steps=1, learning_rate=1, clip=0.1)
    whole = descent.sums(model, rows, targets)
    for i in (0, 255, 256, 600):
        kept = torch.arange(601) != i
        own = descent.sums(model, rows[i : i + 1], targets[i : i + 1])
        assert torch.equal(whole - descent.sums(model, rows[kept], targets[kept]), own)


@pytest.mark.parametrize("way", ["whole numbers", "floats"])
def test_few_rows_have_the_bits_of_many(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of few rows takes another path through a BLAS, and the number of rows is private."""
    if way == "floats":
        monkeypatch.setattr(integers, "exact_at", lambda *shape: False)
    g = torch.Generator().manual_seed(2)
    rows = linear.exact.units(torch.randn(40, 3969, generator=g), linear.NORM, linear.MOST).to(torch.int8)
    targets = one_hot(np.arange(40) % 10, 10)
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(
        LinearDescent,
        "residuals",
        lambda self, scores, wanted: seen.append(scores) or torch.zeros_like(scores),
    )
    for size in (40, 9, 8, 3, 1):
        model = LinearScores(
            torch.randn(10, 3969, generator=torch.Generator().manual_seed(3)), torch.zeros(10)
        )
        LinearDescent(1, 1.0, 0.1).sums(model, rows[:size], targets[:size])
        assert torch.equal(seen[-1][:size], seen[0][:size])


def test_features_of_an_image_do_not_depend_on_its_neighbours() -> None:
    g = torch.Generator().manual_seed(0)
    images = torch.rand(1003, 8, 8, generator=g)
    maps_ = map_images(images, whole_pixels)
    by = whitening.Whitening(
        torch.zeros(64), ((torch.randn(8, 8, generator=g), torch.randn(8, 8, generator=g)),)
    )
    assert torch.equal(map_images(images[1:], whole_pixels), maps_[1:])
    assert torch.equal(whiten(maps_[1:], by), whiten(maps_, by)[1:])
