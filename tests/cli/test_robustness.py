"""`deniable robustness`: certified accuracy of a saved network on saved pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from deniable.randomness import SeededRandom
from deniable.smooth import Gaussian, networks
from deniable.smooth.training import Schedule, train
from tests.cli.runner import run, run_json, sentence


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("robustness")
    pictures, labels = load_digits(return_X_y=True)
    images = (pictures * 255 / 16).astype(np.uint8).reshape(-1, 1, 8, 8)
    torch.manual_seed(0)
    network = networks.perceptron(64, 10, (32,))
    train(
        network,
        images[:1500] / 255,
        labels[:1500],
        Gaussian(0.25),
        Schedule(6, 100, 0.2),
        rng=SeededRandom(1),
    )
    networks.save(network, folder / "model.pt")
    np.savez(folder / "images.npz", images=images[1500:], labels=labels[1500:])
    np.savez(folder / "unknown.npz", images=images[1500:].astype(np.float32) / 255)
    return str(folder / "model.pt"), str(folder / "images.npz")


QUICK = ("--count", "12", "--samples", "600")


def test_it_tells_accuracy_by_radius(files: tuple[str, str], tmp_path: Path) -> None:
    plot = tmp_path / "accuracy.png"
    said = run(
        "robustness", *files, *QUICK, "--plot", str(plot), "--certificates", str(tmp_path / "all")
    ).stdout
    assert "12 pictures under Gaussian noise of σ = 0.25, radii in l2" in said
    assert "certified accuracy" in said
    assert "Abstained:" in said
    assert plot.stat().st_size > 10_000
    assert (tmp_path / "accuracy-noise.png").stat().st_size > 5000
    written = sorted((tmp_path / "all").iterdir())
    assert written
    assert "(up to rounding)" in run("verify", str(written[0])).stdout


def test_a_given_radius_takes_fewer_samples(files: tuple[str, str]) -> None:
    told = run_json("robustness", *files, "--count", "30", "--radius", ".2", "--bank")
    assert told["radius"] == 0.2
    assert told["certified"] + told["out_of_reach"] + told["undecided"] <= 30
    assert told["certified"] > 5
    assert told["samples"] < 5000


def test_exact_certificates_are_in_steps_of_a_pixel_and_radii_in_pixels(
    files: tuple[str, str], tmp_path: Path
) -> None:
    told = run_json(
        "robustness", *files, *QUICK, "--exact", "--batch", "100", "--certificates", str(tmp_path)
    )
    assert told["noise"]["node"] == "IntegerGaussian"
    assert 0.1 < max(answer["radius"] for answer in told["answers"]) < 1
    written = sorted(tmp_path.iterdir())
    assert "(exact)" in run("verify", str(written[0])).stdout


@pytest.mark.parametrize(
    ("options", "node"),
    [
        (("--norm", "l1"), "Uniform"),
        (("--norm", "l1", "--noise", "laplace"), "Laplace"),
        (("--norm", "linf"), "Gaussian"),
        (("--norm", "l0", "--keep", "20"), "Ablation"),
        (("--norm", "l1", "--exact"), "IntegerUniform"),
        (("--norm", "l1", "--noise", "laplace", "--exact"), "IntegerLaplace"),
    ],
)
def test_every_norm_has_its_noise(files: tuple[str, str], options: tuple[str, ...], node: str) -> None:
    told = run_json("robustness", *files, "--count", "3", "--samples", "200", *options)
    assert told["noise"]["node"] == node
    assert len(told["answers"]) == 3


def test_pictures_without_labels_are_certified_too(files: tuple[str, str]) -> None:
    unknown = files[1].replace("images.npz", "unknown.npz")
    assert "labels not known" in run("robustness", files[0], unknown, *QUICK).stdout


def test_what_is_no_model_or_no_pictures_is_told(files: tuple[str, str], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.npz"
    np.savez(wrong, other=np.zeros(3))
    assert 'lacks "images"' in sentence("robustness", files[0], str(wrong))
    text = tmp_path / "text.pt"
    text.write_text("no network", encoding="utf-8")
    assert "no network that can be read" in sentence("robustness", str(text), files[1])
    unknown = files[1].replace("images.npz", "unknown.npz")
    assert "8-bit pixels" in sentence("robustness", files[0], unknown, "--exact")
    assert "No such file" in sentence("robustness", files[0], str(tmp_path / "none.npz"))
