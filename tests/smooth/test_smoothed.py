"""Smoothed classifiers: every kind of noise and of classifier, predictions, radii, abstentions, looks."""

from __future__ import annotations

import math
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import nn

from deniable.accounting.radius.robustness import EXACT, ROUNDED, RadiusCertificate, verify_radius
from deniable.errors import DataError, InvalidParameter
from deniable.randomness import SecureRandom, SeededRandom
from deniable.smooth import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Releases,
    Sampling,
    Smoothed,
    Uniform,
)
from deniable.smooth.validity import wall

QUICK = Sampling(choosing=50, samples=2000)


def smoothed(classifier: Any, noise: InputNoise, seed: int = 1, **options: Any) -> Smoothed:
    return Smoothed(classifier, noise, rng=SeededRandom(seed), **options)


def emptied(queue: SimpleQueue[Any]) -> list[Any]:
    """What a classifier has put there: a list of its own would be a memory, and is refused."""
    return [queue.get() for _ in range(queue.qsize())]


@pytest.mark.parametrize(
    ("noise", "x", "edge", "near"),
    [
        (Gaussian(1), np.array([0.0, 9.0]), 1.5, 1.3),
        (Laplace(1), np.array([0.0, 9.0]), 1.5, 1.3),
        (Uniform(2), np.array([0.0, 9.0]), 1.5, 1.3),
        (IntegerGaussian(20), np.array([0, 9], np.uint8), 30.5, 27.0),
        (IntegerLaplace(20), np.array([0, 9], np.uint8), 30.5, 25.0),
        (IntegerUniform(40), np.array([0, 9], np.uint8), 30.5, 27.0),
    ],
    ids=lambda one: str(one),
)
def test_before_a_wall_the_radius_comes_near_the_distance_and_not_beyond(
    noise: InputNoise, x: NDArray[Any], edge: float, near: float
) -> None:
    answer = smoothed(wall(edge), noise, classes=2).certify(x)
    assert answer.label == 0
    assert near < answer.radius < edge
    assert (answer.norm, answer.confidence, answer.samples) == (noise.norm, 0.999, 10_100)


def test_ablated_pixels_certify_a_number_of_changed_pixels() -> None:
    """The majority of the kept pixels: an image of ones must lose some twenty of 64 of them to turn."""

    def majority(images: NDArray[Any]) -> NDArray[np.int64]:
        return (images.reshape(len(images), -1).sum(axis=1) > 4).astype(np.int64)

    answer = smoothed(majority, Ablation(9, 64), classes=2).certify(np.ones((8, 8), np.uint8), QUICK)
    assert answer.label == 1
    assert answer.norm == 0
    assert answer.radius == 4  # 1 − C(60, 9)/C(64, 9) = .46 < ½ ≤ 1 − C(59, 9)/C(64, 9)


def test_several_releases_stand_side_by_side() -> None:
    def mean(copies: NDArray[Any]) -> NDArray[np.int64]:
        assert copies.shape[1:] == (2, 2)
        return (copies.mean(axis=1)[:, 0] > 0).astype(np.int64)

    both = Releases((Gaussian(1), Gaussian(1)))
    answer = smoothed(mean, both, classes=2).certify(np.array([1.0, 0.0]))
    assert 0.9 < answer.radius < 1, "The mean of two copies has σ/√2, and so has their loss: tight again."


def test_torch_modules_estimators_and_functions_agree() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(200, 4)).astype(np.float32)
    labels = points @ np.array([1, -1, 0.5, 0], np.float32) > 0
    estimator = LogisticRegression().fit(points, np.where(labels, "yes", "no"))
    linear = nn.Linear(4, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(np.vstack([-estimator.coef_, estimator.coef_]) / 2))
        linear.bias.copy_(torch.tensor(np.concatenate([-estimator.intercept_, estimator.intercept_]) / 2))
    models: tuple[tuple[Any, dict[str, int]], ...] = (
        (linear, {"classes": 2}),
        (estimator, {}),
        (estimator.predict_proba, {"classes": 2}),
        (lambda batch: (estimator.decision_function(batch) > 0).astype(int), {"classes": 2}),
    )
    found = [smoothed(model, Gaussian(0.5), **options).certify(points[0], QUICK) for model, options in models]
    alike = [(answer.label, answer.radius, answer.votes) for answer in found]
    assert alike[0] == alike[1] == alike[2] == alike[3]
    assert found[0].label == int(labels[0])


