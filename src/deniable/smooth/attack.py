"""An attack on certificates: move each input inside its certified radius to where the
smoothed classifier is weakest.

Projected gradient steps on the mean answer of noisy copies (Salman et al. 2019; expectation over
transformation: Athalye et al. 2018), with fresh noise in every step, then a fresh vote. Its copies never come
from a bank. A certificate that holds cannot be flipped; one that does not may well be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from deniable.accounting.radius.votes import DEFAULT_ALPHA
from deniable.errors import InvalidParameter
from deniable.smooth.draws import noise_of
from deniable.smooth.models.modules import ModuleClassifier
from deniable.smooth.smoothed import Certified, Smoothed, Watch, report_progress
from deniable.smooth.training import project, unit
from deniable.smooth.validity import Validity


@dataclass(frozen=True)
class Effort:
    """Gradient steps, noisy copies in each, and inputs moved at a time."""

    steps: int = 20
    copies: int = 16
    batch_size: int = 50


def attack(
    classifier: Smoothed,
    inputs: Sequence[Any] | NDArray[Any],
    answers: Sequence[Certified],
    effort: Effort = Effort(),
    *,
    watch: Watch | None = None,
) -> NDArray[Any]:
    """`inputs`, each moved within the radius that its answer certifies; those without a radius stay."""
    if (
        not isinstance(classifier.model, ModuleClassifier)
        or classifier.noise.integer
        or classifier.metric not in (1.0, 2.0)
    ):
        raise InvalidParameter(
            "Expected a torch module under continuous noise, with radii in ℓ1 or ℓ2, to attack."
        )
    points = np.array([np.asarray(x) for x in inputs])
    parts = list(range(0, len(points), effort.batch_size))
    batches = []
    for i in report_progress(parts, "Attacking", watch):
        some = slice(i, i + effort.batch_size)
        labels = [answer.label or 0 for answer in answers[some]]
        radii = [answer.radius for answer in answers[some]]
        batches.append(
            _move_batch(classifier, points[some], np.array(labels), np.array(radii, np.float32), effort)
        )
    return np.concatenate(batches)


def flips(
    classifier: Smoothed,
    points: NDArray[Any],
    answers: Sequence[Certified],
    *,
    samples: int = 1000,
    alpha: float = DEFAULT_ALPHA,
    watch: Watch | None = None,
) -> Validity:
    """How many certified answers are another class at the moved inputs, by a fresh vote at level `alpha`.

    A certificate is wrong with probability at most its own α and a vote with `alpha`, so
    this many flips are allowed.
    """
    pairs = [(x, answer) for x, answer in zip(points, answers, strict=True) if answer.radius > 0]
    outcomes = [
        (classifier.predict(x, samples=samples, alpha=alpha), answer.label)
        for x, answer in report_progress(pairs, "Voting", watch)
    ]
    wrong = sum(label is not None and label != claim for label, claim in outcomes)
    own = max((1 - answer.confidence for _, answer in pairs), default=0.0)
    return Validity(max(1, len(pairs)), wrong, own + alpha)


def _move_batch(
    classifier: Smoothed,
    points: NDArray[Any],
    labels: NDArray[np.int64],
    radii: NDArray[np.float32],
    effort: Effort,
) -> NDArray[Any]:
    model: Any = classifier.model
    module: nn.Module = model.module.eval()
    centre, target = torch.from_numpy(points), torch.from_numpy(labels)
    reach = torch.from_numpy(radii)
    draw = noise_of(classifier.noise, points.shape[1:], points.dtype, classifier.rng)
    step = reach.reshape(-1, *[1] * (centre.ndim - 1)) * (2.5 / effort.steps)
    position = centre.clone()
    for _ in range(effort.steps):
        point = position.detach().requires_grad_()
        noise = torch.from_numpy(draw(len(points) * effort.copies)).reshape(
            len(points), effort.copies, *points.shape[1:]
        )
        scores = module((point.unsqueeze(1) + noise).flatten(0, 1))
        mean = functional.softmax(scores, dim=1).reshape(len(points), effort.copies, -1).mean(dim=1)
        loss = functional.nll_loss(mean.clamp_min(1e-20).log(), target, reduction="sum")
        (slope,) = torch.autograd.grad(loss, point)
        if classifier.metric == 2:
            position = project(point + step * unit(slope), centre, reach).detach()
        else:
            position = (
                centre
                + _to_diamond((point + step * _steepest(slope) - centre).flatten(1), reach).view_as(point)
            ).detach()
    return _pull_inside(position.numpy(), points, radii, classifier.metric)


def _pull_inside(
    inputs: NDArray[Any], points: NDArray[Any], radii: NDArray[np.float32], norm: float
) -> NDArray[Any]:
    """The inputs, drawn back a little where rounding has put an input beyond its radius."""
    while True:
        away = (inputs.astype(np.float64) - points).reshape(len(points), -1)
        beyond = np.linalg.norm(away, norm, axis=1) > radii * (1 - 1e-6)
        beyond &= np.abs(away).max(axis=1) > 0
        if not beyond.any():
            return inputs
        inputs = inputs.copy()
        inputs[beyond] = points[beyond] + (1 - 1e-4) * (inputs[beyond] - points[beyond])


def _steepest(slope: torch.Tensor, share: float = 0.05) -> torch.Tensor:
    """The steepest coordinates of each row, of length 1 in ℓ1 together."""
    flat = slope.flatten(1)
    count = max(1, int(share * flat.shape[1]))
    cut = flat.abs().kthvalue(flat.shape[1] - count + 1, dim=1, keepdim=True).values
    signs = torch.where(flat.abs() >= cut, flat.sign(), torch.zeros_like(flat))
    return (signs / signs.abs().sum(dim=1, keepdim=True).clamp_min(1)).view_as(slope)


def _to_diamond(offsets: torch.Tensor, reach: torch.Tensor) -> torch.Tensor:
    """The nearest rows within `reach` in ℓ1 (Duchi et al. 2008), shrunk a little against rounding."""
    sizes, _ = offsets.abs().sort(dim=1, descending=True)
    total = sizes.cumsum(dim=1) - reach.unsqueeze(1)
    order = torch.arange(1, offsets.shape[1] + 1)
    last = (sizes * order > total).sum(dim=1, keepdim=True).clamp_min(1)
    cut = (total.gather(1, last - 1) / last).clamp_min(0)
    return offsets.sign() * (offsets.abs() - cut).clamp_min(0) * (1 - 1e-6)
