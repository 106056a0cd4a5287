"""`deniable robustness`: how far a classifier's smoothed answers certainly hold, picture by picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from deniable import extras, numbers
from deniable.accounting.radius.input_noise import (
    NORMS,
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Uniform,
)
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json
from deniable.errors import DataError, InvalidParameter
from deniable.plots import smooth as pictures

if TYPE_CHECKING:
    from deniable.smooth import Certified, Smoothed

PIXEL = 255
STEPS = 8
"""Radii in the table."""


class Norm(StrEnum):
    L0 = "l0"
    L1 = "l1"
    L2 = "l2"
    LINF = "linf"


class NoiseKind(StrEnum):
    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    UNIFORM = "uniform"
    ABLATION = "ablation"


USUAL = {
    Norm.L0: NoiseKind.ABLATION,
    Norm.L1: NoiseKind.UNIFORM,
    Norm.L2: NoiseKind.GAUSSIAN,
    Norm.LINF: NoiseKind.GAUSSIAN,
}


@dataclass(frozen=True)
class Pictures:
    """Pictures as a classifier takes them, and their labels where they are known."""

    images: NDArray[Any]
    labels: NDArray[np.int64] | None


@door
def robustness(
    model: Annotated[
        Path, typer.Argument(help="A network, by smooth.networks.save or torch.export.save.", dir_okay=False)
    ],
    images: Annotated[Path, typer.Argument(help="A .npz with images and, if known, labels.", dir_okay=False)],
    norm: Annotated[
        Norm, typer.Option("--norm", help="The norm that measures how far a picture is changed.")
    ] = Norm.L2,
    noise: Annotated[
        NoiseKind | None, typer.Option("--noise", help="The noise; left out: the best for the norm.")
    ] = None,
    sigma: Annotated[
        float, typer.Option("--sigma", help="Deviation of the noise; pixels lie in 0 to 1.")
    ] = 0.25,
    keep: Annotated[int, typer.Option("--keep", help="Pixels that are not ablated (--norm l0).")] = 45,
    radius: Annotated[
        float | None, typer.Option("--radius", help="Only decide this radius; takes far fewer samples.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Integer noise on 8-bit pixels: nothing is rounded.")
    ] = False,
    bank: Annotated[
        bool, typer.Option("--bank", help="One noise bank for all pictures: faster, not exact.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", help="Only so many pictures, evenly spread.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="Noisy copies that bound each answer.")] = 10_000,
    choosing: Annotated[int, typer.Option("--choosing", help="Noisy copies that choose each answer.")] = 100,
    alpha: Annotated[
        float, typer.Option("--alpha", help="How often an answer may be certified wrongly.")
    ] = 0.001,
    batch: Annotated[int, typer.Option("--batch", help="Noisy copies evaluated at a time.")] = 500,
    device: Annotated[str, typer.Option("--device", help="Where torch computes.")] = "cpu",
    certificates: Annotated[
        Path | None,
        typer.Option("--certificates", metavar="FOLDER", help="Write a certificate for each answer."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw certified accuracy, and the noise beside it."),
    ] = None,
    json: Json = False,
) -> None:
    """How far a classifier's answers certainly hold under noise: certified accuracy by radius, with
    abstentions.

    [bold]deniable robustness model.pt images.npz --norm l2 --sigma .25 --count 100 --plot accuracy.png[/]

    [bold]deniable robustness model.pt images.npz --sigma .25 --radius .5 --bank[/]
    """
    if find_spec("torch") is None:
        raise extras.missing("A network needs PyTorch, which is not installed", "learn")
    from deniable.smooth import Sampling, Smoothed
    from deniable.smooth.bank import certify_with_bank
    from deniable.smooth.networks import load

    inputs = _pictures(images, count, exact=exact)
    network = load(model)
    what = _noise(norm, noise or USUAL[norm], sigma, keep, inputs.images[0].shape, exact=exact)
    scale = 1.0
    if inputs.images.dtype == np.uint8:
        scale = float(PIXEL)
    unit = scale
    if norm is Norm.L0:
        unit = 1.0  # this norm counts pixels, whatever their values
    classifier = Smoothed(
        network, what, _classes(network, inputs.images[0] / scale, device), NORMS[norm], batch, scale, device
    )
    target_radius = radius
    if radius is not None and unit != 1:
        target_radius = radius * unit
    plan = Sampling(choosing, samples, alpha, target_radius)
    if bank:
        answers = certify_with_bank(classifier, inputs.images, plan, watch=show.progress)
    else:
        answers = classifier.certify_all(inputs.images, plan, watch=show.progress)
    if certificates is not None:
        _write(certificates, classifier, inputs.images, answers)
    report = _report(answers, inputs, unit, radius, norm)
    if plot is not None:
        _draw(plot, classifier, inputs, answers, unit, norm)
    if json:
        show.as_json({"noise": what.to_dict(), "norm": norm.value, "alpha": alpha} | report)
        return
    _say(report, classifier, plan, norm, certificates, plot)


def _pictures(path: Path, count: int | None, *, exact: bool) -> Pictures:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except ValueError as error:
        raise DataError(f"{path} is no .npz of arrays: {error}") from None
    if "images" not in arrays or not len(arrays["images"]):
        raise DataError(f'{path} lacks "images", or has none; it holds {", ".join(arrays) or "nothing"}.')
    indices = _spread(len(arrays["images"]), count)
    images, labels = arrays["images"][indices], arrays.get("labels")
    if exact and images.dtype != np.uint8:
        raise InvalidParameter(f"Expected 8-bit pixels (uint8) for --exact, got {images.dtype}.")
    if not exact and images.dtype == np.uint8:
        images = images / np.float32(PIXEL)
    if not exact:
        images = images.astype(np.float32)
    if labels is not None:
        labels = np.asarray(labels[indices], np.int64)
    return Pictures(images, labels)


def _spread(total: int, count: int | None) -> NDArray[np.int64]:
    """The places of `count` pictures that lie evenly among all; without a count, of each."""
    if count is None or count >= total:
        return np.arange(total)
    return np.linspace(0, total - 1, max(count, 1)).astype(np.int64)


def _noise(
    norm: Norm, kind: NoiseKind, sigma: float, keep: int, shape: tuple[int, ...], *, exact: bool
) -> InputNoise:
    """Noise of deviation `sigma`, whatever its kind: of pixels in 0 to 1, or of steps of 8-bit ones."""
    width = sigma
    if exact:
        width = sigma * PIXEL
    match kind, exact:
        case NoiseKind.ABLATION, _:
            return Ablation(keep, math.prod(shape[1:] if len(shape) == 3 else shape))
        case NoiseKind.GAUSSIAN, False:
            return Gaussian(width)
        case NoiseKind.LAPLACE, False:
            return Laplace(width / math.sqrt(2))
        case NoiseKind.UNIFORM, False:
            return Uniform(width * math.sqrt(3))
        case NoiseKind.GAUSSIAN, True:
            return IntegerGaussian(width)
        case NoiseKind.LAPLACE, True:
            return IntegerLaplace(width / math.sqrt(2))
        case _:
            return IntegerUniform(max(1, round(width * math.sqrt(3))))


def _classes(network: Any, image: NDArray[Any], device: str) -> int:
    from deniable.smooth.models.modules import ModuleClassifier

    scores = ModuleClassifier(network, 2, device).outputs(image.astype(np.float32)[None])
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise DataError(
            f"Expected of the network one row of scores for each picture, got shape {scores.shape}."
        )
    return int(scores.shape[1])


def _report(
    answers: Sequence[Certified], inputs: Pictures, unit: float, radius: float | None, norm: Norm
) -> dict[str, Any]:
    radii = [answer.radius / unit for answer in answers]
    right = _right(answers, inputs)
    report: dict[str, Any] = {
        "images": len(answers),
        "abstained": sum(answer.abstained for answer in answers),
        "mean_radius": float(np.mean(np.where(right, radii, 0.0))),
        "samples": float(np.mean([answer.samples for answer in answers])),
        "labels_known": inputs.labels is not None,
        "answers": [
            {"label": a.label, "radius": r, "samples": a.samples} for a, r in zip(answers, radii, strict=True)
        ],
    }
    if radius is not None:
        holds = np.array([answer.holds is True for answer in answers])
        report["radius"] = radius
        report["certified"] = int((holds & right).sum())
        report["out_of_reach"] = sum(answer.holds is False for answer in answers)
        report["undecided"] = sum(answer.holds is None for answer in answers)
        return report
    return report | {"accuracy": [[r, share] for r, share in _curve(np.array(radii), right, STEPS, norm)]}


def _right(answers: Sequence[Certified], inputs: Pictures) -> NDArray[np.bool_]:
    """Answers that are right, or, where labels are not known, answers at all."""
    if inputs.labels is None:
        return np.array([not answer.abstained for answer in answers])
    return np.array([answer.label == label for answer, label in zip(answers, inputs.labels, strict=True)])


def _curve(
    radii: NDArray[np.float64], right: NDArray[np.bool_], points: int, norm: Norm
) -> list[tuple[float, float]]:
    top = float(radii.max(initial=0.0)) or 1.0
    at = np.arange(top + 1) if norm is Norm.L0 else np.linspace(0, top, points)
    return [(float(r), float((right & (radii >= r)).mean())) for r in at]


def _say(
    report: dict[str, Any],
    classifier: Smoothed,
    plan: Any,
    norm: Norm,
    certificates: Path | None,
    plot: Path | None,
) -> None:
    total = report["images"]
    word = "certified accuracy" if report["labels_known"] else "answers certified (labels not known)"
    show.heading(
        f"{total:,} pictures under {classifier.noise}, radii in {norm.value}, α = {plan.alpha:g} for each"
    )
    if "radius" in report:
        share = report["certified"] / total
        show.say(
            "",
            f"{word} at radius {report['radius']:g}: {100 * share:.1f} % ({report['certified']:,} of "
            f"{total:,}).",
            f"Out of reach: {report['out_of_reach']:,}; undecided: {report['undecided']:,}.",
        )
    else:
        rows = [(f"{r:.3f}", f"{100 * accuracy:.1f} %") for r, accuracy in report["accuracy"]]
        show.say("")
        show.table(("radius", word), rows, right=(0, 1))
        show.say("", f"Mean radius, 0 where wrong: {numbers.down(report['mean_radius'])}.")
    show.say(f"Abstained: {report['abstained']:,}. Noisy copies a picture: {report['samples']:,.0f}.")
    show.say_files(certificates=certificates)
    if plot is not None:
        show.say(f"Pictures: {plot} and {_noise_path(plot)}")


def _write(folder: Path, classifier: Smoothed, images: NDArray[Any], answers: Sequence[Certified]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i, (image, answer) in enumerate(zip(images, answers, strict=True)):
        if answer.radius > 0:
            text = classifier.certificate(image, answer).to_json()
            (folder / f"{i:05d}.json").write_text(text, encoding="utf-8")


def _noise_path(plot: Path) -> Path:
    return plot.with_name(f"{plot.stem}-noise{plot.suffix}")


def _draw(
    plot: Path, classifier: Smoothed, inputs: Pictures, answers: Sequence[Certified], unit: float, norm: Norm
) -> None:
    from deniable.smooth.draws import noisy_copies

    radii, right = np.array([answer.radius / unit for answer in answers]), _right(answers, inputs)
    curve = [(r, 100 * share) for r, share in _curve(radii, right, 400, norm)]
    curve.append((curve[-1][0] + 1e-9, 0.0))  # beyond the largest radius nothing is certified
    pictures.certified_accuracy(
        {f"{len(answers):,} pictures": curve},
        title=f"Certified under {classifier.noise}",
        norm=norm.value,
        path=plot,
        abstention=float(np.mean([answer.abstained for answer in answers])),
    )
    examples = inputs.images[:8]
    if _square(examples[0]) is not None:
        noisy = [noisy_copies(classifier.noise, image, classifier.rng)(1)[0] for image in examples]
        rows = {
            "as it is": [_square(image) for image in examples],
            "as seen": [_square(image) for image in noisy],
        }
        pictures.noisy_pictures(rows, title=str(classifier.noise), path=_noise_path(plot))


def _square(image: NDArray[Any]) -> NDArray[Any] | None:
    """Height × width (× 3), in 0 to 1; None if it is no picture."""
    values: NDArray[Any] = image
    if np.issubdtype(image.dtype, np.integer):
        values = image / PIXEL
    if values.ndim == 3 and values.shape[0] == 1:
        values = values[0]
    if values.ndim == 3 and values.shape[0] == 3:
        values = np.moveaxis(values, 0, 2)
    if values.ndim == 1 and math.isqrt(len(values)) ** 2 == len(values):
        values = values.reshape(math.isqrt(len(values)), -1)
    if values.ndim in (2, 3):
        return np.asarray(np.clip(values, 0, 1))
    return None