def test_a_module_is_evaluated_as_in_use_and_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.9), nn.BatchNorm1d(2))
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    one = smoothed(model, Gaussian(0.1), classes=2)
    assert one.poll(np.zeros(2, np.float32)).is_stable, "Dropout or batch statistics were at work."
    assert all(part.training for part in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_what_cannot_be_told_apart_is_abstained_from() -> None:
    tie = smoothed(wall(0.0), Gaussian(1), classes=2)
    x = np.array([0.0, 0.0])
    assert tie.predict(x) is None
    answer = tie.certify(x, QUICK)
    assert answer.abstained
    assert answer.radius == 0
    assert tie.predict(np.array([5.0, 0.0])) == 1


def test_a_given_radius_is_decided_with_few_samples() -> None:
    one = smoothed(wall(1.5), Gaussian(1), classes=2)
    x = np.array([0.0, 0.0])
    near = one.certify(x, Sampling(radius=0.5))
    far = one.certify(x, Sampling(radius=2.5))
    close = one.certify(x, Sampling(radius=1.499))
    assert (near.holds, far.holds, close.holds) == (True, False, None)
    assert near.radius >= 0.5
    assert near.samples < 1000
    assert far.samples < 10_100
    assert close.samples == 10_100
    assert len(near.votes.looks.sizes) > 1


def test_labels_come_from_many_classes_by_the_bounding_sample() -> None:
    def thirds(batch: NDArray[Any]) -> NDArray[np.int64]:
        return np.digitize(batch[:, 0], [-1.0, 1.0]).astype(np.int64)

    answer = smoothed(thirds, Gaussian(0.6), classes=3).certify(np.array([0.0]))
    assert answer.label == 1
    half = smoothed(thirds, Gaussian(0.6), classes=3).certify(np.array([0.0]), Sampling(runner_up=False))
    assert answer.radius > 1.1 * half.radius, "Two rivals of 5 % each are weaker than one of 10 %."
    assert answer.radius < 1


def test_every_noisy_input_is_evaluated_in_batches_of_one_size() -> None:
    rows: SimpleQueue[int] = SimpleQueue()

    def watched(batch: NDArray[Any]) -> NDArray[np.int64]:
        rows.put(len(batch))
        assert batch.dtype == np.float32
        return wall(0.5)(batch)

    one = Smoothed(watched, IntegerGaussian(64), classes=2, batch=128, scale=255)
    x = np.array([0, 1], np.uint8)
    one.poll(x)
    emptied(rows)
    one.certify(x, Sampling(choosing=10, samples=301))
    votes = emptied(rows)
    assert set(votes) == {128, 1}
    assert votes.count(1) == 2 * 3, "two rows of each batch of votes are asked about alone"


def test_exact_is_said_only_of_integers_in_steady_batches_without_a_bank() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 3))
    pixels, image = np.full((3, 3), 200, np.uint8), np.full((3, 3), 0.8, np.float32)
    whole = smoothed(model, IntegerGaussian(16), classes=3, scale=255, batch=100)
    sure = whole.certify(pixels, QUICK)
    assert whole.certificate(pixels, sure).precision == EXACT
    real = smoothed(model, Gaussian(16 / 255), classes=3)
    assert real.certificate(image, real.certify(image, QUICK)).precision == ROUNDED

    def placed(batch: NDArray[Any]) -> NDArray[Any]:
        scores = np.zeros((len(batch), 2))
        scores[:, 0] = 1 + 1e-12 * np.arange(len(batch))
        return scores

    one = smoothed(placed, IntegerGaussian(16), classes=2, scale=255, batch=100)
    assert one.certificate(pixels, one.certify(pixels, QUICK)).precision == ROUNDED


def test_wrong_inputs_and_outputs_are_told() -> None:
    x = np.array([0.1, 0.2])
    with pytest.raises(InvalidParameter, match="Expected whole numbers under integer Gaussian"):
        smoothed(wall(1), IntegerGaussian(4), classes=2).certify(x)
    with pytest.raises(InvalidParameter, match="Expected 32- or 64-bit floats"):
        smoothed(wall(1), Gaussian(4), classes=2).certify(np.array([1, 2]))
    with pytest.raises(InvalidParameter, match="finite numbers"):
        smoothed(wall(1), Gaussian(4), classes=2).certify(np.array([math.nan, 2.0]))
    with pytest.raises(InvalidParameter, match="64 pixels"):
        smoothed(wall(1), Ablation(9, 64), classes=2).certify(x)
    with pytest.raises(InvalidParameter, match="Expected classes=None to be a whole number of at least 2"):
        smoothed(wall(1), Gaussian(4))
    with pytest.raises(InvalidParameter, match="ablated pixels protect"):
        smoothed(wall(1), Gaussian(4), classes=2, norm=0.0)
    with pytest.raises(DataError, match="labels from 0 to 1"):
        smoothed(lambda batch: np.full(len(batch), 7), Gaussian(1), classes=2).certify(x)
    with pytest.raises(DataError, match="one whole label"):
        smoothed(lambda batch: np.zeros(3), Gaussian(1), classes=2).certify(x)


