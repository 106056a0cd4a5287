"""Model inversion: the class comes out of any model that works, the images out of one
trained to the end without protection."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from sklearn.decomposition import PCA
from typer.testing import CliRunner

from deniable.attack import invert, stationary
from deniable.attack.models.invert import Album, FaceGenerator
from deniable.cli import attack_invert
from deniable.errors import InvalidParameter

app = typer.Typer()
app.callback()(lambda: None)
attack_invert.register(app)


@pytest.fixture(scope="module")
def digits() -> Album:
    return invert.album("digits")


@pytest.fixture(scope="module")
def inverted(digits: Album) -> dict[tuple[str, str], invert.InvertedImages]:
    return {(one.model.split(",")[0], one.attack): one for one in invert.compare(digits)}


def test_public_seen_and_unseen_images_are_all_and_apart(digits: Album) -> None:
    assert len(digits.public) + len(digits.train) + len(digits.held_out) == 1797
    assert digits.people == 5
    per_person = np.bincount(digits.train_labels), np.bincount(digits.held_out_labels)
    assert np.abs(per_person[0] - per_person[1]).max() <= 1
    sets = [{row.tobytes() for row in part} for part in (digits.public, digits.train, digits.held_out)]
    assert len(set.union(*sets)) == sum(len(part) for part in sets)


def test_the_split_follows_the_seed() -> None:
    one, same, other = (invert.album(seed=s).train for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert one.shape != other.shape or not np.array_equal(one, other)


def test_generated_images_vary_as_probabilistic_pca_says(digits: Album) -> None:
    generator = FaceGenerator.learn(digits.public, 20)
    fitted = PCA(20, svd_solver="full").fit(digits.public.astype(np.float64))
    signal = fitted.get_covariance() - fitted.noise_variance_ * np.eye(64)
    assert np.allclose((generator.basis.T @ generator.basis).numpy(), signal, atol=1e-5)
    assert np.allclose(generator.mean.numpy(), digits.public.mean(0), atol=1e-5)
    wild = generator(50 * torch.randn(10, 20))
    assert float(wild.min()) >= 0
    assert float(wild.max()) <= 1


def test_a_true_image_is_measured_as_such_and_a_swapped_one_is_not(digits: Album) -> None:
    judge = invert.evaluator(digits.held_out, digits.held_out_labels)
    assert (judge.predict(digits.train) == digits.train_labels).mean() > 0.95
    true = invert.measure(digits.first, digits, judge, model="m", attack="a")
    assert true.nearest_own.max() < 1e-6 < true.nearest_other.min()
    assert true.seen_first.all()
    assert true.learnt().right == int(true.hits.sum()) >= 4
    swapped = invert.measure(np.roll(digits.first, 1, axis=0), digits, judge, model="m", attack="a")
    assert swapped.learnt().right <= 1
    assert (swapped.nearest_own > swapped.nearest_other).all()
    unseen = np.array([digits.held_out[digits.held_out_labels == k][0] for k in range(5)])
    assert not invert.measure(unseen, digits, judge, model="m", attack="a").seen_first.any()
    assert np.allclose(invert.measure(digits.means, digits, judge, model="m", attack="a").to_mean, 0)


@pytest.mark.parametrize("attack", ["confidence", "generator"])
def test_a_plain_model_shows_its_classes(
    inverted: dict[tuple[str, str], invert.InvertedImages], attack: str
) -> None:
    found = inverted["plain", attack]
    assert found.accuracy > 0.95
    assert found.learnt().right == 5
    assert (found.nearest_own < found.nearest_other).all()


def test_a_generator_brings_images_nearer_to_true_ones(
    inverted: dict[tuple[str, str], invert.InvertedImages],
) -> None:
    by_confidence, by_generator = inverted["plain", "confidence"], inverted["plain", "generator"]
    by_mean = inverted["plain", "public mean"]
    assert by_mean.to_mean.mean() < by_confidence.to_mean.mean()
    assert by_generator.nearest_own.mean() < by_confidence.nearest_own.mean()
    assert by_generator.to_mean.mean() < by_confidence.to_mean.mean()


def test_a_private_model_that_works_shows_its_classes_too(
    inverted: dict[tuple[str, str], invert.InvertedImages],
) -> None:
    found = inverted["private", "generator"]
    assert found.accuracy > 0.7
    assert found.learnt().right >= 3


def test_an_untrained_model_shows_nobody(digits: Album) -> None:
    judge = invert.evaluator(digits.held_out, digits.held_out_labels)
    generator, hits = FaceGenerator.learn(digits.public, 30), 0
    for seed in range(8):
        model = invert.network(64, 5, seed=seed)
        images = invert.by_generator(model, 5, generator, steps=100)
        hits += invert.measure(images, digits, judge, model="m", attack="a").learnt().right
    assert hits <= 20  # of 40, at chance 8


def test_what_is_left_is_the_gradient_of_the_objective(digits: Album) -> None:
    net = stationary.Net(64, 5, hidden=7, seed=3)
    x, y = digits.train[:6].astype(np.float64), digits.train_labels[:6]
    loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y), reduction="sum")
    (loss + stationary.DECAY / 2 * (net.first**2).sum()).backward()
    points = torch.from_numpy(np.hstack([x, np.ones((6, 1))]))
    targets = torch.eye(5, dtype=torch.float64)[torch.from_numpy(y)]
    left = stationary.left(net.first.detach(), net.second, points, targets)
    assert torch.allclose(stationary.DECAY * left, net.first.grad, atol=1e-12)


def test_a_trained_net_is_stationary_on_its_own_images_only(digits: Album) -> None:
    y = np.arange(5)
    net = stationary.train(stationary.Net(64, 5), digits.first.astype(np.float64), y)
    unseen = np.array([digits.held_out[digits.held_out_labels == k][0] for k in range(5)], np.float64)
    assert stationary.residual(net, digits.first.astype(np.float64), y) < 1e-5
    assert stationary.residual(net, unseen, y) > 0.1
    assert len(stationary._span(net.first.detach())) == 5  # the rank tells the number of images


def test_a_near_image_of_one_trained_on_does_not_count_as_found() -> None:
    x, others = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.1, 0.0], [0.5, 0.5]])
    found = stationary.measure(stationary.StationaryPoint(x + 1e-9, 0.0), x, others, model="m")
    assert found.hits.all()
    assert found.control == 0
    assert stationary.measure(stationary.StationaryPoint(others, 0.0), x, others, model="m").control == 1


IMAGES = [5, pytest.param(10, marks=pytest.mark.soak)]
"""Images that a network is trained on; the command takes ten, which takes a quarter of a minute."""


@pytest.fixture(scope="module", params=IMAGES, ids=str)
def images(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def command(
    images: int,
    inverted: dict[tuple[str, str], invert.InvertedImages],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, object], Path]:
    """What the command says of the models that were inverted above, and of few images by stationarity."""
    path = tmp_path_factory.mktemp("invert") / "digits.png"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(invert, "compare", lambda album, **terms: list(inverted.values()))
        starts = 5 if images == 5 else 12
        few = functools.partial(stationary.compare, size=images, starts=starts)
        patch.setattr(stationary, "compare", few)
        result = CliRunner().invoke(app, ["invert", "--json", "--plot", str(path)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), path


def test_training_images_come_out_of_plain_weights_and_not_of_private_ones(
    command: tuple[dict, Path], images: int
) -> None:
    releases = {one["release"]: one for one in command[0]["releases"]}
    plain, private = (releases[f"{name}, by stationarity"] for name in ("plain", "private, ε = 2"))
    assert plain["right"] == plain["of"] == images
    assert plain["facts"]["median_distance"] < 1e-3
    assert plain["facts"]["residual"] < stationary.SOLVED
    assert plain["chance"] < 0.01
    assert private["right"] <= 1
    assert private["facts"]["residual"] > 0.1


def test_the_command_tells_of_every_attack_and_draws(command: tuple[dict, Path]) -> None:
    body, path = command
    attacks = [one["release"].split("by ")[1] for one in body["releases"]]
    by_model = ["confidence", "public mean", "generator"]
    assert attacks == [*by_model, *by_model, "stationarity", "stationarity"]
    assert body["people"] == 5
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("data", "people", "words"),
    [
        ("cats", None, "data='cats' to be faces or digits"),
        ("digits", 9, "people=9 between 2 and 8"),
        ("digits", 1, "=1"),
    ],
)
def test_what_there_is_not_is_refused(data: str, people: int | None, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        invert.album(data, people)


def test_fewer_images_than_people_are_refused(digits: Album) -> None:
    with pytest.raises(InvalidParameter, match="size=4 between 5"):
        stationary.compare(digits, size=4)