def test_noise_is_fresh_for_every_input_and_generator() -> None:
    seen: SimpleQueue[NDArray[Any]] = SimpleQueue()

    def keep(batch: NDArray[Any]) -> NDArray[np.int64]:
        seen.put(batch.copy())
        return np.zeros(len(batch), np.int64)

    one, two = (Smoothed(keep, Gaussian(1), classes=2, batch=25, rng=SecureRandom()) for _ in range(2))
    x = np.zeros(3)
    for smoothed in (one, two):
        smoothed.poll(x)
    emptied(seen)
    one.certify_all([x, x], Sampling(choosing=5, samples=20))
    two.certify(x, Sampling(choosing=5, samples=20))
    batches = [batch for batch in emptied(seen) if len(batch) > 1]
    drawn = np.concatenate(batches[::2])  # after each batch of votes that of the trial is asked again
    assert drawn.shape == (75, 3)
    assert len(np.unique(drawn)) == drawn.size


def test_norms_are_those_asked_for() -> None:
    x = np.zeros(100)
    plain = smoothed(wall(1.5), Gaussian(1), classes=2).certify(x, QUICK)
    wide = smoothed(wall(1.5), Gaussian(1), classes=2, norm=math.inf).certify(x, QUICK)
    assert wide.norm == math.inf
    assert wide.radius == pytest.approx(plain.radius / 10, rel=1e-6)


@pytest.mark.parametrize(
    ("noise", "holding"),
    [
        (Gaussian(1e38), [1.0, 2]),
        (Laplace(1e38), [1.0, 2]),
        (Uniform(3e37), [1.0, 2]),
        (Gaussian(1e-40), [0.0, 0]),
        (Uniform(1e-35), [0.0, 0]),
    ],
    ids=str,
)
def test_noise_that_the_type_of_the_input_cannot_hold_is_refused(
    noise: InputNoise, holding: list[float]
) -> None:
    one = smoothed(wall(1), noise, classes=2)
    with pytest.raises(InvalidParameter, match="float32 can hold beside numbers up to 2"):
        one.certify(np.array([1, 2], np.float32))
    assert one.certify(np.array(holding), QUICK).samples == 2050
    both = smoothed(wall(1), Releases((noise, noise)), classes=2)
    with pytest.raises(InvalidParameter, match="Nothing was certified"):
        both.certify(np.array([1, 2], np.float32))


def test_inputs_of_types_without_a_theorem_are_refused() -> None:
    for x in (
        np.zeros(2, np.float16),
        np.zeros(2, np.longdouble),
        np.zeros(2, complex),
        np.zeros(2, bool),
        np.zeros(0, np.float32),
        np.array(["a"]),
        np.array([None]),
        torch.zeros(2, dtype=torch.bfloat16),
        torch.zeros(2, dtype=torch.float16),
    ):
        with pytest.raises(InvalidParameter, match="Nothing was certified"):
            smoothed(wall(1), Gaussian(1), classes=2).certify(x)
    for far in (np.array([2**64 - 1, 0], np.uint64), np.array([-(2**63)]), np.array([2**30 + 1])):
        with pytest.raises(InvalidParameter, match="whole numbers up to"):
            smoothed(wall(1), IntegerGaussian(4), classes=2).certify(far)
    with pytest.raises(InvalidParameter, match="finite scale"):
        smoothed(wall(1), IntegerGaussian(4), classes=2, scale=math.inf)


def test_votes_from_scores_that_are_no_numbers_abstain() -> None:
    def gaps(batch: NDArray[Any]) -> NDArray[Any]:
        scores = np.stack([batch[:, 0], -batch[:, 0]], axis=1)
        scores[np.abs(batch[:, 1]) > 2] = math.nan
        return scores

    sure = smoothed(gaps, Gaussian(1), classes=2).certify(np.array([9.0, 0.0]), QUICK)
    nans = sum(sure.votes.counts) - sure.votes.counts[0]
    assert sure.label == 0
    assert len(sure.votes.counts) == 3, "The last count is of copies without scores."
    assert 40 < nans == sure.votes.counts[2] < 160
    whole = smoothed(wall(9), Gaussian(1), classes=2).certify(np.array([0.0, 0.0]), QUICK)
    assert len(whole.votes.counts) == 2
    assert 0 < sure.radius < 2 < whole.radius, "Copies without scores count against the class."
    lost = smoothed(gaps, Gaussian(1), classes=2)
    answer = lost.certify(np.array([9.0, 9.0]), QUICK)
    assert answer.abstained
    assert answer.radius == 0
    assert lost.predict(np.array([9.0, 9.0])) is None
    assert lost.counts(np.array([9.0, 9.0]), 100).tolist() == [0, 0]
    written = smoothed(gaps, Gaussian(1), classes=2)
    x = np.array([9.0, 0.0])
    certificate = written.certificate(x, written.certify(x, QUICK))
    assert verify_radius(RadiusCertificate.from_json(certificate.to_json())) >= certificate.radius
    with pytest.raises(InvalidParameter, match="nothing to write"):
        lost.certificate(np.array([9.0, 9.0]), answer)


def test_scores_that_are_no_numbers_at_all_are_refused_in_words() -> None:
    whole = Smoothed(lambda z: np.full((len(z), 2), "a", object), Gaussian(0.25), classes=2)
    with pytest.raises(DataError, match="Expected whole labels or scores"):
        whole.certify(np.zeros(2, np.float32))
